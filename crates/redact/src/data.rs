//! Long base64: data of a file, not a secret, unless its head says that it is a key.
//!
//! Must not let a key through because it is long: what a key begins with is looked for first.

use super::{class, opaque, pem, shape};

/// A longer run is data: tokens and keys without a name are shorter.
const LONGEST_SECRET: usize = 512;
/// Columns of base64 that is broken into lines: 64 (PEM, openssl) and 76 (MIME), both less a little. Lists of tokens are narrower.
const NARROWEST: usize = 60;

/// How base64 goes on that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// In one run.
    Run,
    /// In lines of so many characters, the last one perhaps shorter.
    Lines(usize),
}

/// What the opaque run that begins here is, if it is data.
pub(super) fn of(run: &[u8], text: &[u8]) -> Option<Data> {
    if is_key(run) {
        return None;
    }
    if run.len() > LONGEST_SECRET {
        return Some(Data::Run);
    }
    (run.len() >= NARROWEST).then_some(())?;
    let second = text.get(pem::public_line(text)?..)?;
    let third = second.get(pem::public_line(second)?..)?;
    let same = |text: &[u8]| opaque::run_len(text) == run.len();
    (same(second) && same(third)).then_some(Data::Lines(run.len()))
}

/// Bytes of the line of data that begins here, with the break after it, and whether it is as wide as the others: the last may be
/// shorter. A line that is anything else is none.
pub(super) fn line(text: &[u8], width: usize) -> Option<(usize, bool)> {
    let len = width_of(text);
    let alone = text.get(len).is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'\\' | b'"' | b'\''));
    let token = len < width && shape::find(text).is_some();
    ((1..=width).contains(&len) && alone && !token).then(|| (pem::public_line(text).unwrap_or(len), len == width))
}

/// Bytes of a key in lines that are dropped from here on: the line, and the break after it where another one follows.
pub(super) fn key_len(text: &[u8]) -> usize {
    let len = width_of(text);
    let next = pem::public_line(text).filter(|next| text.get(*next..).is_some_and(|rest| line(rest, len).is_some()));
    if len == 0 { 0 } else { next.unwrap_or(len) }
}

fn width_of(text: &[u8]) -> usize {
    let len = class::len(text, class::RUN);
    len + text.get(len..).unwrap_or_default().iter().take(2).take_while(|b| **b == b'=').count()
}

/// Whether base64 is that of a private key or of a token: of PEM, of DER (PKCS #1, #8, #12, SEC 1), of OpenSSH, of a Java key
/// store, of AWS.
pub(super) fn is_key(run: &[u8]) -> bool {
    const PEM: &[u8] = b"LS0tLS1CRUdJTi";
    const PUBLIC: [&[u8]; 2] = [b"LS0tLS1CRUdJTiBDRVJU", b"LS0tLS1CRUdJTiBQVUJMSUMg"];
    const HEADS: [&[u8]; 5] = [b"b3BlbnNzaC1rZXktdj", b"/u3+7QAA", b"IQoJb3JpZ2luX2", b"FwoGZXIvYXdz", b"FQoGZXIvYXdz"];
    // Behind the length of the whole, which differs.
    const MARKS: [&[u8]; 6] = [b"IBADANBg", b"IBAAKC", b"AgEAMB", b"CAQEEI", b"CAQEEM", b"AgEDMI"];
    let begins = |head: &&[u8]| run.starts_with(head);
    if run.starts_with(PEM) {
        return !PUBLIC.iter().any(&begins);
    }
    let head = run.get(..run.len().min(24)).unwrap_or_default();
    let der = run.starts_with(b"M") && MARKS.iter().any(|mark| head.windows(mark.len()).any(|found| found == *mark));
    der || HEADS.iter().any(begins)
}
