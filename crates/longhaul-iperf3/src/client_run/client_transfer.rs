//! The client's tasks outside the protocol: streams, engines, and progress reports.

use super::client_protocol::{ClientInput, ClientStep};
use super::{joined_results, plan_to_parameters};
use crate::iperf3_messages::{CounterWidth, TestCookie, TestResults};
use longhaul_model::report::v1::plan::{
    ReceiveMode, RunDirection, RunTransport, StopCondition, ThroughputPlan,
};
use longhaul_probe::engine::{DataSocket, DatagramFormat, EndSpec, EngineError, StreamEnding};
use longhaul_probe::run_capture::RunCapture;
use longhaul_probe::session::SessionState;
use longhaul_probe::session_driver::{SessionEngines, SessionResults, SessionSockets};
use longhaul_probe::throughput::{RunCaptures, TargetHost, ThroughputProgress};
use longhaul_sys::sockopt;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The interval between calls of the caller's `watch`.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// The maximum time without an acknowledgement while the last bytes of a byte-limited test arrive,
/// before the server is told that the test has ended.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// A test that is in progress.
pub(super) struct ClientTransfer<'a> {
    target: &'a TargetHost,
    /// The plan as the engine runs it, with default sizes filled in.
    plan: &'a ThroughputPlan,
    ends: (Option<SocketAddr>, SocketAddr),
    epoch: Instant,
    watch: &'a mut dyn FnMut(&ThroughputProgress),
    last_progress: Option<(SessionState, Instant)>,
    sockets: SessionSockets,
    /// The connections on which this end sends, to read how much is in flight.
    sending_streams: Vec<TcpStream>,
    /// The minimum of the bytes in flight, and its time.
    min_in_flight: Option<(u64, Instant)>,
    engines: Option<SessionEngines>,
    /// The step in which the user ended the test early.
    interrupted_in: Option<ClientStep>,
    capture: RunCapture,
    pub captures: RunCaptures,
    pub collected: SessionResults,
    pub origin: Duration,
    pub idle_rtt: Option<Duration>,
}

