//! One run against an iperf3 server, from the client's side.
//!
//! - [`Client`]: the protocol, without sockets or clocks
//! - [`run`]: the same on real connections, with our engine
//! - [`Closed`]: how it ended, and what to do about it

mod asked;
mod closed;
mod course;
mod drive;
mod observe;
mod role;
mod streams;

pub use closed::Closed;
pub use role::{Action, Client, Input, RESULTS_TIME, SILENCE, STEP_TIME, Step};

use super::wire::Cookie;
use crate::error::ProbeError;
use crate::limits::{MOST_STREAMS, check_plan};
use crate::throughput::{self, Outcome, Progress, Target};
use course::{Course, filled_in};
use drive::Drive;
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::plan::Plan;
use longhaul_sys::tcp_info;
use observe::Known;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

/// Payload of a datagram where neither the plan nor the path tells: Ethernet's.
const DATAGRAM_BYTES: u64 = 1460;
/// The largest that iperf3 takes, and the least that our counters fit in.
const DATAGRAMS: std::ops::RangeInclusive<u64> = 24..=65_507;
/// A server that is busy, or between two tests, is asked again after this long.
const AGAIN: Duration = Duration::from_millis(200);

/// Does one run. `watch` is called about five times a second while payload flows.
///
/// Blocks for the whole run; every wait in it has a deadline. `patience` is how long a server
/// that is busy, or between two tests, is asked again.
///
/// # Errors
/// See [`ProbeError`]: a plan that no iperf3 server runs, no connection, or how the test ended.
pub fn run(
    target: &Target,
    plan: &Plan,
    patience: Duration,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ProbeError> {
    check_plan(plan, MOST_STREAMS)?;
    asked::check(plan)?;
    let until = Instant::now() + patience;
    loop {
        match attempt(target, plan, watch) {
            Err(error) if may_pass(&error) && Instant::now() < until => std::thread::sleep(AGAIN),
            done => return done,
        }
    }
}

/// A server between two tests: busy, its listener shut, or shut while we were waiting for it.
fn may_pass(error: &ProbeError) -> bool {
    match error {
        ProbeError::Connect { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
        ),
        ProbeError::Iperf3 { closed, .. } => {
            matches!(
                closed,
                Closed::Busy
                    | Closed::Cut {
                        step: Step::Greeting,
                        ..
                    }
            )
        }
        _ => false,
    }
}

fn attempt(
    target: &Target,
    plan: &Plan,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ProbeError> {
    let (started_at, epoch) = (SystemTime::now(), Instant::now());
    let address = throughput::resolve(target)?;
    let control = throughput::connect_plain(target, address)?;
    let local = control.local_addr().ok();
    let cookie = Cookie::random().map_err(|error| ProbeError::Local {
        what: "cannot name the test".to_owned(),
        source: Some(error),
    })?;
    let datagram_bytes = datagram_bytes(plan, &control);
    let filled = filled_in(plan, datagram_bytes);
    let parameters = asked::parameters(plan, datagram_bytes);
    let mut course = Course::new(target, &filled, (local, address), epoch, watch);
    let drive = Drive {
        control,
        client: Client::new(cookie, parameters, epoch.elapsed() + target.connect_timeout),
        cookie,
        course: &mut course,
        epoch,
    };
    let (closed, mut client) = drive.run();
    let failed = |closed| ProbeError::Iperf3 { address, closed };
    if closed != Closed::Finished {
        return Err(failed(closed));
    }
    let results = client.take_results().ok_or_else(|| {
        failed(Closed::Violation {
            step: Step::Exchanging,
            what: "it told no results".to_owned(),
        })
    })?;
    outcome(
        target,
        plan,
        (address, local),
        (started_at, epoch),
        (course, &results),
    )
    .map_err(|what| {
        failed(Closed::Violation {
            step: Step::Exchanging,
            what,
        })
    })
}

fn outcome(
    target: &Target,
    plan: &Plan,
    (address, local): (SocketAddr, Option<SocketAddr>),
    (started_at, epoch): (SystemTime, Instant),
    (mut course, results): (Course<'_>, &super::wire::Results),
) -> Result<Outcome, String> {
    let known = Known {
        plan,
        host: &target.host,
        idle_rtt: course.idle_rtt,
        same_host: course.same_host(),
    };
    let mut collected = std::mem::take(&mut course.collected);
    let mut caveats = asked::caveats(plan);
    for end in collected.sender.iter_mut().chain(&mut collected.receiver) {
        caveats.append(&mut end.caveats);
    }
    let observation = observe::join(&known, collected, results)?;
    Ok(Outcome {
        observation,
        initiator: throughput::initiator_party(local),
        responder: Party {
            host: target.host.clone(),
            address: Some(address.ip().to_string()),
            ..Party::default()
        },
        started_at,
        duration: epoch.elapsed(),
        origin: epoch + course.origin,
        caveats,
        captures: course.captures,
    })
}

/// As the plan says, or what one packet of the control connection carries.
fn datagram_bytes(plan: &Plan, control: &TcpStream) -> u64 {
    let of_path = || Some(u64::from(tcp_info::read(control).ok()?.send_mss_bytes));
    let bytes = plan.write_bytes.or_else(of_path).unwrap_or(DATAGRAM_BYTES);
    bytes.clamp(*DATAGRAMS.start(), *DATAGRAMS.end())
}
