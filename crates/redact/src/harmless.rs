//! Runs that look random and are public: checksums, pictures, fonts, public keys.
//!
//! Each is told by what stands at its head. Must not let a run through that only might be public.

use super::data;
use super::scan::{Mode, Scanner};
use super::window::Step;

impl Scanner {
    /// Runs that look random and are public: checksums, pictures, public keys.
    pub(super) fn harmless(&mut self, word: &[u8], text: &[u8]) -> Option<Step> {
        // What none of the heads below begins with is read no further.
        if !matches!(text.first()?, b'_' | b'A' | b'L' | b'R' | b'S' | b'U' | b'W' | b'd' | b'h' | b'i' | b's') {
            return None;
        }
        let rest = text.get(word.len()..)?;
        let checksum = matches!(word, b"sha512" | b"sha384" | b"sha256" | b"sha1" | b"SHA256" | b"h1");
        let heads = [
            &b"iVBORw0KGgo"[..],
            b"R0lGOD",
            b"UklGR",
            b"AAAAB3NzaC1",
            b"AAAAC3NzaC1",
            b"AAAAE2VjZHNh",
            b"AAAAGnNrLX",
            b"d09GMg",
            b"d09GRg",
            // Certificates and public keys in PEM, encoded once more.
            b"LS0tLS1CRUdJTiBDRVJU",
            b"LS0tLS1CRUdJTiBQVUJMSUMg",
            b"WebKitFormBoundary",
        ];
        // Names of functions as C++ and Rust compilers write them.
        if [&b"_ZN"[..], b"_ZS", b"_ZT", b"__ZN"].iter().any(|head| text.starts_with(head)) {
            return Some(self.keep(b"_$."));
        }
        if heads.iter().any(|head| text.starts_with(head)) {
            return Some(self.keep(b"+/="));
        }
        if checksum && matches!(rest.first(), Some(b'-' | b':' | b'=')) {
            self.mode = Mode::Kept(b"+/=_-");
            return Some(Step::Keep(word.len() + 1));
        }
        let media = [&b":application/"[..], b":image/", b":font/", b":audio/", b":video/"];
        if word == b"data" && media.iter().any(|kind| rest.starts_with(kind)) {
            let head = rest.iter().take(100).position(|b| *b == b',')?;
            let key = data::is_key(rest.get(head + 1..)?);
            if rest.get(..head)?.ends_with(b";base64") && !key {
                self.mode = Mode::Kept(b"+/=");
                return Some(Step::Keep(word.len() + head + 1));
            }
        }
        None
    }
}
