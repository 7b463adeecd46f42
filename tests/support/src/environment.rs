//! One test's world: a tenant, an operator's namespace, policies, a spritesd and an operator.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use api::{ExecutionPolicy, Run, SandboxSession};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, Namespace, ServiceAccount},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{cluster, gate::Gate, process::Process, programs};

/// How long anything may take in a test; machines are noisy.
pub const LONG: Duration = Duration::from_secs(90);

pub struct TestEnv {
    /// Distinguishes this test's objects.
    pub id: String,
    /// The tenant's namespace.
    pub namespace: String,
    /// The operator's namespace.
    pub operator_namespace: String,
    /// The admin's client.
    pub client: Client,
    /// Where secrets and data lie.
    pub dir: tempfile::TempDir,
    pub spritesd: Option<Process>,
    pub operator: Option<Process>,
    pub sprites_url: String,
    /// Where the operator finds spritesd, if something stands in between.
    pub proxy_url: Option<String>,
    pub admin_url: String,
    /// Flags added to the operator's.
    pub flags: Vec<String>,
    /// Flags added to spritesd's.
    pub spritesd_flags: Vec<String>,
    kubeconfig: PathBuf,
    pub token: String,
    http: reqwest::Client,
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Some(operator) = &self.operator {
                eprintln!("--- the operator said:\n{}", operator.said());
            }
            if let Some(spritesd) = &self.spritesd {
                eprintln!("--- spritesd said:\n{}", spritesd.said());
            }
        }
        self.operator = None;
        self.spritesd = None;
        let kubeconfig = self.kubeconfig.clone();
        let names = (self.id.clone(), self.namespace.clone(), self.operator_namespace.clone());
        // A runtime of its own: the test's may be gone, and its client with it.
        let _ = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(clean_up(&kubeconfig, names));
        })
        .join();
    }
}

