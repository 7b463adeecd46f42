//! What the API server itself accepts, refuses and fills in: every rule of every schema, both ways.
//!
//! Creates are dry runs, so nothing stays; what must stay has a namespace that is removed with its test.

mod agree;
mod applying;
mod changes;
mod policies;
mod runs;
mod sessions;
mod shape;
mod stamp;
mod values;

use api::{ExecutionPolicy, Run};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::{Value, json};

use test_support::cluster;

/// What shall become of a spec.
#[derive(Debug, Clone, Copy)]
pub enum Want {
    Accepted,
    /// The message contains this.
    Refused(&'static str),
}
pub use Want::{Accepted, Refused};

/// One spec, or one change of one, and what shall become of it.
pub type Case = (&'static str, Value, Want);

/// What the API server answered.
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

impl Answer {
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// What a user sees.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Whether this is what was wanted; otherwise, what is wrong.
    fn judge(&self, name: &str, want: Want) -> Option<String> {
        let good = match want {
            Accepted => self.is_accepted(),
            // 422: the schema refused it. Anything else, such as 404, would be a mistake of the test.
            Refused(message) => self.code == 422 && self.message().contains(message),
        };
        (!good).then(|| format!("{name}: wanted {want:?}, got {} {}", self.code, self.message()))
    }
}

/// The collection of a kind.
pub fn path(kind: &str, namespace: &str) -> String {
    let group = "/apis/sprite-operator.io/v1alpha1";
    match kind {
        "ExecutionPolicy" => format!("{group}/executionpolicies"),
        _ => format!("{group}/namespaces/{namespace}/{}s", kind.to_lowercase()),
    }
}

/// One request as any client could make it.
pub async fn send(client: &Client, method: Method, uri: &str, content: &str, body: &Value) -> Answer {
    let request = Request::builder().method(method).uri(uri).header("content-type", content);
    let response = client.send(request.body(Body::from(body.to_string().into_bytes())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap_or_default() }
}

pub fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "sprite-operator.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A create that changes nothing.
pub async fn try_create(client: &Client, kind: &str, query: &str, object: &Value) -> Answer {
    let uri = format!("{}?dryRun=All{query}", path(kind, "default"));
    send(client, Method::POST, &uri, "application/json", object).await
}

/// Creates every spec by dry run; all that goes wrong is told at once.
pub async fn judge(kind: &str, cases: Vec<Case>) {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let mut wrong = Vec::new();
    for (name, spec, want) in cases {
        let answer = try_create(&client, kind, "&fieldValidation=Strict", &object(kind, "case", &spec)).await;
        wrong.extend(answer.judge(name, want));
    }
    assert!(wrong.is_empty(), "{kind}:\n{}", wrong.join("\n"));
}

/// A spec changed by a merge patch.
pub fn with(mut base: Value, change: &Value) -> Value {
    json_patch::merge(&mut base, change);
    base
}

/// A namespace of one test, and a policy of that name if there is one.
pub struct Scratch {
    pub client: Client,
    pub namespace: String,
}

impl Scratch {
    pub async fn new() -> Self {
        let client = cluster::admin(cluster::kubeconfig()).await;
        let namespace = format!("schema-{}", uuid::Uuid::new_v4().simple());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        Self { client, namespace }
    }

    /// Creates an object that stays until the end of the test.
    pub async fn create(&self, kind: &str, name: &str, spec: &Value) -> Value {
        let uri = path(kind, &self.namespace);
        let answer = send(&self.client, Method::POST, &uri, "application/json", &object(kind, name, spec)).await;
        assert!(answer.is_accepted(), "{}", answer.message());
        answer.body
    }

    /// A merge patch; `query` may make it a dry run, `name` may end in `/status`.
    pub async fn patch(&self, kind: &str, name: &str, query: &str, patch: &Value) -> Answer {
        let uri = format!("{}/{name}?fieldManager=user{query}", path(kind, &self.namespace));
        send(&self.client, Method::PATCH, &uri, "application/merge-patch+json", patch).await
    }

    /// What `kubectl apply --server-side` sends.
    pub async fn apply(&self, kind: &str, name: &str, spec: &Value) -> Answer {
        let uri = format!("{}/{name}?fieldManager=user&fieldValidation=Strict", path(kind, &self.namespace));
        send(&self.client, Method::PATCH, &uri, "application/apply-patch+yaml", &object(kind, name, spec)).await
    }

    /// Tries every change of an existing object by dry run.
    pub async fn judge(&self, kind: &str, name: &str, cases: Vec<Case>) {
        let mut wrong = Vec::new();
        for (case, change, want) in cases {
            let answer = self.patch(kind, name, "&dryRun=All", &json!({"spec": change})).await;
            wrong.extend(answer.judge(case, want));
        }
        assert!(wrong.is_empty(), "{kind} {name}:\n{}", wrong.join("\n"));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let namespace = self.namespace.clone();
        // A runtime of its own: the test's may be gone, and its client with it.
        let _ = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(clean_up(&namespace));
        })
        .join();
    }
}

/// Nobody takes the finalizers off here: no operator watches this namespace.
async fn clean_up(namespace: &str) {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let runs: Api<Run> = Api::namespaced(client.clone(), namespace);
    let off = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for run in runs.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
        let _ = runs.patch(&run.name_any(), &PatchParams::default(), &off).await;
    }
    let policies: Api<ExecutionPolicy> = Api::all(client.clone());
    let _ = policies.delete(namespace, &DeleteParams::default()).await;
    let namespaces: Api<Namespace> = Api::all(client);
    let _ = namespaces.delete(namespace, &DeleteParams::background()).await;
}
