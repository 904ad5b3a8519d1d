//! The capture at one end of a run: it starts before the streams open and ends after they close. Without a
//! request, the headers of this end's sender are captured, while they are worth it.

use crate::engine::EndRun;
use crate::header_capture::{HEADER_PLAN, HeaderAnalysis, MAX_HEADER_BYTES, is_worth_capture};
use crate::session::{SessionRole, sends_payload};
use crate::session_driver::{SessionEngines, SessionResults};
use longhaul_capture::bpf_filter::FlowFilter;
use longhaul_capture::capture_thread::CaptureThread;
use longhaul_capture::packet_buffer::{FinishedCapture, MAX_BUFFER_BYTES};
use longhaul_capture::{capture_caveats, capture_missing_caveat};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::capture::{CapturePlan, CaptureResult};
use longhaul_model::report::v1::observation::StreamEnd;
use longhaul_model::report::v1::plan::{RunTransport, ThroughputPlan};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

/// The capture of this end.
#[derive(Debug, Default)]
pub struct RunCapture {
    state: RunCaptureState,
    /// The analysis of the headers of this end's sender.
    analysis: Option<HeaderAnalysis>,
}

#[derive(Debug, Default)]
enum RunCaptureState {
    #[default]
    Off,
    /// The headers of this end's sender are captured while they are worth it.
    Headers(HeaderFilter, Option<CaptureThread>),
    Requested(CaptureThread),
    /// A capture was requested but could not be started; the caveat says why.
    Failed(ReportCaveat),
}

/// The packets of a sender, and the maximum of bytes to hold.
#[derive(Debug)]
struct HeaderFilter {
    filter: FlowFilter,
    max_bytes: u64,
}

impl HeaderFilter {
    /// Starts a capture. Without the privilege to capture there is none.
    fn start(&self) -> Option<CaptureThread> {
        CaptureThread::start(&self.filter, HEADER_PLAN, self.max_bytes).ok()
    }
}

/// A run between two hosts, seen from one of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CapturedRun<'a> {
    pub plan: &'a ThroughputPlan,
    pub role: SessionRole,
    /// The addresses of the control connection: those of the client and of the server.
    pub ends: [SocketAddr; 2],
    pub max_bytes: u64,
}

impl CapturedRun<'_> {
    fn filter_streams(&self) -> FlowFilter {
        let [client, server] = self.ends;
        let canonical = |address: SocketAddr| address.ip().to_canonical();
        FlowFilter {
            udp: self.plan.transport != RunTransport::Tcp,
            opener: canonical(client),
            listener: SocketAddr::new(canonical(server), server.port()),
            control_port: client.port(),
        }
    }
}

impl RunCapture {
    pub(crate) fn fail(caveat: ReportCaveat) -> RunCapture {
        RunCapture { state: RunCaptureState::Failed(caveat), analysis: None }
    }

    /// Starts the capture that is requested, or that of the headers of this end's sender.
    pub(crate) fn begin(
        run: CapturedRun<'_>,
        requested: Option<CapturePlan>,
        analysis: Option<HeaderAnalysis>,
    ) -> RunCapture {
        let filter = run.filter_streams();
        let has_path = filter.opener != filter.listener.ip();
        let analysis =
            analysis.filter(|_| !filter.udp && has_path && sends_payload(run.role, run.plan));
        let state = match requested {
            Some(capture) => match CaptureThread::start(&filter, capture, run.max_bytes) {
                Ok(capturing) => RunCaptureState::Requested(capturing),
                Err(error) => RunCaptureState::Failed(capture_missing_caveat(&error)),
            },
            None if analysis.is_some() => {
                let headers =
                    HeaderFilter { filter, max_bytes: run.max_bytes.min(MAX_HEADER_BYTES) };
                let capturing = headers.start();
                capturing.map_or(RunCaptureState::Off, |capturing| {
                    RunCaptureState::Headers(headers, Some(capturing))
                })
            }
            None => RunCaptureState::Off,
        };
        RunCapture { state, analysis }
    }

