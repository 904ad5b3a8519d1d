//! Concludes from one throughput run: plan and observation to analysis, findings and caveats.
//!
//! # Goodput
//!
//! Goodput: payload bytes per second that the receiving application read.
//!
//! Bytes over time in the steady part, by the receiver's own counts; the 95 % interval from the
//! scatter of the interval rates, with allowance for correlation ([`crate::stats::mean_interval`]).
//!
//! Source: RFC 2647 section 3.17 for the term. Units: bit/s. Error: the interval given with it.
//! Wrong when: the steady part has few intervals; then there is no interval.
//!
//! # Ramp detection
//!
//! Finds the end of the ramp, where the steady part begins.
//!
//! The marginal standard error rule (White 1997, MSER): cut the beginning at the point that
//! minimizes the error of the mean of the rest: (sum of squared deviations) / (number of values)².
//! A running median of five first removes single dips, which are not changes of regime.
//!
//! Source: as named. Units: microseconds. Error: about one interval (`accuracy`).
//! Wrong when: the run varies more slowly than it lasts; then no steady part is given.
//!
//! # Run totals
//!
//! Totals of a run: bytes, packets, losses and cost.
//!
//! Sums over the streams' last counts; per-stream lines for the table. Packets sent are the
//! sender's, packets received the receiver's, acknowledgements of each included (`tcpi_segs_out`,
//! `tcpi_segs_in`).
//!
//! Source: last counts of both ends. Units: bytes, segments, microseconds per 10^9 bytes.
//! Error: bytes in flight when counting ends are in neither count.
//! Wrong when: a stream has no TCP_INFO; then the sums over packets are absent.
//!
//! ## RTT
//!
//! Round-trip times under load and without load.
//!
//! The kernel's smoothed RTT at each sample of the sender, weighted by the bytes the stream moved
//! in that time. Source: `tcpi_rtt`, `tcpi_min_rtt`. Units: microseconds.
//! Error: smoothing (1/8 per RTT) hides spikes. Wrong when: the queue never emptied in the run and
//! no idle round trip was timed; then the idle RTT is too high.

pub mod arrival_timeline;

use crate::limit::run_reading::{RunView, read_run};
use crate::limit::{limit_bounds, receiver_side};
use crate::stats::mean_interval::mean_half_width;
use crate::stats::{median, running_median};
use crate::{RunConclusion, VERSION, caveats, diagnose};
use arrival_timeline::{ArrivalBin, RunArrivals};
use longhaul_model::report::v1::analysis::{
    Limiter, LoadedRtt, RunTotals, SteadySpan, StreamTotals, ThroughputAnalysis,
};
use longhaul_model::report::v1::capture::CapturedPolicer;
use longhaul_model::report::v1::observation::{
    EndObservation, ObservedStream, StreamEnd, TcpReading, ThroughputObservation, UdpCounts,
};
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ReportCaveat, ReportFinding};
use longhaul_model::units::Rate;
use std::time::Duration;

/// Draws all conclusions from one throughput run.
///
/// Never fails: what the observation does not contain stays absent in the analysis, and the caveats
/// say so. A run without a steady part has the rate of its last quarter as goodput, without an
/// interval and with the caveat `ramp_only`. One whose
/// steady part varies too much has the mean of the whole run, with the caveat `no_steady_rate`.
pub fn conclude_throughput(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
) -> RunConclusion<ThroughputAnalysis> {
    conclude_transfer_throughput(plan, observation, TransferEvidence::default())
}

/// Evidence about a transfer that its counters do not show.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransferEvidence {
    /// True: its counters were computed from the packets of a capture.
    pub is_captured: bool,
    /// The policer that its packets showed.
    pub policer: Option<CapturedPolicer>,
    /// True: moves over SSH.
    pub is_ssh: bool,
}

