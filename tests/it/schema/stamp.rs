//! What a Run is stamped with at its creation: actor, creator, finalizer.

use http::Method;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::{Answer, object, path, send, try_create};
use test_support::cluster;

/// A client that acts as somebody else; the admin's group, so that it may create.
async fn acting_as(user: &str, groups: &[&str]) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster::kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups = Some(groups.iter().map(ToString::to_string).collect());
    Client::try_from(config).unwrap()
}

async fn created(client: &Client, change: &Value) -> Answer {
    let mut run = object("Run", "case", &json!({"session": {"drive": "d"}, "bash": {"command": "true"}}));
    json_patch::merge(&mut run, change);
    let answer = try_create(client, "Run", "&fieldValidation=Strict", &run).await;
    assert!(answer.is_accepted(), "{}", answer.message());
    answer
}

const GROUPS: [&str; 2] = ["system:masters", "research"];

#[tokio::test]
async fn a_run_says_who_created_it() {
    let alice = acting_as("alice", &GROUPS).await;
    let run = created(&alice, &json!({})).await.body;
    // The API server adds the group that everybody has.
    let actor = json!({"user": "alice", "groups": ["system:masters", "research", "system:authenticated"]});
    assert_eq!(run["spec"]["actor"], actor);
    assert_eq!(run["metadata"]["annotations"], json!({"sprite-operator.io/creator": "alice"}));
    assert_eq!(run["metadata"]["finalizers"], json!(["sprite-operator.io/charge"]));
}

#[tokio::test]
async fn the_creator_is_whoever_creates_whatever_they_claim() {
    let alice = acting_as("alice", &GROUPS).await;
    let annotations = json!({"sprite-operator.io/creator": "bob", "example.com/mine": "kept"});
    let run = created(&alice, &json!({"metadata": {"annotations": annotations}})).await.body;
    let stamped = json!({"sprite-operator.io/creator": "alice", "example.com/mine": "kept"});
    assert_eq!(run["metadata"]["annotations"], stamped);
}

#[tokio::test]
async fn the_finalizer_is_there_once_beside_others() {
    let alice = acting_as("alice", &GROUPS).await;
    for (given, wanted) in [
        (json!(["example.com/mine"]), json!(["example.com/mine", "sprite-operator.io/charge"])),
        (json!(["sprite-operator.io/charge"]), json!(["sprite-operator.io/charge"])),
        (json!([]), json!(["sprite-operator.io/charge"])),
    ] {
        let run = created(&alice, &json!({"metadata": {"finalizers": given}})).await.body;
        assert_eq!(run["metadata"]["finalizers"], wanted);
    }
}

#[tokio::test]
async fn an_actor_that_is_named_is_kept_beside_the_creator() {
    let agent = acting_as("agent", &GROUPS).await;
    let actor = json!({"user": "bob", "groups": ["team"]});
    let run = created(&agent, &json!({"spec": {"actor": actor}})).await.body;
    assert_eq!(run["spec"]["actor"], actor);
    assert_eq!(run["metadata"]["annotations"]["sprite-operator.io/creator"], "agent");
}

#[tokio::test]
async fn uid_and_extra_of_the_creator_are_stamped_too() {
    let admin = cluster::admin(cluster::kubeconfig()).await;
    let run = object("Run", "case", &json!({"session": {"drive": "d"}, "bash": {"command": "true"}}));
    let uri = format!("{}?dryRun=All", path("Run", "default"));
    let request = http::Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header("content-type", "application/json")
        .header("impersonate-user", "alice")
        .header("impersonate-group", "system:masters")
        .header("impersonate-uid", "u-1")
        .header("impersonate-extra-scopes", "view");
    let request = request.body(run.to_string().into_bytes()).unwrap();
    let run: Value = admin.request(request).await.unwrap();
    assert_eq!(run["spec"]["actor"]["uid"], "u-1");
    assert_eq!(run["spec"]["actor"]["extra"], json!({"scopes": ["view"]}));
}

#[tokio::test]
async fn only_a_creation_is_stamped() {
    let scratch = super::Scratch::new().await;
    let spec = json!({"session": {"drive": "d"}, "bash": {"command": "true"}});
    scratch.create("Run", "r1", &spec).await;
    let off = json!({"metadata": {"finalizers": null, "annotations": {"sprite-operator.io/creator": null}}});
    let run = scratch.patch("Run", "r1", "", &off).await.body;
    assert!(run["metadata"].get("finalizers").is_none() && run["metadata"].get("annotations").is_none(), "{run}");
    let bob = acting_as("bob", &GROUPS).await;
    let uri = format!("{}/r1", path("Run", &scratch.namespace));
    let change = json!({"spec": {"cancel": true}});
    let run = send(&bob, Method::PATCH, &uri, "application/merge-patch+json", &change).await;
    assert!(run.is_accepted(), "{}", run.message());
    assert_ne!(run.body["spec"]["actor"]["user"], "bob");
    assert!(run.body["metadata"].get("finalizers").is_none(), "{}", run.body);
}
