//! Development tasks: CI steps and source checks. Benches are in `bench/`.
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
//! - [`virtual_time`]: Linux guests with a virtual clock
//! - [`checkout`], [`program_runner`]: the checkout, and running programs in it

#![forbid(unsafe_code)]

pub mod boundaries;
pub mod checkout;
pub mod ci;
pub mod clickhouse;
pub mod fuzz;
pub mod names;
pub mod page_checks;
pub mod program_runner;
pub mod test_programs;
pub mod test_requirements;
pub mod tidy;
pub mod virtual_time;

/// The result of a task: nothing, or a sentence that says what went wrong.
pub type TaskResult = Result<(), String>;

/// The task that runs a bench; its description lists the benches.
const BENCH: &str = "bench";

/// The tasks and their names, as `cargo xtask` shows them; docs are checked against this list.
pub const CHORES: &[(&str, &str)] = &[
    ("test", "the tests that a change needs"),
    ("test-all", "those, and the slow ones: everything CI runs"),
    ("tidy", "the checks of form"),
    ("names", "measures of names, comments and size, with their limits"),
    ("boundaries", "which crate may depend on what"),
    ("needs", "what the tests need; installs it as root with apt-get"),
    ("kernel", "the kernel of tests in virtual time; builds it as root with apt-get"),
    ("clickhouse", "the database of a fleet, for its tests: an embedded engine, and servers"),
    ("page", "builds the page; commit web/dist/page with the change of its sources"),
    ("page-test", "the page's own checks, and every page in a browser"),
    ("page-in-program", "the page in the program, before its API, in a browser"),
    ("page-many", "how soon a path of a million values is drawn, moved and zoomed"),
    ("api-test", "the API under schemathesis [EXAMPLES for each address]"),
    ("fuzz", "the parsers under arbitrary bytes, for a bounded time"),
    (
        BENCH,
        "throughput | cost | lab | verdicts | accuracy | tune | path | policing | detect | \
         archive | fleet | days | seeds | interop | matrix | copy [OPTIONS]; --help lists options",
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
        [BENCH, rest @ ..] => run_bench(rest),
        _ => Err(format_usage()),
    }
}

/// Runs a bench in a release build; other builds give meaningless figures.
fn run_bench(words: &[&str]) -> TaskResult {
    let run = "run --quiet --release --package longhaul-bench --";
    program_runner::show_and_run(program_runner::cargo_command().args(run.split(' ')).args(words))
}

/// Returns the names of the benches.
pub fn list_benches() -> impl Iterator<Item = &'static str> {
    let description = CHORES.iter().find(|(name, _)| *name == BENCH);
    let names = description.map_or("", |(_, text)| text.split(" [").next().unwrap_or(text));
    names.split(" | ")
}

fn format_usage() -> String {
    let lines: Vec<String> =
        CHORES.iter().map(|(name, what)| format!("  cargo xtask {name:<15} {what}")).collect();
    format!("name a chore\n{}", lines.join("\n"))
}
