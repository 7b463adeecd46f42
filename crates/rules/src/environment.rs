//! The environment of a command: what the policy sets, and Run variables that it allows.
//!
//! Nothing of the operator's own. Must not know how it is handed over.

use thiserror::Error;

/// Most variables handed to one command.
pub const MAX_VARIABLES: usize = 256;
/// Longest name, in bytes.
pub const NAME_MAX: usize = 256;
/// Longest value, in bytes: 32Ki.
pub const VALUE_MAX: usize = 32 << 10;

/// Names that nobody sets, by the reason.
const RESERVED: [(&str, &[&str]); 3] = [
    (
        "programs go by it to find their user, shell and files",
        &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TERMINFO"],
    ),
    (
        "it changes how programs reach the network",
        &[
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "FTP_PROXY",
            "NO_PROXY",
            "HOSTALIASES",
            "RES_OPTIONS",
            "LOCALDOMAIN",
        ],
    ),
    (
        LOADED,
        &[
            "IFS",
            "ENV",
            "BASH_ENV",
            "BASHOPTS",
            "SHELLOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "CDPATH",
            "GLOBIGNORE",
            "PYTHONSTARTUP",
            "PYTHONHOME",
            "PERL5OPT",
            "PERL5LIB",
            "RUBYOPT",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "GIT_ASKPASS",
            "SSH_ASKPASS",
            "SUDO_ASKPASS",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_EXEC_PATH",
            "GCONV_PATH",
            "NLSPATH",
        ],
    ),
];
const LOADED: &str = "it changes how programs are loaded, what they start or how a shell reads commands";
const RESERVED_PREFIXES: [(&str, &str); 8] = [
    ("LD_", LOADED),
    ("DYLD_", LOADED),
    ("BASH_FUNC_", LOADED),
    ("SO_", "names that begin with SO_ belong to the operator"),
    ("SPRITE_", "names that begin with SPRITE_ belong to the platform"),
    ("GIT_CONFIG", LOADED),
    ("GLIBC_", LOADED),
    ("MALLOC_", LOADED),
];

/// Why nobody sets a name, if so; in whatever case it is written.
fn reserved(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    let whole = RESERVED.iter().find(|(_, names)| names.contains(&upper.as_str())).map(|(why, _)| *why);
    let prefix = || RESERVED_PREFIXES.iter().find(|(prefix, _)| upper.starts_with(prefix)).map(|(_, why)| *why);
    whole.or_else(prefix)
}

/// Why a variable was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvironmentError {
    /// Not a name that every shell takes.
    #[error("`{0}` is no variable name: write a letter or underscore, then letters, digits and underscores")]
    Name(String),
    /// Nobody sets it.
    #[error("`{0}` cannot be set: {why}: take it out", why = reserved(.0).unwrap_or(LOADED))]
    Reserved(String),
    /// The policy does not allow it.
    #[error("`{0}` is not allowed: ask for it in environment.allow of the policy")]
    NotAllowed(String),
    /// Twice in one list.
    #[error("`{0}` is set twice: keep one")]
    Twice(String),
    /// NUL cannot be in an environment.
    #[error("the value of `{0}` holds a NUL character: remove it")]
    Nul(String),
    /// A name longer than [`NAME_MAX`].
    #[error("a variable name has {0} bytes: write at most 256")]
    LongName(usize),
    /// A value longer than [`VALUE_MAX`].
    #[error("the value of `{0}` has {1} bytes: write at most 32768 (32Ki)")]
    LongValue(String, usize),
    /// More than can be handed over.
    #[error("{0} variables are too many: set at most 256")]
    TooMany(usize),
}

/// A variable.
pub type Variable<'a> = (&'a str, &'a str);

/// Why a name may not be set by anybody, if so.
pub fn check(name: &str, value: &str) -> Result<(), EnvironmentError> {
    if name.len() > NAME_MAX {
        return Err(EnvironmentError::LongName(name.len()));
    }
    let mut bytes = name.bytes();
    let head = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !head || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(EnvironmentError::Name(name.to_owned()));
    }
    if reserved(name).is_some() {
        return Err(EnvironmentError::Reserved(name.to_owned()));
    }
    if value.contains('\0') {
        return Err(EnvironmentError::Nul(name.to_owned()));
    }
    if value.len() > VALUE_MAX {
        return Err(EnvironmentError::LongValue(name.to_owned(), value.len()));
    }
    Ok(())
}