/// Draws all conclusions from a transfer of another program, as from a run.
pub fn conclude_transfer_throughput(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
    evidence: TransferEvidence,
) -> RunConclusion<ThroughputAnalysis> {
    let mut forward = conclude_direction(plan, observation, evidence);
    if let Some(reverse) = observation.reverse.as_deref() {
        let reverse = conclude_direction(plan, reverse, evidence);
        forward.analysis.reverse = Some(Box::new(reverse.analysis));
        let other = |text: String| format!("Other direction: {text}");
        let findings = reverse.findings.into_iter();
        forward.findings.extend(findings.map(|f| ReportFinding { summary: other(f.summary), ..f }));
        let caveats = reverse.caveats.into_iter();
        forward.caveats.extend(caveats.map(|c| ReportCaveat { text: other(c.text), ..c }));
    }
    forward
}

fn conclude_direction(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
    evidence: TransferEvidence,
) -> RunConclusion<ThroughputAnalysis> {
    let run = read_run(plan, observation, evidence);
    let verdict = receiver_side::find_run_limiter(&run);
    let steady_goodput = measure_steady_goodput(&run);
    let mean_goodput_bps = compute_mean_goodput(observation);
    let goodput = if steady_goodput.is_informative() {
        steady_goodput
    } else {
        GoodputEstimate { bps: mean_goodput_bps, interval_bps: None }
    };
    let bounds = limit_bounds::compute_bounds(&run, &verdict, goodput.bps);
    let ramp_us = run.steady.map(|s| s.from_us.saturating_sub(find_first_byte_us(observation)));
    let analysis = ThroughputAnalysis {
        version: VERSION,
        goodput_bps: goodput.bps,
        goodput_interval_bps: widen_to_precision(plan, observation, goodput),
        mean_goodput_bps,
        steady: run.steady,
        ramp_us,
        rtt_us: run.loaded_rtt,
        limited_by: verdict.limiter,
        confidence_ratio: verdict.confidence_ratio.clamp(0.0, 1.0),
        shares: verdict.shares.to_report(),
        next_limit: limit_bounds::find_next_bound(&bounds, &verdict),
        bounds,
        totals: run.totals.clone(),
        streams: list_stream_totals(observation),
        reverse: None,
    };
    let mut caveats = caveats::list_run_caveats(&run, &analysis);
    caveats.extend(caveats::check_unsteady_rate(&steady_goodput));
    let findings = diagnose::diagnose_run(&diagnose::DiagnosisCase {
        scene: run,
        verdict,
        analysis: &analysis,
    });
    RunConclusion { analysis, findings, caveats }
}

fn find_first_byte_us(observation: &ThroughputObservation) -> u64 {
    let carrying = observation.streams.iter().filter(|s| s.receiver.bytes > 0);
    carrying.map(|s| s.receiver.started_us).min().unwrap_or(0)
}

/// Without a steady part, this last share of the run gives the rate it had reached.
const LAST_RATIO: f64 = 0.25;
/// A run that is shorter by less reached its longest time.
const MIN_SAVED_US: u64 = 200_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GoodputEstimate {
    pub bps: Option<u64>,
    pub interval_bps: Option<[u64; 2]>,
}

/// An interval wider than this share of its rate, to either side, says nothing about the rate.
const MAX_INTERVAL_RATIO: f64 = 0.5;

impl GoodputEstimate {
    /// Returns false if the interval is so wide that the rate says nothing.
    pub fn is_informative(&self) -> bool {
        self.bps
            .zip(self.interval_bps)
            .is_none_or(|(bps, [_, high])| (high - bps) as f64 <= MAX_INTERVAL_RATIO * bps as f64)
    }
}

/// Returns the goodput of the span, or of the last quarter without an interval if there is no span.
pub fn measure_goodput(arrivals: &RunArrivals, steady: Option<SteadySpan>) -> GoodputEstimate {
    let Some(span) = steady else {
        let length = arrivals.to_us() - arrivals.from_us();
        let from = arrivals.to_us() - (length as f64 * LAST_RATIO) as u64;
        let last: Vec<ArrivalBin> =
            arrivals.bins.iter().filter(|b| b.to_us > from).copied().collect();
        return GoodputEstimate { bps: compute_rate(&last), interval_bps: None };
    };
    let bins = arrivals.within(span.from_us, span.to_us);
    let bps = compute_rate(bins);
    let rates: Vec<f64> = bins.iter().map(ArrivalBin::rate_bps).collect();
    let interval_bps = bps.zip(mean_half_width(&rates)).map(|(centre, half)| {
        let half = half.round() as u64;
        [centre.saturating_sub(half), centre.saturating_add(half)]
    });
    GoodputEstimate { bps, interval_bps }
}

