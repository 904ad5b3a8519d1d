//! Draws all conclusions from one session.
//!
//! # Round trip
//!
//! The time between a packet and its first answer, without the time in the reflector.
//!
//! Source: RFC 8762, section 4; RFC 2681. Units: ns. Error: that of the timestamps, some
//! microseconds with those of the kernel. Wrong when: the reflector's two timestamps are not of the
//! receipt and the departure; what is negative or exceeds the whole time is not subtracted.
//!
//! # One-way delay
//!
//! The time from one clock to the other, if both are synchronized.
//!
//! It is given if both hosts say that their clocks follow UTC, within errors that together are less
//! than half of the minimum round trip: otherwise the round trip alone says as much. Source: RFC
//! 7679. Units: ns. Error: the sum of both errors; with one clock at both ends, that of the timestamps.
//! Wrong when: a host states less than its error.
//!
//! # Delay variation
//!
//! Delays above their minimum, and changes from packet to packet; the offset of the clocks cancels.
//!
//! Source: RFC 5481 (PDV, IPDV). Units: ns. Error: that of the skew, times the duration. Wrong when:
//! a clock is set within the run.
//!
//! # Clock offset
//!
//! The offset at the shortest round trip, where it is bounded best.
//!
//! Source: RFC 5905, section 8. Units: ns. Error: half of the round trip. Wrong when: never, if the
//! timestamps are right.

use super::clock_skew::{ClockSkew, DelayPoint, estimate_skew};
use super::one_way_counts;
use crate::stats::{quantile, sort_finite};
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::latency::{
    ClockComparison, DelayPercentiles, LatencyAnalysis, LatencyObservation, LatencyPlan,
    OneWayLatency,
};
use longhaul_model::units::format_duration;
use std::time::Duration;

/// The error of the kernel's timestamps. On loopback, packets arrived up to 0.2 us before they were sent.
const TIMESTAMP_ERROR_NS: u64 = 5_000;

/// An answered packet.
#[derive(Debug, Clone, Copy)]
struct TimedExchange {
    packet: u32,
    sent_ns: i64,
    rtt_ns: i64,
    reflector_ns: i64,
    /// Forward and reverse delay with the offset of the clocks; absent if the reflector's times
    /// cannot be right.
    one_way_ns: Option<[i64; 2]>,
}

/// Draws all conclusions from one session. Never fails: what cannot be determined stays absent.
pub fn conclude_latency(
    plan: &LatencyPlan,
    observation: &LatencyObservation,
) -> RunConclusion<LatencyAnalysis> {
    let packets = &observation.packets;
    let exchanges = list_exchanges(observation);
    let answers: usize = packets.iter().map(|packet| packet.answers.len()).sum();
    let (sent, answered) = (packets.len() as u32, exchanges.len() as u32);
    let duplicates = (answers - exchanges.len()) as u32;
    let reordered = one_way_counts::count_reordered_trips(packets);
    let stateful =
        if plan.stateful { Some(true) } else { one_way_counts::find_reflector_count(packets) };
    let rtt = describe_delays(exchanges.iter().map(|it| it.rtt_ns as f64));
    let skew = estimate_skew(&list_delays(&exchanges, 0), &list_delays(&exchanges, 1));
    let mut analysis = LatencyAnalysis {
        version: VERSION,
        sent,
        answered_packets: answered,
        loss_ratio: f64::from(sent - answered) / f64::from(sent.max(1)),
        duplicates,
        reordered,
        rtt,
        reflector_ns: describe_delays(exchanges.iter().map(|it| it.reflector_ns as f64))
            .map(|it| it.p50_ns.unsigned_abs()),
        stateful,
        forward: describe_direction(&exchanges, 0, skew),
        reverse: describe_direction(&exchanges, 1, skew),
        clocks: compare_clocks(&exchanges, skew),
        one_way_refused: None,
    };
    // Without loss and copies, the numbers of a reflector that does not count tell as much.
    let is_plain = answered == sent && duplicates == 0 && reordered == 0;
    if stateful == Some(true) || is_plain {
        add_counts(&mut analysis, observation);
    }
    add_one_way_delays(&mut analysis, observation, &exchanges);
    let caveats = list_caveats(observation, &exchanges);
    RunConclusion { analysis, findings: Vec::new(), caveats }
}

