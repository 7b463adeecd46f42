//! The tree a guest sees at `/`: all of it is the Sprite's own, to write, keep, copy and lose; none of it is the
//! host's or another Sprite's.

use std::path::Path;

use http::StatusCode;

use super::support::{Client, Lab, serve};

/// Writes wherever programs are installed and configured, and where users put theirs.
const WRITE: &str = "set -e
    mkdir /data /srv/x /opt/y; echo root > /root/r; echo opt > /opt/y/o; echo etc > /etc/x
    echo local > /usr/local/bin/x; echo bin > /usr/bin/x-of-one; echo deep > /usr/share/doc/x-of-one
    echo lib > /var/lib/v; echo data > /data/w";
/// Says what is left of that.
const READ: &str = "cat /root/r /opt/y/o /etc/x /usr/local/bin/x /usr/bin/x-of-one /usr/share/doc/x-of-one /var/lib/v /data/w; ls -d /srv/x";
const ALL: &str = "root\nopt\netc\nlocal\nbin\ndeep\nlib\ndata\n/srv/x\n";

#[tokio::test]
async fn all_of_it_can_be_written_and_outlives_the_sandbox_and_the_server() {
    let lab = Lab::with("one").await;
    lab.client.create("two").await;
    lab.client.sh("one", WRITE).await;
    // What the host brings can be changed in its place, replaced, removed and made again.
    let change = "set -e
        echo '# one' >> /usr/share/doc/bash/copyright; rm -r /usr/share/doc/perl-base; chmod 700 /usr/share/doc/bash
        echo '192.0.2.9 nine' >> /etc/hosts; sed -i s/nine/ten/ /etc/hosts; printf '#!/bin/sh\\necho mine\\n' > /tmp/id
        chmod +x /tmp/id; mv /tmp/id /usr/bin/id; mv /usr/bin/yes /usr/bin/no";
    lab.client.sh("one", change).await;
    let changed = "tail -n1 /usr/share/doc/bash/copyright; ls /usr/share/doc/perl-base 2>&1 | grep -c 'No such'
        stat -c %a /usr/share/doc/bash; id; tail -n1 /etc/hosts; ls /usr/bin/yes 2>&1 | grep -c 'No such'; no | head -n1";
    let expected = "# one\n1\n700\nmine\n192.0.2.9 ten\n1\ny\n";
    assert_eq!(lab.client.sh("one", changed).await, expected);
    assert_eq!(lab.client.call("POST", "/one/restart", "").await.0, StatusCode::OK);
    assert_eq!(lab.client.sh("one", READ).await, ALL);
    assert_eq!(lab.client.sh("one", changed).await, expected);
    // Neither the host nor a neighbour has any of it.
    assert!(!Path::new("/usr/bin/x-of-one").exists() && !Path::new("/usr/share/doc/x-of-one").exists());
    assert!(Path::new("/usr/bin/yes").exists() && !Path::new("/usr/bin/no").exists());
    let other = "ls /data /root /opt /srv /usr/bin/x-of-one /usr/share/doc/x-of-one 2>/dev/null | grep -v -e : -e '^$'
        test -e /usr/bin/yes && tail -n1 /usr/share/doc/bash/copyright";
    assert!(!lab.client.sh("two", other).await.contains("one"));
    lab.server.stop().await;
    let server = serve(lab.data.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    assert_eq!(client.sh("one", READ).await, ALL);
    server.stop().await;
}

#[tokio::test]
async fn checkpoints_hold_it_and_bring_it_back() {
    for flags in [&["--disk-limit", "none"][..], &[]] {
        let lab = Lab::set(flags).await;
        lab.client.create("one").await;
        lab.client.sh("one", WRITE).await;
        lab.client
            .sh("one", "rm -r /usr/share/doc/bash; mkdir /usr/share/doc/bash; echo own > /usr/share/doc/bash/own")
            .await;
        lab.client.call("POST", "/one/checkpoint", "").await;
        let spoil = "rm -rf /data /srv/x /opt /etc/x /usr/local /usr/share/doc; echo new > /usr/bin/new; ls /usr";
        lab.client.sh("one", spoil).await;
        let (_, restored) = lab.client.call("POST", "/one/checkpoints/v1/restore", "").await;
        assert!(restored.contains("Restore from v1 complete"), "{restored}");
        assert_eq!(lab.client.sh("one", READ).await, ALL);
        let rest = "ls /usr/share/doc/bash; ls /usr/bin/new 2>&1 | grep -c 'No such'";
        assert_eq!(lab.client.sh("one", rest).await, "own\n1\n");
        // The first copy is of a machine nobody has touched.
        lab.client.call("POST", "/one/checkpoints/v0/restore", "").await;
        let fresh =
            "ls -d /data /opt/y /usr/local/bin/x 2>/dev/null; ls /usr/share/doc/bash/copyright; cat /etc/hostname";
        assert_eq!(lab.client.sh("one", fresh).await, "/usr/share/doc/bash/copyright\none\n");
        lab.server.stop().await;
    }
}

#[tokio::test]
async fn it_counts_for_the_limit_of_the_disk() {
    let lab = Lab::set(&["--disk-limit", "64Mi"]).await;
    lab.client.create("one").await;
    lab.client.create("two").await;
    for place in ["/opt/big", "/usr/local/lib/big"] {
        let write = format!("head -c 100000000 /dev/zero > {place}; code=$?; rm {place}; sync -f /; exit $code");
        let ran = lab.client.run("one", &["bash", "-c", &write]).await;
        assert!(ran.code == Some(1) && ran.err().contains("quota exceeded"), "{place}: {:?} {}", ran.code, ran.err());
    }
    lab.client.sh("two", "head -c 10000000 /dev/zero > /usr/local/lib/big").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn file_calls_see_the_same_tree() {
    let lab = Lab::with("one").await;
    for path in ["/data/a/b", "/usr/local/bin/b", "/root/b", "/etc/b"] {
        let (status, text) = lab.client.call("PUT", &format!("/one/fs/write?path={path}&mode=0755"), "b\n").await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        assert_eq!(lab.client.sh("one", &format!("cat {path}; stat -c %a {path}")).await, "b\n755\n");
        lab.client.sh("one", &format!("echo c > {path}")).await;
        assert_eq!(lab.client.call("GET", &format!("/one/fs/read?path={path}"), "").await.1, "c\n");
        let (_, list) = lab.client.json("GET", &format!("/one/fs/list?path={path}"), "").await;
        assert_eq!(list["count"], 1);
    }
    let (_, list) = lab.client.json("GET", "/one/fs/list?path=/", "").await;
    let names: Vec<&str> =
        list["entries"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"data") && names.contains(&"root") && !names.contains(&"boot"), "{names:?}");
    lab.server.stop().await;
}

/// A guest may spoil its own tree as thoroughly as it likes: it boots again, and nothing outside changes.
#[tokio::test]
async fn no_tree_is_spoilt_so_far_that_its_sprite_does_not_boot() {
    let lab = Lab::with("one").await;
    let mark = lab.data.path().join("reached");
    let spoils = [
        "mv /home /h; ln -s /etc /home".to_owned(),
        "mv /etc /e; ln -s / /etc; rm -rf /opt; echo > /opt".to_owned(),
        format!("mv /home /h2; ln -s {} /home; mv /etc /e2; ln -s ../../../{} /etc", mark.display(), mark.display()),
        "rm -rf /bin /lib64 /lib /sbin; true".to_owned(),
    ];
    for spoil in spoils {
        lab.client.sh("one", &spoil).await;
        assert_eq!(lab.client.call("POST", "/one/restart", "").await.0, StatusCode::OK, "{spoil}");
        assert_eq!(lab.client.call("PUT", "/one/fs/write?path=/home/sprite/f", "f").await.0, StatusCode::OK, "{spoil}");
        assert!(!mark.exists());
    }
    // Nothing runs without a loader; the file calls do, and a copy brings everything back.
    lab.client.call("POST", "/one/checkpoints/v0/restore", "").await;
    assert_eq!(lab.client.sh("one", "echo up").await, "up\n");
    lab.server.stop().await;
}

/// The first process takes no library from the tree its guest writes.
#[tokio::test]
async fn the_agent_is_the_servers_own_to_its_libraries() {
    let lab = Lab::with("one").await;
    let poison = "set -e
        lib=$(ldconfig -p 2>/dev/null | awk '/libc.so.6/ {print $NF; exit}'); test -n \"$lib\" || lib=/usr/lib/libc.so.6
        echo poison > /etc/poison; cp /etc/poison $(dirname \"$lib\")/libgcc_s.so.1.new
        mv $(dirname \"$lib\")/libgcc_s.so.1.new $(dirname \"$lib\")/libgcc_s.so.1";
    lab.client.run("one", &["bash", "-c", poison]).await;
    let preload = lab.client.run("one", &["bash", "-c", "echo /etc/poison > /etc/ld.so.preload"]).await;
    assert_ne!(preload.code, Some(0));
    assert_eq!(lab.client.call("POST", "/one/restart", "").await.0, StatusCode::OK);
    assert_eq!(lab.client.sh("one", "echo up").await, "up\n");
    lab.server.stop().await;
}

/// What programs and people on a Sprite take for granted.
#[tokio::test]
async fn the_tools_of_a_sprite_are_there() {
    let lab = Lab::with("one").await;
    assert_eq!(lab.client.sh("one", "python -c 'print(1)'; cat /.sprite/version.txt").await, "1\n0.0.1-rc46\n");
    lab.client.sh("one", "test -s /.sprite/llm.txt && test -s /.sprite/docs/agent-context.md").await;
    let sudo =
        "sudo -n true && sudo -u root -E sh -c 'echo $HOME $0 $1' a b; sudo X=1 printenv X; sudo -H -- id -un; sudo -v";
    assert_eq!(lab.client.sh("one", sudo).await, "/home/sprite a b\n1\nsprite\n");
    assert_eq!(lab.client.run("one", &["sudo", "-u", "nobody", "true"]).await.code, Some(1));
    assert_eq!(lab.client.run("one", &["sudo", "sh", "-c", "exit 7"]).await.code, Some(7));
    assert_ne!(lab.client.run("one", &["bash", "-c", "echo > /.sprite/bin/sudo"]).await.code, Some(0));
    lab.server.stop().await;
}

/// The client of the guest's API.
#[tokio::test]
async fn sprite_env_speaks_for_its_sprite() {
    let lab = Lab::with("one").await;
    let help = lab.client.sh("one", "sprite-env --help; sprite-env services create --help").await;
    for word in ["checkpoints", "services", "tasks", "--http-port", "--no-stream"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let info = lab.client.sh("one", "sprite-env info").await;
    assert!(info.contains("\"name\": \"one\"") && info.contains("\"sprite_url\": \"http://one."), "{info}");
    let service = "sprite-env services create web --cmd sleep --args 600 --env A=b --dir /tmp --no-stream
        sprite-env services create dash --cmd python3 --args -m,http.server,8080 --http-port 8080 --no-stream
        sprite-env services get dash | grep -c -e '\"-m\"' -e '\"http_port\": 8080'
        sprite-env services list; sprite-env services get web | grep -c running; sprite-env services stop web >/dev/null
        sprite-env services get web | grep -c stopped; sprite-env services delete web; sprite-env services get web; echo $?";
    let said = lab.client.sh("one", service).await;
    assert!(said.contains("\"cmd\": \"sleep\"") && said.contains("\"A\": \"b\"") && said.contains("\n2\n["), "{said}");
    assert!(said.ends_with("1\n1\n1\n"), "{said}");
    let checkpoint =
        "sprite-env checkpoints create --comment '-so far'; sprite-env checkpoint list; sprite-env checkpoints get v1";
    let said = lab.client.sh("one", checkpoint).await;
    assert!(said.contains("Checkpoint v1 created successfully") && said.contains("so far"), "{said}");
    let task = "sprite-env tasks create build --expire 10m; sprite-env tasks list; sprite-env tasks delete build; sprite-env tasks list";
    let said = lab.client.sh("one", task).await;
    assert!(said.contains("build") && said.trim_end().ends_with('}'), "{said}");
    let raw = lab.client.sh("one", "sprite-env curl /v1/tasks").await;
    assert!(raw.contains("tasks"), "{raw}");
    let wrong = lab.client.run("one", &["sprite-env", "nothing"]).await;
    assert!(wrong.code == Some(2) && wrong.err().contains("services"), "{}", wrong.err());
    lab.server.stop().await;
}