/// Returns the goodput of the steady part. Bytes that wait behind a hole of lost segments may scatter the
/// reads so much that their rate says nothing: the segments that arrive in any order give it then.
fn measure_steady_goodput(run: &RunView) -> GoodputEstimate {
    let [read, arrived] =
        [&run.arrivals, &run.segments].map(|track| measure_goodput(track, run.steady));
    if !read.is_informative() && arrived.is_informative() { arrived } else { read }
}

/// Returns the interval of the goodput; of a run that ended at a precision, at least that wide, because it
/// stands for a longer run.
fn widen_to_precision(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
    goodput: GoodputEstimate,
) -> Option<[u64; 2]> {
    let ([low, high], bps) = (goodput.interval_bps?, goodput.bps?);
    let precision =
        plan.precision_permille.filter(|_| count_saved_bytes(plan, observation, bps) > 0);
    let precision = u64::from(precision.unwrap_or(0));
    let half = bps.saturating_mul(precision) / 1000;
    Some([low.min(bps.saturating_sub(half)), high.max(bps.saturating_add(half))])
}

/// Returns the bytes that a run saved because its goodput, `bps`, was known; 0 below a fifth of a second.
pub fn count_saved_bytes(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
    bps: u64,
) -> u64 {
    let bytes_in = |us| Rate::bits_per_second(bps).bytes_in(Duration::from_micros(us));
    let saved = match plan.stop {
        StopCondition::TimeUs(longest_us) => {
            bytes_in(longest_us.saturating_sub(observation.elapsed_us))
        }
        StopCondition::Bytes(bytes) => bytes.saturating_sub(observation.ends.receiver.bytes),
        StopCondition::Blocks(_) => 0,
    };
    if plan.precision_permille.is_some() && saved >= bytes_in(MIN_SAVED_US) { saved } else { 0 }
}

fn compute_rate(bins: &[ArrivalBin]) -> Option<u64> {
    let bytes: f64 = bins.iter().map(|b| b.bytes).sum();
    let seconds: f64 = bins.iter().map(ArrivalBin::seconds).sum();
    (seconds > 0.0).then(|| (bytes * 8.0 / seconds).round() as u64)
}

/// Returns all bytes over the whole time, ramp included.
pub fn compute_mean_goodput(observation: &ThroughputObservation) -> Option<u64> {
    let bytes =
        observation.streams.iter().fold(0u64, |sum, s| sum.saturating_add(s.receiver.bytes));
    Rate::over(bytes, Duration::from_micros(observation.elapsed_us)).map(Rate::as_bps)
}

/// Formats the verdict: `Limited by the receive window: 64 KiB receive window / 160 ms RTT,
/// about 3.28 Mbit/s. Next limit: …`
pub fn format_verdict(analysis: &ThroughputAnalysis) -> String {
    let limiter = analysis.limited_by;
    let own = analysis.bounds.iter().find(|b| b.limiter == limiter);
    let proof = own.map_or_else(String::new, |bound| {
        format!(": {}, about {}", bound.why, Rate::bits_per_second(bound.rate_bps))
    });
    let next = analysis.next_limit.as_ref().map_or_else(
        || String::from(" The next limit has not been measured."),
        |bound| {
            let rate = Rate::bits_per_second(bound.rate_bps);
            format!(" Next limit: {} ({}, {rate}).", name_limiter(bound.limiter), bound.why)
        },
    );
    let told = match limiter {
        Limiter::Unknown => {
            return String::from(
                "The limiter of this run could not be determined from its counters.",
            );
        }
        Limiter::PathCapacity => String::new(),
        _ => next,
    };
    format!("Limited by {}{proof}.{told}", name_limiter(limiter))
}

