//! Development tasks: CI steps, source checks and benches.
//!
//! - [`ci`]: the steps of `make test` and `make test-all`
//! - [`test_programs`]: builds the tests and runs them in parallel
//! - [`tidy`]: checks of the source that no compiler makes
//! - [`boundaries`]: allowed dependencies between crates
//! - [`names`]: measures of names, comments and size
//! - [`test_requirements`]: programs and kernel features that the tests use, and their installation
//! - [`fuzz`]: fuzzes the parsers of external input
//! - [`page_checks`]: builds and tests the web page, and fuzzes the API
//! - [`clickhouse`]: the fleet database for tests and benches
//! - [`mod@bench`]: the tables of docs/benchmarks.md
//! - [`interop_matrix`]: tests interoperability over iperf3's protocol
//! - [`iperf3_peers`]: other programs that speak iperf3's protocol
//! - [`virtual_time`]: Linux guests with a virtual clock
//! - [`checkout`], [`program_runner`]: the checkout, and running programs in it

#![forbid(unsafe_code)]

pub mod bench;
pub mod boundaries;
pub mod checkout;
pub mod ci;
pub mod clickhouse;
pub mod fuzz;
pub mod interop_matrix;
pub mod iperf3_peers;
pub mod names;
pub mod page_checks;
pub mod program_runner;
pub mod test_programs;
pub mod test_requirements;
pub mod tidy;
pub mod virtual_time;

/// The result of a task: nothing, or a sentence that says what went wrong.
pub type TaskResult = Result<(), String>;

/// The tasks and their names, as `cargo xtask` shows them; docs are checked against this list.
pub const CHORES: &[(&str, &str)] = &[
    ("test", "the tests that a change needs"),
    ("test-all", "those, and the slow ones: everything CI runs"),
    ("tidy", "the checks of form"),
    (
        "names",
        "measures of names, comments and size, with their limits",
    ),
    ("boundaries", "which crate may depend on what"),
    (
        "needs",
        "what the tests need; installs it as root with apt-get",
    ),
    (
        "kernel",
        "the kernel of tests in virtual time; builds it as root with apt-get",
    ),
    (
        "clickhouse",
        "the database of a fleet, for its tests: an embedded engine, and servers",
    ),
    (
        "page",
        "builds the page; commit web/dist/page with the change of its sources",
    ),
    (
        "page-test",
        "the page's own checks, and every page in a browser",
    ),
    (
        "page-in-program",
        "the page in the program, before its API, in a browser",
    ),
    (
        "page-many",
        "how soon a path of a million values is drawn, moved and zoomed",
    ),
    (
        "api-test",
        "the API under schemathesis [EXAMPLES for each address]",
    ),
    (
        "fuzz",
        "the parsers under arbitrary bytes, for a bounded time",
    ),
    (
        "interop",
        "who works with whom over iperf3's wire [--only TEXT] [--out FILE]",
    ),
    (
        "bench",
        "throughput | cost | lab | verdicts | accuracy | tune | path | policing | agent | detect | \
         archive | fleet | days | seeds | interop | copy [--out FILE] …",
    ),
];

/// Runs the task that `words` name.
pub fn dispatch_task(words: &[String]) -> TaskResult {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => ci::run_tests(),
        ["test-all"] => ci::run_all_tests(),
        ["tidy"] => tidy::run(),
        ["names"] => names::run(),
        ["boundaries"] => boundaries::run(),
        ["needs"] => test_requirements::ensure_test_programs(),
        ["kernel"] => virtual_time::guest_kernel::ensure_kernel(),
        ["clickhouse"] => clickhouse::ensure_clickhouse(),
        ["page"] => page_checks::build_page(),
        ["page-test"] => page_checks::check_page(),
        ["page-in-program"] => page_checks::test_embedded_page(),
        ["page-many"] => page_checks::time_large_path(),
        ["api-test"] => page_checks::api_fuzzing::run(None),
        ["api-test", examples] => page_checks::api_fuzzing::run(Some(examples)),
        ["fuzz"] => fuzz::run(),
        ["interop", rest @ ..] => interop_matrix::run(rest),
        ["bench", name, rest @ ..] => bench::run(name, rest),
        // The two ends of a bench, which it starts inside the namespaces of a path.
        ["dispersion-receive", size] => bench::dispersion::receive_groups(parse_whole(size)?),
        ["dispersion-send", host, groups, size, gap_ms] => bench::dispersion::send_groups(
            host,
            parse_whole(groups)?,
            parse_whole(size)?,
            u64::from(parse_whole(gap_ms)?),
        ),
        _ => Err(format_usage()),
    }
}

fn parse_whole(word: &str) -> Result<u32, String> {
    word.parse()
        .map_err(|_| format!("`{word}` is no whole number"))
}

fn format_usage() -> String {
    let lines: Vec<String> = CHORES
        .iter()
        .map(|(name, what)| format!("  cargo xtask {name:<15} {what}"))
        .collect();
    format!("name a chore\n{}", lines.join("\n"))
}
