//! The lexer alone: what a text is split into, written short.

use rstest::rstest;

use super::*;

/// Each command: words with `,` between, redirections, `[input]`, `(inner)`, and `|` when it is piped on; `;` between.
fn read(text: &str) -> String {
    let shown = |command: Simple| {
        let Simple { words, redirects, input, piped, inner } = command;
        let mut shown = words.join(",");
        shown.extend(redirects.iter().map(|(operator, word)| format!(" {operator}{word}")));
        shown.extend(input.iter().map(|text| format!(" [{text}]")));
        shown.extend(inner.iter().map(|text| format!(" ({text})")));
        shown + if piped { " |" } else { "" }
    };
    commands(text, &mut Variables::new(), 0).into_iter().map(shown).collect::<Vec<_>>().join(";")
}

#[rstest]
#[case::blanks("a \t\r b", "a,b")]
#[case::semicolon("a;b", "a;b")]
#[case::line("a\nb", "a;b")]
#[case::background("a&b", "a;b")]
#[case::and("a&&b", "a;b")]
#[case::pipe("a|b", "a |;b")]
#[case::or("a||b", "a;b")]
#[case::pipe_of_both("a|&b", "a |;b")]
#[case::group_that_is_piped("(a;b)|c", "a;b |;c")]
#[case::group_that_is_not("(a;b)||c", "a;b;c")]
#[case::comment("a # b;c\nd", "a;d")]
#[case::comment_at_the_end("a # b", "a")]
#[case::no_comment("a#b", "a#b")]
#[case::joined_lines("a \\\n b", "a,b")]
#[case::joined_in_a_word("a\\\nb", "ab")]
#[case::joined_in_quotes("\"a\\\nb\"", "ab")]
fn commands_are_told_apart(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(read(text), expected);
}

#[rstest]
#[case::single("'a b'c", "a bc")]
#[case::single_open("'a b", "a b")]
#[case::single_keeps_all(r"'\$x`'", r"\$x`")]
#[case::double(r#""a b"c"#, "a bc")]
#[case::double_open(r#""a b"#, "a b")]
#[case::escapes_in_double(r#""\"\\\$\`\n""#, r#""\$`\n"#)]
#[case::escape(r"a\ b\;c", "a b;c")]
#[case::ansi(r"$'\n\t\r\q'", "\n\t\rq")]
#[case::ansi_hexadecimal(r"$'\x414'", "A4")]
#[case::ansi_unicode(r"$'\u00e94\U000000e94'", "é4é4")]
#[case::ansi_octal(r"$'\1014'b", "A4b")]
#[case::ansi_open(r"$'\101", "A")]
#[case::ansi_quote(r"$'\''a", "'a")]
#[case::no_ansi_in_double(r#""$'a'""#, "$'a'")]
#[case::translated(r#"$"a b""#, "a b")]
#[case::dollar_alone("a $ b", "a,$,b")]
#[case::dollar_at_the_end_of_quotes("\"a$\"b", "a$b")]
#[case::arguments("a $1$@$*$#$?$!$-b", "a,b")]
fn quotes_are_taken_off(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(read(text), expected);
}