/// Returns the name of a limiter within a sentence.
pub const fn name_limiter(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::ReceiveWindow => "the receive window",
        Limiter::SendBuffer => "the send buffer",
        Limiter::Application => "the application",
        Limiter::CpuSender => "the sender's CPU",
        Limiter::CpuReceiver => "the receiver's CPU",
        Limiter::Loss => "packet loss",
        Limiter::PathCapacity => "the capacity of the path",
        Limiter::Shaper => "a shaper on the path",
        Limiter::Policer => "a policer on the path",
        Limiter::Pacing => "pacing",
        Limiter::Ramp => "slow start: the run ended before the rate was steady",
        Limiter::Unknown => "an unknown limit",
    }
}

/// Returns the limiter in at most two words, for a column.
pub const fn limiter_label(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::ReceiveWindow => "receive window",
        Limiter::SendBuffer => "send buffer",
        Limiter::Application => "application",
        Limiter::CpuSender => "sender's CPU",
        Limiter::CpuReceiver => "receiver's CPU",
        Limiter::Loss => "loss",
        Limiter::PathCapacity => "path capacity",
        Limiter::Shaper => "shaper",
        Limiter::Policer => "policer",
        Limiter::Pacing => "pacing",
        Limiter::Ramp => "ramp",
        Limiter::Unknown => "unknown",
    }
}

pub fn to_rate(bps: u64) -> Rate {
    Rate::bits_per_second(bps)
}

/// Formats a ratio in whole per cent.
pub fn format_whole_percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

/// Dips shorter than half of this many intervals are not changes of regime.
const DIP_WIDTH: usize = 5;
/// The minimum number of intervals to see steadiness.
pub const MIN_BINS: usize = 6;
/// The latest cut, as a share of the run (Law's rule for MSER).
const LATEST_CUT_RATIO: f64 = 0.6;
/// The minimum rate at which the steady part begins, as a share of its own median.
const FIRST_RATE_RATIO: f64 = 0.75;
/// Rates just before the cut within these shares of the level belong to the level.
const LEVEL_RATIOS: std::ops::RangeInclusive<f64> = 0.88..=1.3;
/// If the last third is faster than the first by this factor, the run is still climbing.
const CLIMB_RATIO: f64 = 1.25;

/// Returns the steady part, from the data or the plan; `None` if the run never settled.
pub fn find_steady_span(arrivals: &RunArrivals, warm_up_us: Option<u64>) -> Option<SteadySpan> {
    let to_us = arrivals.to_us();
    if let Some(warm_up) = warm_up_us {
        let from_us = arrivals.from_us().saturating_add(warm_up);
        return (from_us < to_us).then_some(SteadySpan { from_us, to_us });
    }
    let rates = arrivals.rates_bps();
    let cut = find_ramp_end(&running_median(&rates, DIP_WIDTH))
        .filter(|cut| !is_climbing(&rates[*cut..]))?;
    let cut = skip_release_burst(&rates, cut);
    let to_us = if ends_with_part_of_flight(&rates[cut..]) {
        arrivals.bins.last().map_or(to_us, |bin| bin.from_us)
    } else {
        to_us
    };
    Some(SteadySpan { from_us: arrivals.bins[cut].from_us, to_us })
}

/// Returns true if the last interval is slow although the others are not: the last flight of a window is
/// rarely whole.
fn ends_with_part_of_flight(rates: &[f64]) -> bool {
    let Some((last, others)) = rates.split_last().filter(|(_, others)| others.len() >= MIN_BINS)
    else {
        return false;
    };
    median(others.iter().copied()).is_some_and(|level| *last < FIRST_RATE_RATIO * level)
}

/// Returns true if the rate was still growing when the run ended.
pub fn is_still_climbing(arrivals: &RunArrivals) -> bool {
    is_climbing(&arrivals.rates_bps())
}

fn find_ramp_end(rates: &[f64]) -> Option<usize> {
    if rates.len() < MIN_BINS {
        return None;
    }
    // Near the end the scatter is small by chance, so the cut is searched before it.
    let latest = (LATEST_CUT_RATIO * rates.len() as f64) as usize;
    let least = compute_marginal_errors(rates)
        .into_iter()
        .enumerate()
        .take(latest + 1)
        .min_by(|a, b| a.1.total_cmp(&b.1))?
        .0;
    let level = median(rates[least..].iter().copied())?;
    let low = (least..rates.len()).find(|i| rates[*i] >= FIRST_RATE_RATIO * level)?;
    // The rule may cut into chance lows of the steady part; rates at the level are added back.
    let outside = |i: &usize| !LEVEL_RATIOS.contains(&(rates[*i] / level));
    let cut = (0..low).rev().find(outside).map_or(0, |i| i + 1);
    (cut <= latest && level > 0.0).then_some(cut)
}

