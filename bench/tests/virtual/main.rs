//! Tests whose results depend on time: each runs in a Linux guest of its own whose clock is virtual.
//!
//! This executable boots the guests and, inside one, is the test. Where no kernel can be had, every
//! test fails and says how to get one.

mod admission;
mod agent;
mod available;
mod copy;
mod deadlines;
mod explain;
mod host;
mod interop_matrix;
mod interruption;
mod lab;
mod lab_report;
mod latency;
mod load;
mod path;
mod responsiveness;
mod runs;
mod seeds;
mod tune;
mod verdicts;

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use xtask::{program_runner, virtual_time};

/// A named test.
type VirtualTest = (&'static str, fn());

/// Of wall time, on a machine that has other work.
const LIMIT: Duration = Duration::from_secs(1200);
/// Followed by the name of the test to run here.
const IN_GUEST: &str = "--in-guest";

/// Tests to start first, because they run longest, so that none of them runs alone at the end.
const LONGEST: [&str; 8] = [
    "verdicts::",
    "explain::",
    "available::a_change_of_load_is_told_from_one_of_capacity",
    "lab::the_bottleneck_carries_its_rate",
    "lab::a_tcp_transfer_runs_at_the_goodput_limit",
    "load::a_sender_that_yields_leaves_the_competitor_nine_tenths",
    "path::the_queue_to_sdsc_grows_at_the_last_hop",
    "available::",
];

/// Names the functions of a module that are tests.
#[macro_export]
macro_rules! virtual_tests {
    ($($name:ident),+ $(,)?) => {
        pub const TESTS: &[(&str, fn())] = &[$((stringify!($name), $name)),+];
    };
}

const SUITES: &[(&str, &[VirtualTest])] = &[
    ("admission", admission::TESTS),
    ("agent", agent::TESTS),
    ("available", available::TESTS),
    ("copy", copy::TESTS),
    ("deadlines", deadlines::TESTS),
    ("host", host::TESTS),
    ("interop", interop_matrix::TESTS),
    ("interruption", interruption::TESTS),
    ("lab", lab::TESTS),
    ("latency", latency::TESTS),
    ("load", load::TESTS),
    ("path", path::TESTS),
    ("responsiveness", responsiveness::TESTS),
    ("runs", runs::TESTS),
    ("seeds", seeds::TESTS),
    ("tune", tune::TESTS),
    ("verdicts", verdicts::TESTS),
    ("explain", explain::TESTS),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name] = &words[..]
        && first == IN_GUEST
    {
        run_here(name);
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let needs_program = !arguments.list;
    let longhaul = needs_program
        .then(|| program_runner::build_longhaul_for_tests().expect("longhaul is built"));
    let mut names: Vec<String> = all_tests().map(|(name, _)| name).collect();
    let rank = |name: &String| LONGEST.iter().position(|long| name.starts_with(long));
    names.sort_by_key(|name| rank(name).unwrap_or(LONGEST.len()));
    let trials = names.into_iter().map(|name| {
        let longhaul = longhaul.clone().unwrap_or_default();
        Trial::test(name.clone(), move || run_in_guest(&name, &longhaul, arguments.nocapture))
    });
    let same = Trial::test("guest::the_same_guest_loses_the_same_packets", compare_two_guests);
    libtest_mimic::run(&arguments, trials.chain([same]).collect()).exit_code()
}

/// Draws random numbers, before and after Linux has seeded them again, and lets netem lose packets.
const RANDOM_SCRIPT: &str = "\
    tc qdisc add dev lo root netem delay 20ms loss 30%\n\
    ping -i 0.01 -c 200 127.0.0.1\n\
    sleep 10\n\
    od -N 16 /dev/urandom\n";

/// Runs one guest twice. Only the name of a guest decides its random numbers.
fn compare_two_guests() -> Result<(), Failed> {
    let run = |name| virtual_time::run_in_guest(name, RANDOM_SCRIPT, LIMIT).map(|it| it.output);
    let first = run("guest-random")?;
    assert_eq!(first, run("guest-random")?);
    assert_ne!(first, run("guest-random-2")?);
    Ok(())
}

fn all_tests() -> impl Iterator<Item = (String, fn())> {
    SUITES.iter().flat_map(|(suite, tests)| {
        tests.iter().map(move |(name, test)| (format!("{suite}::{name}"), *test))
    })
}

fn run_here(name: &str) {
    let found = all_tests().find(|(known, _)| known == name);
    let (_, test) = found.unwrap_or_else(|| panic!("there is no test {name}"));
    test();
}

fn run_in_guest(name: &str, longhaul: &Path, shows_output: bool) -> Result<(), Failed> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let script = format!(
        "export LONGHAUL_BIN='{}' RUST_BACKTRACE='{}'\nexec '{}' {IN_GUEST} {name}\n",
        longhaul.display(),
        std::env::var("RUST_BACKTRACE").unwrap_or_default(),
        own.display(),
    );
    let began = Instant::now();
    let outcome = virtual_time::run_in_guest(&name.replace("::", "-"), &script, LIMIT)?;
    eprintln!("{name}: {} s of wall time", began.elapsed().as_secs());
    if shows_output {
        eprintln!("{}", outcome.output.trim());
    }
    if outcome.status == 0 {
        return Ok(());
    }
    Err(outcome.output.into())
}
