//! Findings: the causes of a run's limits, with advice. Each cause states what we would see,
//! what refutes it, the readings it needs, and what to do.

mod bottleneck_queue;
mod cpu_limit;
mod loss_causes;
mod program_causes;
mod receive_window;
mod send_buffer_limit;
mod tcp_option_causes;
mod token_bucket_causes;
mod two_limiters;

use crate::limit::interval_state::IntervalState;
use crate::limit::limiter_verdict::RunVerdict;
use crate::limit::run_view::RunView;
use crate::limit::{limit_bounds, window_range};
use crate::throughput::limiter_text::{format_whole_percent, name_limiter, to_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{EndObservation, HostFacts};
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::time::Duration;

/// The data for all causes: one direction of a run, with its verdict.
pub struct DiagnosisCase<'a> {
    pub scene: RunView<'a>,
    pub verdict: RunVerdict,
    pub analysis: &'a ThroughputAnalysis,
}

type DiagnoseCause = fn(&DiagnosisCase) -> Option<ReportFinding>;

/// The causes, each with the limiter without which it is out of the question. The limiters come
/// first, then other problems.
const CAUSES: [(Option<Limiter>, DiagnoseCause); 22] = [
    (None, program_causes::diagnose_short_run),
    (None, tcp_option_causes::diagnose_window_scaling),
    (Some(Limiter::ReceiveWindow), receive_window::diagnose_clipped_window),
    (Some(Limiter::ReceiveWindow), receive_window::diagnose_autotuning),
    (Some(Limiter::ReceiveWindow), receive_window::diagnose_window_size),
    (Some(Limiter::SendBuffer), send_buffer_limit::diagnose_send_buffer),
    (Some(Limiter::Application), program_causes::diagnose_sender_application),
    (Some(Limiter::Application), program_causes::diagnose_receiver_application),
    (Some(Limiter::CpuSender), cpu_limit::diagnose_sender_cpu),
    (Some(Limiter::CpuReceiver), cpu_limit::diagnose_receiver_cpu),
    (Some(Limiter::Pacing), program_causes::diagnose_pacing),
    (None, token_bucket_causes::diagnose_policer),
    (None, token_bucket_causes::diagnose_shaper),
    (Some(Limiter::Loss), loss_causes::diagnose_random_loss),
    (Some(Limiter::PathCapacity), bottleneck_queue::diagnose_full_path),
    (None, two_limiters::diagnose_two_limiters),
    (None, bottleneck_queue::diagnose_deep_queue),
    (Some(Limiter::PathCapacity), bottleneck_queue::diagnose_shallow_buffer),
    (None, loss_causes::diagnose_host_drops),
    (None, loss_causes::diagnose_reordering),
    (None, loss_causes::diagnose_timeouts),
    (None, tcp_option_causes::diagnose_stripped_options),
];

pub fn diagnose_run(case: &DiagnosisCase) -> Vec<ReportFinding> {
    let possible =
        CAUSES.iter().filter(|(limiter, _)| limiter.is_none_or(|it| case.is_limited_by(it)));
    possible.filter_map(|(_, cause)| cause(case)).collect()
}

