//! What a service is, and which set of them makes sense. Pure: starts nothing, stores nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::exec::environment::{HOME, overlay};
use crate::guest::protocol::{LARGEST_PACKET, Spawn};

/// How many a Sprite may have.
const MOST: usize = 32;
const LONGEST_NAME: usize = 63;
/// Room for what surrounds a command on its way into the guest.
const ENVELOPE: usize = 1024;
/// The last word of a route beside the services.
const RESERVED: &str = "signal";

/// A program that is to run whenever its Sprite does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) cmd: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) dir: Option<String>,
    /// Services that are started before it when the Sprite boots.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// The port the Sprite's URL leads to. One service at most has one.
    #[serde(default)]
    pub(crate) http_port: Option<u16>,
}

/// What is kept of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Service {
    #[serde(flatten)]
    pub(crate) definition: Definition,
    /// Stopped by hand: it stays so until it is started by hand.
    #[serde(default)]
    pub(crate) stopped: bool,
}

/// All services of a Sprite, by name.
pub(crate) type All = BTreeMap<String, Service>;

/// Why a definition is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It makes no sense; says what to write.
    Bad(String),
    /// It does not go with the others.
    Conflict(String),
}

/// The body of a put call. What is null counts as left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: Option<String>,
    cmd: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    dir: Option<String>,
    needs: Option<Vec<String>>,
    http_port: Option<u16>,
}

impl Definition {
    /// Parses the definition of the service `name`.
    pub(crate) fn parse(name: &str, body: &[u8]) -> Result<Self, Refusal> {
        let bad = |text: String| Err(Refusal::Bad(text));
        let Body { name: named, cmd, args, env, dir, needs, http_port } = serde_json::from_slice(body).map_err(|error| {
            Refusal::Bad(format!(
                "invalid service: {error}; write {{\"cmd\": \"…\", \"args\": [], \"env\": {{}}, \"dir\": \"…\", \"needs\": [], \"http_port\": 8080}}, all but cmd optional"
            ))
        })?;
        if !is_valid_name(name) {
            return bad(format!(
                "invalid service name: write 1 to {LONGEST_NAME} letters, digits, '-' and '_', and not \"{RESERVED}\""
            ));
        }
        if named.is_some_and(|named| named != name) {
            return bad("invalid name: leave it out, or write the name of the path".into());
        }
        let Some(cmd) = cmd.filter(|cmd| !cmd.is_empty()) else {
            return bad("cmd is required: write the program to run".into());
        };
        if http_port == Some(0) {
            return bad("invalid http_port: write 1 to 65535".into());
        }
        let (args, env, needs) = (args.unwrap_or_default(), env.unwrap_or_default(), needs.unwrap_or_default());
        let dir = dir.filter(|dir| !dir.is_empty());
        if env.keys().any(|key| key.is_empty() || key.contains('=')) {
            return bad("invalid env: names may not be empty or contain '='".into());
        }
        let texts = std::iter::once(&cmd).chain(&args).chain(env.keys()).chain(env.values()).chain(&dir);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return bad("invalid service: a text contains NUL".into());
        }
        let definition = Self { cmd, args, env, dir, needs, http_port };
        if serde_json::to_vec(&definition.spawn()).map_or(true, |packet| packet.len() > LARGEST_PACKET - ENVELOPE) {
            return bad("service too large: shorten cmd, args and env".into());
        }
        Ok(definition)
    }

    /// Whether it may be the service `name` beside the others.
    pub(crate) fn check(&self, name: &str, all: &All) -> Result<(), Refusal> {
        if !all.contains_key(name) && all.len() >= MOST {
            return Err(Refusal::Conflict(format!("too many services, at most {MOST}: delete one first")));
        }
        for need in &self.needs {
            if need != name && !all.contains_key(need) {
                return Err(Refusal::Bad(format!("invalid needs: there is no service {need:?}; make it first")));
            }
            if need == name || reaches(need, name, all) {
                return Err(Refusal::Bad(format!("invalid needs: {need:?} needs {name:?} itself")));
            }
        }
        let owner = all.iter().find(|(other, service)| *other != name && service.definition.http_port.is_some());
        if self.http_port.is_some() && owner.is_some() {
            return Err(Refusal::Conflict("another service already has an HTTP port configured".into()));
        }
        Ok(())
    }

    /// How it is started.
    pub(crate) fn spawn(&self) -> Spawn {
        let dir = match &self.dir {
            None => HOME.to_owned(),
            Some(dir) if dir.starts_with('/') => dir.clone(),
            Some(dir) => format!("{HOME}/{dir}"),
        };
        let env: Vec<(String, String)> = self.env.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Spawn {
            program: self.cmd.clone(),
            argv: std::iter::once(&self.cmd).chain(&self.args).cloned().collect(),
            dir,
            env: overlay(&env),
            stdin: false,
            terminal: false,
        }
    }
}

pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name != RESERVED
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Whether `from` needs `to`, directly or by others.
fn reaches(from: &str, to: &str, all: &All) -> bool {
    let (mut left, mut seen) = (vec![from], BTreeSet::new());
    while let Some(name) = left.pop() {
        if name == to {
            return true;
        }
        if let Some(service) = all.get(name)
            && seen.insert(name)
        {
            left.extend(service.definition.needs.iter().map(String::as_str));
        }
    }
    false
}

