//! Decides when a run may end because its goodput is known.
//!
//! The readings of one end are judged as those of a finished run ([`crate::limit`]). The run may end
//! when its steady part is long enough, the rest can hardly change its goodput, and the limiter allows to
//! conclude from this part on the rest: several cycles of the congestion window were seen, or the rate is
//! flat and the window does not grow; the free rate of the path did not change; the bucket of a shaper is
//! empty.
//!
//! Source: the interval of `stats::mean_interval`; cycles of CUBIC and Reno from the retransmits (RFC 9438,
//! section 4; RFC 5681, section 3.1). Units: microseconds, round trips, ratios.
//! Error: that of the interval; in the benchmark 3 % (docs/benchmarks.md).
//! Wrong when: a limit begins to hold only later, such as a shaper whose bucket outlasts the run.

use crate::limit::receiver_side::find_run_limiter;
use crate::limit::run_reading::{RunView, read_run};
use crate::throughput::{GoodputEstimate, TransferEvidence, measure_goodput};
use longhaul_model::report::v1::analysis::{Limiter, SteadySpan};
use longhaul_model::report::v1::observation::{
    BothEnds, ObservedStream, StreamEnd, ThroughputObservation,
};
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};

/// The parameters of the rule.
struct StopTuning;

impl StopTuning {
    /// The minimum of a run and of its steady part, in time and in round trips. A run that fills the path
    /// may be within the burst of a shaper or policer; most last for less than three seconds.
    const MIN_RUN_US: u64 = 1_500_000;
    const MIN_FULL_PATH_US: u64 = 3_500_000;
    const MIN_RUN_TRIPS: u64 = 20;
    const MIN_STEADY_US: u64 = 1_000_000;
    const MIN_STEADY_TRIPS: u64 = 10;
    /// The round trips between two readings: those of a fraction of a window would scatter with its
    /// flights.
    const READING_TRIPS: u64 = 3;
    /// The minimum number of losses, each of which begins a cycle of the window.
    const MIN_CYCLES: usize = 4;
    /// Retransmits within this many round trips belong to one loss.
    const LOSS_TRIPS: u64 = 4;
    /// The minimum share of the steady part that is left, for its interval: close to the end, the bounds of
    /// the steady part decide more than what is left of it.
    const MIN_LEFT_RATIO: f64 = 0.25;
    /// A window that exceeds that of the start of the steady part by this ratio still grows.
    const GROWTH_RATIO: f64 = 1.05;
}

/// The limiters that are at the ends, where neither the congestion window nor a bucket of the path
/// decides.
const OWN_LIMITERS: [Limiter; 6] = [
    Limiter::ReceiveWindow,
    Limiter::SendBuffer,
    Limiter::Application,
    Limiter::Pacing,
    Limiter::CpuSender,
    Limiter::CpuReceiver,
];

/// The reason why a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// The rate still climbs.
    Ramp,
    /// The run, or its steady part, is short.
    ShortRun,
    /// The interval of the goodput is too wide.
    Precision,
    /// Too few cycles of the congestion window were seen.
    WindowCycle,
    /// The free rate of the path changed, or nothing passed for a while.
    PathChange,
}

/// The readings of a run in progress at one end.
#[derive(Debug, Clone)]
pub struct RunProgress {
    plan: ThroughputPlan,
    observation: ThroughputObservation,
}

impl RunProgress {
    /// Starts to collect the readings of one direction; `sends`: those of its sender.
    pub fn new(plan: &ThroughputPlan, sends: bool) -> RunProgress {
        let observation = ThroughputObservation {
            forward: sends,
            elapsed_us: 0,
            idle_rtt_us: None,
            clock_error_us: None,
            same_host: false,
            same_boot: None,
            streams: Vec::new(),
            ends: BothEnds::default(),
            reverse: None,
        };
        RunProgress { plan: plan.clone(), observation }
    }

    /// Adds a reading of each stream, with one sample.
    pub fn add_reading(&mut self, ends: &[StreamEnd]) {
        let sends = self.observation.forward;
        for (index, end) in ends.iter().enumerate() {
            if self.observation.streams.len() <= index {
                let stream = ObservedStream {
                    index: index as u32,
                    sender: StreamEnd::default(),
                    receiver: StreamEnd::default(),
                };
                self.observation.streams.push(stream);
            }
            add_sample(&mut self.observation.streams[index], end, sends);
        }
    }

