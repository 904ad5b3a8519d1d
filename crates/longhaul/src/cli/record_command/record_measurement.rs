//! Measures for a record: first the idle path, then the transfer.
//!
//! Both runs are archived when they finish; a later failure loses only the bundle.

use super::RecordEvidence;
use super::record_captures::RecordCapture;
use crate::cli::args::{PathArgs, TestArgs, TestFormat};
use crate::cli::{capture_command, path_command, test_command};
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_probe::host::observe_host;
use longhaul_record::record_assembly::{RecordRuns, RecordTransfer};
use longhaul_report::style::{CAVEAT, paint};
use std::io::Write;
use std::time::Duration;

/// The number of round trips: as in the submissions of 2004, enough for a reliable minimum.
const PATH_ROUND_TRIPS: u32 = 20;

/// The default number of bytes captured per packet: the longest headers, and the 64 bytes of
/// payload that the payload rule compares.
const CAPTURE_BYTES: u32 = 192;

/// Reads the captures of `--capture FILE`. One that could not be written is a caveat of the run.
fn read_written_captures(args: &TestArgs) -> Result<Vec<RecordCapture>, CommandFailure> {
    let Some(near) = &args.capture.capture else {
        return Ok(Vec::new());
    };
    let far = capture_command::capture_files::far_capture_path(near);
    let far = Some(far).filter(|_| !args.capture.capture_near);
    let both = [("initiator", Some(near.clone())), ("responder", far)];
    let written =
        both.into_iter().filter_map(|(role, file)| Some((role, file.filter(|it| it.is_file())?)));
    written.map(|(role, file)| RecordCapture::read(role, file)).collect()
}

pub fn measure_for_record(args: &TestArgs) -> Result<RecordEvidence, CommandFailure> {
    if args.bidir {
        let fail = CommandFailure::new(USAGE, "cannot make a record of both directions");
        return Err(fail.hint(Some("omit --bidir; use -R if the server sends")));
    }
    if args.format == TestFormat::Iperf3 {
        let fail = CommandFailure::new(USAGE, "cannot print a record in the format of iperf3");
        let hint = "omit --format; print a run with `longhaul test HOST --format iperf3`";
        return Err(fail.hint(Some(hint)));
    }
    let path = match path_command::measure_path(&path_args(args)) {
        Ok(path) => Some(path),
        Err(fail) => {
            // The transfer is still useful; the record says that the path is missing.
            let why = std::iter::once(fail.message).chain(fail.causes);
            let why: Vec<String> = why.collect();
            let label = paint(CAVEAT, "caveat:");
            let told = format!("{label} cannot measure the path: {}\n", why.join(": "));
            let _ = anstream::stderr().write_all(told.as_bytes());
            None
        }
    };
    let mut asked = args.clone();
    let capture = &mut asked.capture;
    if capture.capture.is_some() {
        capture.capture_bytes.get_or_insert(CAPTURE_BYTES);
    }
    let throughput = test_command::measure_throughput(&asked)?;
    let address = throughput.run.responder.address.as_deref();
    let host = observe_host(None, address.and_then(|it| it.parse().ok()));
    Ok(RecordEvidence {
        captures: read_written_captures(args)?,
        runs: RecordRuns { transfer: RecordTransfer::Measured(Box::new(throughput)), path },
        host: Some(host),
    })
}

/// Options to measure the same path: round trips, routes in both directions, path MTU.
fn path_args(args: &TestArgs) -> PathArgs {
    PathArgs {
        host: args.host.clone(),
        port: args.port,
        icmp: false,
        udp: false,
        tcp: false,
        to_port: None,
        count: Some(PATH_ROUND_TRIPS),
        interval: None,
        size: 64,
        timeout: Duration::from_secs(2),
        no_route: false,
        max_hops: 64,
        queries: 3,
        alternatives: None,
        no_reverse: false,
        no_names: false,
        mtu: true,
        no_mtu: false,
        options: false,
        load: None,
        streams: None,
        reverse: false,
        watch: false,
        local: args.local.clone(),
        token: args.token.clone(),
        output: args.output.clone(),
    }
}
