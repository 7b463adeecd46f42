//! What programs do with their words: which connect to them, which run them, which only read or write them as text.
//!
//! Tables and the reading of options. A program that is not known connects to what is a whole URL and to nothing else.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::target;

/// What a program does with its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Connects to the hosts and URLs among its words.
    Connects,
    /// curl: the same, with options whose values are text.
    Curl,
    /// wget: the same, with its own options.
    Wget,
    /// Connects to the value of its host option, and to URLs.
    Client,
    /// git: connects to the remotes of some of its commands.
    Git,
    /// Runs a text as shell commands.
    Shell,
    /// Runs a text in another language.
    Interpreter,
    /// Runs its words as a command.
    Wraps,
    /// Its words are text.
    Text,
    /// Not known.
    Other,
}

const CONNECTS: &str = " nc ncat netcat telnet ssh scp sftp ftp tftp lftp rsync ping ping6 fping arping hping3 traceroute traceroute6 \
    tracepath mtr dig host nslookup drill kdig delv resolvectl getent nmap masscan socat openssl lynx w3m links links2 elinks \
    http https xh httpie aria2c axel fetch httpx GET POST HEAD websocat wscat grpcurl hey ab wrk vegeta siege h2load \
    curlie hurl nuclei ffuf gobuster mount.nfs showmount autossh mosh sshfs whatweb nikto zgrab2 mount tcping lwp-request hget ";
const CLIENT: &str = " psql mysql mariadb mysqldump pg_dump redis-cli mongosh mongo valkey-cli etcdctl mc aws gcloud az oci \
    kafkacat kcat mosquitto_pub mosquitto_sub rabbitmqadmin influx cqlsh clickhouse-client ldapsearch snmpwalk smbclient ";
const SHELL: &str = " sh bash dash zsh ksh ash fish eval source ";
const INTERPRETER: &str =
    " python python2 python3 pypy pypy3 node nodejs deno bun perl ruby php lua ipython tsx ts-node awk-net ";
const WRAPS: &str = " sudo doas env time timeout nohup nice ionice setsid stdbuf xargs command builtin exec busybox strace \
    ltrace unbuffer chroot docker podman nerdctl kubectl nsenter ip find unshare bwrap \
    firejail proxychains proxychains4 torsocks systemd-run at batch poetry pipenv uv npx bunx pnpm yarn bundle gdb \
    expect caffeinate faketime fakeroot taskset chrt prlimit dbus-run-session xvfb-run direnv op doppler mise asdf ";
/// The same, and a command may stand in one word.
const WRAPS_TEXT: &str = " watch su runuser script parallel flock tmux screen hyperfine ";
const TEXT: &str = " echo printf grep egrep fgrep zgrep rg ag ack sed awk gawk mawk cat tee test [ [[ true false : ls touch mkdir \
    rmdir cp mv rm ln cd pushd export declare local readonly typeset set unset read jq yq gron tr cut sort uniq wc head \
    tail diff cmp comm paste fold fmt column nl tac rev xxd od hexdump base64 base32 sha256sum md5sum expr seq date sleep kill \
    trap return exit iptables ip6tables nft ufw firewall-cmd route ifconfig tc ipset whois ipcalc sipcalc prips gh glab hub \
    terraform tofu ansible ansible-playbook sqlite3 vi vim nvim nano ed code less more man apropos history alias type \
    which notify-send logger wall mail sendmail pytest ctest prettier markdownlint eslint shellcheck hadolint vale codespell \
    rustfmt gofmt black ruff mypy tsc jest vitest mocha tree stat file strings cowsay figlet say \
    basename dirname realpath let shopt compgen complete printenv patch install chmod chown truncate split csplit \
    dos2unix envsubst getopt getopts mkfifo tput stty clear banner asciidoctor mkdocs sphinx-build semgrep gitleaks \
    trufflehog detect-secrets mktemp tar zip unzip gzip gunzip xz zstd pre-commit ";

static USES: LazyLock<HashMap<&'static str, Use>> = LazyLock::new(|| {
    let lists = [
        (CONNECTS, Use::Connects),
        (CLIENT, Use::Client),
        (SHELL, Use::Shell),
        (INTERPRETER, Use::Interpreter),
        (WRAPS, Use::Wraps),
        (WRAPS_TEXT, Use::Wraps),
        (TEXT, Use::Text),
        (" curl ", Use::Curl),
        (" wget wget2 ", Use::Wget),
        (" git ", Use::Git),
        (" . ", Use::Shell),
    ];
    lists.iter().flat_map(|(list, to)| list.split_whitespace().map(|name| (name, *to))).collect()
});

