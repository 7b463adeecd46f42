//! The command line: flags with environment twins, all errors at once.
//!
//! Must not start anything. Secrets come from files; nothing has a default that could reach a public service by accident.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use url::Url;

use crate::{explain, kubernetes::scope::Scope};
use api::values::GoDuration;
use sprites::TokenSource;

/// Runs untrusted agent code in Fly Sprites, driven by Kubernetes resources.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator.
    Run(Box<RunArgs>),
    /// Say what the rules do with items, one a line on stdin, or with the manifest of a policy or a Run; needs no cluster.
    ///
    /// An item is a JSON string, number or null, or an object with `in` and `id`. Exit 0: all were judged; of `policy`: and there
    /// is no complaint about any policy of the file; of `run`: and each Run would be admitted; 1: there are complaints, or a Run is
    /// refused; 2: something could not be read.
    Explain(ExplainArgs),
    /// Print the CRDs as YAML, or write one file each into a folder.
    Crds {
        /// The folder to write into.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// Flags of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// What the items are.
    #[arg(value_enum)]
    pub kind: explain::Kind,
    /// Of `policy` and `run`: the file with one or more manifests, `-` for stdin; at most 8 MiB. Of `text`: the file to redact, `-`
    /// for stdin; the redacted text is printed.
    pub file: Option<PathBuf>,
    /// Of `text`: stdin is the text itself, as with FILE `-`.
    #[arg(long)]
    pub raw: bool,
    /// Of `text` with a FILE or --raw: print what changed in place of the whole text. Shows the secrets that were found.
    #[arg(long)]
    pub diff: bool,
    /// Judge under the one ExecutionPolicy of this file, as for a Run; without it the schema's defaults hold. Of `run` it may be
    /// given twice: the first is the session's policy, the second the Run's own.
    #[arg(long)]
    pub policy: Vec<PathBuf>,
    /// As if the operator ran with --allow-open-egress.
    #[arg(long)]
    pub allow_open_egress: bool,
    /// Of `policy`: exit 1 also for notes, such as a field that has no effect in this version.
    #[arg(long)]
    pub strict: bool,
    /// How to write results; a table on a terminal, else JSON lines.
    #[arg(short, long, value_enum)]
    pub output: Option<explain::Format>,
}

/// Flags of `run`. Every text is checked by [`RunArgs::check`], so that all errors are shown at once.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Base URL of the Sprites API; plain http only to loopback. Required.
    #[arg(long, env = "SPRITE_OPERATOR_SPRITES_URL")]
    pub sprites_url: Option<String>,
    /// File with the token for the Sprites API; read again when it changes. Required.
    #[arg(long, env = "SPRITE_OPERATOR_SPRITES_TOKEN_FILE")]
    pub sprites_token_file: Option<PathBuf>,
    /// File with the session secret, at least 32 bytes; Sprite names are made with it. Required.
    #[arg(long, env = "SPRITE_OPERATOR_SESSION_SECRET_FILE")]
    pub session_secret_file: Option<PathBuf>,
    /// Namespace of the operator's own objects: switch, Lease, installation. Required.
    #[arg(long, env = "SPRITE_OPERATOR_OPERATOR_NAMESPACE")]
    pub operator_namespace: Option<String>,
    /// Namespaces to work in, separated by commas or one a flag; all of them if none is named.
    #[arg(long, env = "SPRITE_OPERATOR_WATCH_NAMESPACE", value_delimiter = ',')]
    pub watch_namespace: Vec<String>,
    /// Address of /livez, /readyz and /metrics.
    #[arg(long, env = "SPRITE_OPERATOR_LISTEN")]
    pub listen: Option<String>,
    /// Label selector of policies; others do not exist for this operator.
    #[arg(long, env = "SPRITE_OPERATOR_POLICY_SELECTOR")]
    pub policy_selector: Option<String>,
    /// Policy of sessions that name none.
    #[arg(long, env = "SPRITE_OPERATOR_DEFAULT_POLICY", default_value = "default")]
    pub default_policy: String,
    /// Let policies open egress (mode Open).
    #[arg(long, env = "SPRITE_OPERATOR_ALLOW_OPEN_EGRESS")]
    pub allow_open_egress: bool,
    /// Let plain http reach a Sprites API that is not on loopback.
    #[arg(long, env = "SPRITE_OPERATOR_ALLOW_PLAIN_HTTP")]
    pub allow_plain_http: bool,
    /// PEM file of the certificate authorities to trust for the Sprites API, in place of the system's; read again on change.
    #[arg(long, env = "SPRITE_OPERATOR_SPRITES_CA_FILE")]
    pub sprites_ca_file: Option<PathBuf>,
    /// Reach the Sprites API through the proxy that `HTTPS_PROXY` and `NO_PROXY` name.
    #[arg(long, env = "SPRITE_OPERATOR_PROXY_FROM_ENVIRONMENT")]
    pub proxy_from_environment: bool,
    /// Id of this installation in Sprite names; the UID of its ConfigMap if not given.
    #[arg(long, env = "SPRITE_OPERATOR_INSTALLATION_ID")]
    pub installation_id: Option<String>,
    /// How long a Sprite must be absent before that is believed.
    #[arg(long, env = "SPRITE_OPERATOR_ABSENT_AFTER", default_value = "10s")]
    pub absent_after: String,
    /// How long a create may still be on its way.
    #[arg(long, env = "SPRITE_OPERATOR_CREATE_GRACE", default_value = "2m")]
    pub create_grace: String,
    /// How often an awake Sprite is verified.
    #[arg(long, env = "SPRITE_OPERATOR_VERIFY_INTERVAL", default_value = "5m")]
    pub verify_interval: String,
    /// Logs as JSON lines.
    #[arg(long, env = "SPRITE_OPERATOR_LOG_JSON")]
    pub log_json: bool,
}

