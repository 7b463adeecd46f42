//! Ordinary output of machines that holds no secret, and what beside it does.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rstest::rstest;

use super::*;

/// Bytes that look random and are always the same.
fn bytes(count: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

fn wrapped(text: &str, width: usize, separator: &str) -> String {
    text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>().join(separator)
}

#[rstest]
#[case::base64_of_coreutils(wrapped(&STANDARD.encode(bytes(900)), 76, "\n") + "\n")]
#[case::of_openssl(wrapped(&STANDARD.encode(bytes(700)), 64, "\n"))]
#[case::indented(format!("data: |\n    {}\n", wrapped(&STANDARD.encode(bytes(900)), 76, "\n    ")))]
#[case::in_a_string_of_json(format!("{{\"file\":\"{}\"}}", wrapped(&STANDARD.encode(bytes(900)), 76, "\\n")))]
#[case::in_one_line(STANDARD.encode(bytes(900)))]
#[case::larger_than_the_window(STANDARD.encode(bytes(20_000)))]
#[case::many_lines(wrapped(&STANDARD.encode(bytes(20_000)), 76, "\n"))]
#[case::data_url(format!("<a href=\"data:application/pdf;base64,{}\">", STANDARD.encode(bytes(200))))]
#[case::embedding(format!("{{\"embedding\": \"{}\"}}", STANDARD.encode(bytes(1536))))]
fn long_base64_is_data(#[case] text: String) {
    assert_eq!(redact(&text), text);
}

#[rstest]
#[case::value_of_a_name(format!("AUTH_TOKEN={}", STANDARD.encode(bytes(900))))]
#[case::value_in_json(format!("{{\"client_secret\": \"{}\"}}", STANDARD.encode(bytes(900))))]
#[case::pem_encoded_once_more(STANDARD.encode([b"-----BEGIN RSA PRIVATE ", &b"KEY-----\n"[..], &bytes(900)].concat()))]
#[case::the_same_in_lines(wrapped(&STANDARD.encode([b"-----BEGIN PRIVATE ", &b"KEY-----\n"[..], &bytes(900)].concat()), 76, "\n"))]
#[case::of_a_configuration(format!("client-key-data: {}", STANDARD.encode([b"-----BEGIN EC PRIVATE ", &b"KEY-----\n"[..], &bytes(120)].concat())))]
#[case::pkcs_8(STANDARD.encode([&[0x30, 0x82, 4, 0xbe, 2, 1, 0, 0x30, 0x0d, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0][..], &bytes(900)].concat()))]
#[case::pkcs_1(STANDARD.encode([&[0x30, 0x82, 4, 0xa4, 2, 1, 0, 2, 0x82, 1, 1, 0][..], &bytes(900)].concat()))]
#[case::openssh(STANDARD.encode([b"openssh-key-v1\0", &bytes(900)[..]].concat()))]
#[case::tokens_in_lines(wrapped(&STANDARD.encode(bytes(120)), 40, "\n"))]
#[case::one_run_of_usual_length(STANDARD.encode(bytes(60)))]
fn a_key_or_a_token_is_masked_however_long_it_is(#[case] text: String) {
    let redacted = redact(&text);
    let kept = text.as_bytes().windows(20).filter(|piece| {
        piece.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(byte))
            && redacted.as_bytes().windows(20).any(|other| other == *piece)
    });
    assert_eq!(kept.count(), 0, "{redacted}");
}