/// Removes everything of a test; with its operator gone, finalizers are taken off by force.
async fn clean_up(kubeconfig: &Path, (id, namespace, operator_namespace): (String, String, String)) {
    let client = cluster::admin(kubeconfig).await;
    let off = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let runs: Api<Run> = Api::namespaced(client.clone(), &namespace);
    let sessions: Api<SandboxSession> = Api::namespaced(client.clone(), &namespace);
    let quick = PatchParams::default();
    for run in runs.list(&ListParams::default()).await.map(|l| l.items).unwrap_or_default() {
        let _ = runs.patch(&run.name_any(), &quick, &off).await;
    }
    for session in sessions.list(&ListParams::default()).await.map(|l| l.items).unwrap_or_default() {
        let _ = sessions.patch(&session.name_any(), &quick, &off).await;
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _ = namespaces.delete(&namespace, &DeleteParams::background()).await;
    let _ = namespaces.delete(&operator_namespace, &DeleteParams::background()).await;
    let policies: Api<ExecutionPolicy> = Api::all(client.clone());
    let ours = ListParams::default().labels(&format!("test={id}"));
    let _ = policies.delete_collection(&DeleteParams::default(), &ours).await;
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(client);
    let _ = bindings.delete(&operator_namespace, &DeleteParams::default()).await;
}

impl TestEnv {
    /// Everything is set up and started.
    pub async fn new() -> Self {
        let mut env = Self::prepared().await;
        env.start_spritesd();
        env.start_operator();
        env
    }

    /// Everything is set up; nothing is started. The switch is on, the namespace opted in, the default policy there.
    pub async fn prepared() -> Self {
        Self::prepared_on(cluster::kubeconfig()).await
    }

    pub async fn prepared_on(kubeconfig: &Path) -> Self {
        let client = cluster::admin(kubeconfig).await;
        let id: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
        let (namespace, operator_namespace) = (format!("team-{id}"), format!("operator-{id}"));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for (name, labels) in
            [(&namespace, json!({"sprite-operator.io/code-execution": "enabled"})), (&operator_namespace, json!({}))]
        {
            let object = json!({"metadata": {"name": name, "labels": labels}});
            namespaces.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
        let dir = tempfile::Builder::new().prefix("tenant-").tempdir().unwrap();
        let token = uuid::Uuid::new_v4().to_string();
        std::fs::write(dir.path().join("token"), &token).unwrap();
        std::fs::write(dir.path().join("platform-token"), &token).unwrap();
        std::fs::write(dir.path().join("secret"), uuid::Uuid::new_v4().to_string()).unwrap();
        let env = Self {
            flags: vec![
                "--absent-after=1s".to_owned(),
                "--create-grace=5s".to_owned(),
                format!("--watch-namespace={namespace}"),
                format!("--policy-selector=test={id}"),
                format!("--default-policy=default-{id}"),
            ],
            spritesd_flags: Vec::new(),
            id,
            namespace,
            operator_namespace,
            client,
            dir,
            spritesd: None,
            operator: None,
            sprites_url: String::new(),
            proxy_url: None,
            admin_url: String::new(),
            kubeconfig: kubeconfig.to_owned(),
            token,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        };
        env.rights().await;
        env.switch(Some("true")).await;
        env.policy(&format!("default-{}", env.id), json!({})).await;
        env
    }

    /// The operator's own ServiceAccount with the chart's roles, and a kubeconfig for it.
    async fn rights(&self) {
        let files = cluster::root().join("charts/sprite-operator/files/rbac");
        for role in cluster::documents(&files.join("role.yaml")) {
            cluster::apply(&self.client, Some(&self.operator_namespace), &role).await;
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.operator_namespace);
        let account = serde_json::from_value(json!({"metadata": {"name": "sprite-operator"}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let subjects =
            json!([{"kind": "ServiceAccount", "name": "sprite-operator", "namespace": self.operator_namespace}]);
        for (kind, role, name) in [
            ("ClusterRoleBinding", "ClusterRole", self.operator_namespace.as_str()),
            ("RoleBinding", "Role", "sprite-operator"),
        ] {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "sprite-operator"},
                "subjects": subjects,
            });
            cluster::apply(&self.client, Some(&self.operator_namespace), &binding).await;
        }
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let answer = accounts.create_token_request("sprite-operator", &PostParams::default(), &request).await.unwrap();
        let mut kubeconfig: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        for user in kubeconfig["users"].as_array_mut().unwrap() {
            user["user"] = json!({"token": answer.status.as_ref().unwrap().token});
        }
        // JSON is YAML.
        std::fs::write(self.dir.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    }

    pub fn start_spritesd(&mut self) {
        let address = self.sprites_url.strip_prefix("http://").unwrap_or("127.0.0.1:0").to_owned();
        let admin = self.admin_url.strip_prefix("http://").unwrap_or("127.0.0.1:0").to_owned();
        let dir = self.dir.path();
        let mut command = Process::command(programs::spritesd());
        command.args(["--listen", &address, "--admin", &admin, "--data"]).arg(dir.join("sprites"));
        command.arg("--token-file").arg(dir.join("platform-token")).args(&self.spritesd_flags);
        let (process, lines) = Process::start(&mut command, 2);
        self.sprites_url = lines[0].replace("listening ", "");
        self.admin_url = lines[1].replace("admin ", "");
        self.spritesd = Some(process);
    }

    /// The platform takes another token from now on; the operator has the old one until it is given this one.
    pub fn rotate_token(&mut self) {
        self.token = uuid::Uuid::new_v4().to_string();
        std::fs::write(self.dir.path().join("platform-token"), &self.token).unwrap();
        self.spritesd = None;
        self.start_spritesd();
    }

    /// Puts the token that the platform takes where the operator reads it.
    pub fn hand_over_token(&self) {
        std::fs::write(self.dir.path().join("token"), &self.token).unwrap();
    }

    /// Puts a gate between the API server and an operator that starts later.
    pub async fn gate(&self) -> Gate {
        let at = self.dir.path().join("kubeconfig");
        let mut kubeconfig: Value = serde_json::from_str(&std::fs::read_to_string(&at).unwrap()).unwrap();
        let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
        let gate = Gate::start(server.trim_start_matches("https://").parse().unwrap()).await;
        kubeconfig["clusters"][0]["cluster"]["server"] = format!("https://{}", gate.address).into();
        std::fs::write(at, kubeconfig.to_string()).unwrap();
        gate
    }

    pub fn start_operator(&mut self) {
        self.operator = Some(self.another_operator());
    }

    /// An operator of this tenant; it works once it holds the Lease.
    pub fn another_operator(&self) -> Process {
        let dir = self.dir.path();
        let mut command = Process::command(programs::operator());
        command.args(["run", "--operator-namespace", &self.operator_namespace, "--listen", "127.0.0.1:0"]);
        command
            .args(["--sprites-url", self.proxy_url.as_ref().unwrap_or(&self.sprites_url)])
            .arg("--sprites-token-file")
            .arg(dir.join("token"));
        command.arg("--session-secret-file").arg(dir.join("secret")).args(&self.flags);
        command.env("KUBECONFIG", dir.join("kubeconfig")).env("RUST_LOG", "info,sprite_operator=debug");
        Process::start(&mut command, 0).0
    }

    /// Takes the Lease from a killed operator, so that the next one need not wait for it to run out.
    pub async fn free_lease(&self) {
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
            Api::namespaced(self.client.clone(), &self.operator_namespace);
        let free = Patch::Merge(json!({"spec": {"holderIdentity": null}}));
        leases.patch("sprite-operator", &PatchParams::default(), &free).await.unwrap();
    }

    /// SIGKILL and a new process, as after a crash.
    pub async fn crash_operator(&mut self) {
        self.operator.as_mut().unwrap().kill();
        self.free_lease().await;
        self.start_operator();
    }

    /// Where the operator serves health and metrics.
    pub async fn listen(&self) -> String {
        let operator = self.operator.as_ref().unwrap();
        until("the operator listens", async || {
            let said = operator.said();
            let line = said.lines().find(|l| l.contains("listening"))?.to_owned();
            Some(format!("http://{}", line.rsplit_once("address=")?.1.trim()))
        })
        .await
    }

    pub fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn sessions(&self) -> Api<SandboxSession> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Sets the switch, or takes it away.
    pub async fn switch(&self, value: Option<&str>) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.operator_namespace);
        match value {
            Some(value) => {
                let switch = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sprite-operator-switch"},
                    "data": {"CODE_EXECUTION_ENABLED": value},
                });
                cluster::apply(&self.client, Some(&self.operator_namespace), &switch).await;
            }
            None => drop(api.delete("sprite-operator-switch", &DeleteParams::default()).await.unwrap()),
        }
    }

    /// Creates or changes a policy of this test.
    pub async fn policy(&self, name: &str, spec: Value) {
        let policy = json!({
            "apiVersion": "sprite-operator.io/v1alpha1", "kind": "ExecutionPolicy",
            "metadata": {"name": name, "labels": {"test": self.id}}, "spec": spec,
        });
        cluster::apply(&self.client, None, &policy).await;
    }

    /// Creates a session.
    pub async fn session(&self, name: &str, extra: Value) {
        let mut spec = json!({"drive": "research", "conversation": name});
        merge(&mut spec, extra);
        let session = json!({"metadata": {"name": name}, "spec": spec});
        self.sessions().create(&PostParams::default(), &serde_json::from_value(session).unwrap()).await.unwrap();
    }

    /// Creates a session and waits until it is ready.
    pub async fn ready_session(&self, name: &str) -> SandboxSession {
        self.session(name, json!({})).await;
        self.session_until(name, |s| condition(s, "Ready") == Some("True")).await
    }

    /// Creates a Run.
    pub async fn run(&self, name: &str, spec: Value) {
        self.try_run(name, spec).await.unwrap();
    }

    pub async fn try_run(&self, name: &str, spec: Value) -> Result<Run, kube::Error> {
        let run = json!({"metadata": {"name": name}, "spec": spec});
        self.runs().create(&PostParams::default(), &serde_json::from_value(run).unwrap()).await
    }

    /// Creates a Run of a bash command in a named session.
    pub async fn bash(&self, name: &str, session: &str, command: &str) {
        self.run(name, json!({"session": {"name": session}, "bash": {"command": command}})).await;
    }

    /// Waits for a Run.
    pub async fn run_until(&self, name: &str, good: impl Fn(&Run) -> bool) -> Run {
        wait_for(self.runs(), name, good).await
    }

    /// Waits until a Run finished.
    pub async fn finished(&self, name: &str) -> Run {
        self.run_until(name, |run| condition_of_run(run, "Finished") == Some("True")).await
    }

    /// Waits until a Run's status says Running.
    pub async fn running(&self, name: &str) -> Run {
        self.run_until(name, |run| phase(run) == "Running").await
    }

    /// Waits for a session.
    pub async fn session_until(&self, name: &str, good: impl Fn(&SandboxSession) -> bool) -> SandboxSession {
        wait_for(self.sessions(), name, good).await
    }

    /// Waits until an object is gone.
    pub async fn gone<K>(&self, api: Api<K>, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let gone = await_condition(api, name, |object: Option<&K>| object.is_none());
        tokio::time::timeout(LONG, gone).await.unwrap_or_else(|_| panic!("{name} is still there")).unwrap();
    }

    /// A call of the Sprites API as anybody with the token can make it.
    pub async fn sprites_call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.http.request(method, format!("{}{path}", self.sprites_url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or(Value::Null))
    }

    /// Every living Sprite.
    pub async fn living(&self) -> Vec<Value> {
        let (_, list) = self.sprites_call("GET", "/v1/sprites", None).await;
        list["sprites"].as_array().unwrap().clone()
    }

    /// What spritesd saw: the ground truth.
    pub async fn log(&self, event: &str) -> Vec<Value> {
        let text = self.http.get(format!("{}/log", self.admin_url)).send().await.unwrap().text().await.unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == event).collect()
    }

    /// How often a command of a Run was executed, by the ground truth.
    pub async fn starts_of(&self, run: &Run) -> usize {
        let uid = run.uid().unwrap();
        let runner = |line: &Value| {
            let argv = line["argv"].to_string();
            argv.contains("so-run") && argv.contains(&uid)
        };
        self.log("exec").await.iter().filter(|line| runner(line)).count()
    }

    /// Puts a host outside of all Sprites; the process that holds its network namespace.
    pub async fn host(&self, name: &str, addr: &str) -> u64 {
        let world = format!("{}/world", self.admin_url);
        let body = serde_json::json!({ "name": name, "addr": addr });
        let answer = self.http.post(&world).json(&body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 204, "{:?}", answer.text().await);
        let view: Value = self.http.get(&world).send().await.unwrap().json().await.unwrap();
        view["pid"].as_u64().unwrap()
    }

    /// Scripts what an instant guest answers to scripts.
    pub async fn answers(&self, rules: Value) {
        let answer = self.http.put(format!("{}/instant", self.admin_url)).json(&rules).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Scripts failures of spritesd.
    pub async fn faults(&self, rules: Value) {
        let answer = self.http.put(format!("{}/faults", self.admin_url)).json(&rules).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Events about an object.
    pub async fn events(&self, kind: &str, name: &str) -> Vec<(String, String)> {
        let api: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let list: ObjectList<_> = api.list(&ListParams::default()).await.unwrap();
        let about = |e: &k8s_openapi::api::events::v1::Event| {
            e.regarding.as_ref().is_some_and(|r| r.kind.as_deref() == Some(kind) && r.name.as_deref() == Some(name))
        };
        list.items
            .into_iter()
            .filter(about)
            .map(|e| (e.type_.unwrap_or_default(), e.reason.unwrap_or_default()))
            .collect()
    }

    /// Waits until a command has written a file into the workspace of a session: then it runs for certain.
    pub async fn file_appears(&self, session: &str, file: &str) {
        let session = self.sessions().get(session).await.unwrap();
        let sprite = session.status.unwrap().sprite.unwrap().name;
        let look = format!("test -e /workspace/{file} && echo there");
        until("the command runs", async || (self.peek(&sprite, &look).await == "there\n").then_some(())).await;
    }

    /// Runs a command in a Sprite beside the operator, through the client; its stdout.
    pub async fn peek(&self, sprite: &str, command: &str) -> String {
        use sprites::{Client, Config, ExecRequest, TokenSource};
        let config = Config::new(
            self.sprites_url.parse().unwrap(),
            TokenSource::Fixed(secrecy::SecretString::from(self.token.clone())),
        );
        let request = ExecRequest {
            argv: ["bash", "-c", command].map(str::to_owned).to_vec(),
            max_run_after_disconnect: Duration::from_secs(1),
            ..ExecRequest::default()
        };
        let client = Client::new(config).unwrap();
        let on = client.wake(sprite).await.unwrap();
        let output = client.run(&on, &request, bytes::Bytes::new(), 65_536, LONG).await.unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

async fn wait_for<K>(api: Api<K>, name: &str, good: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let condition = await_condition(api.clone(), name, |object: Option<&K>| object.is_some_and(&good));
    let Ok(object) = tokio::time::timeout(LONG, condition).await else {
        panic!("{name} did not come to what is waited for: {:#?}", api.get_opt(name).await)
    };
    object.unwrap().unwrap()
}

/// Waits for what no watch shows.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let ends = tokio::time::Instant::now() + LONG;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < ends, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn merge(base: &mut Value, extra: Value) {
    if let (Value::Object(base), Value::Object(extra)) = (base, extra) {
        base.extend(extra);
    }
}

pub fn condition<'a>(session: &'a SandboxSession, kind: &str) -> Option<&'a str> {
    session.status.as_ref()?.conditions.get(kind).map(|c| c.status.as_str())
}

pub fn condition_of_run<'a>(run: &'a Run, kind: &str) -> Option<&'a str> {
    run.status.as_ref()?.conditions.get(kind).map(|c| c.status.as_str())
}

pub fn phase(run: &Run) -> &'static str {
    run.status.as_ref().and_then(|s| s.phase).map_or("", |p| p.as_str())
}

pub fn reason(run: &Run) -> &'static str {
    run.status.as_ref().and_then(|s| s.reason).map_or("", |r| r.as_str())
}

pub fn message(run: &Run) -> &str {
    run.status.as_ref().and_then(|s| s.message.as_deref()).unwrap_or_default()
}

pub fn stdout(run: &Run) -> &str {
    run.status.as_ref().and_then(|s| s.output.as_ref()).and_then(|o| o.stdout.text.as_deref()).unwrap_or_default()
}
