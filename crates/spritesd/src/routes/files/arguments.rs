//! The arguments of a file call: of the query and of a JSON body, the query first. Pure.

use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::errors::FileError;
use crate::exec::environment::HOME;

/// What a call was given.
#[derive(Debug)]
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Reads a query and a body, which may be empty.
    pub(super) fn read(query: Option<&str>, body: &[u8]) -> Result<Self, FileError> {
        let query = query.unwrap_or_default();
        let mut values = Map::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            // What is not UTF-8 decodes to this character: another name than the one meant.
            if value.contains(char::REPLACEMENT_CHARACTER) && !query.to_ascii_uppercase().contains("%EF%BF%BD") {
                return Err(FileError::new("EINVAL", "invalid argument: not UTF-8", &value));
            }
            values.insert(key.into_owned(), Value::String(value.into_owned()));
        }
        if !body.is_empty() {
            let fields: Map<String, Value> = serde_json::from_slice(body)
                .map_err(|error| FileError::new("EINVAL", &format!("invalid body: {error}"), "body"))?;
            for (key, value) in fields {
                values.entry(key).or_insert(value);
            }
        }
        Ok(Self(values))
    }

    /// An absolute path; what it leads to is the guest's business.
    pub(super) fn path(&self, key: &str) -> Result<String, FileError> {
        absolute(&self.text(key).unwrap_or_default(), self.text("workingDir").as_deref())
    }

    /// A string, or a number as one.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.0.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A boolean, if one is given.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, FileError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) if text == "true" || text == "1" => Ok(Some(true)),
            Some(Value::String(text)) if text == "false" || text == "0" => Ok(Some(false)),
            Some(Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Err(self.invalid(key)),
        }
    }

    /// A boolean, false if none is given.
    pub(super) fn is_set(&self, key: &str) -> Result<bool, FileError> {
        Ok(self.flag(key)?.unwrap_or(false))
    }

    /// Permission bits: an octal string, or a number that is meant as it is.
    pub(super) fn mode(&self) -> Result<Option<u32>, FileError> {
        let mode = match self.0.get("mode") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.is_empty() => return Ok(None),
            Some(Value::String(text)) => u32::from_str_radix(text.trim_start_matches("0o"), 8).ok(),
            Some(Value::Number(number)) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
        };
        mode.filter(|mode| *mode <= 0o7777).map(Some).ok_or_else(|| self.invalid("mode"))
    }

    /// What is said of an argument that makes no sense.
    pub(super) fn invalid(&self, key: &str) -> FileError {
        FileError::new("EINVAL", &format!("invalid {key}"), &self.text("path").unwrap_or_default())
    }
}

/// Makes a path absolute, from the working directory where it is relative.
pub(in crate::routes) fn absolute(path: &str, working_dir: Option<&str>) -> Result<String, FileError> {
    if path.is_empty() || path.contains('\0') {
        return Err(FileError::new("EINVAL", "invalid path", path));
    }
    let whole = if path.starts_with('/') {
        path.to_owned()
    } else {
        let base = working_dir.filter(|base| !base.is_empty()).unwrap_or(HOME);
        if !base.starts_with('/') || base.contains('\0') {
            return Err(FileError::new("EINVAL", "invalid workingDir", base));
        }
        format!("{base}/{path}")
    };
    // Only what means nothing goes: `..` after a link leads elsewhere than up by one.
    let parts: Vec<&str> = whole.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let end = if whole.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    Ok(format!("/{}{end}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/a", Some("/b"), Some("/a"))]
    #[case("a", Some("/"), Some("/a"))]
    #[case("a", None, Some("/home/sprite/a"))]
    #[case("a", Some(""), Some("/home/sprite/a"))]
    #[case(".", Some("/workspace"), Some("/workspace"))]
    #[case("./a//b/", Some("/workspace"), Some("/workspace/a/b/"))]
    #[case("../x", Some("/a/b"), Some("/a/b/../x"))]
    #[case("/", None, Some("/"))]
    #[case("a", Some("b"), None)]
    #[case("", None, None)]
    #[case("a\0b", None, None)]
    fn paths(#[case] path: &str, #[case] base: Option<&str>, #[case] expected: Option<&str>) {
        assert_eq!(absolute(path, base).ok().as_deref(), expected);
    }

    #[test]
    fn query_and_body_together() {
        let got =
            Arguments::read(Some("path=a%20b&recursive=true"), br#"{"path":"c","mode":493,"asRoot":null}"#).unwrap();
        assert_eq!(got.path("path").unwrap(), "/home/sprite/a b");
        assert!(got.is_set("recursive").unwrap() && !got.is_set("asRoot").unwrap());
        assert_eq!(got.mode().unwrap(), Some(0o755));
        for body in ["[]", "{", "x"] {
            assert_eq!(Arguments::read(None, body.as_bytes()).unwrap_err().code, "EINVAL");
        }
        assert!(Arguments::read(Some("path=%FF"), &[]).is_err());
        assert_eq!(Arguments::read(Some("path=/%ef%bf%bd"), &[]).unwrap().path("path").unwrap(), "/\u{fffd}");
    }

    #[rstest]
    #[case(r#"{"mode":"0755"}"#, Some(0o755))]
    #[case(r#"{"mode":"0o644"}"#, Some(0o644))]
    #[case(r#"{"mode":4095}"#, Some(0o7777))]
    #[case(r#"{"mode":"9"}"#, None)]
    #[case(r#"{"mode":4096}"#, None)]
    #[case(r#"{"mode":-1}"#, None)]
    #[case(r#"{"mode":true}"#, None)]
    fn modes(#[case] body: &str, #[case] expected: Option<u32>) {
        assert_eq!(Arguments::read(None, body.as_bytes()).unwrap().mode().ok().flatten(), expected);
    }
}