    /// Starts the capture that the plan requests at the client, or that of its headers, before any stream
    /// opens, so that it contains the handshakes.
    pub fn begin_client(
        plan: &ThroughputPlan,
        local: Option<SocketAddr>,
        server: SocketAddr,
        analysis: Option<HeaderAnalysis>,
    ) -> RunCapture {
        let Some(local) = local else {
            let missing = || capture_missing_caveat(&io::ErrorKind::AddrNotAvailable.into());
            return plan.capture.map_or_else(RunCapture::default, |_| RunCapture::fail(missing()));
        };
        let (role, ends) = (SessionRole::Client, [local, server]);
        let run = CapturedRun { plan, role, ends, max_bytes: MAX_BUFFER_BYTES };
        RunCapture::begin(run, plan.capture, analysis)
    }

    /// Ends the capture of headers if their sender turns out to be fast, and starts another one after its
    /// first loss.
    pub fn follow_sender(&mut self, engines: &SessionEngines) {
        let RunCaptureState::Headers(headers, capturing) = &mut self.state else { return };
        let Some(progress) = engines.sender.as_ref().map(EndRun::progress) else { return };
        let retransmits = progress.retransmits.unwrap_or(0);
        match is_worth_capture(progress.bytes, progress.elapsed, retransmits) {
            Some(false) => *capturing = None,
            Some(true) if capturing.is_none() => *capturing = headers.start(),
            _ => {}
        }
    }

    /// Ends the capture at the client, and attaches its description to the results.
    pub fn end_client(self, collected: &mut SessionResults) -> Option<FinishedCapture> {
        let (captured, caveats) = self.end(SessionRole::Client, collected);
        let about = captured.as_ref().map(|captured| captured.capture_report().clone());
        attach_capture(collected, SessionRole::Client, about, caveats);
        captured
    }

    /// Ends the capture, discards packets of other runs between the same hosts, and adds what the headers
    /// of this end's sender show to its results. Returns the capture if it was requested.
    pub(crate) fn end(
        self,
        role: SessionRole,
        collected: &mut SessionResults,
    ) -> (Option<FinishedCapture>, Vec<ReportCaveat>) {
        let (capturing, is_requested) = match self.state {
            RunCaptureState::Off | RunCaptureState::Headers(_, None) => return (None, Vec::new()),
            RunCaptureState::Failed(caveat) => return (None, vec![caveat]),
            RunCaptureState::Headers(_, Some(capturing)) => (capturing, false),
            RunCaptureState::Requested(capturing) => (capturing, true),
        };
        let Some(mut captured) = capturing.finish() else {
            let text = "no capture: its thread panicked".to_owned();
            return (None, vec![ReportCaveat::new("capture_missing", text)]);
        };
        captured.retain_ports(&collect_opener_ports(role, collected));
        if let Some((analyse, sender)) = self.analysis.zip(collected.sender.as_mut()) {
            let streams: Vec<&StreamEnd> = sender.streams.iter().collect();
            sender.end.header_capture = analyse(&captured, &streams);
        }
        if !is_requested {
            return (None, Vec::new());
        }
        let caveats = capture_caveats(captured.capture_report());
        (Some(captured), caveats)
    }
}

fn collect_opener_ports(role: SessionRole, collected: &SessionResults) -> BTreeSet<u16> {
    let own = |stream: &StreamEnd| {
        let address = match role {
            SessionRole::Client => stream.local.as_ref(),
            SessionRole::Server => stream.peer.as_ref(),
        };
        Some(address?.parse::<SocketAddr>().ok()?.port())
    };
    let ends = [&collected.sender, &collected.receiver];
    let streams = ends.into_iter().flatten().flat_map(|end| &end.streams);
    streams.filter_map(own).collect()
}

/// Attaches the capture and its caveats to the results of the first direction.
pub(crate) fn attach_capture(
    collected: &mut SessionResults,
    role: SessionRole,
    about: Option<CaptureResult>,
    caveats: Vec<ReportCaveat>,
) {
    let (sender, receiver) = (collected.sender.as_mut(), collected.receiver.as_mut());
    let first = match role {
        SessionRole::Client => sender.or(receiver),
        SessionRole::Server => receiver.or(sender),
    };
    if let Some(end) = first {
        end.end.capture = about;
        end.caveats.extend(caveats);
    }
}
