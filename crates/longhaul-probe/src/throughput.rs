//! A bulk run against a server, from the client's side.
//!
//! The first address of the name that gives a connection is used for the whole run, and the report
//! names it and those that failed. The samples of both ends are returned on one time line, with a
//! bound of its error.

mod client_hooks;
mod connection_race;
mod control_connect;
mod result_join;
mod stream_opening;
mod target_address;

pub use connection_race::AddressFailure;
pub(crate) use control_connect::open_control as connect_control;
pub(crate) use result_join::payload_span;
pub use result_join::{
    OwnEndContext, early_end_caveats, join_results, observe_own_end, payload_duration_us,
};
pub use stream_opening::open_data_streams;
pub(crate) use stream_opening::open_flow;
pub use target_address::{
    ChosenAddress, TargetConnection, choose_address, choose_path_address, connect_target,
};

use crate::engine::{EndRun, EngineProgress};
use crate::header_capture::HeaderAnalysis;
use crate::plan_limits::{MAX_STREAMS, check_cores, check_plan};
use crate::probe_error::{ProbeError, TokenFailure};
use crate::run_capture::RunCapture;
use crate::secure::AuthToken;
use crate::session::{ServerResults, Session, SessionEnd, SessionPurpose, SessionState};
use crate::session_driver::{SessionDriver, SessionEngines, SessionResults, SessionSockets};
use crate::supervise;
use crate::wire::IntervalCounters;
use client_hooks::ClientHooks;
use longhaul_capture::FinishedCapture;
use longhaul_model::report::v1::observation::{StreamEnd, ThroughputObservation};
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_sys::tcp_info;
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

pub use crate::engine::LocalBind;
pub use longhaul_sys::probe_socket::IpFamily;

/// The server, and how to reach it.
#[derive(Debug, Clone)]
pub struct TargetHost {
    pub host: String,
    pub port: u16,
    /// `None` for any family.
    pub family: Option<IpFamily>,
    /// The address to use, once one has been found; see [`choose_address`].
    pub chosen: Option<ChosenAddress>,
    /// Local address and interface of control and data connections.
    pub bind: LocalBind,
    /// Local port of the first data connection; each further one has the next port.
    pub data_port: Option<u16>,
    /// Flow labels of the data connections that use IPv6.
    pub flow_label: Option<FlowLabelPattern>,
    pub token: Option<String>,
    /// The analysis of the headers of this end's packets, which are captured for it.
    pub header_analysis: Option<HeaderAnalysis>,
    /// Timeout of connecting to all addresses together, of each further TCP connect, the TLS handshake, and the opening of UDP flows.
    pub connect_timeout: Duration,
}

impl TargetHost {
    /// Returns the address that was chosen to connect to.
    pub fn chosen_ip(&self) -> Option<IpAddr> {
        self.chosen.as_ref().map(|chosen| chosen.address.ip())
    }

    /// Returns the port if it is not the default one.
    pub fn changed_port(&self) -> Option<u16> {
        (self.port != crate::DEFAULT_PORT).then_some(self.port)
    }

    /// Creates a target with the default port, any family, and no token.
    pub fn new(host: impl Into<String>) -> TargetHost {
        TargetHost {
            host: host.into(),
            port: crate::DEFAULT_PORT,
            family: None,
            chosen: None,
            bind: LocalBind::default(),
            data_port: None,
            flow_label: None,
            token: None,
            header_analysis: None,
            connect_timeout: Duration::from_secs(10),
        }
    }

    /// Returns where to bind a data connection. Those on which the server sends follow those on which
    /// this end sends.
    pub fn stream_bind(&self, plan: &ThroughputPlan, forward: bool, index: u16) -> LocalBind {
        let both = plan.direction == RunDirection::Both;
        let before = if both && !forward { plan.streams as u16 } else { 0 };
        let port = self.data_port.map(|first| first.saturating_add(before).saturating_add(index));
        let flow_label = self.flow_label.map(FlowLabelPattern::draw_label);
        LocalBind { port, flow_label, ..self.bind.clone() }
    }
}

/// The flow labels of connections that are marked alike. Some bits are random, so that routers can
/// distribute the connections to several paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowLabelPattern {
    pub value: u32,
    pub random_bits: u32,
}

