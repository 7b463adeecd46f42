//! What cannot be read, and readers that go away.

use super::*;

/// A reader that goes away after so many bytes.
struct Leaving(usize);

impl Write for Leaving {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        if self.0 == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[rstest]
fn a_reader_that_goes_away_changes_no_outcome(
    #[values(0, 1, 10, 200)] bytes: usize,
    #[values(Format::Json, Format::Table)] format: Format,
) {
    let outcome = |text: &str| policy(text, Strictness::default(), &mut Leaving(bytes), &mut Leaving(bytes), format);
    let (good, bad) = (manifest("{}"), manifest("{limits: {timeout: 1h}}"));
    assert!(outcome(&good).unwrap());
    assert!(!outcome(&format!("{bad}\n---\n{good}\n---\n{{apiVersion: v1, kind: Secret}}")).unwrap());
    assert!(matches!(outcome("{a: 1}"), Err(ExplainError::Manifest(_))));
    let judged = |lines: &str| items(Kind::Path, None, lines.as_bytes(), &mut Leaving(bytes), format);
    judged("\"a\"\n\"b\"\n").unwrap();
    assert!(matches!(judged("\"a\"\n\"b\"\ntrue\n"), Err(ExplainError::Items { .. })));
}

#[test]
fn what_cannot_be_written_for_another_cause_is_an_error() {
    for format in [Format::Json, Format::Table] {
        let error = items(Kind::Path, None, &b"\"a\"\n"[..], &mut Full, format).unwrap_err();
        assert!(matches!(error, ExplainError::Io(_)), "{error}");
        assert!(matches!(
            policy(MANIFEST, Strictness::default(), &mut Full, &mut io::sink(), format),
            Err(ExplainError::Io(_))
        ));
    }
}

#[test]
fn every_unreadable_line_is_named_up_to_20() {
    let told = |many: usize| {
        let lines = "true\n\"a\"\n".repeat(many);
        let (judged, result) = run(Kind::Path, &lines);
        assert_eq!(judged.len(), many);
        result.unwrap_err().to_string()
    };
    assert_eq!(told(2).lines().count(), 2);
    let text = told(20);
    assert_eq!(text.lines().count(), 20, "{text}");
    assert!(text.starts_with("line 1: ") && text.contains("\nline 39: "), "{text}");
    let text = told(23);
    assert_eq!((text.lines().count(), text.lines().last()), (21, Some("… and 3 more")), "{text}");
}

#[test]
fn every_document_that_cannot_be_told_is_named_up_to_20() {
    let error = told(&"{a: 1}\n---\n".repeat(22), Format::Json).2.unwrap_err();
    assert!(error.starts_with("document 1 has kind (none)") && error.contains("\ndocument 20 has"), "{error}");
    assert_eq!((error.lines().count(), error.lines().last()), (21, Some("… and 2 more")), "{error}");
}

#[test]
fn a_line_that_is_too_long_is_named_and_what_follows_is_judged() {
    let most = 8 << 20;
    let line = |bytes: usize| json!("x".repeat(bytes - 2)).to_string();
    let (judged, result) = run(Kind::Text, &format!("\"a\"\n{}\n{}\n\"b\"", line(most + 1), line(most)));
    assert_eq!(judged.iter().map(|line| line["id"].clone()).collect::<Vec<_>>(), [json!(1), json!(3), json!(4)]);
    let text = result.unwrap_err().to_string();
    assert!(text.starts_with("line 2: the line is longer than 8 MiB") && text.lines().count() == 1, "{text}");
    assert!(run(Kind::Text, &"x".repeat(3 * most)).1.is_err());
}

const POLICY: &str = "apiVersion: sprite-operator.io/v1alpha1\nkind: ExecutionPolicy\nmetadata: {name: a}\n";

#[test]
fn a_document_that_is_no_yaml_hides_no_other() {
    let text = [POLICY, "spec: {limits: {timeout: 90m}}\n---\nfoo: [\n---\nkind: Run\n--- # more\n", POLICY].concat();
    let (output, _, error) = told(&text, Format::Json);
    assert!(output.lines().count() == 2 && output.contains("timeout"), "{output}");
    let error = error.unwrap_err();
    let [second, third] = error.lines().collect::<Vec<_>>()[..] else { panic!("{error}") };
    assert!(second.starts_with("document 2, its lines counted from its `---`, cannot be read: "), "{second}");
    assert!(third.starts_with("document 3 has kind Run"), "{third}");
    let alone = told("foo: [\n", Format::Json).2.unwrap_err();
    assert!(alone.starts_with("nothing can be read here"), "{alone}");
}

#[test]
fn what_says_nothing_before_the_first_document_is_none() {
    let text = ["# policies of the team\n\n---\n", POLICY, "---\nfoo: [\n"].concat();
    let (output, _, error) = told(&text, Format::Json);
    assert_eq!(output.lines().count(), 1, "{output}");
    let error = error.unwrap_err();
    assert!(error.starts_with("document 2, its lines counted from its `---`, cannot be read: "), "{error}");
}

#[test]
fn documents_that_are_read_one_by_one_are_held_to_the_bounds_of_a_file() {
    let many = ["a: [", &"1,".repeat(100_000), "]\n---\n"].concat();
    let too_many = [&*many.repeat(3), "foo: [\n"].concat();
    let error = told(&too_many, Format::Json).2.unwrap_err();
    assert!(error.contains("250000 values"), "{error:.200}");
    let deep = ["foo: [\n---\na: ", &"[".repeat(65), &"]".repeat(65)].concat();
    let error = told(&deep, Format::Json).2.unwrap_err();
    assert!(error.contains("64 levels"), "{error:.200}");
    let few = [&*many.repeat(2), "foo: [\n"].concat();
    let error = told(&few, Format::Json).2.unwrap_err();
    assert!(error.contains("document 3, its lines counted from its `---`, cannot be read"), "{error:.200}");
}

#[test]
fn a_policy_that_stands_twice_in_a_file_is_a_complaint() {
    let (output, _, ready) = told(&[POLICY, "---\n", POLICY].concat(), Format::Json);
    assert_eq!(ready, Ok(false));
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["ready"], &lines[1]["ready"]), (&json!(true), &json!(false)));
    assert!(lines[1]["complaints"][0].as_str().unwrap().contains("stands twice"), "{output}");
}

#[test]
fn how_many_were_judged_is_told() {
    let mut output = Vec::new();
    assert_eq!(items(Kind::Path, None, "\n\"a\"\n".as_bytes(), &mut output, Format::Json).unwrap(), 1);
    assert_eq!(items(Kind::Path, None, "\n".as_bytes(), &mut output, Format::Json).unwrap(), 0);
}
