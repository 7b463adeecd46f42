//! Tokens that are known by their shape: what vendors begin their tokens with, and a few that have no such head.
//!
//! Lengths are lower than the vendors': a token that was cut or that has a new length is still one. Must not hold a
//! token, not even an invented one.

use std::sync::LazyLock;

use super::class;
use super::value::MaskEnd;

const PLAIN: &[u8] = b"";
const UNDERSCORE: &[u8] = b"_";
const URL_SAFE: &[u8] = b"_-";
const DOTTED: &[u8] = b"_-.";
const BASE64: &[u8] = b"+/=_-";
const LISTED: &[u8] = b"+/=_-,";

/// How far a shape is looked at.
const LOOK: usize = 512;

/// A head, how many characters of the alphabet follow it at least, and what the alphabet has beside letters and digits.
type Shape = (&'static str, usize, &'static [u8]);

/// Sorted by nothing: the first that fits counts, and all of them mask to the end of their run.
const SHAPES: &[Shape] = &[
    // Code hosts and registries.
    ("ghp_", 16, UNDERSCORE),
    ("gho_", 16, UNDERSCORE),
    ("ghu_", 16, UNDERSCORE),
    ("ghs_", 16, DOTTED),
    ("ghr_", 16, UNDERSCORE),
    ("github_pat_", 20, UNDERSCORE),
    ("glpat-", 16, DOTTED),
    ("gldt-", 16, DOTTED),
    ("glrt-", 16, DOTTED),
    ("glptt-", 16, DOTTED),
    ("glcbt-", 16, DOTTED),
    ("glsoat-", 16, DOTTED),
    ("glft-", 16, DOTTED),
    ("glagent-", 16, DOTTED),
    ("npm_", 24, PLAIN),
    ("pypi-AgE", 16, URL_SAFE),
    ("rubygems_", 24, PLAIN),
    ("dckr_pat_", 16, URL_SAFE),
    ("dckr_oat_", 16, URL_SAFE),
    ("cio", 30, PLAIN),
    ("ATBB", 24, PLAIN),
    ("ATATT3x", 24, BASE64),
    ("ATCTT3x", 24, BASE64),
    // Clouds.
    ("AIza", 28, URL_SAFE),
    ("GOCSPX-", 16, URL_SAFE),
    ("ya29.", 16, URL_SAFE),
    ("1//0", 32, URL_SAFE),
    ("ABSK", 60, BASE64),
    ("LTAI", 16, PLAIN),
    ("dop_v1_", 24, PLAIN),
    ("doo_v1_", 24, PLAIN),
    ("dor_v1_", 24, PLAIN),
    ("fm1r_", 24, LISTED),
    ("fm1a_", 24, LISTED),
    ("fm1_", 24, LISTED),
    ("fm2_", 24, LISTED),
    ("fo1_", 24, LISTED),
    ("dapi", 32, URL_SAFE),
    ("sbp_", 24, UNDERSCORE),
    ("sb_secret_", 16, URL_SAFE),
    ("pscale_tkn_", 16, DOTTED),
    ("pscale_pw_", 16, DOTTED),
    ("pscale_oauth_", 16, DOTTED),
    ("rnd_", 24, PLAIN),
    ("tskey-", 16, URL_SAFE),
    ("HRKU-", 24, URL_SAFE),
    ("pul-", 32, PLAIN),
    ("hvs.", 20, URL_SAFE),
    ("hvb.", 20, URL_SAFE),
    ("hvr.", 20, URL_SAFE),
    ("CFPAT-", 24, URL_SAFE),
    ("nfp_", 24, PLAIN),
    ("vcp_", 20, PLAIN),
    ("vci_", 20, PLAIN),
    ("vca_", 20, PLAIN),
    ("vcr_", 20, PLAIN),
    ("vck_", 20, PLAIN),
    // Models.
    ("sk-ant-", 16, URL_SAFE),
    ("sk-proj-", 16, URL_SAFE),
    ("sk-svcacct-", 16, URL_SAFE),
    ("sk-or-v1-", 16, URL_SAFE),
    ("hf_", 24, PLAIN),
    ("gsk_", 24, PLAIN),
    ("xai-", 24, PLAIN),
    ("r8_", 24, PLAIN),
    ("nvapi-", 24, URL_SAFE),
    ("pplx-", 24, PLAIN),
    ("lsv2_pt_", 24, UNDERSCORE),
    ("lsv2_sk_", 24, UNDERSCORE),
    // Talk, mail, money, operations.
    ("xoxb-", 12, URL_SAFE),
    ("xoxa-", 12, URL_SAFE),
    ("xoxp-", 12, URL_SAFE),
    ("xoxr-", 12, URL_SAFE),
    ("xoxs-", 12, URL_SAFE),
    ("xoxe-", 12, URL_SAFE),
    ("xoxe.xoxp-", 12, URL_SAFE),
    ("xoxc-", 12, URL_SAFE),
    ("xoxd-", 12, BASE64),
    ("xapp-", 12, URL_SAFE),
    ("SG.", 32, DOTTED),
    ("key-", 32, PLAIN),
    ("sk_live_", 10, PLAIN),
    ("sk_test_", 10, PLAIN),
    ("rk_live_", 10, PLAIN),
    ("rk_test_", 10, PLAIN),
    ("whsec_", 16, BASE64),
    ("sq0csp-", 16, URL_SAFE),
    ("sq0atp-", 16, URL_SAFE),
    ("shpat_", 16, PLAIN),
    ("shpss_", 16, PLAIN),
    ("shpca_", 16, PLAIN),
    ("shppa_", 16, PLAIN),
    ("lin_api_", 16, PLAIN),
    ("lin_oauth_", 16, PLAIN),
    ("ntn_", 24, PLAIN),
    ("figd_", 16, URL_SAFE),
    ("pat-na1-", 24, URL_SAFE),
    ("pat-eu1-", 24, URL_SAFE),
    ("PMAK-", 24, URL_SAFE),
    ("EZAK", 40, PLAIN),
    ("EZTK", 40, PLAIN),
    ("glc_", 24, BASE64),
    ("glsa_", 24, UNDERSCORE),
    ("sntrys_", 24, BASE64),
    ("sntryu_", 24, PLAIN),
    ("NRAK-", 20, PLAIN),
    ("phx_", 24, PLAIN),
    ("dp.pt.", 24, PLAIN),
    ("dp.st.", 24, DOTTED),
    ("AGE-SECRET-KEY-1", 24, PLAIN),
    ("ops_eyJ", 32, URL_SAFE),
];