impl FlowLabelPattern {
    /// Returns a label for one connection.
    pub fn draw_label(self) -> u32 {
        // The hasher's keys are kernel random numbers.
        let random = RandomState::new().hash_one(self.value) as u32;
        (self.value & !self.random_bits) | (random & self.random_bits)
    }
}

/// Result of a run.
#[derive(Debug, Clone)]
pub struct ThroughputOutcome {
    pub observation: ThroughputObservation,
    /// As granted by the server.
    pub stop: StopCondition,
    pub initiator: RunParty,
    pub responder: RunParty,
    /// Start of the run, including setup.
    pub started_at: SystemTime,
    /// Duration, including setup and exchange of results.
    pub duration: Duration,
    /// Zero of the observation's time line, on this host's clock.
    pub origin: Instant,
    pub caveats: Vec<ReportCaveat>,
    pub captures: RunCaptures,
}

/// Packet captures of both ends, if requested.
#[derive(Debug, Clone, Default)]
pub struct RunCaptures {
    pub client: Option<FinishedCapture>,
    /// The server's file as received; its content is untrusted.
    pub server: Option<Vec<u8>>,
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputProgress {
    /// The session state; payload flows in [`SessionState::Running`] and [`SessionState::Draining`].
    pub state: SessionState,
    /// Time since payload began to flow.
    pub elapsed: Duration,
    /// Client to server; `None` if no payload flows in that direction.
    pub forward: Option<PayloadProgress>,
    /// Server to client.
    pub reverse: Option<PayloadProgress>,
}

/// Progress of one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PayloadProgress {
    /// Written by the sender; the server's count is up to a second old.
    pub sent_bytes: Option<u64>,
    /// Read by the receiver; the basis of goodput.
    pub received_bytes: Option<u64>,
    /// Time of the receiver's count, since its payload began to flow.
    pub received_at: Option<Duration>,
    /// Retransmits, if this end sends.
    pub retransmits: Option<u64>,
    pub rtt: Option<Duration>,
    /// That of the control connection before the run.
    pub idle_rtt: Option<Duration>,
    /// This end of each stream, with one sample.
    pub own_ends: Vec<StreamEnd>,
}

impl ThroughputProgress {
    /// Reads the counts of this end's engines; those of the server are missing.
    pub fn read_engines(
        state: SessionState,
        engines: Option<&SessionEngines>,
    ) -> ThroughputProgress {
        let sender = engines.and_then(|engines| engines.sender.as_ref()).map(EndRun::progress);
        let receiver = engines.and_then(|engines| engines.receiver.as_ref()).map(EndRun::progress);
        let elapsed = sender.iter().chain(&receiver).map(|progress| progress.elapsed).max();
        let forward = sender.map(|progress| PayloadProgress {
            sent_bytes: Some(progress.bytes),
            ..PayloadProgress::of_own_end(progress)
        });
        let reverse = receiver.map(|progress| PayloadProgress {
            received_bytes: Some(progress.bytes),
            received_at: Some(progress.elapsed),
            ..PayloadProgress::of_own_end(progress)
        });
        ThroughputProgress { state, elapsed: elapsed.unwrap_or_default(), forward, reverse }
    }
}

impl PayloadProgress {
    fn of_own_end(progress: EngineProgress) -> PayloadProgress {
        PayloadProgress {
            retransmits: progress.retransmits,
            rtt: progress.rtt,
            idle_rtt: progress.idle_rtt,
            own_ends: progress.own_ends,
            ..PayloadProgress::default()
        }
    }
}

