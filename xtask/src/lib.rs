//! Development tasks: CI steps and source checks. Benches are in `bench/`.
//!
//! - [`ci`]: the steps of `make test` and `make test-all`
//! - [`tidy`]: checks of the source that no compiler makes
//! - [`attack`]: the tests that attack longhaul, with a table
//! - [`boundaries`]: allowed dependencies between crates
//! - [`names`]: measures of names, comments and size
//! - [`page_checks`]: builds and tests the web page, and fuzzes the API
//! - [`clickhouse`]: the fleet database for tests and benches
//! - [`virtual_time`]: Linux guests with a virtual clock
//! - [`checkout`], [`program_runner`]: the checkout, and running programs in it

#![forbid(unsafe_code)]

pub mod attack;
pub mod boundaries;
pub mod checkout;
pub mod ci;
pub mod clickhouse;
pub mod names;
pub mod page_checks;
pub mod program_runner;
pub mod tidy;
pub mod virtual_time;

use clap::{Parser, ValueEnum};
use program_runner::run_script;

/// The result of a task: nothing, or a sentence that says what went wrong.
pub type TaskResult = Result<(), String>;

/// A development task.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks of longhaul")]
pub enum DevelopmentTask {
    /// The tests that a change needs
    Test,
    /// Those, and the slow ones: everything CI runs
    TestAll,
    /// The checks of form
    Tidy,
    /// Measures of names, comments and size, with their limits
    Names,
    /// Which crate may depend on what
    Boundaries,
    /// The programs that the tests need; installs them as root with apt-get
    Needs,
    /// The kernel of tests in virtual time; builds it as root with apt-get
    Kernel,
    /// The database of a fleet, for its tests: an embedded engine, and servers
    Clickhouse,
    /// Builds the page; commit web/dist/page with the change of its sources
    Page,
    /// The page's own checks, and every page in a browser
    PageTest,
    /// The page in the program, before its API, in a browser
    PageInProgram,
    /// The API under schemathesis
    ApiTest,
    /// Everything that reads input from outside under arbitrary bytes, for 20 CPU minutes
    Fuzz,
    /// The tests that attack longhaul, with a table of what was tried and survived
    Attack,
    /// A bench, in a release build: other builds give meaningless figures
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// The benches, which `bench/` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchName {
    Throughput,
    Matrix,
    Verdicts,
    Explain,
    Captures,
    Available,
    Paths,
    Days,
    Tune,
    Until,
    Copy,
    Accuracy,
    Forecast,
    Fleet,
}

impl DevelopmentTask {
    pub fn run(self) -> TaskResult {
        match self {
            DevelopmentTask::Test => ci::run_tests(),
            DevelopmentTask::TestAll => ci::run_all_tests(),
            DevelopmentTask::Tidy => tidy::run(),
            DevelopmentTask::Names => names::run(),
            DevelopmentTask::Boundaries => boundaries::run(),
            DevelopmentTask::Needs => run_script("requirements.sh", &["programs"]),
            DevelopmentTask::Kernel => virtual_time::guest_kernel::ensure_kernel(),
            DevelopmentTask::Clickhouse => clickhouse::ensure_clickhouse(),
            DevelopmentTask::Page => page_checks::build_page(),
            DevelopmentTask::PageTest => {
                page_checks::compare_page().and_then(|()| page_checks::check_built_page())
            }
            DevelopmentTask::PageInProgram => page_checks::test_embedded_page(),
            DevelopmentTask::ApiTest => page_checks::run(),
            DevelopmentTask::Fuzz => run_script("fuzz.sh", &[]),
            DevelopmentTask::Attack => attack::run(),
            DevelopmentTask::Bench { words } => {
                let run = "run --quiet --release --package longhaul-bench --".split(' ');
                program_runner::show_and_run(program_runner::cargo_command().args(run).args(words))
            }
        }
    }
}
