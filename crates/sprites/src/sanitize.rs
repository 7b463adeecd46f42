//! Text from the other side, made harmless for logs. Pure.

use std::fmt;

/// How much of a foreign text is kept, in characters.
const KEPT: usize = 200;

/// Text written by the Sprites API or something that answers in its place: at most 200 characters, one line, nothing that
/// a terminal or a log reader obeys. For operators; never for a status that tenants read.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ProviderText(String);

impl ProviderText {
    /// Cuts and escapes; `secret`, if given, is removed wherever it stands.
    pub fn new(text: &str, secret: Option<&str>) -> Self {
        let text = text.trim();
        match secret.filter(|secret| !secret.is_empty() && text.contains(secret)) {
            Some(secret) => Self(harmless(&text.replace(secret, "[redacted]"))),
            None => Self(harmless(text)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProviderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn harmless(text: &str) -> String {
    let mut kept = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == KEPT {
            kept.push('…');
            break;
        }
        if character.is_control() || steers_display(character) {
            kept.extend(character.escape_default());
        } else {
            kept.push(character);
        }
    }
    kept
}

/// Invisible characters that turn or hide what a reader sees.
fn steers_display(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_secret_is_removed_before_the_cut() {
        let text = format!("{}tok-12345 and tok-12345", "x".repeat(195));
        let kept = ProviderText::new(&text, Some("tok-12345"));
        assert!(!kept.as_str().contains("tok-1"));
    }

    proptest! {
        #[test]
        fn foreign_text_is_one_short_harmless_line(text in any::<String>()) {
            let kept = ProviderText::new(&text, None);
            // The longest escape of one character is ten characters (`\u{e0001}`).
            prop_assert!(kept.as_str().chars().count() <= KEPT * 10 + 1);
            prop_assert!(!kept.as_str().chars().any(|c| c.is_control() || steers_display(c)));
        }
    }
}