impl DiagnosisCase<'_> {
    fn is_limited_by(&self, limiter: Limiter) -> bool {
        self.verdict.limiter == limiter
    }

    fn sender(&self) -> &EndObservation {
        &self.scene.observation.ends.sender
    }

    fn receiver(&self) -> &EndObservation {
        &self.scene.observation.ends.receiver
    }

    fn streams(&self) -> u64 {
        (self.scene.observation.streams.len() as u64).max(1)
    }

    fn goodput_bps(&self) -> u64 {
        self.analysis.goodput_bps.unwrap_or(0)
    }

    fn goodput(&self) -> Rate {
        Rate::bits_per_second(self.goodput_bps())
    }

    fn idle_rtt(&self) -> Option<Duration> {
        self.scene.idle_rtt_us.map(Duration::from_micros)
    }

    fn rtt_text(&self) -> String {
        self.idle_rtt().map_or_else(|| String::from("an unknown RTT"), format_duration)
    }

    /// The path's capacity, if this run saw the path full.
    fn capacity_bps(&self) -> Option<u64> {
        limit_bounds::find_seen_capacity_bps(&self.scene, &self.verdict)
    }

    /// Returns, for each stream, the window with which all streams together fill the path twice.
    fn double_bdp_per_stream(&self) -> Option<u64> {
        let path = Rate::bits_per_second(self.capacity_bps()?).bytes_in(self.idle_rtt()?);
        Some(path.saturating_mul(2) / self.streams())
    }

    /// Returns a better window for one stream: for the known capacity, or else eight times the
    /// present one, which is enough to reveal the next limit.
    fn better_window(&self, present: u64) -> u64 {
        const STEP: u64 = 8;
        let wanted = self
            .double_bdp_per_stream()
            .map_or(present.saturating_mul(STEP), |bytes| bytes.max(present));
        window_range::round_window(wanted)
    }

    /// Returns a window that the kernel should grant: for the known capacity, or else the requested
    /// one, since more would be a guess.
    fn window_to_grant(&self, asked: u64) -> u64 {
        let wanted = self.double_bdp_per_stream().unwrap_or(asked);
        window_range::round_window(wanted)
    }

    /// Returns the rate that a window of `to_bytes` on every stream allows.
    fn allowed_bps(&self, bytes: u64) -> Option<u64> {
        Rate::over(bytes.saturating_mul(self.streams()), self.idle_rtt()?).map(Rate::as_bps)
    }

    /// Returns the expected goodput after lifting the limiter this far, if the capacity is known.
    fn expected_bps(&self, lifted_to_bps: Option<u64>) -> Option<u64> {
        let capacity = self.capacity_bps()?;
        Some(lifted_to_bps.map_or(capacity, |bps| bps.min(capacity)))
    }

    /// Returns `; next limit: …`, or that it has not been measured.
    fn describe_next_limit(&self) -> String {
        self.analysis.next_limit.as_ref().map_or_else(
            || String::from("; the next limit has not been measured"),
            |b| format!("; next limit: {} ({})", name_limiter(b.limiter), b.why),
        )
    }
}

/// Returns the command that repeats the test with these options. An observation does not include
/// the server's name from the command line, so the placeholder of the help text is used.
fn repeat_command(options: &str) -> String {
    format!("longhaul test HOST {options}")
}

/// Returns a finding with the verdict's own confidence.
fn build_finding(case: &DiagnosisCase, cause: &str, summary: String) -> ReportFinding {
    ReportFinding::new(cause, case.analysis.confidence_ratio, summary)
}

/// Returns the host's name, or the place if it has none.
fn name_of_host<'h>(host: &'h HostFacts, place: &'h str) -> &'h str {
    if host.name.is_empty() { place } else { &host.name }
}

/// Describes the data in flight per stream at the measured rate, for comparison with a window.
fn describe_in_flight(case: &DiagnosisCase) -> Option<String> {
    let rtt = Duration::from_micros(case.analysis.rtt_us?.mean);
    let each = case.goodput().bytes_in(rtt) / case.streams();
    let trip = format_duration(rtt);
    Some(format!(
        "goodput {} × loaded RTT {trip} = {} in flight per stream",
        case.goodput(),
        Bytes(each)
    ))
}

/// Formats the share of bytes in a state as evidence.
fn describe_state_share(case: &DiagnosisCase, state: IntervalState) -> String {
    let share = format_whole_percent(case.verdict.shares.state(state));
    format!("{} for {share} of the bytes", state.describe())
}

fn read_protocol_counter(end: &EndObservation, name: &str) -> u64 {
    let dotted = end.protocol.iter().find(|(key, _)| key.rsplit('.').next() == Some(name));
    dotted.map_or(0, |(_, grown)| *grown)
}