    /// Returns true while the rate climbs, the path changed, or a few losses moved a congestion window
    /// whose cycle is not known: the rate of the moment may not last.
    pub fn is_settling(&self) -> bool {
        let run = read_run(&self.plan, &self.observation, TransferEvidence::default());
        let limiter = find_run_limiter(&run).limiter;
        if limiter == Limiter::Ramp || run.levels.len() > 1 {
            return true;
        }
        let trip_us = run.idle_rtt_us.unwrap_or(0);
        let cycles = StopTuning::MIN_CYCLES * run.streams.len();
        let is_moved = (1..cycles).contains(&count_losses(&run, trip_us));
        is_moved && !run.bbr && !OWN_LIMITERS.contains(&limiter)
    }

    /// Returns the reason why the run must go on until its goodput is known to this half-width, as a ratio
    /// of the goodput; `None` if it may end.
    pub fn find_wait_reason(&self, precision_ratio: f64) -> Option<WaitReason> {
        let run = read_run(&self.plan, &self.observation, TransferEvidence::default());
        find_wait_reason(&run, precision_ratio)
    }
}

fn add_sample(stream: &mut ObservedStream, end: &StreamEnd, sends: bool) {
    let Some(sample) = end.samples.last() else { return };
    let (near, far) = if sends {
        (&mut stream.sender, &mut stream.receiver)
    } else {
        (&mut stream.receiver, &mut stream.sender)
    };
    let trip_us = sample.tcp.as_ref().and_then(|tcp| tcp.rtt_min_us).unwrap_or(0);
    let apart_us = StopTuning::READING_TRIPS.saturating_mul(trip_us).max(1);
    if near.samples.last().is_some_and(|last| sample.at_us < last.at_us.saturating_add(apart_us)) {
        return;
    }
    let samples = std::mem::take(&mut near.samples);
    *near = StreamEnd { samples, ..end.clone() };
    near.duration_us = sample.at_us.saturating_sub(near.started_us);
    near.samples.extend(end.samples.last().cloned());
    if sends {
        far.bytes = sample.tcp.as_ref().and_then(|tcp| tcp.bytes_acked).unwrap_or(0);
        far.started_us = near.started_us;
        far.duration_us = near.duration_us;
    }
}

fn find_wait_reason(run: &RunView, precision_ratio: f64) -> Option<WaitReason> {
    let trip_us = run.idle_rtt_us.unwrap_or(0);
    let run_us = run.arrivals.to_us().saturating_sub(run.arrivals.from_us());
    let verdict = find_run_limiter(run);
    if verdict.limiter == Limiter::Ramp {
        return Some(WaitReason::Ramp);
    }
    let is_own = OWN_LIMITERS.contains(&verdict.limiter);
    let fixed_us = if is_own { StopTuning::MIN_RUN_US } else { StopTuning::MIN_FULL_PATH_US };
    let least_run_us = fixed_us.max(StopTuning::MIN_RUN_TRIPS.saturating_mul(trip_us));
    let steady = run.steady.filter(|_| run_us >= least_run_us);
    let Some(steady) = steady else { return Some(WaitReason::ShortRun) };
    let steady_us = steady.to_us.saturating_sub(steady.from_us);
    let least_us =
        StopTuning::MIN_STEADY_US.max(StopTuning::MIN_STEADY_TRIPS.saturating_mul(trip_us));
    if steady_us < least_us {
        return Some(WaitReason::ShortRun);
    }
    if run.levels.len() > 1 || !run.outages.is_empty() || run.full_return_path.is_some() {
        return Some(WaitReason::PathChange);
    }
    if find_goodput_error(run, steady).is_none_or(|error| error > precision_ratio) {
        return Some(WaitReason::Precision);
    }
    let has_cycles = !is_own && !run.bbr;
    (has_cycles && !has_seen_cycles(run, trip_us)).then_some(WaitReason::WindowCycle)
}