#[rstest]
#[case::plain("x=1;a $x", "x=1;a,1")]
#[case::braces("x=1;a ${x}2", "x=1;a,12")]
#[case::longest_name("x=1;x_1=2;a $x_1", "x=1;x_1=2;a,2")]
#[case::in_braces_too("x_1=2;a ${x_1}", "x_1=2;a,2")]
#[case::several("x=1 y=$x;a $x$y", "x=1,y=1;a,11")]
#[case::unset("a b$x ${y}c", "a,b,c")]
#[case::default("a ${x:-b} ${x-c}", "a,b,c")]
#[case::default_not_taken("x=1;a ${x:-b}", "x=1;a,1")]
#[case::open_brace("x=1;a ${x", "x=1;a,1")]
#[case::split("x='b c';a $x", "x=b c;a,b,c")]
#[case::not_split_in_quotes(r#"x='b c';a "$x" "${x}""#, "x=b c;a,b c,b c")]
#[case::not_split_when_assigned("x='b c';y=$x;a \"$y\"", "x=b c;y=b c;a,b c")]
#[case::declared("export x=1;declare -r y=2;a $x$y", "export,x=1;declare,-r,y=2;a,12")]
#[case::only_a_word("a x=1;b c$x", "a,x=1;b,c")]
#[case::no_name("x.y=1;=2;a b$x", "x.y=1;=2;a,b")]
#[case::no_name_is_split("v='b c';a ./x=$v =$v x=$v", "v=b c;a,./x=b,c,=b,c,x=b c")]
#[case::loop_over_words("for u in b c;do a $u;done", "for,u,in,b,c;do,a,b,c;done")]
#[case::loop_over_hosts("for u in b.c d;do a \"x/$u/\" $u;done", "for,u,in,b.c,d;do,a,x/{b.c,d}/,{b.c,d};done")]
#[case::loop_over_numbers(
    "for u in 12345678 1234567;do a $u;done",
    "for,u,in,12345678,1234567;do,a,{12345678,1234567};done"
)]
#[case::loop_over_short_numbers("for u in 1234567 1;do a $u;done", "for,u,in,1234567,1;do,a,1234567,1;done")]
#[case::loop_over_one_host("for u in b.c;do a $u;done", "for,u,in,b.c;do,a,b.c;done")]
#[case::loop_over_braces("for u in b.c {d,e};do a $u;done", "for,u,in,b.c,{d,e};do,a,b.c,{d,e};done")]
#[case::default_that_sets(": ${x:=b};a $x ${x:=c}", ":,b;a,b,b")]
#[case::default_that_does_not(": ${x:-b};a b$x", ":,b;a,b")]
#[case::selection("select u in b c;do a $u;done", "select,u,in,b,c;do,a,b,c;done")]
#[case::loop_behind_two_words("a b for u in c;d e$u", "a,b,for,u,in,c;d,ec")]
#[case::no_loop_behind_three("a b c for u in d;e f$u", "a,b,c,for,u,in,d;e,f")]
fn variables_of_the_text_are_put_in(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(read(text), expected);
}

#[rstest]
#[case::files("a >b <c >>d <>e >|f", "a >b <c >>d <>e >|f")]
#[case::blanks("a > \t b", "a >b")]
#[case::streams("a 2>b 2>&1", "a >b >&1")]
#[case::digits_in_quotes("a '2'>b", "a,2 >b")]
#[case::digits_alone("a 2 >b", "a,2 >b")]
#[case::digits_and_letters("a b2>c", "a,b2 >c")]
#[case::both_streams("a &>b", "a >b")]
#[case::alone(">b", " >b")]
#[case::process("a <(b) c", "a;b;c")]
#[case::here_string("a <<< 'b c'", "a [b c]")]
#[case::here_document("a <<E\nb\nc\nE\nd", "a [b\nc\n];d")]
#[case::here_document_quoted("a <<'E'\nb\nE\nd", "a [b\n];d")]
#[case::here_document_without_its_end("a <<E\nb", "a [b]")]
#[case::here_document_with_tabs("a <<-E\n\tb\n\tE\nd", "a [\tb\n];d")]
#[case::tabs_count("a <<E\n\tE\nE\nd", "a [\tE\n];d")]
#[case::ends_of_lines_of_windows("a <<E\r\nb\r\nE\r\nd", "a [b\r\n];d")]
#[case::two_here_documents("a <<E <<F\nb\nE\nc\nF\nd", "a [b\n] [c\n];d")]
#[case::here_documents_of_two("a <<E | b <<F\nc\nE\nd\nF\ne", "a [c\n] |;b [d\n];e")]
#[case::here_document_alone("<<E\nb\nE\nd", " [b\n];d")]
fn redirections_are_no_words(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(read(text), expected);
}

#[rstest]
#[case::echo("a $(echo b c)d", "a,b cd (echo b c)")]
#[case::in_quotes(r#"a "$(echo b)" "`echo c`""#, "a,b,c (echo b) (echo c)")]
#[case::options("a $(echo -n b)", "a,b (echo -n b)")]
#[case::backticks("a `echo b`c", "a,bc (echo b)")]
#[case::escaped_backticks(r"a `echo \`b`c", "a,c (echo `b)")]
#[case::open_backtick("a `b", "a, (b)")]
#[case::printf("a $(printf '%s.%d.%i/' 1 2 3)", "a,1.2.3/ (printf '%s.%d.%i/' 1 2 3)")]
#[case::printf_of_too_few("a $(printf '%s.%s' 1)", "a,1. (printf '%s.%s' 1)")]
#[case::printf_of_nothing("a b$(printf)", "a,b (printf)")]
#[case::another_program("a b$(cat c)", "a,b (cat c)")]
#[case::two_commands("a b$(echo c; echo d)", "a,b (echo c; echo d)")]
#[case::nested("a $(b $(c) d)e", "a,e (b $(c) d)")]
#[case::quoted_parenthesis("a $(b ')' c)d", "a,d (b ')' c)")]
#[case::escaped_parenthesis(r"a $(b \) c)d", r"a,d (b \) c)")]
#[case::open_quote_in_it("a $(b ' c)d", "a,d (b ' c)")]
#[case::two_quotes_and_a_parenthesis("a $(b 'c') 'd' e", "a,,d,e (b 'c')")]
#[case::open_parenthesis("a $(b c", "a, (b c)")]
fn substitutions_of_known_answer_are_put_in(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(read(text), expected);
}

