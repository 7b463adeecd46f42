//! File operations: byte-exact, whole or not at all, and only below the workspace.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// The exit code, what was read, the report, and what was said.
struct Done {
    code: Option<i32>,
    stdout: Vec<u8>,
    report: Option<FileReport>,
    said: String,
}

impl Home {
    fn workspace(&self) -> std::path::PathBuf {
        let workspace = self.path("workspace");
        std::fs::create_dir_all(&workspace).unwrap();
        workspace
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.workspace().to_str().unwrap())
    }

    /// Each operation is a Run of its own.
    fn file(&self, operation: &FileOperation) -> Done {
        let uid = uuid::Uuid::new_v4().to_string();
        let workspace = self.workspace();
        let shape = Launch { uid: &uid, directory: workspace.to_str().unwrap(), cap: 1 << 20, ..self.launch("") };
        let output = self.begin(&Launch { task: Task::File(operation), ..shape }).wait_with_output().unwrap();
        let ran = Ran::of(&uid, &output);
        let report = FileReport::parse(&output.stderr);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(ran.code, ran.record.map(|record| i32::from(record.code)), "{said}");
        Done { code: ran.code, stdout: ran.stdout, report, said }
    }

    fn write(&self, path: &str, mode: Option<u32>, content: &[u8]) -> Done {
        self.file(&FileOperation::Write { path: self.at(path), mode, content: content.to_vec() })
    }

    fn read(&self, path: &str, offset: u64, length: u64) -> Done {
        self.file(&FileOperation::Read { path: self.at(path), offset, length, before: 3, ahead: 4 })
    }

    fn edit(&self, path: &str, old: &str, new: &str, all: bool) -> Done {
        self.file(&FileOperation::Edit { path: self.at(path), old: old.into(), new: new.into(), all })
    }

    fn content(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.at(path)).unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        std::fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o7777
    }
}

fn failed(done: &Done, why: &str) {
    assert_eq!(done.code, Some(i32::from(EXIT_FILE_ERROR)), "{}", done.said);
    assert!(done.said.ends_with(&format!(": {why}\n")), "{} for {why}", done.said);
    assert_eq!((done.report, done.stdout.as_slice()), (None, b"".as_slice()));
}

fn escaped(done: &Done) {
    assert_eq!(done.code, Some(i32::from(EXIT_FILE_ESCAPE)), "{}", done.said);
}

#[test]
fn a_file_is_written_byte_for_byte_with_its_parents_and_keeps_its_permissions() {
    let home = Home::new();
    let every: Vec<u8> = (0..=255u8).cycle().take(512 << 10).collect();
    for content in [b"".as_slice(), b"one\n", b"\0\xff\xfe", &every] {
        let done = home.write("a/b c/\u{fc}\n.txt", None, content);
        let size = content.len() as u64;
        assert_eq!((done.code, done.report.map(|report| report.size)), (Some(0), Some(size)), "{}", done.said);
        assert_eq!(home.content("a/b c/\u{fc}\n.txt"), content);
    }
    assert_eq!((home.mode("a"), home.mode("a/b c/\u{fc}\n.txt")), (0o755, 0o644));
    home.write("script", Some(0o750), b"1");
    assert_eq!(home.mode("script"), 0o750);
    home.write("script", Some(0o600), b"2");
    assert_eq!(
        (home.mode("script"), home.content("script")),
        (0o750, b"2".to_vec()),
        "one that is there keeps its own"
    );
    let names = std::fs::read_dir(home.workspace()).unwrap().count();
    assert_eq!(names, 2, "nothing temporary stays");
}

#[test]
fn a_part_of_a_file_is_read_with_what_stands_around_it() {
    let home = Home::new();
    std::fs::write(home.at("f"), b"0123456789").unwrap();
    for (offset, length, read, before, content) in [
        (0, 10, "0123456789", 0, 10),
        (0, 3, "0123456", 0, 3),
        (4, 2, "123456789", 3, 2),
        (9, 5, "6789", 3, 1),
        (10, 5, "789", 3, 0),
        (99, 5, "789", 3, 0),
        (2, 0, "012345", 2, 0),
        (u64::MAX, u64::MAX, "789", 3, 0),
    ] {
        let done = home.read("f", offset, length);
        let report = Some(FileReport { size: 10, before, content });
        assert_eq!(
            (String::from_utf8(done.stdout).unwrap().as_str(), done.report),
            (read, report),
            "{offset} {length}"
        );
    }
}

