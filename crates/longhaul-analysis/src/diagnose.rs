//! Findings: the causes of a run's limits, with advice. One file per cause; each states what we
//! would see, what refutes it, the readings it needs, and what to do.

mod application;
mod autotuning;
mod cpu;
mod deep_queue;
mod host_drops;
mod options_stripped;
mod pacing;
mod path_full;
mod policer;
mod random_loss;
mod reordering;
mod send_buffer;
mod shallow_buffer;
mod shaper;
mod short_run;
mod timeouts;
mod two_limiters;
mod window_clipped;
mod window_scaling;
mod window_size;

use crate::limit::bounds;
use crate::limit::scene::Scene;
use crate::limit::state::State;
use crate::limit::verdict::Verdict;
use crate::limit::window;
use crate::throughput::words::{name, percent, rate};
use longhaul_model::report::v1::analysis::{Analysis, Limiter};
use longhaul_model::report::v1::observation::{End, Host};
use longhaul_model::report::v1::{Advice, Finding};
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::time::Duration;

/// The data for all causes: one direction of a run, with its verdict.
pub struct Case<'a> {
    pub scene: Scene<'a>,
    pub verdict: Verdict,
    pub analysis: &'a Analysis,
}

/// The limiters come first, then other problems.
const CAUSES: [fn(&Case) -> Option<Finding>; 22] = [
    short_run::diagnose,
    window_scaling::diagnose,
    window_clipped::diagnose,
    autotuning::diagnose,
    window_size::diagnose,
    send_buffer::diagnose,
    application::sender,
    application::receiver,
    cpu::sender,
    cpu::receiver,
    pacing::diagnose,
    policer::diagnose,
    shaper::diagnose,
    random_loss::diagnose,
    path_full::diagnose,
    two_limiters::diagnose,
    deep_queue::diagnose,
    shallow_buffer::diagnose,
    host_drops::diagnose,
    reordering::diagnose,
    timeouts::diagnose,
    options_stripped::diagnose,
];

pub fn findings(case: &Case) -> Vec<Finding> {
    CAUSES.iter().filter_map(|cause| cause(case)).collect()
}

impl Case<'_> {
    fn is(&self, limiter: Limiter) -> bool {
        self.verdict.limiter == limiter
    }

    fn sender(&self) -> &End {
        &self.scene.observation.ends.sender
    }

    fn receiver(&self) -> &End {
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
        self.idle_rtt()
            .map_or_else(|| String::from("an unknown RTT"), format_duration)
    }

    /// The path's capacity, if this run saw the path full.
    fn capacity_bps(&self) -> Option<u64> {
        bounds::capacity_seen_bps(&self.scene, &self.verdict)
    }

    /// Returns, for each stream, the window with which all streams together fill the path twice.
    fn twice_the_path(&self) -> Option<u64> {
        let path = Rate::bits_per_second(self.capacity_bps()?).bytes_in(self.idle_rtt()?);
        Some(path.saturating_mul(2) / self.streams())
    }

    /// Returns a better window for one stream: for the known capacity, or else eight times the
    /// present one, which is enough to reveal the next limit.
    fn better_window(&self, present: u64) -> u64 {
        const STEP: u64 = 8;
        let wanted = self
            .twice_the_path()
            .map_or(present.saturating_mul(STEP), |bytes| bytes.max(present));
        window::rounded(wanted)
    }

    /// Returns a window that the kernel should grant: for the known capacity, or else the requested
    /// one, since more would be a guess.
    fn window_to_grant(&self, asked: u64) -> u64 {
        let wanted = self.twice_the_path().unwrap_or(asked);
        window::rounded(wanted)
    }

    /// Returns the rate that a window of `bytes` on every stream allows.
    fn allowed_bps(&self, bytes: u64) -> Option<u64> {
        Rate::over(bytes.saturating_mul(self.streams()), self.idle_rtt()?).map(Rate::as_bps)
    }

    /// Returns the expected goodput after lifting the limiter this far, if the capacity is known.
    fn expected_bps(&self, lifted_to_bps: Option<u64>) -> Option<u64> {
        let capacity = self.capacity_bps()?;
        Some(lifted_to_bps.map_or(capacity, |bps| bps.min(capacity)))
    }

    /// Returns `; behind it comes …` with the next limit, or that it is unknown.
    fn behind(&self) -> String {
        self.analysis.next_limit.as_ref().map_or_else(
            || String::from("; what comes behind it is unknown until measured"),
            |b| format!("; behind it comes {}: {}", name(b.limiter), b.why),
        )
    }
}

/// Returns the command that repeats the test with these options. An observation does not include
/// the server's name from the command line, so the placeholder of the help text is used.
fn again(options: &str) -> String {
    format!("longhaul test HOST {options}")
}

/// Returns a finding with the verdict's own confidence.
fn finding(case: &Case, cause: &str, summary: String) -> Finding {
    unproven(cause, case.analysis.confidence_ratio, summary)
}

/// Returns a finding without evidence and advice yet.
pub(crate) fn unproven(cause: &str, confidence_ratio: f64, summary: String) -> Finding {
    Finding {
        cause: cause.to_owned(),
        summary,
        confidence_ratio,
        supports: Vec::new(),
        contradicts: Vec::new(),
        advice: Vec::new(),
    }
}

/// Returns advice without a command.
pub(crate) fn advice(place: &str, text: String) -> Advice {
    Advice {
        place: place.to_owned(),
        text,
        command: None,
        expected_bps: None,
    }
}

/// Returns the host's name, or the place if it has none.
fn host_name<'h>(host: &'h Host, place: &'h str) -> &'h str {
    if host.name.is_empty() {
        place
    } else {
        &host.name
    }
}

fn bytes(amount: u64) -> Bytes {
    Bytes(amount)
}

/// Describes the data in flight per stream at the measured rate, for comparison with a window.
fn in_flight(case: &Case) -> Option<String> {
    let rtt = Duration::from_micros(case.analysis.rtt_us?.mean);
    let each = case.goodput().bytes_in(rtt) / case.streams();
    let trip = format_duration(rtt);
    Some(format!(
        "goodput {} × {trip} (RTT under load) is {} in flight on a stream",
        case.goodput(),
        bytes(each)
    ))
}

/// Formats the share of bytes in a state as evidence.
fn share_of(case: &Case, state: State) -> String {
    format!(
        "{} of the bytes moved in state {}",
        percent(case.verdict.shares.state(state)),
        state.word()
    )
}

fn protocol(end: &End, name: &str) -> u64 {
    let dotted = end
        .protocol
        .iter()
        .find(|(key, _)| key.rsplit('.').next() == Some(name));
    dotted.map_or(0, |(_, grown)| *grown)
}
