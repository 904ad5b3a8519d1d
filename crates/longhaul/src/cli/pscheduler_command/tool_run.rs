//! The method `run` of the plug-in: the part of one participant.
//!
//! Participant 1 of a throughput test is the server of one run, on the port and with the token of its
//! participant data. It listens as soon as it is called. Participant 0 begins at the time of the
//! schedule, and tries again while the server is not there yet, so that clocks may differ by a few
//! seconds.

use super::TestInput;
use super::spec_options::{self, read_duration};
use crate::cli::args::CliCommand;
use crate::cli::latency_command::{self, LatencyArgs};
use crate::cli::test_command::TestArgs;
use crate::cli::{path_command, test_command};
use crate::command_failure::{CommandFailure, PEER, USAGE};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_probe::DEFAULT_PORT;
use longhaul_probe::measurement_server::{MeasurementServer, ServeEvent, ServeOptions};
use longhaul_probe::secure::AuthToken;
use longhaul_report::pscheduler_json::{to_latency_result, to_path_result, to_throughput_result};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The length of the intervals of a result, if the test does not say.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// The time in which participant 0 tries to reach a server that does not listen yet.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(250);
/// The maximum time before the start; pScheduler calls `run` a few seconds before.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// The interval at which a server looks at its deadline.
const DEADLINE_CHECK: Duration = Duration::from_millis(200);

/// The input of `run`.
#[derive(Deserialize)]
pub struct RunInput {
    participant: usize,
    #[serde(rename = "participant-data")]
    participant_data: Vec<Value>,
    test: TestInput,
    schedule: ScheduleInput,
}

#[derive(Deserialize)]
struct ScheduleInput {
    start: String,
    #[serde(default)]
    duration: Value,
}

/// The server of a throughput test, as its participant data name it.
struct AgreedServer {
    port: u16,
    token: Option<String>,
}

/// Runs the part of a participant. A run that fails has a result that says so.
///
/// # Errors
/// The input is not that of this plug-in.
pub fn run_participant(input: &RunInput) -> Result<Value, CommandFailure> {
    let refuse = |text: &str| Err(CommandFailure::new(USAGE, text));
    let Some(test) = input.test.test() else {
        return refuse(super::SUPPORTED_TESTS);
    };
    let command = match spec_options::build_command(test, &input.test.spec) {
        Ok(command) => command,
        Err(reasons) => return refuse(&reasons.join("; ")),
    };
    let wait = wait_for_start(&input.schedule.start)?;
    let lasting = read_duration(&input.schedule.duration);
    let lasting = lasting.unwrap_or_else(|| spec_options::expected_duration(&input.test));
    let deadline = Instant::now() + wait + lasting;
    Ok(wrap_result(match (input.participant, command) {
        (0, CliCommand::Test(args)) if input.test.is_set("loopback") => {
            run_loopback(input, *args, deadline)?
        }
        (0, CliCommand::Test(args)) => {
            let server = find_server(input)?;
            thread::sleep(wait);
            measure_throughput(input, *args, &server, deadline)
        }
        (1, CliCommand::Test(_)) => serve_one_run(&find_server(input)?, deadline),
        (0, CliCommand::Path(args)) => {
            thread::sleep(wait);
            let report = path_command::measure_path(&args).map_err(|failure| failure.chain());
            report.and_then(|report| to_path_result(&report, test))
        }
        (0, CliCommand::Latency(args)) => {
            thread::sleep(wait);
            measure_one_way(input, &args)
        }
        (number, _) => {
            return refuse(&format!("a test {} has no participant {number}", input.test.kind));
        }
    }))
}

/// Returns the time until the start of the run.
fn wait_for_start(start: &str) -> Result<Duration, CommandFailure> {
    // Without an offset the time is in UTC.
    let utc = || Ok(start.parse::<DateTime>()?.to_zoned(TimeZone::UTC)?.timestamp());
    let moment: Result<Timestamp, jiff::Error> = start.parse().or_else(|_| utc());
    let moment = moment.map_err(|error| {
        CommandFailure::new(USAGE, "cannot read the start of the schedule").cause(&error)
    })?;
    let left = Duration::try_from(moment.duration_since(Timestamp::now())).unwrap_or_default();
    if left > MAX_WAIT {
        return Err(CommandFailure::new(USAGE, "the run starts in more than ten minutes"));
    }
    Ok(left)
}