/// The variables of a command, or everything that is wrong. A Run's value wins over the policy's where it is allowed.
pub fn combine<'a>(
    set: &[Variable<'a>],
    allow: &[&str],
    run: &[Variable<'a>],
) -> Result<Vec<(String, String)>, Vec<EnvironmentError>> {
    let mut errors = Vec::new();
    let mut combined: Vec<(String, String)> = Vec::new();
    for (name, value) in set {
        match check(name, value) {
            Ok(()) if combined.iter().any(|(other, _)| other == name) => {
                errors.push(EnvironmentError::Twice((*name).to_owned()));
            }
            Ok(()) => combined.push(((*name).to_owned(), (*value).to_owned())),
            Err(error) => errors.push(error),
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in run {
        if seen.contains(name) {
            errors.push(EnvironmentError::Twice((*name).to_owned()));
            continue;
        }
        seen.push(name);
        if let Err(error) = check(name, value) {
            errors.push(error);
        } else if !allow.contains(name) {
            errors.push(EnvironmentError::NotAllowed((*name).to_owned()));
        } else if let Some(entry) = combined.iter_mut().find(|(n, _)| n == name) {
            (*value).clone_into(&mut entry.1);
        } else {
            combined.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    if combined.len() > MAX_VARIABLES {
        errors.push(EnvironmentError::TooMany(combined.len()));
    }
    if errors.is_empty() { Ok(combined) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("A", "1", true)]
    #[case("_x9", "line1\nline2", true)]
    #[case("", "x", false)]
    #[case("1A", "x", false)]
    #[case("A.B", "x", false)]
    #[case("A=B", "x", false)]
    #[case(" LD_PRELOAD", "x", false)]
    #[case("\u{410}", "x", false)]
    #[case("A", "x\0", false)]
    #[case("LD_PRELOAD", "x", false)]
    #[case("ld_preload", "x", false)]
    #[case("BASH_ENV", "x", false)]
    #[case("https_proxy", "x", false)]
    #[case("SO_RUN", "x", false)]
    #[case("NODE_ENV", "test", true)]
    fn a_variable_is_checked_by_name_and_value(#[case] name: &str, #[case] value: &str, #[case] good: bool) {
        assert_eq!(check(name, value).is_ok(), good);
    }

    #[rstest]
    #[case("tmpdir", "programs go by it")]
    #[case("https_proxy", "reach the network")]
    #[case("LD_PRELOAD", "how programs are loaded")]
    #[case("IFS", "how a shell reads commands")]
    #[case("SPRITE_X", "belong to the platform")]
    #[case("SO_RUN", "belong to the operator")]
    fn a_reserved_name_has_its_cause(#[case] name: &str, #[case] why: &str) {
        let text = check(name, "").unwrap_err().to_string();
        assert!(text.starts_with(&format!("`{name}` cannot be set: ")), "{text}");
        assert!(text.contains(why) && text.ends_with(": take it out"), "{text}");
    }

    #[test]
    fn names_and_values_have_their_length() {
        let name = |len| check(&"A".repeat(len), "");
        assert_eq!((name(256), name(257)), (Ok(()), Err(EnvironmentError::LongName(257))));
        let value = |len| check("A", &"x".repeat(len));
        assert_eq!((value(32_768), value(32_769)), (Ok(()), Err(EnvironmentError::LongValue("A".to_owned(), 32_769))));
    }

    #[rstest]
    #[case(256, true)]
    #[case(257, false)]
    #[case(300, false)]
    fn at_most_256_variables_are_handed_over(#[case] many: usize, #[case] good: bool) {
        let names: Vec<String> = (0..many).map(|n| format!("A{n}")).collect();
        let set: Vec<Variable<'_>> = names.iter().map(|name| (name.as_str(), "1")).collect();
        assert_eq!(combine(&set, &[], &[]).is_ok(), good);
    }

    #[test]
    fn a_name_stands_once_in_each_list() {
        let twice = [("A", "1"), ("A", "2")];
        assert_eq!(combine(&twice, &[], &[]).unwrap_err(), [EnvironmentError::Twice("A".to_owned())]);
        assert_eq!(combine(&[], &["A"], &twice).unwrap_err(), [EnvironmentError::Twice("A".to_owned())]);
    }

    #[test]
    fn a_run_sets_only_what_the_policy_allows_and_wins_there() {
        let set = [("LANG", "C.UTF-8"), ("NODE_ENV", "production")];
        assert_eq!(
            combine(&set, &["NODE_ENV"], &[("NODE_ENV", "test")]).unwrap(),
            [("LANG".to_owned(), "C.UTF-8".to_owned()), ("NODE_ENV".to_owned(), "test".to_owned())]
        );
        assert_eq!(
            combine(&set, &[], &[("X", "1"), ("PATH", "/x")]).unwrap_err(),
            [EnvironmentError::NotAllowed("X".to_owned()), EnvironmentError::Reserved("PATH".to_owned())]
        );
    }
}
