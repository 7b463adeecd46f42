//! The control plane: the one of `make test`, or one of our own that ends with this process.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
    discovery,
    runtime::{conditions, wait::await_condition},
};
use serde_json::Value;

/// Names a kubeconfig of a control plane that somebody else started.
pub const KUBECONFIG: &str = "SPRITE_OPERATOR_TEST_KUBECONFIG";

pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A control plane of our own. It ends when its standard input closes, so also when this process is killed.
pub struct ControlPlane {
    kubeconfig: PathBuf,
    child: Child,
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl ControlPlane {
    pub fn start() -> Self {
        // Removed by the shell below: nothing of this process runs any more when it is killed, and statics are not dropped.
        let dir = tempfile::Builder::new().prefix("controlplane-").tempdir().unwrap().keep();
        let state = dir.join("state");
        let mut child = Command::new("bash")
            .args(["-c", r#"trap : INT TERM HUP; "$1" --foreground --dir "$2/state"; rm -rf -- "$2""#, "plane"])
            .arg(root().join("dev/controlplane/up"))
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready"), "the control plane did not start: {ready}");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Self { kubeconfig: state.join("kubeconfig"), child }
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// The folder of the programs that dev/controlplane builds.
fn built() -> PathBuf {
    let built = Command::new(root().join("dev/controlplane/build")).arg("--print-dir").output().unwrap();
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}

/// The control plane's own kubectl, as the admin.
pub fn kubectl(kubeconfig: &Path) -> Command {
    let mut kubectl = Command::new(built().join("kubectl"));
    kubectl.env("KUBECONFIG", kubeconfig).current_dir(root());
    kubectl
}

/// `prometheus` or `promtool`; built when nobody has done so, which takes minutes.
pub fn prometheus(name: &str) -> PathBuf {
    let build = Command::new(root().join("dev/controlplane/build")).arg("prometheus").status().unwrap();
    assert!(build.success(), "dev/controlplane/build prometheus failed");
    built().join(name)
}

/// The path of the shared control plane's admin kubeconfig; CRDs, stamping policy and ClusterRole are installed.
pub fn kubeconfig() -> &'static Path {
    static SHARED: OnceLock<(PathBuf, Option<ControlPlane>)> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let (path, own) = if let Some(path) = std::env::var_os(KUBECONFIG) {
            (PathBuf::from(path), None)
        } else {
            let own = ControlPlane::start();
            (own.kubeconfig().to_owned(), Some(own))
        };
        let install = path.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(install_into(&install));
        })
        .join()
        .unwrap();
        (path, own)
    });
    &shared.0
}

/// A client of the admin, for this test's runtime.
pub async fn admin(kubeconfig: &Path) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Installs what the chart installs for a whole cluster.
pub async fn install_into(kubeconfig: &Path) {
    let client = admin(kubeconfig).await;
    for (_, crd) in api::crds().unwrap() {
        let name = crd.name_any();
        apply(&client, None, &serde_json::to_value(&crd).unwrap()).await;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        await_condition(crds, &name, conditions::is_crd_established()).await.unwrap();
    }
    for file in ["admission/stamp.yaml", "rbac/clusterrole.yaml"] {
        for document in documents(&root().join("charts/sprite-operator/files").join(file)) {
            apply(&client, None, &document).await;
        }
    }
    stamping(&client).await;
}

/// A new admission policy is enforced after a second or so: waits until a Run is stamped.
async fn stamping(client: &Client) {
    let run = serde_json::json!({
        "apiVersion": "sprite-operator.io/v1alpha1", "kind": "Run", "metadata": {"name": "stamped"},
        "spec": {"session": {"drive": "d"}, "bash": {"command": "true"}},
    });
    let runs: Api<api::Run> = Api::namespaced(client.clone(), "default");
    let run = serde_json::from_value(run).unwrap();
    let dry = kube::api::PostParams { dry_run: true, ..Default::default() };
    let mut last = Ok(None);
    for _ in 0..200 {
        // Just after its CRD was made, the policy may not find the kind yet: "There can be a delay".
        last = runs.create(&dry, &run).await.map(|run| run.spec.actor);
        if matches!(last, Ok(Some(_))) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("Runs are not stamped: {last:?}");
}

pub fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

/// Applies any object, into a namespace where it has one.
pub async fn apply(client: &Client, namespace: Option<&str>, object: &Value) {
    try_apply(client, namespace, object).await.unwrap();
}

/// Applies any object, and says what the server said.
pub async fn try_apply(client: &Client, namespace: Option<&str>, object: &Value) -> Result<DynamicObject, kube::Error> {
    let text = |key: &str| object[key].as_str().unwrap().to_owned();
    let version = text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let gvk = GroupVersionKind::gvk(group, version, &text("kind"));
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        discovery::Scope::Namespaced => Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), &resource),
        discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    let name = object["metadata"]["name"].as_str().unwrap();
    api.patch(name, &PatchParams::apply("tests").force(), &Patch::Apply(object)).await
}
