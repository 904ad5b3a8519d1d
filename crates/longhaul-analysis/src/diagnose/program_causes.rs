//! Limited by an application and not by the network.
//!
//! We would see: the sender's thread neither in write nor running, with nothing left to send; or
//! the receiver's neither in read nor running, with bytes unread or a zero window.
//! Refuted by: threads asleep in their calls. Needs: time in calls, SIOCINQ, `tcpi_notsent_bytes`.
//! To do: nothing on the network. If a rate was requested, that is the rate.
//!
//! Source: our experiments: `tcpi_rwnd_limited` is the same for a slow reader and a small buffer;
//! only the unread bytes distinguish them. Units: shares of time.
//! Wrong when: the application polls without blocking; it then looks busy.
//!
//! # Requested pacing
//!
//! Limited by the requested pacing rate.
//!
//! We would see: each stream at the requested pacing rate, with no other limit. Refuted by: a rate
//! well below it. Needs: the plan, `tcpi_pacing_rate`. To do: pace higher.
//! Source: SO_MAX_PACING_RATE of socket(7). Units: bit/s, headers included, so goodput is 3 to 5 %
//! lower. Wrong when: a queueing discipline paces as well.
//!
//! # Runs that are too short
//!
//! A run too short for its path.
//!
//! We would see: fewer than twenty round trips, or less than ten times the duration of slow start.
//! Refuted by: a rate that settled and stayed. Needs: idle RTT, arrivals. To do: run longer.
//!
//! Source: slow start doubles per RTT from ten segments (RFC 6928): RTT × log2(BDP / IW).
//! Units: seconds. Wrong when: the receive window, not the path, ends the doubling sooner.

use super::{
    DiagnosisCase, build_finding, format_duration, format_whole_percent, name_of_host, to_rate,
};
use crate::limit::interval_state::IntervalState;
use crate::limit::limiter_verdict::SHORT_TRIPS;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::Bytes;
use std::time::Duration;

/// The minimum share of a state for a finding.
const MIN_STATE_SHARE: f64 = 0.3;

pub fn diagnose_sender_application(case: &DiagnosisCase) -> Option<ReportFinding> {
    let share = case.verdict.shares.state(IntervalState::SenderApp);
    if share < MIN_STATE_SHARE {
        return None;
    }
    let host = name_of_host(&case.sender().host, "the sender");
    let datagrams = match case.scene.plan.transport {
        RunTransport::Udp { rate_bps } => Some(rate_bps),
        RunTransport::Tcp => None,
    };
    let asked = describe_requested_rate(case.scene.plan.write_rate_bps.or(datagrams), "write");
    let summary = format!(
        "Application-limited: {host} wrote {}{asked}, and the network waited for data",
        case.goodput()
    );
    let mut found = build_finding(case, "sender_application", summary);
    found.support(format!(
        "the sender had no more data to send for {} of the bytes",
        format_whole_percent(share)
    ));
    let text = if datagrams.is_some() {
        "Request a higher rate with -b to find the capacity of the path"
    } else {
        "No network change helps: the application must supply data faster"
    };
    found.advise("sender", text);
    Some(found)
}

pub fn diagnose_receiver_application(case: &DiagnosisCase) -> Option<ReportFinding> {
    let share = case.verdict.shares.state(IntervalState::ReceiverApp);
    if share < MIN_STATE_SHARE {
        return None;
    }
    let host = name_of_host(&case.receiver().host, "the receiver");
    let asked = describe_requested_rate(case.scene.plan.read_rate_bps, "read");
    let summary = format!(
        "Application-limited: {host} read {}{asked}, and data waited in its receive buffer",
        case.goodput()
    );
    let mut found = build_finding(case, "receiver_application", summary);
    found.support(format!(
        "the reader was not reading for {} of the bytes",
        format_whole_percent(share)
    ));
    let unread = case.scene.judged_intervals().filter_map(|i| i.unread_bytes).max();
    found
        .supports
        .extend(unread.map(|n| format!("up to {} unread in the receive buffer", Bytes(n))));
    found.advise("receiver", "A larger window does not help: the reader (disk, decoding, requested rate) must become faster");
    Some(found)
}

fn describe_requested_rate(rate_bps: Option<u64>, verb: &str) -> String {
    rate_bps.map_or(String::new(), |bps| format!(" (requested {verb} rate {})", to_rate(bps)))
}

pub fn diagnose_pacing(case: &DiagnosisCase) -> Option<ReportFinding> {
    let asked = case.scene.plan.pacing_bps?;
    let summary = format!(
        "Limited by the requested pacing: {} streams at {} each give {}{}",
        case.streams(),
        to_rate(asked),
        case.goodput(),
        case.describe_next_limit(),
    );
    let mut found = build_finding(case, "pacing", summary);
    found.advise("initiator", "Raise or remove the pacing rate to find the capacity of the path");
    Some(found)
}

/// A run of more round trips, and more than ten ramps, is not short.
const MANY_TRIPS: u128 = 50;
/// The minimum ratio of the run to its ramp.
const RAMPS: u32 = 10;
/// The initial window of RFC 6928, ten segments of 1460 bytes.
const INITIAL_WINDOW_BYTES: f64 = 14_600.0;

pub fn diagnose_short_run(case: &DiagnosisCase) -> Option<ReportFinding> {
    let rtt = case.idle_rtt()?;
    let elapsed = Duration::from_micros(case.scene.observation.elapsed_us);
    let ramp = estimate_slow_start(case, rtt);
    let trips = elapsed.as_micros() / rtt.as_micros().max(1);
    let needed = ramp.saturating_mul(RAMPS).max(rtt.saturating_mul(SHORT_TRIPS as u32));
    let is_ramp = case.is_limited_by(Limiter::Ramp);
    // A rate limited by a window, an application or a CPU is just as valid after a short run.
    let of_path = is_ramp
        || matches!(case.verdict.limiter, Limiter::PathCapacity | Limiter::Loss | Limiter::Unknown);
    let is_long = trips > MANY_TRIPS && elapsed >= ramp.saturating_mul(RAMPS);
    if is_long || (!is_ramp && (!of_path || elapsed >= needed)) {
        return None;
    }
    let summary = format!(
        "The run is too short for this path: {} is {trips} RTTs, and slow start to this rate alone takes about {}; the steady rate is {}",
        format_duration(elapsed),
        format_duration(ramp),
        if case.analysis.steady.is_some() { "less certain" } else { "unknown" },
    );
    let mut found = build_finding(case, "short_run", summary);
    found.confidence_ratio = if is_ramp { case.analysis.confidence_ratio } else { 0.6 };
    let seconds = needed.as_secs_f64().max(elapsed.as_secs_f64() * 2.0).ceil().max(1.0);
    found.advise("initiator", format!("Run for {seconds} s or longer")).command =
        Some(case.repeat_command("-t", seconds));
    Some(found)
}

/// Returns the duration of slow start: doublings from the initial window, times the RTT.
fn estimate_slow_start(case: &DiagnosisCase, rtt: Duration) -> Duration {
    let each = case.goodput().bytes_in(rtt) as f64 / case.streams() as f64;
    let trips = (each / INITIAL_WINDOW_BYTES).max(1.0).log2();
    Duration::try_from_secs_f64(rtt.as_secs_f64() * trips).unwrap_or(Duration::MAX)
}
