//! What a server builds once for all its Sprites, of what this machine permits: disk, control groups, network. Says
//! what is missing.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{Semaphore, broadcast};
use tracing::{info, warn};

use super::StartError;
use super::cgroup::Groups;
use super::guest::common::Common;
use super::guest::{SelfProgram, Spawner};
use super::instant::trees;
use super::log::EventLog;
use super::namespace_holder::NamespaceHolder;
use super::network::{Host, NoNetwork, World};
use super::process_trace::ProcessTrace;
use super::settings::{GroupKind, GuestKind, NetworkKind, Settings};
use super::sprite::{Shared, blocking};
use super::storage::Storage;
use super::store::Store;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// How many changes of states a slow watcher may be behind.
const CHANGES: usize = 1024;

/// Builds it; the holder must outlive every guest.
pub(super) async fn build(
    data: &Path,
    settings: Settings,
    program: SelfProgram,
    port: u16,
) -> Result<(Shared, Option<NamespaceHolder>), StartError> {
    let (directory, guest) = (data.to_owned(), settings.guest);
    let store = blocking(move || Store::open(&directory, guest)).await?;
    let data = store.root().to_owned();
    keep_to(guest, &data)?;
    if guest == GuestKind::Instant {
        return build_instant(&data, store, settings, program, port).await.map(|shared| (shared, None));
    }
    let directory = data.join("guest");
    let common = blocking(move || Common::write(&directory)).await?;
    let superuser = rustix::process::geteuid().is_root();
    let world = settings.network == NetworkKind::World;
    let groups =
        if superuser && settings.cgroups == GroupKind::Auto { Groups::new(Path::new(GROUPS)) } else { Groups::none() };
    let holder = if superuser {
        match NamespaceHolder::start(world, &groups.parents()).await {
            Ok(holder) => Some(holder),
            Err(error) => {
                groups.parents().iter().for_each(|parent| drop(std::fs::remove_dir(parent)));
                if world {
                    return Err(no_network(NoNetwork::namespace(error)));
                }
                warn!(%error, "no namespaces");
                None
            }
        }
    } else if world {
        return Err(StartError::Network("the server must run as root; with `--network none` it need not".into()));
    } else {
        None
    };
    let world = match (&holder, world) {
        (Some(holder), true) => Some(make_world(holder, settings.world.as_deref()).await?),
        (_, false) | (None, true) => None,
    };
    let groups = if holder.is_some() { groups } else { Groups::none() };
    info!("limits of a guest: {}", groups.describe());
    let mounts = holder.as_ref().map(NamespaceHolder::mounts);
    let storage = Storage::open(&data, mounts, settings.disk_limit.0).await?;
    let capacity = settings.running_limit.map_or(Semaphore::MAX_PERMITS, |limit| limit as usize);
    let log = Arc::<EventLog>::default();
    let process_trace = if superuser {
        ProcessTrace::start(&log).inspect_err(|error| warn!(%error, "starts of processes are not witnessed")).ok()
    } else {
        None
    };
    let shared = Shared {
        store,
        log,
        process_trace,
        world,
        spawner: Spawner::start()?,
        program,
        common,
        settings,
        port,
        storage,
        groups,
        answers: None,
        capacity: Arc::new(Semaphore::new(capacity)),
        changes: broadcast::Sender::new(CHANGES),
    };
    Ok((shared, holder))
}

/// The same for instant Sprites, which need nothing of the machine but a directory.
async fn build_instant(
    data: &Path,
    store: Store,
    settings: Settings,
    program: SelfProgram,
    port: u16,
) -> Result<Shared, StartError> {
    if settings.world.is_some() {
        return Err(StartError::Network("--world needs --guest bubblewrap: instant Sprites reach nothing".into()));
    }
    warn!("--guest instant: nothing is executed, and policies are kept but not enforced");
    let storage = Storage::open_instant(data).await?;
    let capacity = settings.running_limit.map_or(Semaphore::MAX_PERMITS, |limit| limit as usize);
    Ok(Shared {
        store,
        log: Arc::default(),
        process_trace: None,
        world: None,
        spawner: Spawner::start()?,
        program,
        common: Common { directory: data.join("guest"), loader: None },
        settings,
        port,
        storage,
        groups: Groups::none(),
        answers: Some(Arc::default()),
        capacity: Arc::new(Semaphore::new(capacity)),
        changes: broadcast::Sender::new(CHANGES),
    })
}

/// Refuses a data directory whose Sprites are made of something else: their files would be missing.
fn keep_to(guest: GuestKind, data: &Path) -> Result<(), StartError> {
    let (others, other) = match guest {
        GuestKind::Bubblewrap => ([trees::ROOT].as_slice(), "instant"),
        GuestKind::Instant => (["files", "disk.img"].as_slice(), "bubblewrap"),
    };
    if others.iter().any(|name| data.join(name).exists()) {
        let text = format!("the data directory holds Sprites of --guest {other}: give another --data");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text).into());
    }
    Ok(())
}

/// The world with the hosts of a file.
async fn make_world(holder: &NamespaceHolder, file: Option<&Path>) -> Result<World, StartError> {
    let world = World::new(holder).await.map_err(no_network)?;
    if let Some(file) = file {
        let hosts = {
            let bytes = std::fs::read(file)
                .map_err(|error| StartError::Network(format!("--world {}: {error}", file.display())))?;
            Host::parse_list(&bytes)
                .map_err(|error| StartError::Network(format!("--world {}: {error}", file.display())))?
        };
        for host in hosts {
            world.add(host).await.map_err(|error| StartError::Network(error.to_string()))?;
        }
    }
    Ok(world)
}

#[expect(clippy::needless_pass_by_value, reason = "maps errors")]
fn no_network(error: NoNetwork) -> StartError {
    StartError::Network(error.to_string())
}