/// While a gap in the sequence is repaired nothing is delivered, and then all queued data at once.
/// A steady part that began between the two would count bytes that took longer to arrive.
fn skip_release_burst(rates: &[f64], cut: usize) -> usize {
    let Some(level) = median(rates[cut..].iter().copied()) else {
        return cut;
    };
    let held_back = cut > 0 && rates[cut - 1] < FIRST_RATE_RATIO * level;
    let released = (cut..rates.len().min(cut + DIP_WIDTH))
        .rev()
        .find(|i| rates[*i] > LEVEL_RATIOS.end() * level);
    released.filter(|last| held_back && last + MIN_BINS < rates.len()).map_or(cut, |last| last + 1)
}

/// Returns true if the last third is well above the first. Means, because a window that arrives
/// once per RTT gives rates of two or three windows per interval, between which a median jumps.
fn is_climbing(rates: &[f64]) -> bool {
    let third = rates.len().div_ceil(3);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    mean(&rates[rates.len() - third..]) > CLIMB_RATIO * mean(&rates[..third])
}

/// Returns for each cut the squared standard error of the mean of the rest, except for the last few
/// values, whose scatter is too small by chance.
fn compute_marginal_errors(rates: &[f64]) -> Vec<f64> {
    let mut errors = vec![f64::INFINITY; rates.len()];
    let (mut mean, mut squares) = (0.0, 0.0);
    for (left, i) in (1u32..).zip((0..rates.len()).rev()) {
        let count = f64::from(left);
        let step = rates[i] - mean;
        mean += step / count;
        squares += step * (rates[i] - mean);
        if left as usize >= MIN_BINS / 2 {
            errors[i] = squares / (count * count);
        }
    }
    errors
}

pub fn compute_totals(observation: &ThroughputObservation) -> RunTotals {
    let streams = &observation.streams;
    let sum =
        |of: fn(&ObservedStream) -> u64| streams.iter().fold(0u64, |t, s| t.saturating_add(of(s)));
    let sender_bytes = sum(|s| s.sender.bytes);
    let receiver_bytes = sum(|s| s.receiver.bytes);
    let data_segments_sent = sum_readings(streams, |s| last_tcp_info(&s.sender)?.data_segments_out);
    let wire_bytes =
        sum_readings(streams, |s| last_tcp_info(&s.sender)?.bytes_sent).unwrap_or(sender_bytes);
    let ends = &observation.ends;
    RunTotals {
        sender_bytes,
        receiver_bytes,
        undelivered_bytes: sender_bytes.saturating_sub(receiver_bytes),
        data_segments_sent,
        retransmitted_segments: sum_readings(streams, |s| {
            Some(last_tcp_info(&s.sender)?.retransmitted_segments)
        }),
        mean_segment_bytes: data_segments_sent.and_then(|n| wire_bytes.checked_div(n)),
        packets_sent: sum_readings(streams, |s| last_tcp_info(&s.sender)?.segments_out),
        packets_received: sum_readings(streams, |s| last_tcp_info(&s.receiver)?.segments_in),
        stream_errors: streams.iter().filter(|s| has_failed(s)).count() as u64,
        sender_cpu_us_per_gb: scale_ratio(sum_cpu_us(&ends.sender), 1_000_000_000, sender_bytes),
        receiver_cpu_us_per_gb: scale_ratio(
            sum_cpu_us(&ends.receiver),
            1_000_000_000,
            receiver_bytes,
        ),
        sender_millicycles_per_byte: scale_ratio(ends.sender.cycles, 1000, sender_bytes),
        receiver_millicycles_per_byte: scale_ratio(ends.receiver.cycles, 1000, receiver_bytes),
        loss_ratio: compute_loss_ratio(streams),
        jitter_us: compute_mean_jitter_us(streams),
    }
}