/// What a program does.
pub(super) fn of(word: &str) -> Use {
    let name = name(word);
    let other = || if versioned(name) { Use::Interpreter } else { Use::Other };
    USES.get(name).copied().unwrap_or_else(other)
}

/// Whether a program runs a command that stands in one of its words.
pub(super) fn wraps_text(word: &str) -> bool {
    WRAPS_TEXT.split_whitespace().any(|known| known == name(word))
}

/// The program's own name: without its path.
pub(super) fn name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// `python3.12`
fn versioned(name: &str) -> bool {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    ["python", "node", "ruby", "php", "lua", "perl"].contains(&head)
}

/// Options of curl whose values are no targets.
const CURL_SHORT: &str = "AbcCdDeEFhHKmoPQrtTuUwXyYz";
const CURL_LONG: &str = " data data-raw data-binary data-urlencode data-ascii json form form-string header user-agent referer output \
    output-dir cookie cookie-jar user proxy-user request write-out max-time connect-timeout config range upload-file cert key \
    cacert capath cert-type key-type pass ciphers retry retry-delay retry-max-time limit-rate speed-limit speed-time trace \
    trace-ascii stderr dump-header interface local-port netrc-file oauth2-bearer aws-sigv4 proxy-header time-cond max-filesize \
    max-redirs create-file-mode continue-at quote variable url-query noproxy expect100-timeout keepalive-time proto \
    proto-default proto-redir tls-max rate parallel-max login-options mail-from mail-rcpt etag-save etag-compare hsts alt-svc ";
const WGET_SHORT: &str = "aAoOPUtTwQRDIXleBi";
const WGET_LONG: &str = " header post-data post-file body-data body-file method user-agent output-document output-file \
    append-output directory-prefix referer user password http-user http-password tries timeout wait waitretry quota accept \
    reject domains exclude-domains include-directories exclude-directories level execute load-cookies save-cookies \
    ca-certificate certificate private-key limit-rate ";

/// The words of curl or wget that are targets: all that are no options and no values of options that are text.
pub(super) fn targets(words: &[String], wget: bool) -> Vec<&str> {
    let (short, long) = if wget { (WGET_SHORT, WGET_LONG) } else { (CURL_SHORT, CURL_LONG) };
    let is_text = |name: &str| long.split(' ').any(|known| known == name && !name.is_empty());
    let mut found = Vec::new();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if let Some(option) = word.strip_prefix("--") {
            let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
            match value {
                None if wget && name == "input-file" => {
                    found.extend(words.next().filter(|value| value.contains("://")));
                }
                Some(value) if !is_text(name) => found.push(value),
                None if is_text(name) => drop(words.next()),
                Some(_) | None => {}
            }
        } else if word.len() > 1 && word.starts_with('-') {
            let letters = word.get(1..).unwrap_or_default();
            match letters.char_indices().find(|(_, c)| short.contains(*c) || (*c == 'x' && !wget)) {
                // Of wget: a file with URLs, or the URL of one.
                Some((at, 'i')) => {
                    let glued = letters.get(at + 1..).filter(|value| !value.is_empty());
                    found.extend(glued.or_else(|| words.next()).filter(|value| value.contains("://")));
                }
                Some((at, 'x')) => found.extend(letters.get(at + 1..).filter(|value| !value.is_empty())),
                Some((at, c)) if letters.len() == at + c.len_utf8() => drop(words.next()),
                _ => {}
            }
        } else {
            found.push(word);
        }
    }
    found
}

/// The words of a client that name its server: values of `-h` and `--host`, and URLs.
pub(super) fn servers(words: &[String]) -> Vec<&str> {
    const OPTIONS: [&str; 8] =
        ["-h", "--host", "--hostname", "--server", "--endpoint", "--endpoints", "--bootstrap-server", "--endpoint-url"];
    let mut found = Vec::new();
    let mut expected = false;
    for word in words.iter().map(String::as_str) {
        let given = match word.split_once('=').filter(|_| word.starts_with("--")) {
            Some((name, value)) => OPTIONS.iter().any(|option| name.starts_with(option)).then_some(value),
            None => {
                word.strip_prefix("-h").filter(|value| !value.is_empty()).map(|value| value.trim_start_matches('='))
            }
        };
        if expected {
            found.push(word);
        } else {
            found.extend(given);
        }
        expected = OPTIONS.contains(&word);
    }
    found
}

