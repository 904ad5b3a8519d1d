//! Decides when a run may end because its goodput is known.
//!
//! The readings of one end are judged as those of a finished run ([`crate::limit`]). The run may end
//! when its steady part is long enough, the rest can hardly change its goodput, and the limiter allows to
//! conclude from this part on the rest: several cycles of the congestion window were seen, or the rate is
//! flat and the window does not grow; the free rate of the path did not change; the bucket of a shaper is
//! empty. It may also end when a rest that repeats the last cycle of the window, or that stays at the level
//! of the second half, would leave its goodput as it is.
//!
//! Source: the interval of `stats::mean_interval`; cycles from the losses ([`crate::limit::window_cycle`]).
//! Units: microseconds, round trips, ratios.
//! Error: that of the interval; in the benchmark 3 % (docs/benchmarks.md).
//! Wrong when: a limit begins to hold only later, such as a shaper whose bucket outlasts the run; losses at
//! random, of which the last ones are no measure of the next.

use crate::limit::interval_state::IntervalState;
use crate::limit::receiver_side::find_run_limiter;
use crate::limit::run_reading::{QUEUED_RATIO, RunView, read_run};
use crate::limit::stream_intervals::SampleInterval;
use crate::throughput::arrival_timeline::ArrivalBin;
use crate::throughput::{GoodputEstimate, MIN_BINS, TransferEvidence, measure_goodput};
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
    /// The minimum share of the steady part that is left, for its interval: close to the end, the bounds of
    /// the steady part decide more than what is left of it.
    const MIN_LEFT_RATIO: f64 = 0.25;
    /// The share of the precision by which a rest that is concluded from the run may change its goodput.
    const CHANGE_RATIO: f64 = 0.5;
    /// The minimum readings of a level.
    const MIN_LEVEL_READINGS: usize = 5;
    /// The minimum share of the steady part with a queue for a path that is always full.
    const FULL_RATIO: f64 = 0.8;
    /// A window, or a rate, that grows by this ratio in the second half of the steady part still grows.
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

    /// Adds a reading of each stream, with one sample, and the RTT of the control connection before the run.
    pub fn add_reading(&mut self, ends: &[StreamEnd], idle_rtt_us: Option<u64>) {
        let sends = self.observation.forward;
        self.observation.idle_rtt_us = idle_rtt_us;
        for (index, end) in ends.iter().enumerate() {
            if self.observation.streams.len() <= index {
                // Of a sender at the other end, no more than what was requested is known.
                let congestion_control = self.plan.congestion_control.clone();
                let stream = ObservedStream {
                    index: index as u32,
                    sender: StreamEnd { congestion_control, ..StreamEnd::default() },
                    receiver: StreamEnd::default(),
                };
                self.observation.streams.push(stream);
            }
            add_sample(&mut self.observation.streams[index], end, sends, idle_rtt_us);
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
        let is_moved = (1..StopTuning::MIN_CYCLES).contains(&count_losses(&run));
        is_moved && !run.bbr && !OWN_LIMITERS.contains(&limiter)
    }

    /// Returns the reason why the run must go on until its goodput is known to this half-width, as a ratio
    /// of the goodput; `None` if it may end.
    pub fn find_wait_reason(&self, precision_ratio: f64) -> Option<WaitReason> {
        let run = read_run(&self.plan, &self.observation, TransferEvidence::default());
        find_wait_reason(&run, precision_ratio)
    }
}

fn add_sample(stream: &mut ObservedStream, end: &StreamEnd, sends: bool, idle_rtt_us: Option<u64>) {
    let Some(sample) = end.samples.last() else { return };
    let (near, far) = if sends {
        (&mut stream.sender, &mut stream.receiver)
    } else {
        (&mut stream.receiver, &mut stream.sender)
    };
    let trip_us = sample.tcp.as_ref().and_then(|tcp| tcp.rtt_min_us).or(idle_rtt_us).unwrap_or(0);
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
    let is_within = |error: Option<f64>| error.is_some_and(|error| error <= precision_ratio);
    let is_kept = |change: Option<f64>| is_within(change.map(|it| it / StopTuning::CHANGE_RATIO));
    let can_last = !is_own && verdict.limiter != Limiter::Loss;
    let is_full = verdict.limiter == Limiter::PathCapacity;
    if can_last && is_kept(find_level_change(run, steady))
        || is_full && is_kept(find_cycle_change(run, steady))
    {
        return None;
    }
    if !is_within(find_goodput_error(run, steady)) {
        return Some(WaitReason::Precision);
    }
    let is_moving = !is_own && !run.bbr && count_losses(run) < StopTuning::MIN_CYCLES;
    // A queue that hardly ever empties absorbs the cycles of the window.
    let is_always_full = verdict.shares.state(IntervalState::PathFull) >= StopTuning::FULL_RATIO;
    let is_level = || (run.flat || is_always_full) && !is_window_growing(run, steady);
    (is_moving && !is_level()).then_some(WaitReason::WindowCycle)
}