/// Returns the half-width of the 95 % interval of the goodput that the run would have at its longest, as
/// a ratio of the goodput until now. Only the rest of the run can still change that goodput, so the interval
/// of the mean is narrower by the root of the share that is left: the correction for a finite population
/// (Cochran, Sampling Techniques, section 2.6).
fn find_goodput_error(run: &RunView, steady: SteadySpan) -> Option<f64> {
    let read = measure_goodput(&run.arrivals, run.steady);
    let arrived = measure_goodput(&run.segments, run.steady);
    let bps = read.bps? as f64;
    let seen_us = steady.to_us.saturating_sub(steady.from_us) as f64;
    let run_us = run.arrivals.to_us().saturating_sub(run.arrivals.from_us()) as f64;
    let longest_us = match run.plan.stop {
        StopCondition::TimeUs(longest_us) => longest_us as f64,
        StopCondition::Bytes(bytes) => bytes as f64 * 8e6 / bps,
        StopCondition::Blocks(_) => f64::INFINITY,
    };
    let seen_ratio = seen_us / (seen_us + (longest_us - run_us).max(0.0));
    let left_ratio = (1.0 - seen_ratio).max(StopTuning::MIN_LEFT_RATIO);
    // While a lost segment is repaired nothing is read, and then much at once: the segments that arrive in
    // any order have the same mean and scatter less.
    let errors = [read, arrived].map(|goodput| find_mean_error(goodput, bps));
    Some(left_ratio.sqrt() * errors.into_iter().flatten().min_by(f64::total_cmp)?)
}

/// Returns the half-width of the interval of an estimate, or its distance from the goodput `bps` if that is
/// larger, as a ratio of `bps`; `None` without an interval.
fn find_mean_error(goodput: GoodputEstimate, bps: f64) -> Option<f64> {
    let [low, high] = goodput.interval_bps?;
    let difference = (goodput.bps? as f64 / bps - 1.0).abs();
    Some(difference.max(high.saturating_sub(low) as f64 / (2.0 * bps)))
}

/// Returns true if the window went through several cycles, or if it does not decide the rate.
fn has_seen_cycles(run: &RunView, trip_us: u64) -> bool {
    let cycles = StopTuning::MIN_CYCLES * run.streams.len();
    count_losses(run, trip_us) >= cycles || run.flat && !is_window_growing(run)
}

/// Returns the number of losses in the steady part.
fn count_losses(run: &RunView, trip_us: u64) -> usize {
    let mut losses = 0;
    let mut last_us = None;
    for interval in run.judged_intervals().filter(|it| it.has_retransmits()) {
        let apart_us = StopTuning::LOSS_TRIPS.saturating_mul(trip_us);
        let is_new =
            last_us.is_none_or(|last: u64| interval.from_us >= last.saturating_add(apart_us));
        losses += usize::from(is_new);
        last_us = Some(interval.to_us);
    }
    losses
}

