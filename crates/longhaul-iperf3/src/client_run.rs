//! A run against an iperf3 server, as its client.
//!
//! - [`ClientProtocol`]: the protocol, without sockets or clocks
//! - [`run`]: a run on real connections with our engine
//! - [`LoginCredentials`] authenticates the client
//! - [`ClientTestEnd`]: the end of a test, with advice

mod client_driver;
mod client_protocol;
mod client_streams;
mod client_test_end;
mod client_transfer;
mod joined_results;
mod login;
mod plan_to_parameters;
mod run_error;

pub use client_protocol::{
    ClientAction, ClientInput, ClientProtocol, ClientStep, RESULTS_TIMEOUT, SILENCE_TIMEOUT,
    STEP_TIMEOUT,
};
pub use client_test_end::ClientTestEnd;
pub use login::{LoginCredentials, LoginError, TokenPadding};
pub use run_error::Iperf3RunError;

use super::iperf3_messages::TestCookie;
use client_driver::ClientDriver;
use client_transfer::{ClientTransfer, fill_in_sizes};
use joined_results::JoinContext;
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_probe::plan_limits::{MAX_STREAMS, check_plan};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::throughput::{self, TargetHost, ThroughputOutcome, ThroughputProgress};
use longhaul_sys::tcp_info;
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

/// The default payload of a datagram if neither the plan nor the path gives one, for Ethernet.
const DEFAULT_DATAGRAM_BYTES: u64 = 1460;
/// The largest datagram that iperf3 accepts, and the smallest that holds our counters.
const DATAGRAM_BYTES_RANGE: std::ops::RangeInclusive<u64> = 24..=65_507;
/// The interval at which a busy server, or one between two tests, is contacted again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The minimum time for which a server that closed the connection is contacted again: after each
/// test, an iperf3 server closes its listener and with it all waiting connections.
const MIN_HANGUP_RETRY: Duration = Duration::from_secs(1);

/// Performs one run. `watch` is called about five times a second while payload flows.
///
/// Blocks for the whole run; every wait has a deadline. For `patience`, a server that is busy or
/// has no listener is contacted again. A server that closed the connection before its first byte is
/// contacted again for at least a second, as it may have been between two tests.
///
/// # Errors
/// See [`Iperf3RunError`]: the plan is unsuitable for iperf3, or the connection or test failed.
pub fn run(
    target: &TargetHost,
    plan: &ThroughputPlan,
    login: Option<&LoginCredentials>,
    patience: Duration,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, Iperf3RunError> {
    check_plan(plan, MAX_STREAMS)?;
    plan_to_parameters::check_iperf3_plan(plan)?;
    let (began, mut patience) = (Instant::now(), patience);
    loop {
        let done = try_run(target, plan, login, watch);
        if done.as_ref().is_err_and(server_hung_up) {
            patience = patience.max(MIN_HANGUP_RETRY);
        }
        match done {
            Err(error) if is_transient(&error) && began.elapsed() < patience => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            done => return done,
        }
    }
}

/// The server is between two tests: busy, without a listener, or the listener closed meanwhile.
fn is_transient(error: &Iperf3RunError) -> bool {
    server_hung_up(error)
        || match error {
            Iperf3RunError::Probe(ProbeError::Connect { source, .. }) => {
                source.kind() == io::ErrorKind::ConnectionRefused
            }
            Iperf3RunError::Test { closed, .. } => *closed == ClientTestEnd::Busy,
            Iperf3RunError::Probe(_) => false,
        }
}

/// The server was reachable, but closed the connection before its first byte.
fn server_hung_up(error: &Iperf3RunError) -> bool {
    match error {
        Iperf3RunError::Probe(ProbeError::Connect { source, .. }) => {
            source.kind() == io::ErrorKind::ConnectionReset
        }
        Iperf3RunError::Test { closed, .. } => {
            matches!(closed, ClientTestEnd::Cut { step: ClientStep::Greeting, .. })
        }
        Iperf3RunError::Probe(_) => false,
    }
}

fn try_run(
    target: &TargetHost,
    plan: &ThroughputPlan,
    login: Option<&LoginCredentials>,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, Iperf3RunError> {
    let (started_at, epoch) = (SystemTime::now(), Instant::now());
    let address = throughput::resolve_target(target)?;
    let control = throughput::connect_plain(target, address)?;
    let local = control.local_addr().ok();
    let datagram_bytes = choose_datagram_bytes(plan, &control);
    let mut parameters = plan_to_parameters::build_parameters(plan, datagram_bytes);
    if let Some(login) = login {
        let token = login.make_token(started_at);
        let failed = |error: LoginError| ProbeError::local(error.to_string(), None);
        parameters.authtoken = Some(token.map_err(failed)?);
    }
    let cookie = TestCookie::random()
        .map_err(|error| ProbeError::local("cannot create a cookie for the test", error))?;
    let effective_plan = fill_in_sizes(plan, datagram_bytes);
    let mut transfer = ClientTransfer::new(target, &effective_plan, (local, address), epoch, watch);
    let greeting = epoch.elapsed() + target.connect_timeout;
    let client = ClientProtocol::new(cookie, parameters, greeting);
    let driver = ClientDriver { control, client, cookie, transfer: &mut transfer, epoch };
    let (closed, results) = driver.run();
    let failed = |closed| Iperf3RunError::Test { address, closed };
    if closed != ClientTestEnd::Finished {
        return Err(failed(closed));
    }
    let violation = |what| failed(ClientTestEnd::Violation { step: ClientStep::Exchanging, what });
    let results = results.ok_or_else(|| violation("it sent no results".to_owned()))?;
    let mut collected = std::mem::take(&mut transfer.collected);
    let mut caveats = plan_to_parameters::list_caveats(plan);
    for end in collected.sender.iter_mut().chain(&mut collected.receiver) {
        caveats.append(&mut end.caveats);
    }
    let known = JoinContext {
        plan,
        host: &target.host,
        idle_rtt: transfer.idle_rtt,
        same_host: transfer.same_host(),
    };
    Ok(ThroughputOutcome {
        observation: joined_results::join_ends(&known, collected, &results).map_err(violation)?,
        initiator: throughput::initiator_party(local),
        responder: RunParty {
            host: target.host.clone(),
            address: Some(address.ip().to_string()),
            ..RunParty::default()
        },
        started_at,
        duration: epoch.elapsed(),
        origin: epoch + transfer.origin,
        caveats,
        captures: transfer.captures,
    })
}

/// Returns the size in the plan, or the payload of one packet of the control connection.
fn choose_datagram_bytes(plan: &ThroughputPlan, control: &TcpStream) -> u64 {
    let of_path = || Some(tcp_info::read_tcp_info(control).ok()?.reading.mss_bytes);
    let bytes = plan.write_bytes.or_else(of_path).unwrap_or(DEFAULT_DATAGRAM_BYTES);
    bytes.clamp(*DATAGRAM_BYTES_RANGE.start(), *DATAGRAM_BYTES_RANGE.end())
}
