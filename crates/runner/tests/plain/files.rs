//! The operator's files in the guest: what is kept, what is removed, how the runner is installed.

use super::*;

#[test]
fn old_spools_go_and_guards_stay() {
    let home = Home::new();
    let other = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
    for number in 0..30 {
        std::fs::create_dir_all(home.root().join(SPOOL).join(other(number))).unwrap();
        std::fs::create_dir(home.root().join(other(number))).unwrap();
        let ago = std::time::SystemTime::now() - Duration::from_secs(1000 - number as u64);
        std::fs::File::open(home.root().join(SPOOL).join(other(number))).unwrap().set_modified(ago).unwrap();
    }
    let live = [other(1), other(3)];
    let mut child = home.begin(&Launch { live: &live, ..home.launch("until [ -e go ]; do sleep 0.02; done") });
    read_until(&mut child, &start_marker(&home.uid));
    // While it runs, others come and end; their Runs may not be terminal yet.
    for number in 30..80 {
        std::fs::create_dir_all(home.root().join(SPOOL).join(other(number))).unwrap();
    }
    assert!(child.try_wait().unwrap().is_none());
    std::fs::write(home.path("go"), "").unwrap();
    child.wait().unwrap();
    let spools: Vec<_> = (0..80).filter(|n| home.root().join(SPOOL).join(other(*n)).exists()).collect();
    let left = [vec![1, 3], (10..80).collect()].concat();
    assert_eq!(spools, left, "the last twenty, those of living Runs, and what came since");
    // A launch that was sent before those were known to run.
    home.begin(&Launch { uid: &other(99), ..home.launch("true") }).wait().unwrap();
    let spools = (30..80).filter(|n| home.root().join(SPOOL).join(other(*n)).exists()).count();
    assert_eq!(spools, 50, "they are new");
    assert!((0..30).all(|n| home.root().join(other(n)).exists()), "guards are the proof of at most once");
}

#[test]
fn guards_beyond_ten_thousand_go_but_not_those_of_living_runs() {
    let home = Home::new();
    let other = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
    for number in 0..GUARDS_KEPT + 5 {
        std::fs::create_dir(home.root().join(other(number))).unwrap();
        // The seventh and the eighth are the oldest.
        let ago = Duration::from_secs(if [7, 8].contains(&number) { 9000 } else { 600 });
        let at = std::time::SystemTime::now() - ago;
        std::fs::File::open(home.root().join(other(number))).unwrap().set_modified(at).unwrap();
    }
    let live = [other(7)];
    home.run(&Launch { live: &live, ..home.launch("true") });
    assert!(home.root().join(other(7)).exists() && !home.root().join(other(8)).exists());
    assert!(home.guard().exists() && home.root().join("nonce").exists());
    let left = std::fs::read_dir(home.root()).unwrap().count();
    assert!((GUARDS_KEPT / 10 * 9..GUARDS_KEPT).contains(&left), "{left}");
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn it_installs_itself_in_place_of_whatever_stands_there() {
    let home = Home::new();
    std::fs::remove_dir_all(home.root()).unwrap();
    let hash = sha256(Path::new(RUNNER));
    let workspace = home.path("workspace");
    let installed = home.root().join(BIN).join(&hash);
    let in_the_way: [fn(&Path); 5] = [
        |_| (),
        |path| std::fs::create_dir_all(path.join("full")).unwrap(),
        |path| std::os::unix::fs::symlink("/bin/true", path).unwrap(),
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        |path| std::fs::write(path, "another").unwrap(),
    ];
    for (number, plant) in in_the_way.iter().enumerate() {
        for place in [&installed, &home.root().join("nonce")] {
            std::fs::create_dir_all(home.root().join(BIN)).unwrap();
            let _ = std::fs::remove_file(place);
            plant(place);
        }
        let copy = home.root().join(BIN).join(format!("{hash}.{number}"));
        std::fs::copy(RUNNER, &copy).unwrap();
        let copy = copy.to_str().unwrap();
        let output =
            home.spawn(&[copy, INSTALL, &hash, "fresh", workspace.to_str().unwrap()]).wait_with_output().unwrap();
        assert_eq!(output.stdout, answer::installed(&hash, "fresh").as_bytes(), "{number}: {output:?}");
        assert_eq!((sha256(&installed), workspace.is_dir()), (hash.clone(), true), "{number}");
        assert_eq!(std::fs::read_to_string(home.root().join("nonce")).unwrap(), "fresh\n", "{number}");
        assert!(!Path::new(copy).exists());
    }
    std::fs::remove_dir_all(home.root()).unwrap();
    std::fs::write(home.root(), "a file in place of the folder").unwrap();
    let copy = home.path("copy");
    std::fs::copy(RUNNER, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let wrong = home.spawn(&[copy, INSTALL, "0000", "fresh", "/"]).wait_with_output().unwrap();
    assert!(!wrong.status.success() && wrong.stdout.is_empty(), "not what was sent");
    let output = home.spawn(&[copy, INSTALL, &hash, "again", workspace.to_str().unwrap()]).wait_with_output().unwrap();
    assert_eq!(output.stdout, answer::installed(&hash, "again").as_bytes(), "{output:?}");
}