#[test]
fn text_is_replaced_once_or_everywhere_and_else_nothing_is() {
    let home = Home::new();
    std::fs::write(home.at("f"), "a b a\n").unwrap();
    std::fs::set_permissions(home.at("f"), std::fs::Permissions::from_mode(0o741)).unwrap();
    failed(&home.edit("f", "c", "d", true), "oldText does not occur in the file");
    failed(
        &home.edit("f", "a", "d", false),
        "oldText occurs 2 times: write more of its surroundings, or set replaceAll",
    );
    assert_eq!(home.content("f"), b"a b a\n");
    assert_eq!(home.edit("f", "b a", "b\nx", false).report.unwrap().size, 6);
    assert_eq!(home.content("f"), b"a b\nx\n");
    home.edit("f", "\n", "", true);
    assert_eq!((home.content("f"), home.mode("f")), (b"a bx".to_vec(), 0o741));
    std::fs::File::create(home.at("large")).unwrap().set_len((16 << 20) + 1).unwrap();
    failed(&home.edit("large", "a", "b", true), "the file has 16777217 bytes: at most 16777216 can be edited");
}

#[test]
fn what_is_no_regular_file_is_an_error_in_the_systems_words() {
    let home = Home::new();
    std::fs::create_dir(home.at("dir")).unwrap();
    assert!(Command::new("mkfifo").arg(home.at("fifo")).status().unwrap().success());
    let socket = std::os::unix::net::UnixListener::bind(home.at("socket")).unwrap();
    std::fs::write(home.at("file"), "x").unwrap();
    let tools: [fn(&Home, &str) -> Done; 3] = [
        |home, path| home.write(path, None, b"y"),
        |home, path| home.read(path, 0, 9),
        |home, path| home.edit(path, "x", "y", false),
    ];
    for (number, tool) in tools.iter().enumerate() {
        failed(&tool(&home, "dir"), "Is a directory");
        failed(&tool(&home, "dir/.."), "Is a directory");
        failed(&tool(&home, "file/below"), "Not a directory");
        failed(&tool(&home, &format!("{}/x", "n".repeat(256))), "File name too long");
        let fifo = tool(&home, "fifo");
        assert_eq!(fifo.code, Some(i32::from(EXIT_FILE_ERROR)), "{number}");
        assert!(fifo.said.ends_with("not a regular file\n"), "{}", fifo.said);
        if number > 0 {
            failed(&tool(&home, "missing"), "No such file or directory");
            failed(&tool(&home, "missing/too"), "No such file or directory");
        }
    }
    assert_eq!(home.content("file"), b"x");
    drop(socket);
}