/// Runs one measurement. Calls `watch` about five times a second while payload flows, and on every
/// change of the session state.
///
/// Blocks for the whole run; every wait in it has a deadline. `stop` ends the run early and in
/// order, within a few round trips, or after [`crate::session::INTERRUPT_TIMEOUT`] if the server
/// does not answer. A run that ends early, or whose server is lost, has the result of what was
/// measured, with the caveats of [`early_end_caveats`].
///
/// # Errors
/// See [`ProbeError`]. No payload was measured.
pub fn run(
    target: &TargetHost,
    plan: &ThroughputPlan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, ProbeError> {
    check_plan(plan, MAX_STREAMS)?;
    check_cores(&plan.affinity, true)?;
    let token = target_token(target)?;
    let (started_at, epoch) = (SystemTime::now(), Instant::now());
    let own_target = target.clone();
    let connection =
        connect_unless_stopped(stop, move || control_connect::open_control(&own_target))?;
    let (target, address) = (&connection.target, connection.address);
    let party = initiator_party(connection.local);
    let setup = connection.session_setup(token, party.clone());
    // The session's deadlines count from here, independent of the handshake's duration.
    let session_epoch = Instant::now();
    let purpose = SessionPurpose::Run(Box::new(plan.clone()));
    let session = Session::client(setup, purpose);
    let mut hooks = ClientHooks {
        target,
        plan,
        address,
        local: connection.local,
        epoch: session_epoch,
        origin: session_epoch,
        watch,
        stop,
        stopped_in: None,
        last_report: None,
        sockets: SessionSockets::default(),
        engines: None,
        local_interval: IntervalCounters::default(),
        server_unreachable: false,
        server_interval: IntervalCounters::default(),
        collected: SessionResults::default(),
        capture: RunCapture::default(),
        captured: None,
    };
    let drive = SessionDriver::new(connection.channel, session, session_epoch);
    let (closed, mut session) = drive.run(&mut hooks);
    let responder = responder_party(target, address, &session);
    let granted = session.plan().map_or(plan.stop, |granted| granted.stop);
    let granted = ThroughputPlan { stop: granted, ..plan.clone() };
    let (observation, capture, caveats) =
        conclude_session(&granted, &mut hooks, closed, &mut session)?;
    Ok(ThroughputOutcome {
        observation,
        stop: granted.stop,
        initiator: party,
        responder,
        started_at,
        duration: epoch.elapsed(),
        origin: hooks.origin,
        caveats,
        captures: RunCaptures {
            client: hooks.captured,
            server: (!capture.is_empty()).then_some(capture),
        },
    })
}

/// Calls a function that connects, which may block, until the user stops it.
///
/// # Errors
/// Those of the function; [`ProbeError::Interrupted`] after a stop.
pub fn connect_unless_stopped<T: Send + 'static>(
    stop: &AtomicBool,
    connect: impl FnOnce() -> Result<T, ProbeError> + Send + 'static,
) -> Result<T, ProbeError> {
    match supervise::call_until_stopped(stop, connect) {
        Ok(Some(connected)) => connected,
        Ok(None) => Err(ProbeError::Interrupted { step: SessionState::Greeting }),
        Err(source) => Err(ProbeError::local("cannot start a thread to connect", source)),
    }
}

/// Joins the results of both ends, or takes those of this end if the server sent none. Returns the
/// observation, the server's capture, and the caveats.
fn conclude_session(
    plan: &ThroughputPlan,
    hooks: &mut ClientHooks<'_>,
    closed: SessionEnd,
    session: &mut Session,
) -> Result<(ThroughputObservation, Vec<u8>, Vec<ReportCaveat>), ProbeError> {
    let (address, stopped) = (hooks.address, hooks.was_cut_short());
    hooks.collect();
    let collected = std::mem::take(&mut hooks.collected);
    if closed == SessionEnd::Finished {
        let ServerResults { capture, directions } = session.take_results();
        let joined = join_results(plan, collected, directions, session);
        let (observation, mut caveats) = joined.map_err(|what| {
            if stopped {
                ProbeError::Interrupted { step: SessionState::Running }
            } else {
                ProbeError::PeerLost { address, step: SessionState::Exchanging, what }
            }
        })?;
        observation.check_counts().map_err(|what| ProbeError::Contradiction { address, what })?;
        caveats.extend(early_end_caveats(plan, &observation, stopped, None));
        return Ok((observation, capture, caveats));
    }
    let error = match closed {
        SessionEnd::OwnFailure { step, what } if hooks.server_unreachable => {
            ProbeError::PeerLost { address, step, what }
        }
        closed => session_error(hooks.target, address, closed, hooks.moved_bytes()),
    };
    let known = OwnEndContext {
        plan,
        server: &hooks.target.host,
        clock: session.clock(),
        idle_rtt: session.clock().map(|clock| clock.rtt),
        same_host: session.same_host(),
        same_boot: session.same_boot(),
        server_counts: hooks.server_interval,
    };
    match (observe_own_end(&known, collected), hooks.stopped_in) {
        (Ok(observation), _) => {
            let caveats = early_end_caveats(plan, &observation, stopped, Some(&error));
            Ok((observation, Vec::new(), caveats))
        }
        (Err(_), Some(step)) => Err(ProbeError::Interrupted { step }),
        (Err(_), None) => Err(error),
    }
}