/// A service that needs `name`.
pub(crate) fn needed_by<'a>(name: &str, all: &'a All) -> Option<&'a str> {
    let mut needing = all.iter().filter(|(_, service)| service.definition.needs.iter().any(|need| need == name));
    needing.next().map(|(other, _)| other.as_str())
}

/// The service the Sprite's URL leads to, and its port.
pub(crate) fn http_owner(all: &All) -> Option<(&str, u16)> {
    all.iter().find_map(|(name, service)| Some((name.as_str(), service.definition.http_port?)))
}

/// The services that are to run, each after those it needs.
pub(crate) fn boot_order(all: &All) -> Vec<String> {
    fn visit<'a>(name: &'a str, all: &'a All, seen: &mut BTreeSet<&'a str>, order: &mut Vec<String>) {
        let Some(service) = all.get(name) else { return };
        if !seen.insert(name) {
            return;
        }
        for need in &service.definition.needs {
            visit(need, all, seen, order);
        }
        if !service.stopped {
            order.push(name.to_owned());
        }
    }
    let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
    for name in all.keys() {
        visit(name, all, &mut seen, &mut order);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn service(needs: &[&str]) -> Service {
        let needs = needs.iter().map(|need| (*need).to_owned()).collect();
        let definition =
            Definition { cmd: "true".into(), args: vec![], env: BTreeMap::new(), dir: None, needs, http_port: None };
        Service { definition, stopped: false }
    }

    fn all(of: &[(&str, &[&str])]) -> All {
        of.iter().map(|(name, needs)| ((*name).to_owned(), service(needs))).collect()
    }

    #[rstest]
    #[case("web", r#"{"cmd":"a","args":["b"],"env":{"A":"1=2"},"dir":"/tmp","needs":[],"http_port":80}"#, true)]
    #[case("web_1-A", r#"{"cmd":"a","args":null,"env":null,"dir":null,"needs":null,"http_port":null}"#, true)]
    #[case("web", r#"{"cmd":"a","name":"web"}"#, true)]
    #[case("web", r#"{"cmd":"a","name":"other"}"#, false)]
    #[case("web", r#"{"cmd":""}"#, false)]
    #[case("web", "{}", false)]
    #[case("web", "", false)]
    #[case("web", r#"{"cmd":"a","port":1}"#, false)]
    #[case("web", r#"{"cmd":"a","http_port":0}"#, false)]
    #[case("web", r#"{"cmd":"a","http_port":65536}"#, false)]
    #[case("web", r#"{"cmd":"a","env":{"":"1"}}"#, false)]
    #[case("web", r#"{"cmd":"a","env":{"A=B":"1"}}"#, false)]
    #[case("web", r#"{"cmd":"a\u0000"}"#, false)]
    #[case("..", r#"{"cmd":"a"}"#, false)]
    #[case("a/b", r#"{"cmd":"a"}"#, false)]
    #[case("signal", r#"{"cmd":"a"}"#, false)]
    #[case("", r#"{"cmd":"a"}"#, false)]
    fn definitions(#[case] name: &str, #[case] body: &str, #[case] good: bool) {
        let parsed = Definition::parse(name, body.as_bytes());
        assert_eq!(parsed.is_ok(), good, "{parsed:?}");
    }

    #[test]
    fn what_does_not_fit_into_a_packet_is_refused() {
        let body = |text: &str| format!(r#"{{"cmd":"a","args":["{text}"]}}"#);
        assert!(Definition::parse("web", body(&"x".repeat(100_000)).as_bytes()).is_ok());
        assert!(Definition::parse("web", body(&"\\u0001".repeat(100_000)).as_bytes()).is_err());
    }

    #[test]
    fn needs_must_exist_and_may_not_lead_back() {
        let known = all(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
        let check = |name: &str, needs: &[&str]| service(needs).definition.check(name, &known);
        assert_eq!(check("d", &["c", "a"]), Ok(()));
        assert_eq!(check("a", &[]), Ok(()));
        for (name, need) in [("d", "x"), ("d", "d"), ("a", "a"), ("a", "c"), ("a", "b")] {
            assert!(matches!(check(name, &[need]), Err(Refusal::Bad(_))), "{name} needs {need}");
        }
        assert_eq!((needed_by("a", &known), needed_by("c", &known)), (Some("b"), None));
    }

    #[test]
    fn one_service_has_the_port() {
        let mut known = all(&[("a", &[]), ("b", &[])]);
        known.get_mut("a").unwrap().definition.http_port = Some(80);
        let wanted = Definition { http_port: Some(81), ..service(&[]).definition };
        assert_eq!(wanted.check("a", &known), Ok(()));
        assert!(matches!(wanted.check("b", &known), Err(Refusal::Conflict(_))));
        assert_eq!(http_owner(&known), Some(("a", 80)));
    }

    #[test]
    fn what_is_needed_boots_first_and_what_was_stopped_does_not() {
        let mut known = all(&[("a", &["c"]), ("b", &["a"]), ("c", &["d"]), ("d", &[])]);
        assert_eq!(boot_order(&known), ["d", "c", "a", "b"]);
        known.get_mut("c").unwrap().stopped = true;
        assert_eq!(boot_order(&known), ["d", "a", "b"]);
        // A circle cannot be stored; if one were, it would still boot.
        assert_eq!(boot_order(&all(&[("a", &["b"]), ("b", &["a"])])).len(), 2);
    }
}