/// Returns true if the windows of all streams together grow and no queue absorbs the growth.
fn is_window_growing(run: &RunView) -> bool {
    let (mut first, mut last) = (0_u64, 0_u64);
    for stream in &run.streams {
        let mut windows =
            stream.iter().filter(|it| run.is_judged(it)).filter_map(|it| Some(it.tcp?.cwnd_bytes));
        let Some(start) = windows.next() else { continue };
        first = first.saturating_add(start);
        last = last.saturating_add(windows.next_back().unwrap_or(start));
    }
    last as f64 > StopTuning::GROWTH_RATIO * first as f64 && run.queued_ratio < 0.5
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::{StreamSample, TcpReading};

    const STEP_US: u64 = 200_000;
    const RTT_US: u64 = 20_000;

    /// One reading of a sender: its count, its window, and the retransmits so far.
    fn sender(at_us: u64, bytes: u64, cwnd_bytes: u64, retransmitted_segments: u64) -> StreamEnd {
        let tcp = TcpReading {
            rtt_us: RTT_US,
            rtt_min_us: Some(RTT_US),
            mss_bytes: 1448,
            cwnd_bytes,
            bytes_acked: Some(bytes),
            retransmitted_segments,
            ..TcpReading::default()
        };
        let sample = StreamSample {
            at_us,
            bytes,
            blocked_us: at_us,
            tcp: Some(tcp),
            ..StreamSample::default()
        };
        StreamEnd { bytes, samples: vec![sample], ..StreamEnd::default() }
    }

    /// Returns the first moment in seconds at which a run may end, or `None` within a minute. `step`
    /// gives the bytes of a reading, the window, and whether a segment was retransmitted.
    fn find_end(step: impl Fn(u64) -> (u64, u64, bool)) -> Option<f64> {
        find_end_of(60, step)
    }

    /// Returns that moment of a run of at most so many seconds.
    fn find_end_of(longest_s: u64, step: impl Fn(u64) -> (u64, u64, bool)) -> Option<f64> {
        let stop = StopCondition::TimeUs(longest_s * 1_000_000);
        let plan = ThroughputPlan { stop, ..ThroughputPlan::default() };
        let mut progress = RunProgress::new(&plan, true);
        let (mut bytes, mut lost) = (0, 0);
        (1..300).find_map(|number| {
            let (more, cwnd_bytes, is_lossy) = step(number);
            bytes += more;
            lost += u64::from(is_lossy);
            progress.add_reading(&[sender(number * STEP_US, bytes, cwnd_bytes, lost)]);
            let is_known = progress.find_wait_reason(0.03).is_none();
            is_known.then_some((number * STEP_US) as f64 / 1e6)
        })
    }

    #[test]
    fn a_level_rate_is_known_in_seconds_but_not_within_a_usual_burst() {
        let end = find_end(|_| (2_500_000, 300_000, false)).expect("an end");
        assert!((3.5..5.0).contains(&end), "{end} s");
    }

    #[test]
    fn a_run_does_not_end_in_its_ramp() {
        let rate = |number: u64| 1_000_000 + 100_000 * number.min(50);
        let end = find_end(|number| (rate(number), 20_000 * number.min(50), false));
        assert!(end.is_none_or(|end| end > 50.0 * 0.2), "{end:?} s");
    }

    #[test]
    fn a_sawtooth_is_known_after_several_of_its_cycles_only() {
        // The window falls to 70 % every four seconds.
        let phase = |number: u64| number % 20;
        let window = |number: u64| 280_000 + 6_000 * phase(number);
        let end = find_end(|number| (10 * window(number), window(number), phase(number) == 0));
        assert!(end.is_none_or(|end| end > 3.0 * 4.0), "{end:?} s");
    }

    #[test]
    fn the_result_of_a_shorter_run_is_known_earlier() {
        let scatter = |number: u64| number.wrapping_mul(7919) % 13;
        let step =
            |number: u64| (2_500_000 + 40_000 * scatter(number), 300_000, number.is_multiple_of(3));
        let [short, long] =
            [10, 600].map(|longest_s| find_end_of(longest_s, step).expect("an end"));
        assert!(short < 0.8 * long, "{short} s, {long} s");
    }

    #[test]
    fn a_hole_of_lost_segments_and_what_it_held_back_do_not_hide_a_level_rate() {
        // Of ten readings two have no bytes, and the next one has those of three.
        let in_order = |number: u64| match number % 10 {
            5 | 6 => 0,
            7 => 7_500_000,
            _ => 2_500_000,
        };
        let mut progress = RunProgress::new(&ThroughputPlan::default(), true);
        let mut bytes = 0;
        let end = (1..50).find(|number| {
            bytes += in_order(*number);
            let mut end = sender(number * STEP_US, bytes, 300_000, number / 5);
            end.mss_bytes = Some(1250);
            let tcp = end.samples[0].tcp.as_mut().expect("a reading");
            tcp.delivered_segments = Some(number * 2_000);
            progress.add_reading(&[end]);
            progress.find_wait_reason(0.03).is_none()
        });
        assert!(end.is_some_and(|number| number * STEP_US < 6_000_000), "{end:?}");
    }

    #[test]
    fn a_rate_that_scatters_is_not_known_to_a_few_per_cent() {
        let scatter = |number: u64| number.wrapping_mul(7919) % 13;
        let end =
            find_end(|number| (500_000 + 400_000 * scatter(number), 300_000, number % 3 == 0));
        assert!(end.is_none_or(|end| end > 10.0), "{end:?} s");
    }
}