/// decisions R8.
#[test]
fn links_are_followed_inside_the_workspace_and_never_out_of_it() {
    let home = Home::new();
    let inside = home.at("real");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(home.at("real/f"), "inside").unwrap();
    std::fs::write(home.path("secret"), "outside").unwrap();
    let plant = |name: &str, text: &std::ffi::OsStr| symlink(text, home.at(name)).unwrap();
    plant("relative", "real/f".as_ref());
    plant("absolute", home.at("real/f").as_ref());
    plant("folder", inside.as_ref());
    plant("chain", "folder/../relative".as_ref());
    plant("itself", home.workspace().as_ref());
    for name in ["relative", "absolute", "folder/f", "chain", "itself/itself/folder/f"] {
        let done = home.read(name, 0, 99);
        assert_eq!((done.code, done.stdout.as_slice()), (Some(0), b"inside".as_slice()), "{name}: {}", done.said);
        home.write(name, None, b"inside");
        assert_eq!(home.content("real/f"), b"inside", "{name}");
    }
    assert!(std::fs::symlink_metadata(home.at("relative")).unwrap().is_symlink(), "the link stays a link");
    plant("new", "real/made".as_ref());
    home.write("new", None, b"through a link to nothing");
    assert_eq!(home.content("real/made"), b"through a link to nothing");
    plant("out", home.path("secret").as_ref());
    plant("up", "../secret".as_ref());
    plant("etc", "/etc".as_ref());
    plant("fd", "/proc/self/fd/0".as_ref());
    plant("root", "/proc/self/root/etc/hostname".as_ref());
    plant("beside", format!("{}-evil", home.workspace().to_str().unwrap()).as_ref());
    plant("bytes", std::os::unix::ffi::OsStrExt::from_bytes(b"../\xff\xfe".as_slice()));
    for name in
        ["out", "up", "etc/hostname", "etc/new/folder", "fd", "root", "beside/x", "bytes", "folder/../../secret"]
    {
        escaped(&home.read(name, 0, 99));
        escaped(&home.write(name, None, b"changed"));
        escaped(&home.edit(name, "o", "x", true));
    }
    assert_eq!(std::fs::read(home.path("secret")).unwrap(), b"outside");
    plant("loop", "loop".as_ref());
    plant("ping", "pong/x".as_ref());
    plant("pong", "ping/y".as_ref());
    for name in ["loop", "ping"] {
        failed(&home.read(name, 0, 9), "Too many levels of symbolic links");
    }
    plant("odd", std::os::unix::ffi::OsStrExt::from_bytes(b"real/\xff".as_slice()));
    assert_eq!(home.write("odd", None, b"x").code, Some(0), "a link whose text is no UTF-8");
    std::fs::rename(home.workspace(), home.path("moved")).unwrap();
    symlink("moved", home.path("workspace")).unwrap();
    escaped(&home.read("real/f", 0, 9));
}

#[test]
fn a_crash_leaves_the_old_file_or_the_new_one() {
    let home = Home::new();
    let old = vec![b'o'; 100_000];
    std::fs::write(home.at("f"), &old).unwrap();
    // Large, so that its way is long.
    let new = vec![b'n'; 8 << 20];
    let operation = FileOperation::Write { path: home.at("f"), mode: None, content: new.clone() };
    let (mut olds, mut news) = (0, 0);
    for moment in 0..40 {
        let uid = uuid::Uuid::new_v4().to_string();
        let workspace = home.workspace();
        let shape = Launch { uid: &uid, directory: workspace.to_str().unwrap(), ..home.launch("") };
        let mut child = home.begin(&Launch { task: Task::File(&operation), ..shape });
        std::thread::sleep(Duration::from_millis(moment));
        // The supervisor ends the operation with it; a first one may be over, a last one not begun.
        let _ = child.kill();
        child.wait().unwrap();
        until("nothing of it runs", || {
            let left = format!("grep -lzxF SO_RUN={uid} /proc/[0-9]*/environ 2>/dev/null | wc -l");
            Command::new("bash").args(["-c", &left]).output().unwrap().stdout == b"0\n"
        });
        match home.content("f") {
            content if content == old => olds += 1,
            content if content == new => {
                news += 1;
                std::fs::write(home.at("f"), &old).unwrap();
            }
            content => panic!("{} bytes, neither old nor new", content.len()),
        }
    }
    assert!(olds > 0, "{olds} {news}: some were cut off");
}

/// A folder of the path is swapped with a link out of the workspace while files are written and read through it.
#[test]
fn a_folder_that_is_swapped_meanwhile_leads_nowhere_else() {
    let home = Home::new();
    let outside = home.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("f"), "outside").unwrap();
    std::fs::create_dir(home.at("a")).unwrap();
    symlink(&outside, home.at("link")).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                renameat_with(CWD, home.at("a"), CWD, home.at("link"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        for n in 0..120 {
            let ran = if n % 2 == 0 { home.write("a/f", None, b"inside") } else { home.read("a/f", 0, 99) };
            match ran.code {
                Some(0) => done += 1,
                _ => refused += 1,
            }
            assert!(!ran.stdout.starts_with(b"outside"), "{n}");
            assert_eq!(std::fs::read(outside.join("f")).unwrap(), b"outside", "{n}: {}", ran.said);
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "{n}: nothing new stands there");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(done > 0 && refused > 0, "{done} {refused}: both were met");
}
