use super::source::{Source, identifiers};
use super::{Breach, form, words};
use crate::checkout::SourceFile;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

fn rules(found: &[Breach]) -> Vec<(usize, &str)> {
    found
        .iter()
        .map(|breach| (breach.line, breach.rule))
        .collect()
}

fn breaches(path: &str, text: &str) -> Vec<(usize, String)> {
    let found = super::in_file(&file(path, text));
    found
        .into_iter()
        .map(|breach| (breach.line, breach.rule.to_owned()))
        .collect()
}

#[test]
fn comments_and_strings_are_not_code() {
    let cases = [
        ("a // unsafe", "a          "),
        ("a /* x /* y */ z */ b", "a                   b"),
        (r#"f("un\"safe", c)"#, r#"f("        ", c)"#),
        (r##"r#"libc "x" "# + 1"##, r##"r#"         "# + 1"##),
        ("'\\'' + 'x'", "'  ' + ' '"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
    ];
    for (text, code) in cases {
        assert_eq!(Source::new(text).code, [code], "{text}");
    }
}

#[test]
fn identifiers_are_whole_words() {
    let found: Vec<&str> = identifiers("let x_1 = unsafe_code(3u8);")
        .map(|(_, word)| word)
        .collect();
    assert_eq!(found, ["let", "x_1", "unsafe_code"]);
}

#[test]
fn a_rule_names_the_line_that_breaks_it() {
    let probe = "crates/longhaul-probe/src/pump.rs";
    let cases = [
        (
            probe,
            "//! Q?\nfn f() { unsafe { g() } }",
            vec![(2, "safety"), (2, "unsafe")],
        ),
        (probe, "//! Q?\nuse libc::c_int;", vec![(2, "libc")]),
        (probe, "fn f() {}", vec![(1, "module-header")]),
        (
            probe,
            "//! Q?\n#[allow(dead_code)]\nfn f() {}",
            vec![(2, "left-for-later")],
        ),
        (probe, "//! Q? Says unsafe, libc and client.", vec![]),
        (
            "crates/longhaul-probe/src/utils.rs",
            "//! Q?",
            vec![(1, "module-name")],
        ),
        (
            "crates/longhaul-probe/src/lib.rs",
            "//! Q?",
            vec![(1, "unsafe")],
        ),
        (
            "crates/longhaul-analysis/src/stats/mean.rs",
            "//! Q?\n//! Source: s\n//! Error: e. Wrong when: w",
            vec![(1, "method-header")],
        ),
        (
            "crates/longhaul-analysis/src/diagnose/cause.rs",
            "//! Q?\n//! We would see: a. Refuted by: b.\n//! Needs: c. Wrong when: d",
            vec![(1, "cause-header")],
        ),
        (
            "crates/longhaul-model/src/report/v1/plan.rs",
            "//! Q?\npub struct Plan {\n    pub rate: u64,\n    pub rate_bps: Option<u64>,\n}",
            vec![(3, "unit")],
        ),
    ];
    for (path, text, expected) in cases {
        let mut found = breaches(path, text);
        found.sort();
        let found: Vec<(usize, &str)> = found.iter().map(|(l, r)| (*l, r.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_test_file_needs_no_header() {
    let test = file("crates/longhaul-lab/tests/truth.rs", "fn f() {}");
    assert_eq!(
        form::modules_say_what_they_answer(&test, &Source::new(&test.text)),
        []
    );
}

#[test]
fn module_names_are_judged_by_path_part() {
    let fine = file("crates/longhaul/src/commonest.rs", "//! Q?");
    assert_eq!(
        words::modules_have_a_subject(&fine, &Source::new(&fine.text)),
        []
    );
}

#[test]
fn pages_may_name_only_what_exists() {
    let page =
        "See [a](docs/a.md) and [b](docs/b.md).\n\n`cargo xtask bench magic` and `make demo`";
    let files = [
        file("Makefile", ".PHONY: demo\ndemo:\n\tcargo xtask demo\n"),
        file("README.md", page),
        file("docs/a.md", "[up](../README.md#x)"),
    ];
    assert_eq!(
        rules(&super::docs::links_lead_somewhere(&files)),
        [(1, "link")]
    );
    assert_eq!(
        rules(&super::docs::named_commands_exist(&files)),
        [(3, "command")]
    );
}