/// Returns the half-width of the 95 % interval of the goodput that the run would have at its longest, as
/// a ratio of the goodput until now. Only the rest of the run can still change that goodput, so the interval
/// of the mean is narrower by the root of the share that is left: the correction for a finite population
/// (Cochran, Sampling Techniques, section 2.6).
fn find_goodput_error(run: &RunView, steady: SteadySpan) -> Option<f64> {
    let read = measure_goodput(&run.arrivals, run.steady);
    let arrived = measure_goodput(&run.segments, run.steady);
    let bps = read.bps? as f64;
    let left_us = find_left_us(run, bps) as f64;
    let seen_us = steady.to_us.saturating_sub(steady.from_us) as f64;
    let left_ratio = (left_us / (seen_us + left_us)).max(StopTuning::MIN_LEFT_RATIO);
    // While a lost segment is repaired nothing is read, and then much at once: the segments that arrive in
    // any order have the same mean and scatter less.
    let errors = [read, arrived].map(|goodput| find_mean_error(goodput, bps));
    Some(left_ratio.sqrt() * errors.into_iter().flatten().min_by(f64::total_cmp)?)
}

/// Returns the time that is left of the run at its longest.
fn find_left_us(run: &RunView, bps: f64) -> u64 {
    let run_us = run.arrivals.to_us().saturating_sub(run.arrivals.from_us());
    let longest_us = match run.plan.stop {
        StopCondition::TimeUs(longest_us) => longest_us,
        StopCondition::Bytes(bytes) => (bytes as f64 * 8e6 / bps) as u64,
        StopCondition::Blocks(_) => u64::MAX / 2,
    };
    longest_us.saturating_sub(run_us)
}

/// Returns the most by which the goodput would change, as a ratio, if the rest of the run repeated its cycles.
fn find_cycle_change(run: &RunView, steady: SteadySpan) -> Option<f64> {
    let left_us = find_left_us(run, run.level_bps);
    find_change(run, steady, left_us, &repeat_cycles(run, steady, left_us))
}

/// Returns the most by which the goodput would change, as a ratio, if the rest of the run stayed within
/// the rates of its level.
fn find_level_change(run: &RunView, steady: SteadySpan) -> Option<f64> {
    find_change(run, steady, find_left_us(run, run.level_bps), &find_level(run, steady)?)
}

/// Returns the most by which one of these rates in the rest of the run would change its goodput, as a ratio.
fn find_change(run: &RunView, steady: SteadySpan, left_us: u64, rest_bps: &[f64]) -> Option<f64> {
    let bps = measure_goodput(&run.arrivals, run.steady).bps? as f64;
    let seen_us = steady.to_us.saturating_sub(steady.from_us) as f64;
    let seen_bits = run.segments.rate_between_bps(steady.from_us, steady.to_us) * seen_us;
    let left_us = left_us as f64;
    let changes = rest_bps
        .iter()
        .map(|rest_bps| ((seen_bits + rest_bps * left_us) / (seen_us + left_us) / bps - 1.0).abs());
    changes.max_by(f64::total_cmp)
}