/// Returns the delays of the answered packets, there and back, with the offset of the clocks.
pub fn list_one_way_delays(observation: &LatencyObservation) -> Vec<[i64; 2]> {
    list_exchanges(observation).into_iter().filter_map(|it| it.one_way_ns).collect()
}

fn list_exchanges(observation: &LatencyObservation) -> Vec<TimedExchange> {
    let exchange = |(packet, it): (u32, &longhaul_model::report::v1::latency::LatencyPacket)| {
        let answer = it.answers.first()?;
        let [sent, received] = [it.sent_ns, answer.received_ns].map(|ns| i64::try_from(ns).ok());
        let (sent, received) = (sent?, received?);
        let whole = received.checked_sub(sent)?.max(0);
        let inside = answer.far_sent_ns.checked_sub(answer.far_received_ns);
        let inside = inside.filter(|inside| (0..=whole).contains(inside));
        let one_way = || {
            let forward = answer.far_received_ns.checked_sub(sent)?;
            Some([forward, received.checked_sub(answer.far_sent_ns)?])
        };
        Some(TimedExchange {
            packet,
            sent_ns: sent,
            rtt_ns: whole - inside.unwrap_or(0),
            reflector_ns: inside.unwrap_or(0),
            one_way_ns: inside.and_then(|_| one_way()),
        })
    };
    (0..).zip(&observation.packets).filter_map(exchange).collect()
}

/// Returns the delays of a direction above that of the first packet, in the order of sending.
fn list_delays(exchanges: &[TimedExchange], direction: usize) -> Vec<DelayPoint> {
    let delays = exchanges.iter().filter_map(|it| Some((it.sent_ns, it.one_way_ns?[direction])));
    let mut first = None;
    // Large offsets would leave no digits for the delays.
    delays
        .map(|(at, delay)| DelayPoint {
            at_ns: at as f64,
            delay_ns: delay.saturating_sub(*first.get_or_insert(delay)) as f64,
        })
        .collect()
}

fn describe_delays(delays: impl IntoIterator<Item = f64>) -> Option<DelayPercentiles> {
    let sorted = sort_finite(delays);
    let at = |share| quantile(&sorted, share).map(|ns| ns.round() as i64);
    Some(DelayPercentiles {
        min_ns: at(0.0)?,
        p50_ns: at(0.5)?,
        p90_ns: at(0.9)?,
        p95_ns: at(0.95)?,
        p99_ns: at(0.99)?,
        max_ns: at(1.0)?,
    })
}

/// Describes the variation of a direction, whose delays have lost the skew of the clocks.
fn describe_direction(
    exchanges: &[TimedExchange],
    direction: usize,
    skew: Option<ClockSkew>,
) -> Option<OneWayLatency> {
    let slope = skew.map_or(0.0, ClockSkew::forward_slope);
    let slope = if direction == 0 { slope } else { -slope };
    let points = list_delays(exchanges, direction);
    let levels: Vec<f64> = points.iter().map(|it| it.delay_ns - slope * it.at_ns).collect();
    let least = levels.iter().copied().fold(f64::INFINITY, f64::min);
    let timed: Vec<u32> =
        exchanges.iter().filter(|it| it.one_way_ns.is_some()).map(|it| it.packet).collect();
    let pairs = timed.windows(2).zip(levels.windows(2));
    let steps = pairs.filter(|(numbers, _)| numbers[1] == numbers[0] + 1);
    let steps = describe_delays(steps.map(|(_, levels)| (levels[1] - levels[0]).abs()));
    Some(OneWayLatency {
        variation: Some(describe_delays(levels.iter().map(|level| level - least))?),
        step_ns: steps.map(|steps| steps.p50_ns.unsigned_abs()),
        ..OneWayLatency::default()
    })
}