impl<'a> ClientTransfer<'a> {
    pub fn new(
        target: &'a TargetHost,
        plan: &'a ThroughputPlan,
        ends: (Option<SocketAddr>, SocketAddr),
        epoch: Instant,
        watch: &'a mut dyn FnMut(&ThroughputProgress),
    ) -> ClientTransfer<'a> {
        ClientTransfer {
            target,
            plan,
            ends,
            epoch,
            watch,
            last_progress: None,
            sockets: SessionSockets::default(),
            sending_streams: Vec::new(),
            min_in_flight: None,
            engines: None,
            interrupted_in: None,
            capture: RunCapture::default(),
            captures: RunCaptures::default(),
            collected: SessionResults::default(),
            origin: Duration::ZERO,
            idle_rtt: None,
        }
    }

    /// Returns whether both ends have the same address, so that there is no path between them.
    pub fn same_host(&self) -> bool {
        let (local, far) = self.ends;
        local.map(|local| local.ip().to_canonical()) == Some(far.ip().to_canonical())
    }

    pub fn open_streams(&mut self, cookie: TestCookie) -> Result<(), EngineError> {
        self.report_progress(SessionState::Opening);
        self.capture = RunCapture::begin_client(
            self.plan,
            self.ends.0,
            self.ends.1,
            self.target.header_analysis,
        );
        self.sockets = super::open_streams(self.target, self.plan, self.ends.1, cookie)?;
        let tails = self.sockets.forward.iter().filter_map(|socket| match socket {
            DataSocket::Tcp(stream) => stream.try_clone().ok(),
            DataSocket::Udp(_) => None,
        });
        self.sending_streams = tails.collect();
        Ok(())
    }

    /// Starts the engines; `idle_rtt` comes from the control connection.
    pub fn ready(&mut self, idle_rtt: Option<Duration>) -> Result<(), EngineError> {
        self.idle_rtt = idle_rtt;
        self.origin = self.epoch.elapsed();
        let spec = EndSpec {
            plan: self.plan.clone(),
            initiator: true,
            idle_rtt: Some(idle_rtt.unwrap_or_default()),
            origin: self.epoch + self.origin,
            heads: DatagramFormat::Numbered(CounterWidth::Bits64),
            ending: StreamEnding::Open {
                block_bytes: plan_to_parameters::tcp_block_bytes(self.plan),
            },
        };
        let sockets = std::mem::take(&mut self.sockets);
        self.engines = Some(SessionEngines::start(&spec, sockets)?);
        Ok(())
    }

    pub fn go(&self) {
        self.engines.iter().for_each(SessionEngines::go);
    }

    /// Ends the time of this end's senders now; returns whether this is the first time.
    pub fn interrupt(&mut self, step: ClientStep) -> bool {
        if self.interrupted_in.is_some() {
            return false;
        }
        self.interrupted_in = Some(step);
        self.engines.iter().for_each(SessionEngines::stop_sending);
        true
    }

    /// Returns whether the user ended the test before all payload had arrived.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted_in.is_some_and(|step| step < ClientStep::Exchanging)
    }

    /// Takes the last readings and closes the sockets, unless this was done before. Returns this
    /// end's results for the server.
    pub fn collect(&mut self) -> TestResults {
        if self.engines.is_some() {
            self.report_progress(SessionState::Exchanging);
        }
        self.sending_streams.clear();
        if let Some(engines) = self.engines.take() {
            self.collected = engines.collect();
            let capture = std::mem::take(&mut self.capture);
            self.captures.client = capture.end_client(&mut self.collected);
        }
        joined_results::build_client_results(&self.collected)
    }

    /// Returns the progress of the engines; `None` if no payload flows.
    pub fn poll_engines(&mut self) -> Option<ClientInput<'static>> {
        self.report_progress(SessionState::Running);
        let engines = self.engines.as_ref()?;
        self.capture.follow_sender(engines);
        let progress = engines.progress();
        let interval = progress.interval;
        let (sent, received) = (interval.sent_bytes, interval.received_bytes);
        let elapsed_us = interval.elapsed_us;
        let bytes = sent.unwrap_or(0) + received.unwrap_or(0);
        let taken = |wanted: u64| received.is_none_or(|bytes| bytes >= wanted);
        let over = match self.plan.stop {
            _ if self.interrupted_in.is_some() => progress.sent,
            StopCondition::TimeUs(time) => elapsed_us >= time && (sent.is_none() || progress.sent),
            StopCondition::Bytes(wanted) => progress.sent && taken(wanted) && self.has_arrived(),
            StopCondition::Blocks(blocks) => {
                let wanted = blocks.saturating_mul(plan_to_parameters::tcp_block_bytes(self.plan));
                progress.sent && taken(wanted) && self.has_arrived()
            }
        };
        let ended = received.is_some() && progress.drained && progress.sent && elapsed_us > 0;
        Some(ClientInput::Moved { bytes, over: over || ended })
    }

    /// Returns the time during which payload only flows.
    pub fn flow_time_left(&self) -> Duration {
        let (StopCondition::TimeUs(time), Some(engines), None) =
            (self.plan.stop, &self.engines, self.interrupted_in)
        else {
            return Duration::ZERO;
        };
        Duration::from_micros(time.saturating_sub(engines.progress().interval.elapsed_us))
    }

    /// Returns whether all sent bytes are acknowledged, or acknowledgements have stopped.
    fn has_arrived(&mut self) -> bool {
        let waiting: u64 = self.in_flight_bytes();
        let now = Instant::now();
        match self.min_in_flight {
            _ if waiting == 0 => true,
            Some((least, since)) if waiting >= least => now >= since + ARRIVAL_TIMEOUT,
            _ => {
                self.min_in_flight = Some((waiting, now));
                false
            }
        }
    }

    fn in_flight_bytes(&self) -> u64 {
        let queued = |stream: &TcpStream| sockopt::send_queue_bytes(stream).ok();
        self.sending_streams.iter().filter_map(queued).sum()
    }

    fn report_progress(&mut self, state: SessionState) {
        let due = |(last, at): (SessionState, Instant)| {
            last != state || at.elapsed() >= PROGRESS_INTERVAL
        };
        if self.last_progress.is_none_or(due) {
            self.last_progress = Some((state, Instant::now()));
            let progress = self.progress(state);
            (self.watch)(&progress);
        }
    }

    /// The server reports its received bytes only at the end; until then, the bytes acknowledged by
    /// its kernel are used.
    fn progress(&self, state: SessionState) -> ThroughputProgress {
        let mut progress = ThroughputProgress::read_engines(state, self.engines.as_ref());
        if let Some(forward) = &mut progress.forward {
            let in_flight = self.in_flight_bytes();
            forward.received_bytes = forward.sent_bytes.map(|sent| sent.saturating_sub(in_flight));
            forward.received_at = Some(progress.elapsed);
        }
        progress
    }
}

/// Returns the plan as both engines run it: the server is told the default sizes.
pub(super) fn fill_in_sizes(plan: &ThroughputPlan, datagram_bytes: u64) -> ThroughputPlan {
    let far_sends_blocks =
        matches!(plan.stop, StopCondition::Blocks(_)) || plan.direction != RunDirection::Forward;
    let write_bytes = match plan.transport {
        RunTransport::Udp { .. } => Some(datagram_bytes),
        RunTransport::Tcp if far_sends_blocks => Some(plan_to_parameters::tcp_block_bytes(plan)),
        RunTransport::Tcp => plan.write_bytes,
    };
    // Reads as an iperf3 client does: smaller reads cost this end 5 % more at high rates.
    let reads_blocks = plan.mode == ReceiveMode::Delivered && plan.read_rate_bps.is_none();
    let read_bytes = reads_blocks.then(|| plan_to_parameters::tcp_block_bytes(plan));
    ThroughputPlan { write_bytes, read_bytes: plan.read_bytes.or(read_bytes), ..plan.clone() }
}