/// Returns the rates of the rest of the run if it repeats the last climb to a loss, from the lowest rate
/// that a loss left after slow start, or the last cycle, or the last few.
fn repeat_cycles(run: &RunView, steady: SteadySpan, left_us: u64) -> Vec<f64> {
    let bins = &run.segments.bins;
    let (Some(first_us), Some(last_us)) = (run.losses.get(1).copied(), run.losses.last().copied())
    else {
        return Vec::new();
    };
    let index_at = |at_us: u64| bins.partition_point(|bin| bin.to_us <= at_us);
    let low_bps = find_rate_range(&bins[index_at(first_us)..]).map_or(0.0, |range| range[0]);
    // The loss itself is within the last two.
    let before = &bins[..index_at(last_us).saturating_sub(2)];
    let climb = before.iter().rfind(|bin| bin.rate_bps() <= low_bps).map_or(0, |bin| bin.to_us);
    let since_us = run.segments.to_us().saturating_sub(last_us);
    let rest_bps = |from_us: u64| {
        let cycle_us = last_us - from_us;
        let count_bits = |until_us: u64| {
            let rate = |part_us: u64| run.segments.rate_between_bps(from_us, from_us + part_us);
            let [whole, part_us] = [until_us / cycle_us, until_us % cycle_us];
            rate(cycle_us) * (whole * cycle_us) as f64 + rate(part_us) * part_us as f64
        };
        (count_bits(since_us + left_us) - count_bits(since_us)) / left_us.max(1) as f64
    };
    let starts = run.losses[1..].iter().copied().chain([climb.max(steady.from_us)]);
    let is_cycle = |from_us: &u64| {
        *from_us >= steady.from_us && run.segments.within(*from_us, last_us).len() >= MIN_BINS
    };
    starts.filter(is_cycle).map(rest_bps).collect()
}

/// Returns the lowest and the highest rate of the second half of the steady part; `None` if windows grow,
/// which would change it, or if the repair of a loss holds bytes back.
fn find_level(run: &RunView, steady: SteadySpan) -> Option<[f64; 2]> {
    let from_us = steady.from_us.midpoint(steady.to_us);
    let level = [&run.arrivals, &run.segments].map(|it| it.within(from_us, steady.to_us)).concat();
    let is_known =
        level.len() >= 2 * StopTuning::MIN_LEVEL_READINGS && !is_window_growing(run, steady);
    let is_level = |[low, high]: &[f64; 2]| *high <= StopTuning::GROWTH_RATIO * low;
    find_rate_range(&level).filter(|range| is_known && is_level(range))
}

/// Returns the lowest and the highest rate.
fn find_rate_range(bins: &[ArrivalBin]) -> Option<[f64; 2]> {
    let rates = || bins.iter().map(ArrivalBin::rate_bps);
    Some([rates().min_by(f64::total_cmp)?, rates().max_by(f64::total_cmp)?])
}

/// Returns the half-width of the interval of an estimate, or its distance from the goodput `bps` if that is
/// larger, as a ratio of `bps`; `None` without an interval.
fn find_mean_error(goodput: GoodputEstimate, bps: f64) -> Option<f64> {
    let [low, high] = goodput.interval_bps?;
    let difference = (goodput.bps? as f64 / bps - 1.0).abs();
    Some(difference.max(high.saturating_sub(low) as f64 / (2.0 * bps)))
}

/// Returns the number of losses in the steady part.
fn count_losses(run: &RunView) -> usize {
    let from_us = run.steady.map_or(0, |span| span.from_us);
    run.losses.iter().filter(|at| **at > from_us).count()
}