fn compare_clocks(exchanges: &[TimedExchange], skew: Option<ClockSkew>) -> Option<ClockComparison> {
    let timed = exchanges.iter().filter(|it| it.one_way_ns.is_some());
    let best = timed.min_by_key(|it| it.rtt_ns)?;
    let [forward, reverse] = best.one_way_ns?;
    Some(ClockComparison {
        offset_ns: (forward / 2).saturating_sub(reverse / 2),
        offset_error_ns: best.rtt_ns.unsigned_abs() / 2 + 1,
        skew_ppm: skew.map(|skew| skew.ppm),
        skew_error_ppm: skew.map(|skew| skew.error_ppm),
    })
}

fn add_counts(analysis: &mut LatencyAnalysis, observation: &LatencyObservation) {
    if let Some((forward, reverse)) = one_way_counts::count_directions(&observation.packets) {
        analysis.forward.get_or_insert_default().counts = Some(forward);
        analysis.reverse.get_or_insert_default().counts = Some(reverse);
    }
}

/// Adds the delays of both directions, or the reason why there are none.
fn add_one_way_delays(
    analysis: &mut LatencyAnalysis,
    observation: &LatencyObservation,
    exchanges: &[TimedExchange],
) {
    let Some(rtt) = analysis.rtt else {
        return;
    };
    let directions = [0, 1].map(|direction| {
        let delays = exchanges.iter().filter_map(|it| Some(it.one_way_ns?[direction] as f64));
        describe_delays(delays)
    });
    let [Some(forward), Some(reverse)] = directions else {
        analysis.one_way_refused = Some("the times of the reflector cannot be right".to_owned());
        return;
    };
    let least = forward.min_ns.min(reverse.min_ns);
    match judge_clocks(observation, rtt.min_ns, least) {
        Ok(error) => {
            for (direction, delay) in
                [(&mut analysis.forward, forward), (&mut analysis.reverse, reverse)]
            {
                let direction = direction.get_or_insert_default();
                direction.delay = Some(delay);
                direction.delay_error_ns = Some(error);
            }
        }
        Err(reason) => analysis.one_way_refused = Some(reason),
    }
}

/// Returns the error of one-way delays, or why there are none. `least` is the smallest of them.
fn judge_clocks(
    observation: &LatencyObservation,
    rtt_min_ns: i64,
    least: i64,
) -> Result<u64, String> {
    let format = |ns: u64| format_duration(Duration::from_nanos(ns));
    if observation.clock_step_ns.is_some() {
        return Err("the clock of this host was set during the run".to_owned());
    }
    let (near, far) = (observation.near_clock, observation.far_clock.unwrap_or_default());
    let error = if observation.shared_clock {
        TIMESTAMP_ERROR_NS
    } else if !near.synchronized {
        return Err("the kernel of this host says that its clock is not synchronised".to_owned());
    } else if !far.synchronized {
        return Err("the reflector says that its clock is not synchronised".to_owned());
    } else if far.error_ns == 0 {
        return Err("the reflector states no error of its clock".to_owned());
    } else {
        near.error_ns.saturating_add(far.error_ns)
    };
    if !observation.shared_clock && error >= rtt_min_ns.unsigned_abs() / 2 {
        return Err(format!(
            "the clocks may differ by {} ({} here, {} at the reflector), and half of the minimum \
             round trip is {}",
            format(error),
            format(near.error_ns),
            format(far.error_ns),
            format(rtt_min_ns.unsigned_abs() / 2)
        ));
    }
    if least < 0 && least.unsigned_abs() > error {
        return Err(format!(
            "the clocks differ by more than the {} that their hosts state: a packet would arrive \
             {} before it is sent",
            format(error),
            format(least.unsigned_abs())
        ));
    }
    Ok(error)
}