pub fn list_stream_totals(observation: &ThroughputObservation) -> Vec<StreamTotals> {
    observation.streams.iter().map(compute_stream_totals).collect()
}

fn compute_stream_totals(stream: &ObservedStream) -> StreamTotals {
    let (sender, receiver) = (&stream.sender, &stream.receiver);
    let tcp = || sender.samples.iter().filter_map(|s| s.tcp.as_ref());
    let lasted = Duration::from_micros(receiver.duration_us);
    StreamTotals {
        index: stream.index,
        bytes: receiver.bytes,
        duration_us: receiver.duration_us,
        goodput_bps: Rate::over(receiver.bytes, lasted).map(Rate::as_bps),
        writes_per_1000s: scale_ratio(sender.calls, 1_000_000_000, sender.duration_us),
        retransmitted_segments: last_tcp_info(sender).map(|t| t.retransmitted_segments),
        rtt_min_us: tcp().filter_map(|t| t.rtt_min_us).min(),
        cwnd_max_bytes: tcp().map(|t| t.cwnd_bytes).max(),
    }
}

fn has_failed(stream: &ObservedStream) -> bool {
    stream.sender.error.is_some() || stream.receiver.error.is_some()
}

/// Returns the last TCP_INFO of one end of a stream.
pub fn last_tcp_info(end: &StreamEnd) -> Option<&TcpReading> {
    end.samples.iter().rev().find_map(|s| s.tcp.as_ref())
}

/// Returns the growth of a protocol counter of a host during the run, by the last part of its name; 0
/// if it did not grow.
pub fn read_protocol_counter(end: &EndObservation, name: &str) -> u64 {
    let dotted = end.protocol.iter().find(|(key, _)| key.rsplit('.').next() == Some(name));
    dotted.map_or(0, |(_, grown)| *grown)
}

/// Returns the sum, if there are streams and all of them have the reading.
fn sum_readings(
    streams: &[ObservedStream],
    of: impl Fn(&ObservedStream) -> Option<u64>,
) -> Option<u64> {
    let readings: Option<Vec<u64>> = streams.iter().map(of).collect();
    let readings = readings.filter(|r| !r.is_empty())?;
    Some(readings.into_iter().fold(0u64, u64::saturating_add))
}

fn sum_cpu_us(end: &EndObservation) -> Option<u64> {
    Some(end.cpu_user_us?.saturating_add(end.cpu_system_us?))
}

/// Returns `amount × scale / base`, in integers; `None` without a base or a reading.
fn scale_ratio(amount: Option<u64>, scale: u64, base: u64) -> Option<u64> {
    let scaled = u128::from(amount?) * u128::from(scale);
    u64::try_from(scaled.checked_div(u128::from(base))?).ok()
}

fn list_udp_counters(streams: &[ObservedStream]) -> impl Iterator<Item = &UdpCounts> {
    streams.iter().filter_map(|s| s.receiver.udp.as_ref())
}

fn compute_loss_ratio(streams: &[ObservedStream]) -> Option<f64> {
    let lost: f64 = list_udp_counters(streams).map(|u| u.lost as f64).sum();
    let arrived: f64 = list_udp_counters(streams).map(|u| u.datagrams as f64).sum();
    (lost + arrived > 0.0).then(|| lost / (lost + arrived))
}

/// Returns the mean of the streams' jitters.
fn compute_mean_jitter_us(streams: &[ObservedStream]) -> Option<u64> {
    let readings: Vec<u64> = list_udp_counters(streams).filter_map(|u| u.jitter_ns).collect();
    let sum = readings.iter().fold(0u64, |t, j| t.saturating_add(*j));
    Some(sum.checked_div(readings.len() as u64)? / 1000)
}

/// The RTT of a repeated segment comes from TCP timestamps, in whole milliseconds and too short by up to
/// one (`tcp_rtt_tsopt_us` of Linux).
const TIMESTAMP_US: u64 = 1000;