#[test]
fn what_follows_data_is_read_again() {
    let data = wrapped(&STANDARD.encode(bytes(900)), 76, "\n");
    for after in ["\npassword=", "\n\npassword=", "==\npassword="] {
        let text = [&data, after, "hunter2x9\n"].concat();
        assert!(redact(&text).ends_with("password=REDACTED\n"), "{after}");
    }
    let token = ["gh", "p_16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    assert!(redact(&format!("{data}\nsee {token}\n")).ends_with("see REDACTED\n"));
}

#[rstest]
#[case::define("#define EC_R_INVALID_PRIVATE_KEY 123")]
#[case::define_of_five_digits("#define CKM_X_PASSWORD\t\t10432")]
#[case::define_long("#define SSL_CTRL_SET_TLS_EXT_SRP_PASSWORD       81L")]
#[case::define_a_sum("#define __NR_memfd_secret (__X32_SYSCALL_BIT + 447)")]
#[case::define_a_list("#define OBJ_pkcs9_challengePassword             OBJ_pkcs9,7L")]
#[case::hexadecimal("VK_PASSWORD = 0x10")]
#[case::negative("KEY_SPEC_REQKEY_AUTH_KEY = -7,")]
#[case::bits("P11_KIT_URI_FOR_TOKEN =   (1 << 2),")]
#[case::decimal("SECRET = 42")]
#[case::enumeration("    IMAGE_REL_I386_TOKEN = 0x000C,")]
#[case::in_python("TOKEN = 59\nSECRET=7")]
fn small_integers_are_no_secrets(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[rstest]
#[case::bit("  GNUTLS_SFLAGS_EXT_MASTER_SECRET = 1<<1,")]
#[case::bit_with_blanks("\tPKCS_NULL_PASSWORD = 1 << 8,")]
#[case::sum_of_a_constant("SEC_ERROR_BAD_PASSWORD = SEC_ERROR_BASE + 15,")]
#[case::constant("DEFAULT_TOKEN = FALLBACK_TOKEN_NAME;")]
#[case::chain("exports2.CONNECTION_TOKEN_CHARS = exports2.HEADER_CHARS = exports2.TOKEN = void 0;")]
#[case::first_of_a_list("fds_to_pass = [listener.fileno(), alive_r]")]
#[case::negation("this._noAuthorization = !req.headers.authorization;")]
#[case::call("authorization = base64.decodebytes(authorization).\\")]
#[case::property("    credentials: kEnumerableProperty,")]
#[case::scheme_of_a_template("  token: `Basic ${Buffer.from('username:password').toString('base64')}`")]
#[case::bearer_of_a_template("token: `Bearer ${accessKey}`,")]
#[case::path("held for token: `runs::a_run_executes_once_in_a_sprite`, and more")]
#[case::counter("context.perl6_token_nesting_level += 1")]
#[case::type_in_capitals("        private_key: CERTIFICATE_PRIVATE_KEY_TYPES,")]
#[case::unpacking_a_name("            username, password = split")]
#[case::unpacking_three("index_url, _, index_url_user_password = index_info")]
#[case::expression_of_a_shell("_core_token = r'(?:(?:(?:\\^[%s]?)?[^\"%s%s])+)' % (_nl, _nlws)")]
#[case::colour("    Token:                     \"#f8f8f2\", # class:  ''")]
#[case::colour_of_three("token: '#fff'")]
fn code_that_names_a_secret_is_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[rstest]
#[case::define("#define OSSL_KDF_PARAM_PASSWORD \"pass\" /* octet string */")]
#[case::phase("#define SELF_TEST_PHASE_PASS \"Pass\"")]
#[case::dummy("password = 'pass'")]
#[case::kind_of_a_block("#define PEM_STRING_SM2PRIVATEKEY \"SM2 PRIVATE KEY\"")]
#[case::kind_of_another("static const PRIVATE_KEY: &str = \"ENCRYPTED PRIVATE KEY\";")]
#[case::prose("have the same value for all columns identified by \"aOrderBy\".")]
#[case::stars("password = \":****\"")]
#[case::options("--username and --password options instead of via the URL.")]
#[case::clause("set self._password if they have authentication data.")]
#[case::clause_of_as("same as 'ident' but set token as Name.Decorator")]
fn words_for_a_secret_are_none(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[test]
fn encoded_words_of_mail_and_revisions_in_addresses_are_kept() {
    let word = STANDARD.encode(bytes(48)).replace('=', "");
    for charset in ["utf-8", "iso-2022-jp", "unknown-8bit"] {
        for kind in ["b", "B"] {
            let text = format!("Subject: =?{charset}?{kind}?{word}?=\n");
            assert_eq!(redact(&text), text);
        }
    }
    // Without its end it is no such word.
    assert!(redact(&format!("=?utf-8?b?{word}\n")).contains("REDACTED"));
    let revision = "4634fdf3a6ecd6aaea5f4cdcd98b2733c2694993";
    for path in ["github.com/BurntSushi/toml-test/blob/", "gitlab.example.com/Group/SubProject/-/raw/"] {
        let text = format!("https://{path}{revision}/README.md\nsee {path}{revision}/FileAPI/url/resources/Tests.js");
        assert_eq!(redact(&text), text);
    }
    // Other hexadecimals beside it do not hide what is random.
    let random = STANDARD.encode(bytes(33));
    assert!(redact(&format!("{revision}/{random}")).contains("REDACTED"));
}

#[rstest]
#[case::shell_constant("DB_PASSWORD=CORRECT_HORSE", "DB_PASSWORD=REDACTED")]
#[case::shouted("password: CORRECT_HORSE_9", "password: REDACTED")]
#[case::list_of_one("password = [hunter2x9]", "password = REDACTED]")]
#[case::negated_token("Authorization: !aB3dE6gH9jK2", "Authorization: REDACTED")]
#[case::credentials("credentials: bob:hunter2x9", "credentials: REDACTED")]
#[case::bearer_and_more("token: `Bearer ${x}aB3dE6gH9jK2mN5pQ8`", "token: `REDACTED`")]
#[case::items("user=bob, password = hunter", "user=bob, password = REDACTED")]
#[case::pair_of_names("user, password = hunter2x9", "user, password = REDACTED")]
#[case::hash("password: '#hunter2'", "password: 'REDACTED'")]
#[case::expression_without_group("secret = 'a(?:b'", "secret = 'REDACTED'")]
#[case::passes("password = 'pass9'", "password = 'REDACTED'")]
#[case::sql_with_a_digit("identified by \"aOrder9\".", "identified by \"REDACTED\".")]
fn what_only_looks_like_code_is_masked(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case::pin("PIN_PASSWORD=4711", "PIN_PASSWORD=REDACTED")]
#[case::json("{\"password\": 12345678}", "{\"password\": \"REDACTED\"}")]
#[case::long_hexadecimal("SECRET=0x1f2e3d4c5b6a79880", "SECRET=REDACTED")]
#[case::define_text("#define WIFI_PASSWORD \"hunter2x9\"", "#define WIFI_PASSWORD \"REDACTED\"")]
fn larger_numbers_may_be(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case::nsswitch("passwd:         files systemd")]
#[case::nsswitch_alone("passwd: compat")]
#[case::markdown("users are identified by `dir` and a number")]
#[case::rails("Parameters: password=[FILTERED], user=bob")]
#[case::json("\"password\": \"[REDACTED]\"")]
#[case::hidden("password: (hidden)")]
#[case::unpacking("        self.user, self.password = user, password")]
#[case::unpacking_others("this.a, this.secret = first, second")]
#[case::comparison("assert 'secret' == 'hunter'")]
#[case::comparison_of_doubles("if \"token\" == \"hunter2x9\":")]
fn settings_placeholders_and_code_are_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[rstest]
#[case::indexed("if form['password'] == 'hunter2x9':", "if form['password'] == 'REDACTED':")]
#[case::sql(&["CREATE USER a IDENTIFIED BY '", "hunter2x9", "'"].concat(), "CREATE USER a IDENTIFIED BY 'REDACTED'")]
#[case::dotted_setting("spring.datasource.password=hunter", "spring.datasource.password=REDACTED")]
#[case::shadow("passwd: filesystem9", "passwd: REDACTED")]
fn what_is_like_them_is_masked(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case::wheel("pkg/METADATA,sha256=", 32, true)]
#[case::integrity("\"integrity\": \"sha512-", 64, false)]
#[case::go("golang.org/x/net v0.1.0 h1:", 32, false)]
fn digests_are_public(#[case] head: &str, #[case] count: usize, #[case] url_safe: bool) {
    let digest = STANDARD.encode(bytes(count));
    let digest = if url_safe { digest.replace('+', "-").replace('/', "_").replace('=', "") } else { digest };
    let text = format!("{head}{digest},3042");
    assert_eq!(redact(&text), text);
}

#[rstest]
#[case::certificate("certificate-authority-data: ", "-----BEGIN CERTIFICATE-----\n")]
#[case::public_key("publicKey: ", "-----BEGIN PUBLIC KEY-----\n")]
#[case::short_certificate("caBundle: ", "-----BEGIN CERTIFICATE-----\nMIIB")]
fn certificates_are_public(#[case] head: &str, #[case] pem: &str) {
    let text = format!("{head}{}\n", STANDARD.encode([pem.as_bytes(), &bytes(180)].concat()));
    assert_eq!(redact(&text), text);
}

#[rstest]
#[case::fragment("https://docs.example.com/actions#setting-up-github-credentials")]
#[case::words("see https://example.com/a-token=is-what-you-need-here")]
fn words_in_urls_are_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[test]
fn capitals_decide_nothing() {
    for name in ["identity_token", "IDENTITY_TOKEN", "api_key", "API_KEY", "Session_Token"] {
        for (value, want) in [("bailu", "bailu"), ("s3cr3t-b4ilu", "REDACTED")] {
            assert_eq!(redact(&format!("{name}=\"{value}\"")), format!("{name}=\"{want}\""), "{name} {value}");
        }
    }
}

#[test]
fn tokens_of_vercel_addresses_of_teams_and_words_of_a_wallet_are_masked() {
    let vercel = ["vc", "p_", "4Kd8sLw0QpZx7Vn2Bm5Rt9Yc"].concat();
    assert_eq!(redact(&format!("deploying with {vercel}")), "deploying with REDACTED");
    let uuid = "3f2a1c9e-1111-4222-8333-444455556666";
    let hook = format!(
        "https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/0123456789abcdef0123456789abcdef/{uuid}"
    );
    assert_eq!(redact(&hook), "https://acme.webhook.office.com/webhookb2/REDACTED");
    let words = ["legal winner thank year", " wave sausage worth useful"].concat();
    assert_eq!(redact(&format!("MNEMONIC=\"{words}\"")), "MNEMONIC=\"REDACTED\"");
    assert_eq!(redact(&format!("seed_phrase: {words}\nnext: 1")), "seed_phrase: REDACTED\nnext: 1");
    assert_eq!(redact("a mnemonic: short words that help"), "a mnemonic: short words that help");
}