fn list_caveats(
    observation: &LatencyObservation,
    exchanges: &[TimedExchange],
) -> Vec<ReportCaveat> {
    let mut caveats = Vec::new();
    let unusable = exchanges.iter().filter(|it| it.one_way_ns.is_none()).count();
    if unusable > 0 {
        let text = format!(
            "the reflector's times of {unusable} of {} answers cannot be right: the time in the \
             reflector is part of these round trips",
            exchanges.len()
        );
        caveats.push(ReportCaveat::new("reflector_times", text));
    }
    if let Some(step) = observation.clock_step_ns {
        let size = format_duration(Duration::from_nanos(step.unsigned_abs()));
        let text = format!("the wall clock of this host was set by {size} during the run");
        caveats.push(ReportCaveat::new("clock_step", text));
    }
    if observation.timestamps == "user" && !exchanges.is_empty() {
        let text = "the kernel did not stamp all packets: delays include those of this program";
        caveats.push(ReportCaveat::new("user_timestamps", text));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::latency::{
        LatencyAnswer, LatencyPacket, LatencyProtocol, WallClockState,
    };

    const MS: i64 = 1_000_000;

    fn plan() -> LatencyPlan {
        LatencyPlan {
            protocol: LatencyProtocol::Stamp,
            port: 862,
            control_port: None,
            packets: 100,
            interval_us: 100_000,
            payload_bytes: 44,
            timeout_us: 1_000_000,
            dscp: None,
            authenticated: false,
            stateful: false,
        }
    }

    /// A path of 30 ms there and 10 ms back, whose reflector takes 1 ms and has a clock that is off
    /// by `offset_ns` and runs faster by `skew_ppm`.
    fn observe(offset_ns: i64, skew_ppm: i64) -> LatencyObservation {
        let far = |at: i64| at + offset_ns + at / 1_000_000 * skew_ppm;
        let packet = |number: i64| {
            let sent = number * 100 * MS;
            // Every fourth packet waits for 2 ms on the way there.
            let queue = if number % 4 == 3 { 2 * MS } else { 0 };
            let reached = sent + 30 * MS + queue;
            let answer = LatencyAnswer {
                sequence_number: number as u32,
                far_received_ns: far(reached),
                far_sent_ns: far(reached + MS),
                received_ns: (reached + 11 * MS) as u64,
            };
            LatencyPacket { sent_ns: sent as u64, answers: vec![answer] }
        };
        LatencyObservation {
            packets: (0..100).map(packet).collect(),
            timestamps: "kernel".to_owned(),
            ..LatencyObservation::default()
        }
    }

    fn with_clocks(offset_ns: i64, errors_ns: [u64; 2]) -> LatencyObservation {
        let [near, far] = errors_ns.map(|error_ns| WallClockState { synchronized: true, error_ns });
        LatencyObservation { near_clock: near, far_clock: Some(far), ..observe(offset_ns, 0) }
    }

    fn analyse(observation: &LatencyObservation) -> LatencyAnalysis {
        conclude_latency(&plan(), observation).analysis
    }

    #[test]
    fn round_trips_do_not_contain_the_time_in_the_reflector() {
        let it = analyse(&observe(0, 0));
        let rtt = it.rtt.expect("answers");
        assert_eq!((rtt.min_ns, rtt.p50_ns, rtt.max_ns), (40 * MS, 40 * MS, 42 * MS));
        assert_eq!((it.reflector_ns, it.loss_ratio), (Some(MS as u64), 0.0));
    }

    #[test]
    fn one_way_delays_are_given_within_the_error_of_both_clocks() {
        // The reflector's clock is 3 ms ahead, and its host knows.
        let it = analyse(&with_clocks(3 * MS, [1_000_000, 4_000_000]));
        assert_eq!(it.one_way_refused, None);
        let [forward, reverse] = [it.forward, it.reverse].map(|it| it.expect("a direction"));
        assert_eq!(forward.delay.map(|it| it.p50_ns), Some(33 * MS));
        assert_eq!(reverse.delay.map(|it| it.p50_ns), Some(7 * MS));
        assert_eq!(
            (forward.delay_error_ns, reverse.delay_error_ns),
            (Some(5_000_000), Some(5_000_000))
        );
    }

    #[test]
    fn with_one_clock_a_packet_may_arrive_before_it_is_sent_by_the_error_of_timestamps() {
        for (offset_ns, is_given) in [(-30 * MS - 215, true), (-30 * MS - 6_000, false)] {
            let observation = LatencyObservation { shared_clock: true, ..observe(offset_ns, 0) };
            let forward = analyse(&observation).forward.expect("a direction");
            assert_eq!(forward.delay_error_ns.is_some(), is_given, "{offset_ns}");
        }
    }

    #[test]
    fn one_way_delays_are_refused_with_the_reason() {
        let reason = |observation: &LatencyObservation| {
            let it = analyse(observation);
            assert!(it.forward.is_some_and(|forward| forward.delay.is_none()));
            it.one_way_refused.expect("a reason")
        };
        let good = with_clocks(0, [1_000_000, 1_000_000]);
        let near = LatencyObservation { near_clock: WallClockState::default(), ..good.clone() };
        assert!(reason(&near).contains("this host"));
        let far = LatencyObservation { far_clock: Some(WallClockState::default()), ..good.clone() };
        assert!(reason(&far).contains("the reflector says"));
        let stepped = LatencyObservation { clock_step_ns: Some(1), ..good.clone() };
        assert!(reason(&stepped).contains("was set"));
        assert!(reason(&with_clocks(0, [1_000_000, 19_500_000])).contains("may differ by 20.5 ms"));
        let contradiction = reason(&with_clocks(-40 * MS, [1_000_000, 1_000_000]));
        assert!(contradiction.contains("before it is sent"), "{contradiction}");
    }

    #[test]
    fn variation_and_skew_need_no_synchronised_clocks() {
        for (offset_ns, skew_ppm) in [(0, 0), (86_400_000_000_000_000, 50), (-5 * MS, -200)] {
            let it = analyse(&observe(offset_ns, skew_ppm));
            let [forward, reverse] = [it.forward, it.reverse].map(|it| it.expect("a direction"));
            let near = |ns: Option<i64>, expected: i64| {
                assert!(ns.is_some_and(|ns| ns.abs_diff(expected) < 20_000), "{ns:?}");
            };
            near(forward.variation.map(|it| it.p95_ns), 2 * MS);
            near(forward.variation.map(|it| it.p50_ns), 0);
            near(reverse.variation.map(|it| it.max_ns), 0);
            let clocks = it.clocks.expect("a comparison");
            let skew = clocks.skew_ppm.expect("10 s are enough");
            let error = clocks.skew_error_ppm.expect("with its error");
            assert!((skew - skew_ppm as f64).abs() <= error + 0.1, "{skew} for {skew_ppm}");
            let off = clocks.offset_ns.abs_diff(offset_ns);
            assert!(off <= clocks.offset_error_ns + 3 * MS as u64, "{clocks:?}");
        }
    }

    #[test]
    fn times_of_a_reflector_that_cannot_be_right_are_not_subtracted() {
        let mut observation = observe(0, 0);
        for packet in &mut observation.packets {
            packet.answers[0].far_received_ns = i64::MIN;
        }
        let conclusion = conclude_latency(&plan(), &observation);
        assert_eq!(conclusion.analysis.rtt.map(|it| it.min_ns), Some(41 * MS));
        assert_eq!(conclusion.analysis.forward.and_then(|it| it.variation), None);
        assert_eq!(conclusion.caveats[0].code, "reflector_times");
    }

    #[test]
    fn losses_of_a_reflector_that_repeats_numbers_have_no_direction() {
        let mut observation = observe(0, 0);
        observation.packets[5].answers.clear();
        let it = analyse(&observation);
        assert_eq!((it.answered_packets, it.loss_ratio, it.stateful), (99, 0.01, None));
        assert_eq!(it.forward.and_then(|forward| forward.counts), None);
        let known = LatencyPlan { stateful: true, ..plan() };
        let it = conclude_latency(&known, &observation).analysis;
        let lost = |it: Option<OneWayLatency>| it?.counts.map(|counts| counts.lost);
        assert_eq!((lost(it.forward), lost(it.reverse)), (Some(0), Some(1)));
    }

    #[test]
    fn a_session_without_an_answer_has_no_delays() {
        let mut observation = observe(0, 0);
        observation.packets.iter_mut().for_each(|packet| packet.answers.clear());
        let it = analyse(&observation);
        assert_eq!((it.rtt, it.loss_ratio, it.clocks), (None, 1.0, None));
        assert_eq!(it.one_way_refused, None);
    }
}