/// The words of ssh up to its destination: what follows runs elsewhere.
pub(super) fn destination(words: &[String]) -> &[String] {
    const VALUED: &str = "BbcDEeFIiJLlmOopQRSWw";
    let mut valued = false;
    for (at, word) in words.iter().enumerate() {
        if !valued && !word.starts_with('-') {
            return words.get(..=at).unwrap_or_default();
        }
        valued = !valued && word.len() == 2 && word.chars().nth(1).is_some_and(|c| VALUED.contains(c));
    }
    words
}

/// The words of a program that are hosts or URLs: without values of options that leave something out or name what is only compared; of `httpie` and its
/// kin only the URL.
pub(super) fn hosts<'w>(program: &str, words: &'w [String]) -> Vec<&'w str> {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    const LEFT_OUT: [&str; 5] = ["--exclude", "--exclude-from", "--excludefile", "--include", "--filter"];
    // Of openssl, with one dash or two.
    const COMPARED: [&str; 6] =
        ["-servername", "-verify_hostname", "-verify_ip", "-verify_email", "-xmpphost", "-name"];
    if matches!(name(program), "http" | "https" | "xh" | "httpie") {
        const VALUED: &str = " -a -A -o -p -s --auth --auth-type --output --print --style --session --session-read-only --timeout \
            --max-redirects --verify --ssl --cert --cert-key --ciphers --pretty --format-options --response-charset ";
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if VALUED.split_whitespace().any(|option| option == word) {
                words.next();
            } else if !word.starts_with('-') && !METHODS.contains(&word) {
                return vec![word];
            }
        }
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut left_out = false;
    for word in words.iter().map(String::as_str) {
        let option = word.split('=').next().unwrap_or(word);
        if !left_out && !LEFT_OUT.contains(&option) {
            found.push(word);
        }
        left_out = LEFT_OUT.contains(&word)
            || (name(program) == "openssl" && COMPARED.iter().any(|option| word.ends_with(option)));
    }
    found
}

/// Whether a program that can connect does so with these words: of some only a few commands do.
pub(super) fn dials(program: &str, words: &[String]) -> bool {
    let first = words.first().map_or("", String::as_str);
    match name(program) {
        "openssl" => matches!(first, "s_client" | "s_time" | "ocsp" | "cmp"),
        // These ask a resolver; the other databases are files.
        "getent" => words.iter().any(|word| matches!(word.as_str(), "hosts" | "ahosts" | "ahostsv4" | "ahostsv6")),
        _ => true,
    }
}

/// Whether a word alone may be a short name that a resolver completes, not a file.
pub(super) fn takes_short_names(program: &str) -> bool {
    !matches!(
        name(program),
        "ssh"
            | "scp"
            | "sftp"
            | "rsync"
            | "openssl"
            | "socat"
            | "http"
            | "https"
            | "xh"
            | "autossh"
            | "mosh"
            | "sshfs"
            | "aria2c"
            | "axel"
    )
}

/// The remotes among the words of git.
pub(super) fn remotes(words: &[String]) -> &[String] {
    const COMMANDS: [&str; 8] = ["clone", "fetch", "pull", "push", "remote", "ls-remote", "submodule", "archive"];
    const VALUED: [&str; 7] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source"];
    let mut valued = false;
    for (at, word) in words.iter().enumerate() {
        if !valued && !word.starts_with('-') {
            let connects = COMMANDS.contains(&word.as_str());
            return words.get(at..).filter(|_| connects).unwrap_or_default();
        }
        valued = !valued && VALUED.contains(&word.as_str());
    }
    &[]
}

/// Those that are written as for `scp`, `user@host:path`; a word alone before the colon is a branch, too.
pub(super) fn copies(remotes: &[String]) -> impl Iterator<Item = &str> {
    let words = remotes.iter().skip(1).map(String::as_str);
    words.filter(|word| word.split_once(':').is_some_and(|(host, _)| host.contains('@') || !target::is_short(host)))
}

/// The proxies that git is given for one command: `-c http.proxy=URL`.
pub(super) fn proxies(words: &[String]) -> impl Iterator<Item = &str> {
    let set = words.windows(2).filter_map(|pair| match pair {
        [option, value] if option == "-c" => value.split_once('='),
        _ => None,
    });
    set.filter(|(name, _)| name.to_ascii_lowercase().ends_with("proxy")).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