/// The shapes by the first byte of their heads.
static BY_FIRST: LazyLock<[Vec<&Shape>; 128]> = LazyLock::new(|| {
    let first = |shape: &Shape| shape.0.as_bytes().first().copied().map_or(0, usize::from);
    std::array::from_fn(|byte| SHAPES.iter().filter(|shape| first(shape) == byte).collect())
});

/// How many bytes from here on could be one token of any shape, as far as is looked.
pub(super) fn reach(text: &[u8]) -> usize {
    class::len(text.get(..LOOK).unwrap_or(text), class::TOKEN)
}

/// No token is shorter.
pub(super) const SHORTEST: usize = 16;

/// A token that begins here: bytes kept of it, and where its mask ends.
pub(super) fn find(text: &[u8]) -> Option<(usize, MaskEnd)> {
    // What is longer is a token all the same, and a text of many heads stays cheap.
    let text = text.get(..LOOK).unwrap_or(text);
    let first = text.first().copied().map_or(0, usize::from);
    let second = text.get(1);
    for (head, least, alphabet) in BY_FIRST.get(first).into_iter().flatten() {
        // Two bytes tell most heads apart.
        if head.as_bytes().get(1) == second
            && let Some(rest) = text.strip_prefix(head.as_bytes())
        {
            let len = run(rest, alphabet);
            let run = rest.get(..len).unwrap_or_default();
            // A name in code has no digits, or is short.
            if len >= *least && !is_name(run) {
                return Some((0, until(head.len() + len, text)));
            }
        }
    }
    amazon(text)
        .or_else(|| web_token(text))
        .or_else(|| secret_key(text))
        .or_else(|| webhook(text))
        .or_else(|| numbered(text))
        .or_else(|| dotted(text))
}

/// Up to the end of a token, or of its run where the end is not in sight.
fn until(len: usize, text: &[u8]) -> MaskEnd {
    if len < text.len() { MaskEnd::Count(len) } else { MaskEnd::Run(b"_-.+/=") }
}

/// How many bytes of the alphabet there are, up to a mask.
pub(super) fn run(text: &[u8], more: &[u8]) -> usize {
    let len = text.iter().take_while(|b| b.is_ascii_alphanumeric() || more.contains(b)).count();
    until_mask(text.get(..len).unwrap_or_default())
}

/// How many bytes there are before a mask.
pub(super) fn until_mask(run: &[u8]) -> usize {
    let mask = super::MASK.as_bytes();
    let (mut at, mut rest) = (0, run);
    while rest.len() >= mask.len() {
        let Some(next) = rest.iter().position(|b| mask.first() == Some(b)) else { break };
        (at, rest) = (at + next, rest.get(next..).unwrap_or_default());
        if rest.starts_with(mask) {
            return at;
        }
        (at, rest) = (at + 1, rest.get(1..).unwrap_or_default());
    }
    run.len()
}

fn is_name(run: &[u8]) -> bool {
    let mixed = run.iter().any(u8::is_ascii_uppercase) && run.iter().any(u8::is_ascii_lowercase);
    !mixed && !run.iter().any(u8::is_ascii_digit)
}