/// Returns the minimum RTT known: that of the idle control connection or the kernel's minimum. Without the
/// former, a minimum in whole milliseconds is corrected by at most one, up to the shortest smoothed RTT.
pub fn find_idle_rtt_us(observation: &ThroughputObservation) -> Option<u64> {
    let idle = observation.idle_rtt_us.filter(|us| *us > 0);
    let is_rounded = |us: &u64| {
        let below = idle.and_then(|idle| idle.checked_sub(*us));
        us.is_multiple_of(TIMESTAMP_US) && below.is_some_and(|difference| difference < TIMESTAMP_US)
    };
    let samples = observation.streams.iter().flat_map(|s| &s.sender.samples);
    let kernel = samples.clone().filter_map(|s| {
        let tcp = s.tcp.as_ref()?;
        tcp.rtt_min_us.or(Some(tcp.rtt_us)).filter(|us| *us > 0 && !is_rounded(us))
    });
    // Of a transfer that was watched at its receiver, only that end's readings exist.
    let receivers = observation.streams.iter().filter(|s| s.sender.samples.is_empty());
    let watched = receivers.flat_map(|s| &s.receiver.samples).filter_map(|s| {
        let tcp = s.tcp.as_ref()?;
        let trip_us = tcp.receive_rtt_us?;
        Some(tcp.rtt_min_us.map_or(trip_us, |least| least.min(trip_us))).filter(|us| *us > 0)
    });
    let least = kernel.chain(idle).chain(watched).min()?;
    let is_exact = idle.is_some() || !least.is_multiple_of(TIMESTAMP_US);
    let most = if is_exact { least } else { least.saturating_add(TIMESTAMP_US) };
    let trips = samples.filter_map(|s| s.tcp.as_ref()).map(|tcp| tcp.rtt_us).filter(|us| *us > 0);
    Some(trips.min().unwrap_or(least).clamp(least, most))
}