/// Returns the server that participant 1 runs; of a single-ended test, that of the destination.
fn find_server(input: &RunInput) -> Result<AgreedServer, CommandFailure> {
    let read_port =
        |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|it| it.try_into().ok());
    if input.test.is_set("single-ended") {
        let port = read_port(input.test.spec.get("single-ended-port")).unwrap_or(DEFAULT_PORT);
        return Ok(AgreedServer { port, token: None });
    }
    let data = input.participant_data.get(1).unwrap_or(&Value::Null);
    let (port, token) = (read_port(data.get("port")), data["_token"].as_str());
    let server = port.zip(token);
    let server = server.map(|(port, token)| AgreedServer { port, token: Some(token.to_owned()) });
    server.ok_or_else(|| {
        CommandFailure::new(USAGE, "the data of participant 1 have no port or no token")
    })
}

/// Measures as the client; tries again while the server cannot be reached.
fn measure_throughput(
    input: &RunInput,
    mut args: TestArgs,
    server: &AgreedServer,
    deadline: Instant,
) -> Result<Value, String> {
    args.peer.port = Some(server.port);
    args.peer.token.token.clone_from(&server.token);
    let interval = input.test.spec.get("interval").and_then(read_duration);
    let interval = interval.filter(|it| !it.is_zero()).unwrap_or(DEFAULT_INTERVAL);
    let patience = deadline.min(Instant::now() + CONNECT_PATIENCE);
    let report: ThroughputReport = loop {
        match test_command::measure_throughput(&args) {
            Err(failure) if failure.code == PEER && Instant::now() < patience => {
                thread::sleep(BETWEEN_ATTEMPTS);
            }
            result => break result.map_err(|failure| failure.chain())?,
        }
    };
    Ok(to_throughput_result(&report, interval.as_micros() as u64))
}

/// Measures latency from the source to the destination, or back in a reverse test.
fn measure_one_way(input: &RunInput, args: &LatencyArgs) -> Result<Value, String> {
    let done = latency_command::measure_latency(args).map_err(|failure| failure.chain())?;
    if let Some(failure) = done.failure {
        return Err(failure.chain());
    }
    // The destination of a flipped test begins.
    let is_forward = input.test.is_set("flip") == input.test.is_set("reverse");
    Ok(to_latency_result(&done.report, is_forward))
}

/// Runs client and server of a test in one process.
fn run_loopback(
    input: &RunInput,
    args: TestArgs,
    deadline: Instant,
) -> Result<Result<Value, String>, CommandFailure> {
    let token = AuthToken::generate().map(|token| token.as_str().to_owned());
    let server = AgreedServer { port: super::find_free_port()?, token };
    Ok(thread::scope(|scope| {
        let serving = scope.spawn(|| serve_one_run(&server, deadline));
        let result = measure_throughput(input, args, &server, deadline);
        let served = serving.join().unwrap_or_else(|_| Err("the server panicked".to_owned()));
        result.and_then(|result| served.map(|_| result))
    }))
}

/// Serves one run, and returns what the server logged.
fn serve_one_run(server: &AgreedServer, deadline: Instant) -> Result<Value, String> {
    let responder = MeasurementServer::bind(ServeOptions {
        port: server.port,
        token: server.token.clone(),
        anonymous: None,
        max_sessions: 2,
        command: Some("longhaul pscheduler run".to_owned()),
        ..ServeOptions::default()
    })
    .map_err(|error| CommandFailure::from(error).chain())?;
    let (stop, served) = (AtomicBool::new(false), AtomicBool::new(false));
    let log = Mutex::new(String::new());
    let observe = |event: ServeEvent| {
        // Writing to a string does not fail.
        let _ = writeln!(log.lock(), "{event}");
        if matches!(event, ServeEvent::SessionClosed { opened: true, .. }) {
            served.store(true, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
                thread::sleep(DEADLINE_CHECK);
            }
            stop.store(true, Ordering::Relaxed);
        });
        let ended = responder.run(observe, &stop);
        stop.store(true, Ordering::Relaxed);
        ended.map_err(|error| CommandFailure::from(error).chain())
    })?;
    let diags = log.into_inner();
    if !served.into_inner() {
        return Err(format!("no client has finished a run with this server\n{diags}"));
    }
    Ok(json!({"succeeded": true, "diags": diags}))
}

/// Wraps a result in what pScheduler stores for each participant.
fn wrap_result(result: Result<Value, String>) -> Value {
    match result {
        Ok(result) => {
            json!({"schema": 1, "succeeded": true, "diags": result["diags"], "result": result})
        }
        Err(error) => json!({"schema": 1, "succeeded": false, "error": error, "diags": ""}),
    }
}
