//! `longhaul pscheduler METHOD`: the methods of a tool plug-in of perfSONAR's pScheduler. Each reads
//! JSON from standard input and writes JSON to standard output.
//!
//! - [`tool_run`]: the method `run`
//! - [`spec_options`]: the specification of a test as options of `longhaul test`, `path` and `latency`

mod spec_options;
mod tool_run;

use crate::cli::command_output;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::{Args, ValueEnum};
use longhaul_probe::DEFAULT_PORT;
use longhaul_probe::secure::AuthToken;
use longhaul_report::pscheduler_json::{PschedulerTest, build_failed_result};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::ops::RangeInclusive;
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/pscheduler-examples.txt").trim_ascii_end();

/// The maximum size of the input: the results of two participants.
const MAX_INPUT_BYTES: u64 = 64 << 20;
const SUPPORTED_TESTS: &str =
    "longhaul measures tests of type throughput, latency, rtt, trace and mtu only";
/// The ports of the server of a throughput test: the first that is free.
const SERVER_PORTS: RangeInclusive<u16> = DEFAULT_PORT..=DEFAULT_PORT + 9;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PschedulerArgs {
    /// Method of the plug-in
    #[arg(value_name = "METHOD")]
    pub method: ToolMethod,
}

/// The methods that pScheduler calls, by the names of its executables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ToolMethod {
    /// Describe the tool
    Enumerate,
    /// Say whether the tool can run a test
    CanRun,
    /// Say how long a test takes
    Duration,
    /// Prepare one participant: the port and the token of the server
    ParticipantData,
    /// Run the part of one participant
    Run,
    /// Merge the results of the participants
    MergedResults,
}

/// A test as pScheduler writes it.
#[derive(Debug, Deserialize)]
struct TestInput {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    spec: Map<String, Value>,
}

impl TestInput {
    /// Returns the test, if longhaul measures it.
    fn test(&self) -> Option<PschedulerTest> {
        match self.kind.as_str() {
            "throughput" => Some(PschedulerTest::Throughput),
            "rtt" => Some(PschedulerTest::Rtt),
            "trace" => Some(PschedulerTest::Trace),
            "mtu" => Some(PschedulerTest::Mtu),
            "latency" => Some(PschedulerTest::Latency),
            _ => None,
        }
    }

    fn is_set(&self, option: &str) -> bool {
        self.spec.get(option) == Some(&Value::Bool(true))
    }
}

#[derive(Deserialize)]
struct ParticipantInput {
    participant: usize,
}

#[derive(Deserialize)]
struct MergeInput {
    test: TestInput,
    results: Vec<Value>,
}

pub fn run(args: &PschedulerArgs) -> Result<ExitCode, CommandFailure> {
    let answer = match args.method {
        ToolMethod::Enumerate => describe_tool(),
        ToolMethod::CanRun => check_test(&read_input()?),
        ToolMethod::Duration => {
            let input = read_input()?;
            json!({ "duration": format!("PT{}S", spec_options::expected_duration(&input).as_secs()) })
        }
        ToolMethod::ParticipantData => prepare_participant(&read_input()?)?,
        ToolMethod::Run => tool_run::run_participant(&read_input()?)?,
        ToolMethod::MergedResults => merge_results(&read_input()?),
    };
    command_output::print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the input of a method from standard input.
fn read_input<T: for<'de> Deserialize<'de>>() -> Result<T, CommandFailure> {
    let failed = |error: &dyn ToString| {
        CommandFailure::new(USAGE, "cannot read the input of pScheduler").cause(&error.to_string())
    };
    let mut text = String::new();
    let input = std::io::stdin().lock().take(MAX_INPUT_BYTES);
    { input }.read_to_string(&mut text).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

fn describe_tool() -> Value {
    json!({
        "schema": 1,
        "name": "longhaul",
        "description": "Measure throughput and say what limited it; latency, RTT, route and path MTU",
        "version": env!("CARGO_PKG_VERSION"),
        "tests": ["throughput", "latency", "rtt", "trace", "mtu"],
        "preference": -5,
        "maintainer": { "name": "the contributors to longhaul" },
    })
}

/// Answers `can-run` with all reasons against it.
fn check_test(input: &TestInput) -> Value {
    let reasons = match input.test() {
        Some(test) => spec_options::build_command(test, &input.spec).err().unwrap_or_default(),
        None => vec![SUPPORTED_TESTS.to_owned()],
    };
    if reasons.is_empty() {
        json!({ "can-run": true })
    } else {
        json!({ "can-run": false, "reasons": reasons })
    }
}

/// Returns what the other participants must know: of the server of a throughput test its port and
/// its token. pScheduler shows members that begin with `_` to participants only.
fn prepare_participant(input: &ParticipantInput) -> Result<Value, CommandFailure> {
    let mut data = json!({ "schema": 1, "longhaul": env!("CARGO_PKG_VERSION") });
    if input.participant == 1 {
        let token = AuthToken::generate()
            .ok_or_else(|| CommandFailure::new(HOST, "cannot make a token: no random bytes"))?;
        data["port"] = find_free_port()?.into();
        data["_token"] = token.as_str().into();
    }
    Ok(data)
}

/// Returns the first free port for a server.
fn find_free_port() -> Result<u16, CommandFailure> {
    let is_free = |port: &u16| {
        let addresses: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        let in_use = |address| {
            let bound = TcpListener::bind((address, *port));
            bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
        };
        !addresses.into_iter().any(in_use)
    };
    SERVER_PORTS.clone().find(is_free).ok_or_else(|| {
        let (first, last) = SERVER_PORTS.into_inner();
        CommandFailure::new(HOST, format!("no port from {first} to {last} is free"))
    })
}

/// Returns the result of participant 0, which has the counts of both, with the diagnostics of all.
fn merge_results(input: &MergeInput) -> Value {
    let first = input.results.first().unwrap_or(&Value::Null);
    let mut diags = String::new();
    for (number, result) in input.results.iter().enumerate() {
        let text = result["result"]["diags"].as_str().or(result["diags"].as_str());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            // Writing to a string does not fail.
            let _ = writeln!(diags, "Participant {number}:\n{}", text.trim_end());
        }
    }
    if first["result"]["succeeded"] == true {
        let mut merged = first["result"].clone();
        if merged["diags"].is_string() {
            merged["diags"] = diags.into();
        }
        return merged;
    }
    let errors = input.results.iter().filter_map(|it| it["error"].as_str());
    let error = errors.collect::<Vec<_>>().join("; ");
    let error = if error.is_empty() { "participant 0 has no result" } else { &error };
    build_failed_result(&input.test.kind, error, &diags)
}