/// Returns true if the windows of all streams together grew in the second half of the steady part, and
/// neither a queue nor a loss kept the rate from growing with them.
fn is_window_growing(run: &RunView, steady: SteadySpan) -> bool {
    let from_us = steady.from_us.midpoint(steady.to_us);
    let (mut first, mut last) = (0.0, 0.0);
    for stream in &run.streams {
        let windows = stream.iter().filter_map(|it| Some((it.to_us, it.tcp?)));
        let mut windows = windows.filter(|(at_us, _)| *at_us > from_us);
        let Some((_, start)) = windows.next() else { continue };
        let end = windows.next_back().map_or(start, |(_, tcp)| tcp);
        first += start.cwnd_bytes as f64;
        last += end.cwnd_bytes as f64;
    }
    let after = || run.streams.iter().flatten().filter(|it| it.to_us > from_us);
    let is_held = run.measure_queued_ratio(after()) >= QUEUED_RATIO
        || after().any(SampleInterval::has_retransmits);
    last > StopTuning::GROWTH_RATIO * first && !is_held
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
            progress.add_reading(&[sender(number * STEP_US, bytes, cwnd_bytes, lost)], None);
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

    /// Returns a window that falls to 70 % every four seconds, and whether it fell.
    fn saw_window(number: u64) -> (u64, bool) {
        (280_000 + 6_000 * (number % 20), number.is_multiple_of(20))
    }

    #[test]
    fn the_rest_of_a_sawtooth_is_known_after_one_cycle_that_follows_the_first_loss() {
        let plan = ThroughputPlan::default();
        let mut progress = RunProgress::new(&plan, true);
        let (mut bytes, mut lost) = (0, 0);
        let changes: Vec<Option<f64>> = (1..50)
            .map(|number| {
                let (window, is_lossy) = saw_window(number);
                bytes += 10 * window;
                lost += u64::from(is_lossy);
                progress.add_reading(&[sender(number * STEP_US, bytes, window, lost)], None);
                let run = read_run(&plan, &progress.observation, TransferEvidence::default());
                find_cycle_change(&run, run.steady?)
            })
            .collect();
        // Losses are at readings 20 and 40.
        let known = changes.iter().position(Option::is_some);
        assert!(known.is_some_and(|index| (39..42).contains(&index)), "{known:?}");
        assert!(changes[42..].iter().flatten().all(|change| *change < 0.03), "{changes:?}");
    }

    /// One reading of a receiver: its count, the RTT that it estimates, and the segments out of order so far.
    fn receiver(at_us: u64, bytes: u64, rtt_us: u64, out_of_order_segments: u64) -> StreamEnd {
        let tcp = TcpReading {
            mss_bytes: 1448,
            receive_rtt_us: Some(rtt_us),
            bytes_received: Some(bytes),
            out_of_order_segments: Some(out_of_order_segments),
            own_window_bytes: Some(64 << 20),
            ..TcpReading::default()
        };
        let tcp = Some(tcp);
        let sample = StreamSample { at_us, bytes, tcp, ..StreamSample::default() };
        let samples = vec![sample];
        StreamEnd { bytes, blocked_us: Some(at_us), samples, ..StreamEnd::default() }
    }

    /// Returns the number of the reading after which a receiver may end its run. `step` gives the bytes of
    /// a reading, the RTT, and whether segments arrived out of order.
    fn find_receiver_end(
        plan: &ThroughputPlan,
        step: impl Fn(u64) -> (u64, u64, bool),
    ) -> Option<u64> {
        let mut progress = RunProgress::new(plan, false);
        let (mut bytes, mut late) = (0, 0);
        (1..50).find(|number| {
            let (more, rtt_us, is_late) = step(*number);
            bytes += more;
            late += u64::from(is_late);
            let end = receiver(number * STEP_US, bytes, rtt_us, late);
            progress.add_reading(&[end], Some(RTT_US));
            progress.find_wait_reason(0.03).is_none()
        })
    }

    #[test]
    fn a_receiver_counts_segments_out_of_order_as_losses() {
        let find_end = |has_losses: bool| {
            find_receiver_end(&ThroughputPlan::default(), |number| {
                let is_late = has_losses && number % 3 == 0;
                (2_400_000 + 300_000 * (number % 3), RTT_US, is_late)
            })
        };
        assert!(find_end(true).is_some_and(|number| number < 30), "{:?}", find_end(true));
        assert_eq!(find_end(false), None);
    }

    #[test]
    fn a_receiver_repeats_the_cycles_of_a_path_whose_queue_it_sees() {
        let find_end = |has_queue: bool| {
            find_receiver_end(&ThroughputPlan::default(), |number| {
                let (window, is_late) = saw_window(number);
                let queue_us = if has_queue { (window - 280_000) / 10 } else { 0 };
                (10 * window, RTT_US + queue_us, is_late)
            })
        };
        // Losses are at readings 20 and 40.
        assert!(find_end(true).is_some_and(|number| number < 45), "{:?}", find_end(true));
        assert_eq!(find_end(false), None);
    }

    #[test]
    fn a_queue_that_never_empties_absorbs_the_cycles() {
        let find_end = |queue_us: u64| {
            find_receiver_end(&ThroughputPlan::default(), |number| {
                (2_400_000 + 300_000 * (number % 3), RTT_US + queue_us, false)
            })
        };
        assert!(find_end(20_000).is_some_and(|number| number < 30), "{:?}", find_end(20_000));
        assert_eq!(find_end(0), None);
    }

    #[test]
    fn a_receiver_knows_that_it_requested_bbr_which_has_no_cycles() {
        let find_end = |name: &str| {
            let congestion_control = Some(name.to_owned());
            let plan = ThroughputPlan { congestion_control, ..ThroughputPlan::default() };
            find_receiver_end(&plan, |number| (2_400_000 + 300_000 * (number % 3), RTT_US, false))
        };
        assert!(find_end("bbr").is_some_and(|number| number < 30), "{:?}", find_end("bbr"));
        assert_eq!(find_end("cubic"), None);
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
            progress.add_reading(&[end], None);
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