#[test]
fn a_substitution_is_looked_into_up_to_a_kilobyte_and_the_depth() {
    let of = |long: usize| format!("a $(echo {})", "b".repeat(long - 5));
    let words = |text: &str, depth| commands(text, &mut Variables::new(), depth)[0].words.clone();
    assert_eq!(words(&of(1023), 0)[1].len(), 1018);
    assert_eq!(words(&of(1024), 0)[1].len(), 0);
    assert_eq!(words("a b$(echo c)", DEPTH - 1), ["a", "bc"]);
    assert_eq!(words("a b$(echo c)", DEPTH), ["a", "b"]);
}

#[test]
fn a_here_document_is_as_deep_as_what_stands_in_it() {
    let read = |text: &str, depth| commands(text, &mut Variables::new(), depth).remove(1).input.remove(0);
    assert_eq!(read("x=1\na <<E\n$x\nE\n", DEPTH - 1), "1\n");
    assert_eq!(read("x=1\na <<E\n$x\nE\n", DEPTH), "$x\n");
    assert_eq!(read("x=1\na <<E\nb\nE\n", DEPTH), "b\n");
    // The document, and what it runs.
    assert_eq!(read("x=1\na <<E\n$(echo $x)\nE\n", DEPTH - 2), "1\n");
    assert_ne!(read("x=1\na <<E\n$(echo $x)\nE\n", DEPTH - 1), "1\n");
}

#[test]
fn words_and_values_are_bounded() {
    let words = |text: &str| commands(text, &mut Variables::new(), 0).pop().unwrap().words;
    assert_eq!(words(&"a".repeat(LONGEST))[0].len(), LONGEST);
    assert_eq!(words(&"a".repeat(LONGEST + 1))[0].len(), LONGEST + 1, "what is written is read");
    // A value that makes a word too long is left out whole.
    let joined = |more: usize| words(&format!("x=bb;a {}$x", "c".repeat(LONGEST - 2 + more)))[1].len();
    assert_eq!([joined(0), joined(1)], [LONGEST, LONGEST - 1]);
    // Values together: 1,024 bytes and 16 times the text.
    let text = format!("x={};a{}", "b".repeat(100), " $x".repeat(200));
    let put_in = words(&text).iter().filter(|word| word.len() == 100).count();
    assert_eq!(put_in, (1024 + 16 * text.len()) / 100);
}

#[rstest]
#[case::document("cat <<E\n$(a b) `c`\nE\n", "cat [ \n] (a b) (c)")]
#[case::document_with_a_value("x=1;cat <<E\n$x \\$x \\\\ \\a\nE\n", "x=1;cat [1 $x \\ \\a\n]")]
#[case::document_that_is_quoted("cat <<'E'\n$(a) $x\nE\n", "cat [$(a) $x\n]")]
#[case::document_that_is_quoted_in_part("cat <<\\E\n$(a)\nE\n", "cat [$(a)\n]")]
#[case::default("a ${x:-$(b)}", "a, (b)")]
#[case::default_in_quotes("a \"${x-`b`}\"", "a, (b)")]
#[case::default_of_a_set_one("x=1;a ${x:-$(b)}", "x=1;a,1 (b)")]
#[case::default_that_is_kept("a ${x:=b}", "a,b")]
#[case::alternative("x=1;a ${x:+b}", "x=1;a,b")]
#[case::assignments("a=1 b=2 export c=3;d $a$b$c", "a=1,b=2,export,c=3;d,123")]
#[case::no_assignment("a b=2;d x$b", "a,b=2;d,x")]
#[case::assignment_in_the_next_command("a;b=2;d $b", "a;b=2;d,2")]
fn what_is_put_in_and_run_inside_texts_is_seen(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(read(text), expected);
}
