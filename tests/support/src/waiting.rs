//! Waiting for what no event announces, and looking for processes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// No wait of a test is longer: what has not come by then does not come.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again until the answer is yes.
pub async fn eventually(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Processes of this machine whose command line contains `mark`.
pub fn processes_with(mark: &str) -> Vec<PathBuf> {
    in_proc("cmdline", mark)
}

/// Processes of this machine that see a mount of something below `directory`.
pub fn mounts_of(directory: &Path) -> Vec<PathBuf> {
    in_proc("mountinfo", directory.to_str().unwrap())
}

fn in_proc(file: &str, mark: &str) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let processes =
        processes.filter(|path| path.file_name().unwrap().to_str().unwrap().bytes().all(|b| b.is_ascii_digit()));
    processes
        .filter(|path| {
            let text = std::fs::read(path.join(file)).unwrap_or_default();
            text.windows(mark.len()).any(|window| window == mark.as_bytes())
        })
        .collect()
}