/// Returns the RTTs of the judged part; `None` if none was read.
pub fn compute_loaded_rtt(run: &RunView) -> Option<LoadedRtt> {
    let readings: Vec<(f64, f64)> = run
        .judged_intervals()
        .filter_map(|i| Some((i.rtt_us? as f64, i.delivered_bytes + 1.0)))
        .collect();
    let weight: f64 = readings.iter().map(|r| r.1).sum();
    let weighted = |of: &dyn Fn(f64) -> f64| -> f64 {
        readings.iter().map(|(rtt, bytes)| of(*rtt) * bytes).sum::<f64>() / weight
    };
    let fold = |pick: fn(f64, f64) -> f64| readings.iter().map(|r| r.0).reduce(pick);
    let (min, max) = (fold(f64::min)?, fold(f64::max)?);
    let mean = weighted(&|rtt| rtt).clamp(min, max);
    Some(LoadedRtt {
        min: min as u64,
        mean: mean.round() as u64,
        max: max as u64,
        stddev: weighted(&|rtt| (rtt - mean).powi(2)).sqrt().round() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::{BothEnds, StreamSample};

    fn ramped(total: usize, ramp: usize) -> Vec<f64> {
        let climb = (0..ramp).map(|i| 1e8 / 2f64.powi((ramp - i) as i32));
        climb.chain((ramp..total).map(|i| 1e8 + (i % 3) as f64 * 1e6)).collect()
    }

    fn from_of(rates: &[f64]) -> Option<u64> {
        find_steady_span(&RunArrivals::from_rates(rates, 100_000), None).map(|s| s.from_us)
    }

    #[test]
    fn the_ramp_ends_where_the_rate_stops_doubling() {
        for ramp in [0, 3, 8, 13] {
            let from = from_of(&ramped(60, ramp)).unwrap() / 100_000;
            assert!(from.abs_diff(ramp as u64) <= 1, "ramp of {ramp} ended at {from}");
        }
    }

    #[test]
    fn one_dip_is_no_second_ramp() {
        let mut rates = ramped(60, 6);
        rates[25] = 0.0;
        rates[26] = 1e7;
        assert!(from_of(&rates).unwrap().abs_diff(600_000) <= 100_000);
    }

    #[test]
    fn what_waited_behind_a_hole_is_not_counted_to_the_steady_part() {
        let mut rates = vec![1e8; 20];
        rates.extend([2e7, 0.0, 0.0, 1e8, 2.5e8, 2e8]);
        rates.extend(vec![1e8; 30]);
        let released: f64 = 2.5e8 + 2e8;
        for from in [23, 24] {
            assert!(rates[from..].iter().sum::<f64>() > released);
            assert_eq!(skip_release_burst(&rates, from), if from == 23 { 26 } else { 24 });
        }
    }

    #[test]
    fn a_run_that_only_climbs_has_no_steady_part() {
        let rates: Vec<f64> = (0..12).map(|i| 2f64.powi(i) * 1e4).collect();
        assert_eq!(from_of(&rates), None);
        assert!(is_still_climbing(&RunArrivals::from_rates(&rates, 100_000)));
    }

    /// A sender with this minimum RTT and these smoothed ones, after this RTT of the idle control connection.
    fn observe_trips(
        idle_rtt_us: Option<u64>,
        least_us: u64,
        trips_us: [u64; 2],
    ) -> ThroughputObservation {
        let samples = trips_us.map(|rtt_us| {
            let tcp = TcpReading { rtt_us, rtt_min_us: Some(least_us), ..TcpReading::default() };
            StreamSample { tcp: Some(tcp), ..StreamSample::default() }
        });
        let sender = StreamEnd { samples: samples.to_vec(), ..StreamEnd::default() };
        let observation = observe_stream(sender, StreamEnd::default());
        ThroughputObservation { idle_rtt_us, ..observation }
    }

    fn observe_stream(sender: StreamEnd, receiver: StreamEnd) -> ThroughputObservation {
        ThroughputObservation {
            forward: true,
            elapsed_us: 10_000_000,
            idle_rtt_us: None,
            clock_error_us: None,
            same_host: false,
            same_boot: None,
            streams: vec![ObservedStream { index: 0, sender, receiver }],
            ends: BothEnds::default(),
            reverse: None,
        }
    }

    #[test]
    fn segments_give_the_goodput_if_holes_scatter_the_reads() {
        // As many segments arrive in each reading, and 40 % of the time is within holes of the sequence.
        let read = |number: u64| {
            if (3..7).contains(&(number % 10)) { number / 10 * 10 + 2 } else { number }
        };
        let samples = (1..=20).map(|number| {
            let tcp = TcpReading { data_segments_in: Some(number * 100), ..TcpReading::default() };
            let (at_us, bytes) = (number * 500_000, read(number) * 100_000);
            StreamSample { at_us, bytes, tcp: Some(tcp), ..StreamSample::default() }
        });
        let samples: Vec<StreamSample> = samples.collect();
        let receiver = StreamEnd {
            bytes: samples.last().map_or(0, |sample| sample.bytes),
            duration_us: 10_000_000,
            mss_bytes: Some(1000),
            samples,
            ..StreamEnd::default()
        };
        let observation = observe_stream(StreamEnd::default(), receiver);
        let plan = ThroughputPlan::default();
        let run = read_run(&plan, &observation, TransferEvidence::default());
        assert!(!measure_goodput(&run.arrivals, run.steady).is_informative());
        let concluded = conclude_throughput(&plan, &observation);
        assert_eq!(concluded.analysis.goodput_bps, Some(1_600_000));
        assert!(concluded.analysis.goodput_interval_bps.is_some());
    }

    #[test]
    fn a_minimum_rtt_in_whole_milliseconds_may_be_up_to_one_too_short() {
        let find = |idle, least, trips| find_idle_rtt_us(&observe_trips(idle, least, trips));
        assert_eq!(find(None, 5_000, [5_700, 5_640]), Some(5_640));
        assert_eq!(find(None, 5_000, [7_000, 9_000]), Some(6_000));
        assert_eq!(find(None, 5_000, [4_990, 5_640]), Some(5_000));
        assert_eq!(find(None, 5_600, [5_700, 5_640]), Some(5_600));
        assert_eq!(find(Some(5_610), 5_000, [5_700, 5_640]), Some(5_610));
    }

    #[test]
    fn a_warm_up_in_the_plan_decides() {
        let arrivals = RunArrivals::from_rates(&ramped(60, 6), 100_000);
        assert_eq!(find_steady_span(&arrivals, Some(2_000_000)).unwrap().from_us, 2_000_000);
        assert_eq!(find_steady_span(&arrivals, Some(6_000_000)), None);
    }
}
