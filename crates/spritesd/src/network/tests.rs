//! Behaviour of real namespaces, packet filters and resolvers, seen from inside guests. Needs the superuser.

mod closing;
mod connections;
mod opening;
mod support;

/// A guest is a process that gave itself a network. Here it is the test program, which plays it through these entries;
/// likewise a daemon that gets killed.
mod entries {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    #[test]
    #[ignore = "a guest, started by other tests"]
    fn guest() {
        if let Ok(plan) = std::env::var(super::support::PLAN) {
            crate::network::enter(&serde_json::from_str(&plan).unwrap()).unwrap();
            // A new program, as in a sandbox: then the whole process is where this thread is.
            panic!("{}", Command::new("sh").args(["-c", "echo up; cat >/dev/null"]).exec());
        }
    }

    #[tokio::test]
    #[ignore = "a daemon, started by a test that kills it"]
    async fn daemon() {
        if std::env::var_os(super::support::DAEMON).is_some() {
            let lab = super::support::Lab::new().await;
            let guest = lab.guest("").await;
            let guest = format!("/proc/{}/ns/net", guest.child.id().unwrap());
            let namespace = |path: &std::path::Path| std::fs::read_link(path).unwrap();
            println!("\n{} {}", namespace(&lab.holder.network()).display(), namespace(guest.as_ref()).display());
            std::future::pending::<()>().await;
        }
    }
}