pub(crate) fn target_token(target: &TargetHost) -> Result<Option<AuthToken>, ProbeError> {
    let Some(text) = &target.token else {
        return Ok(None);
    };
    AuthToken::new(text).map(Some).ok_or_else(|| ProbeError::local("the token is empty", None))
}

/// Returns the description of this host, with the address that it measures from.
pub fn initiator_party(local: Option<SocketAddr>) -> RunParty {
    RunParty {
        address: local.map(|local| local.ip().to_canonical().to_string()),
        ..crate::local_party_info()
    }
}

pub(crate) fn responder_party(
    target: &TargetHost,
    address: SocketAddr,
    session: &Session,
) -> RunParty {
    RunParty {
        host: target.host.clone(),
        address: Some(address.ip().to_string()),
        failed_addresses: target.failed_addresses(),
        port: target.changed_port(),
        ..session.peer().cloned().unwrap_or_default()
    }
}

/// Converts the end of an unfinished session into an error.
pub(crate) fn session_error(
    target: &TargetHost,
    address: SocketAddr,
    closed: SessionEnd,
    moved_bytes: u64,
) -> ProbeError {
    let so_far = |what: String| match moved_bytes {
        0 => what,
        bytes => {
            let bytes = longhaul_model::units::Bytes(bytes);
            format!("{what} (after {bytes} at this end)")
        }
    };
    let timeout = |step, what| ProbeError::Timeout { address, step, what };
    let lost = |step, what| ProbeError::PeerLost { address, step, what };
    match closed {
        SessionEnd::VersionDiffers { theirs } => {
            ProbeError::Version { address, ours: crate::wire::ProtocolVersions::OURS, theirs }
        }
        SessionEnd::Token(TokenFailure::Wrong) if target.token.is_none() => {
            ProbeError::Token { address, what: TokenFailure::Missing }
        }
        SessionEnd::Token(what) => ProbeError::Token { address, what },
        SessionEnd::PeerRefused { what } | SessionEnd::WeRefused { what } => {
            ProbeError::Refused { address, what }
        }
        SessionEnd::TimedOut { step, what } | SessionEnd::PeerTimedOut { step, what } => {
            timeout(step, so_far(what))
        }
        SessionEnd::OwnFailure { what, .. } => ProbeError::local(what, None),
        SessionEnd::PeerFailure { step, what } => ProbeError::PeerFailed { address, step, what },
        SessionEnd::Cut { step, why } => lost(step, so_far(why)),
        SessionEnd::PeerViolation { step, what } | SessionEnd::OwnViolation { step, what } => {
            lost(step, what)
        }
        SessionEnd::Finished | SessionEnd::PeerTokenMissing | SessionEnd::PeerTokenWrong => {
            lost(SessionState::Closed, closed.to_string())
        }
    }
}

/// A server whose protocol is known.
#[derive(Debug)]
pub struct IdentifiedServer {
    /// The target with its address.
    pub target: TargetHost,
    /// Time of the TCP handshake, from TCP_INFO.
    pub handshake_rtt: Option<Duration>,
    pub is_iperf3: bool,
}

/// Connects to the server to learn its protocol, and closes the connection again.
///
/// # Errors
/// Like [`run`]; a server of neither protocol.
pub fn identify_server(target: &TargetHost) -> Result<IdentifiedServer, ProbeError> {
    let connection = connect_target(target)?;
    let info = tcp_info::read_tcp_info(&connection.stream).ok();
    let target = connection.target.clone();
    let is_iperf3 = match control_connect::open_channel(connection) {
        Ok(_) => false,
        Err(ProbeError::Iperf3There { .. }) => true,
        Err(error) => return Err(error),
    };
    let handshake_rtt = info.map(|info| info.rtt_min().unwrap_or(info.rtt()));
    Ok(IdentifiedServer { target, handshake_rtt, is_iperf3 })
}

/// Number of connects; the minimum counts, because the first includes neighbour discovery and cold
/// caches.
const CONNECTIONS: u32 = 3;

