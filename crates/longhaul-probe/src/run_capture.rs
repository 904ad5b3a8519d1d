//! The capture at one end of a run: it starts before the streams open and ends after they close.

use crate::session::SessionRole;
use crate::session_driver::SessionResults;
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

/// The state of this end's capture.
#[derive(Debug, Default)]
pub enum RunCapture {
    /// No capture was requested.
    #[default]
    Off,
    Active(CaptureThread),
    /// A capture was requested but could not be started; the caveat says why.
    Failed(ReportCaveat),
}

impl RunCapture {
    /// Captures the streams of `plan` between the addresses of the control connection.
    pub(crate) fn begin(
        plan: &ThroughputPlan,
        capture: CapturePlan,
        opener: SocketAddr,
        listener: SocketAddr,
        most_bytes: u64,
    ) -> RunCapture {
        let canonical = |address: SocketAddr| address.ip().to_canonical();
        let filter = FlowFilter {
            udp: plan.transport != RunTransport::Tcp,
            opener: canonical(opener),
            listener: SocketAddr::new(canonical(listener), listener.port()),
            control_port: opener.port(),
        };
        match CaptureThread::start(&filter, capture, most_bytes) {
            Ok(capturing) => RunCapture::Active(capturing),
            Err(error) => RunCapture::Failed(capture_missing_caveat(&error)),
        }
    }

    /// Starts the capture that the plan requests at the client, before any stream opens, so that
    /// it contains the handshakes.
    pub fn begin_client(
        plan: &ThroughputPlan,
        local: Option<SocketAddr>,
        server: SocketAddr,
    ) -> RunCapture {
        let Some(capture) = plan.capture else {
            return RunCapture::Off;
        };
        match local {
            Some(local) => RunCapture::begin(plan, capture, local, server, MAX_BUFFER_BYTES),
            None => {
                RunCapture::Failed(capture_missing_caveat(&io::ErrorKind::AddrNotAvailable.into()))
            }
        }
    }

    /// Ends the capture at the client, and attaches its description to the results.
    pub fn end_client(self, collected: &mut SessionResults) -> Option<FinishedCapture> {
        let (captured, caveats) = self.end(SessionRole::Client, collected);
        let about = captured.as_ref().map(|captured| captured.capture_report().clone());
        attach_capture(collected, SessionRole::Client, about, caveats);
        captured
    }

    /// Ends the capture, and discards packets of other runs between the same hosts.
    pub(crate) fn end(
        self,
        role: SessionRole,
        collected: &SessionResults,
    ) -> (Option<FinishedCapture>, Vec<ReportCaveat>) {
        match self {
            RunCapture::Off => (None, Vec::new()),
            RunCapture::Failed(caveat) => (None, vec![caveat]),
            RunCapture::Active(capturing) => {
                let Some(mut captured) = capturing.finish() else {
                    let text = "no capture: its thread panicked".to_owned();
                    return (None, vec![ReportCaveat::new("capture_missing", text)]);
                };
                captured.retain_ports(&collect_opener_ports(role, collected));
                let caveats = capture_caveats(captured.capture_report());
                (Some(captured), caveats)
            }
        }
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
