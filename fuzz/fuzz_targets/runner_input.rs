//! Any arguments and any input: a launch is read as its arguments say, or refused; so are records, answers and the last line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runner_protocol::{Arguments, Fence, Input, Record, State, Stdout, answer::parse_swept};

fuzz_target!(|input: (Vec<&str>, &[u8], u8)| {
    let (words, bytes, cut) = input;
    if let Some(arguments) = Arguments::parse(&words)
        && let Some(read) = Input::parse(&arguments, bytes)
    {
        assert_eq!(bytes.len(), arguments.input_bytes());
        assert!(bytes.ends_with(&read.script) && !read.script.contains(&0) && !read.directory.contains(&0));
        let parts = read.live.iter().map(|uid| uid.len() + 1).sum::<usize>()
            + read.environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
        assert_eq!(parts + read.directory.len() + 1 + read.script.len(), bytes.len());
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(record) = Record::parse(text)
    {
        assert_eq!(Record::parse(&format!("{record}\n")), Some(record));
    }
    let _ = (Fence::parse("u", bytes), State::parse("u", bytes), parse_swept("u", bytes));
    // No byte of the output is lost or made, wherever it is cut.
    let whole = [b"so-started u\n", bytes].concat();
    let (first, rest) = whole.split_at(usize::from(cut).min(whole.len()));
    let mut stdout = Stdout::new("u");
    let mut output = [stdout.push(first), stdout.push(rest)].concat();
    let (last, record) = stdout.finish();
    output.extend(last);
    assert!(bytes.starts_with(&output) && (record.is_some() || output == bytes));
});