/// What the operator is started with, checked.
#[derive(Debug)]
pub struct Config {
    /// The Sprites client's own.
    pub sprites: sprites::Config,
    /// The session secret.
    pub session_secret_file: PathBuf,
    /// Namespace of the operator's own objects.
    pub operator_namespace: String,
    /// Where to work.
    pub scope: Scope,
    /// Address of health and metrics.
    pub listen: Option<SocketAddr>,
    /// Label selector of policies.
    pub policy_selector: Option<String>,
    /// Policy of sessions that name none.
    pub default_policy: String,
    /// Whether policies may open egress.
    pub open_egress: bool,
    /// Id of this installation, if not the ConfigMap's.
    pub installation: Option<String>,
    /// How long a Sprite must be absent.
    pub absent_after: Duration,
    /// How long a create may be on its way.
    pub create_grace: Duration,
    /// How often an awake Sprite is verified.
    pub verify_interval: Duration,
}

impl RunArgs {
    fn sprites(&self, url: Url, token: PathBuf) -> sprites::Config {
        sprites::Config {
            allow_plain_http: self.allow_plain_http,
            ca_file: self.sprites_ca_file.clone(),
            proxy_from_environment: self.proxy_from_environment,
            ..sprites::Config::new(url, TokenSource::File(token))
        }
    }