/// Key ids of AWS: 4 letters that say what it is, 16 of base32.
fn amazon(text: &[u8]) -> Option<(usize, MaskEnd)> {
    let head = text.get(..4)?;
    [&b"AKIA"[..], b"ASIA", b"ABIA", b"ACCA"].contains(&head).then_some(())?;
    let rest = text.get(4..)?;
    let len = run(rest, PLAIN);
    let all = rest.get(..len)?.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    (all && (16..=20).contains(&len)).then_some((0, MaskEnd::Count(4 + len)))
}

/// JSON web tokens: two or three parts of base64url, the first a JSON object.
fn web_token(text: &[u8]) -> Option<(usize, MaskEnd)> {
    text.starts_with(b"eyJ").then_some(())?;
    let len = run(text, DOTTED);
    let token = text.get(..len)?;
    let parts = token.split(|b| *b == b'.').filter(|p| p.len() >= 4).count();
    (len >= 20 && (parts >= 2 || len >= 64)).then_some((0, MaskEnd::Run(b"_-.+/=")))
}

/// `sk-` alone is also the head of names in style sheets: it needs a digit and no more than few parts.
fn secret_key(text: &[u8]) -> Option<(usize, MaskEnd)> {
    let rest = text.strip_prefix(b"sk-")?;
    let len = run(rest, URL_SAFE);
    let run = rest.get(..len)?;
    let parts = run.split(|b| *b == b'-' || *b == b'_').count();
    let digit = run.iter().any(u8::is_ascii_digit) || run.iter().filter(|b| b.is_ascii_uppercase()).count() > 3;
    (len >= 20 && digit && parts * 8 <= len).then_some((0, MaskEnd::Run(URL_SAFE)))
}

/// Addresses that let anybody who has them post.
fn webhook(text: &[u8]) -> Option<(usize, MaskEnd)> {
    const HEADS: [&[u8]; 6] = [
        b"hooks.slack.com/services/",
        b"hooks.slack.com/workflows/",
        b"hooks.slack.com/triggers/",
        b"discord.com/api/webhooks/",
        b"discordapp.com/api/webhooks/",
        b"maker.ifttt.com/trigger/",
    ];
    // Teams: behind a name of its own for each customer.
    if let Some(rest) = text.strip_prefix(b"webhookb2/") {
        let id = rest.get(..8).is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit));
        return (id && run(rest, b"_-/@") >= 64).then_some((10, MaskEnd::Run(b"_-/@")));
    }
    matches!(text.first(), Some(b'h' | b'd' | b'm')).then_some(())?;
    let head = HEADS.iter().find(|head| text.starts_with(head))?;
    let rest = text.get(head.len()..)?;
    (run(rest, b"_-/") >= 16 && rest.iter().take(200).any(u8::is_ascii_digit))
        .then_some((head.len(), MaskEnd::Run(b"_-/")))
}

/// Telegram's bots: a number, a colon, 35 characters that begin with `AA`; in addresses with `bot` before it.
fn numbered(text: &[u8]) -> Option<(usize, MaskEnd)> {
    let rest = text.strip_prefix(b"bot").unwrap_or(text);
    let digits = rest.iter().take(12).take_while(|b| b.is_ascii_digit()).count();
    let rest = rest.get(digits..)?.strip_prefix(b":")?;
    let len = run(rest, URL_SAFE);
    let fits = digits >= 8 && rest.starts_with(b"AA") && (33..=37).contains(&len);
    fits.then(|| (0, until(text.len() - rest.len() + len, text)))
}

/// Tokens of three parts of known lengths (Discord), `….atlasv1.…` (Terraform), and Azure's client secrets.
fn dotted(text: &[u8]) -> Option<(usize, MaskEnd)> {
    let first = run(text.get(..40).unwrap_or(text), URL_SAFE);
    let rest = text.get(first..)?;
    if first == 14 && rest.starts_with(b".atlasv1.") {
        return Some((0, MaskEnd::Run(DOTTED)));
    }
    let azure = text.get(..first)?;
    if rest.starts_with(b"~")
        && first >= 4
        && azure.ends_with(b"Q")
        && azure.iter().any(u8::is_ascii_digit)
        && run(rest, b"_-.~") >= 24
    {
        return Some((0, MaskEnd::Run(b"_-.~")));
    }
    let second = rest.strip_prefix(b".")?;
    let second_len = run(second, URL_SAFE);
    let third = run(second.get(second_len..)?.strip_prefix(b".")?, URL_SAFE);
    let mixed = |part: &[u8]| part.iter().any(u8::is_ascii_uppercase) && part.iter().any(u8::is_ascii_lowercase);
    let discord = (23..=28).contains(&first) && second_len == 6 && third >= 27 && mixed(text.get(..first)?);
    discord.then_some((0, MaskEnd::Run(DOTTED)))
}
