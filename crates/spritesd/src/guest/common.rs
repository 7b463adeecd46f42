//! What every guest of a server has at `/.sprite`, read-only: tools, texts, and the libraries of its first process.
//!
//! The first process loads libraries from here and not from the tree that its guest writes. Its bounds are the
//! sandbox's either way; but what it says of files and exit codes is then not the guest's invention.

use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::settings::VERSION;

/// Where the libraries are inside.
pub(super) const LIBRARIES: &str = "/.sprite/lib";
/// Where parts of a Sprite are mounted.
const DIRECTORIES: [&str; 3] = ["policy", "logs", "checkpoints"];
const FILES: [&str; 2] = ["api.sock", "agent"];

/// Programs, and the texts that the platform puts beside them.
const PROGRAMS: [(&str, &str); 2] =
    [("bin/sprite-env", include_str!("common/sprite-env.py")), ("bin/sudo", include_str!("common/sudo.sh"))];
const TEXTS: [(&str, &str); 3] = [
    ("llm.txt", include_str!("common/agent-context.md")),
    ("llm-dev.txt", include_str!("common/languages.md")),
    ("docs/agent-context.md", include_str!("common/agent-context.md")),
];
/// Names that programs are looked up by, and where the host may have one.
const ALIASES: [(&str, [&str; 2]); 1] = [("python", ["/usr/local/bin/python3", "/usr/bin/python3"])];

/// The directory on the host.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) directory: PathBuf,
    /// Name of the loader among the libraries; none if the first process is to be started as any program.
    pub(crate) loader: Option<String>,
}

impl Common {
    /// Writes the directory from scratch, removing what was there.
    pub(crate) fn write(directory: &Path) -> io::Result<Self> {
        match std::fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        for name in DIRECTORIES.into_iter().chain(["bin", "docs", "aliases", "lib"]) {
            std::fs::create_dir_all(directory.join(name))?;
        }
        let file = |name: &str, text: &str, mode| {
            let path = directory.join(name);
            std::fs::write(&path, text)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        };
        FILES.into_iter().try_for_each(|name| file(name, "", 0o644))?;
        TEXTS.into_iter().try_for_each(|(name, text)| file(name, text, 0o644))?;
        // Inside, the platform leaves the first letter out.
        file("version.txt", &format!("{}\n", VERSION.trim_start_matches('v')), 0o644)?;
        PROGRAMS.into_iter().try_for_each(|(name, text)| file(name, text, 0o755))?;
        for (name, programs) in ALIASES {
            if let Some(program) = programs.into_iter().find(|program| Path::new(program).exists()) {
                symlink(program, directory.join("aliases").join(name))?;
            }
        }
        let loader = copy_libraries(&directory.join("lib")).unwrap_or_else(|error| {
            warn!(%error, "first processes take their libraries from the files of their Sprites");
            None
        });
        Ok(Self { directory: directory.to_owned(), loader })
    }
}

/// Copies the libraries of this process, which is the same program, and tells which is the loader; none if it has none.
fn copy_libraries(to: &Path) -> io::Result<Option<String>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut loader = None;
    for library in libraries(&maps) {
        let Some(name) = library.file_name().and_then(|name| name.to_str()) else { continue };
        std::fs::copy(library, to.join(name))?;
        if name.starts_with("ld-") {
            loader = Some(name.to_owned());
        }
    }
    Ok(loader)
}

/// The libraries in a table of mapped files.
fn libraries(maps: &str) -> Vec<&Path> {
    let mut found: Vec<&Path> = maps
        .lines()
        .filter_map(|line| line.find('/').and_then(|start| line.get(start..)).map(Path::new))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so")))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_once_and_the_loader_among_them() {
        let maps = "55d0-55d1 r--p 00000000 fe:00 1 /opt/my programs/spritesd\n\
            7f00-7f01 r--p 00000000 fe:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
            7f01-7f02 r-xp 00001000 fe:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
            7f02-7f03 rw-p 00000000 00:00 0 [heap]\n\
            7f03-7f04 r-xp 00000000 fe:00 3 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n";
        let names: Vec<_> = libraries(maps).iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["ld-linux-x86-64.so.2", "libc.so.6"]);
    }
}