    /// The configuration, or everything that is wrong with it.
    pub fn check(&self) -> Result<Config, Vec<String>> {
        let mut errors = Vec::new();
        let url = required(&mut errors, "--sprites-url", self.sprites_url.as_deref(), "the URL of the Sprites API");
        let url = url.and_then(|text| {
            let parsed = Url::parse(text);
            if let Err(error) = &parsed {
                errors.push(format!(
                    "--sprites-url: `{text}` is no URL ({error}): write one such as https://api.example.com"
                ));
            }
            parsed.ok()
        });
        let token =
            required(&mut errors, "--sprites-token-file", self.sprites_token_file.as_ref(), "a file with the token");
        let secret = required(
            &mut errors,
            "--session-secret-file",
            self.session_secret_file.as_ref(),
            "a file with 32 random bytes",
        );
        let namespace = required(
            &mut errors,
            "--operator-namespace",
            self.operator_namespace.as_deref(),
            "the namespace that the operator runs in",
        );
        if let Some(file) = token {
            match std::fs::read_to_string(file) {
                Ok(text) if text.trim().is_empty() => {
                    errors.push(format!("--sprites-token-file: {} is empty: write the token into it", file.display()));
                }
                Ok(_) => {}
                Err(error) => errors.push(format!("--sprites-token-file: {} cannot be read: {error}", file.display())),
            }
        }
        if let Some(name) = namespace
            && !is_label(name)
        {
            errors.push(format!(
                "--operator-namespace: `{name}` is no namespace: write lower-case letters, digits and inner hyphens"
            ));
        }
        for name in self.watch_namespace.iter().filter(|name| !is_label(name)) {
            errors.push(format!(
                "--watch-namespace: `{name}` is no namespace: write lower-case letters, digits and inner hyphens"
            ));
        }
        let listen = self.listen.as_deref().and_then(|text| {
            let parsed = text.parse();
            if parsed.is_err() {
                errors.push(format!("--listen: `{text}` is no address: write one such as 127.0.0.1:8080 or [::]:8080"));
            }
            parsed.ok()
        });
        let mut duration = |flag: &str, text: &str| {
            let parsed = text.parse::<GoDuration>().map(|d| d.get());
            if let Err(error) = &parsed {
                errors.push(format!("{flag}: {error}"));
            }
            parsed.unwrap_or_default()
        };
        let absent_after = duration("--absent-after", &self.absent_after);
        let create_grace = duration("--create-grace", &self.create_grace);
        let verify_interval = duration("--verify-interval", &self.verify_interval);
        if verify_interval < Duration::from_secs(1) && errors.is_empty() {
            errors.push("--verify-interval: write at least 1s".to_owned());
        }
        let sprites = url.zip(token.cloned()).map(|(url, token)| self.sprites(url, token));
        if let Some(config) = &sprites
            && let Err(error) = sprites::Client::new(config.clone())
        {
            let authorities =
                matches!(error, sprites::ConfigError::CaFile { .. } | sprites::ConfigError::CaForm { .. });
            let flag = if authorities { "--sprites-ca-file" } else { "--sprites-url" };
            errors.push(format!("{flag}: {error}"));
        }
        let scope =
            if self.watch_namespace.is_empty() { Scope::All } else { Scope::Namespaces(self.watch_namespace.clone()) };
        match (sprites, secret, namespace, errors.is_empty()) {
            (Some(sprites), Some(secret), Some(namespace), true) => Ok(Config {
                sprites,
                session_secret_file: secret.clone(),
                operator_namespace: namespace.to_owned(),
                scope,
                listen,
                policy_selector: self.policy_selector.clone(),
                default_policy: self.default_policy.clone(),
                open_egress: self.allow_open_egress,
                installation: self.installation_id.clone(),
                absent_after,
                create_grace,
                verify_interval,
            }),
            _ => Err(errors),
        }
    }
}

/// Whether a text can name a namespace (RFC 1123 label).
fn is_label(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| plain(b) || b == b'-')
        && name.bytes().next().is_some_and(plain)
        && name.bytes().last().is_some_and(plain)
}

fn required<'a, T: ?Sized>(errors: &mut Vec<String>, flag: &str, value: Option<&'a T>, what: &str) -> Option<&'a T> {
    if value.is_none() {
        errors.push(format!("{flag} is missing: give {what}"));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> RunArgs {
        let words = ["sprite-operator", "run"].iter().chain(words);
        let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not run") };
        *args
    }

    #[test]
    fn all_errors_are_shown_at_once() {
        let errors = args(&["--listen", "nowhere", "--absent-after", "soon"]).check().unwrap_err();
        assert_eq!(errors.len(), 6, "{errors:#?}");
        assert!(errors.iter().all(|e| e.starts_with("--")));
    }

    #[test]
    fn plain_http_to_a_host_that_is_not_loopback_is_refused() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "x").unwrap();
        let with = |url: &str| {
            args(&[
                "--sprites-url",
                url,
                "--sprites-token-file",
                token.to_str().unwrap(),
                "--session-secret-file",
                "s",
                "--operator-namespace",
                "n",
            ])
            .check()
        };
        assert!(with("http://127.0.0.1:1").is_ok());
        assert!(with("https://api.example.com").is_ok());
        assert!(with("http://api.example.com").is_err());
    }
}