/// Returns the minimum duration of a TCP connect to the server: one round trip.
///
/// Blocks for at most three times the target's connect timeout.
///
/// # Errors
/// The name has no address, or the server does not answer.
pub fn measure_connect_rtt(target: &TargetHost) -> Result<Duration, ProbeError> {
    let address = match &target.chosen {
        Some(chosen) => chosen.address,
        None => connect_target(target)?.address,
    };
    let mut least = Duration::MAX;
    for _ in 0..CONNECTIONS {
        let socket = control_connect::create_socket(target, address)?;
        let before = Instant::now();
        let _stream = control_connect::connect_socket(socket, target, address)?;
        least = least.min(before.elapsed());
    }
    Ok(least)
}

/// A function that performs a bulk run by the protocol of the server, as [`run`] does.
pub type BulkRun = dyn Fn(
        &TargetHost,
        &ThroughputPlan,
        &AtomicBool,
        &mut dyn FnMut(&ThroughputProgress),
    ) -> Result<ThroughputOutcome, ProbeError>
    + Send
    + Sync;

/// A bulk run that is in progress. When it is dropped, its thread goes on until the run or the
/// program ends.
pub(crate) struct BackgroundRun {
    pub plan: ThroughputPlan,
    stop: Arc<AtomicBool>,
    progress: Arc<Mutex<Option<ThroughputProgress>>>,
    thread: JoinHandle<Result<ThroughputOutcome, ProbeError>>,
}

impl BackgroundRun {
    pub fn start(
        target: &TargetHost,
        plan: ThroughputPlan,
        bulk_run: Arc<BulkRun>,
    ) -> Result<BackgroundRun, ProbeError> {
        let (progress, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (own_target, own_plan, latest) = (target.clone(), plan.clone(), Arc::clone(&progress));
        let own_stop = Arc::clone(&stop);
        let run = move || {
            bulk_run(&own_target, &own_plan, &own_stop, &mut |progress| {
                *latest.lock() = Some(progress.clone());
            })
        };
        let thread = thread::Builder::new()
            .name("load".to_owned())
            .spawn(run)
            .map_err(|source| ProbeError::local("cannot start a thread for the load", source))?;
        Ok(BackgroundRun { plan, stop, progress, thread })
    }

    /// Returns the latest progress; `None` before the first.
    pub fn progress(&self) -> Option<ThroughputProgress> {
        self.progress.lock().clone()
    }

    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends a run early that has not ended.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends a run early that has not ended, and returns the result.
    pub fn finish(self) -> Result<ThroughputOutcome, ProbeError> {
        self.stop();
        let panicked = || Err(ProbeError::local("the thread of the load panicked", None));
        self.thread.join().unwrap_or_else(|_| panicked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn target(port: u16) -> TargetHost {
        TargetHost { port, connect_timeout: Duration::from_secs(2), ..TargetHost::new("127.0.0.1") }
    }

    #[test]
    fn a_listener_is_timed_and_nothing_is_sent_to_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let time = measure_connect_rtt(&target(port)).expect("a round trip");
        assert!(time > Duration::ZERO && time < Duration::from_secs(2));
        for _ in 0..CONNECTIONS {
            let (mut peer, _) = listener.accept().expect("a connection");
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut peer, &mut bytes).expect("its end");
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn a_port_where_nothing_listens_says_so() {
        // Bound by another protocol's socket and not listening: refused at once.
        let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("its address").port();
        let error = measure_connect_rtt(&target(port)).expect_err("nothing listens");
        assert!(matches!(error, ProbeError::Connect { .. }), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("nothing listens")));
    }
}

#[cfg(test)]
mod background_run_tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_run_that_cannot_connect_says_why() {
        // The discard port of this host is closed.
        let target = TargetHost {
            port: 9,
            connect_timeout: Duration::from_secs(2),
            ..TargetHost::new("127.0.0.1")
        };
        let run = BackgroundRun::start(&target, ThroughputPlan::default(), Arc::new(run))
            .expect("a thread");
        let began = Instant::now();
        while !run.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
        let error = run.finish().expect_err("nothing listens there");
        assert!(matches!(error, ProbeError::Connect { .. }), "{error}");
    }
}
