//! The limits of probe sessions and of packet trains.
//!
//! Probes are small compared with bulk runs. Those of anonymous clients are limited further, to a
//! fraction of what a bulk run within the anonymous limits would move.

use super::{LimitError, MAX_RATE_BPS, check_range, limit_error};
use crate::session::STEP_TIMEOUT;
use crate::wire::{AnonymousLimits, FilesRequest, FlowWatchRequest, ProbeBounds, SessionRequest};
use longhaul_model::report::v1::available::{TrainPlan, TrainPurpose, TrainSchedule};
use longhaul_model::report::v1::path::{RoundTripPlan, TracePlan};
use longhaul_model::units::{Bytes, Rate};
use std::time::Duration;

/// The maximum IP bytes of a session with the token.
pub const MAX_PROBE_BYTES: u64 = 16_000_000_000;
/// The maximum duration of a session.
pub const MAX_PROBING_US: u64 = 86_400 * 1_000_000;
/// The maximum IP bytes of an anonymous session, and its seconds for each second of a bulk run.
pub const ANONYMOUS_PROBE_BYTES: u64 = 256_000_000;
const ANONYMOUS_TIME_FACTOR: u64 = 20;
/// The maximum number of trains in a request.
pub const MAX_TRAINS: usize = 128;
/// The maximum number of packets in a train, except one that looks for a large token bucket.
pub const MAX_TRAIN_PACKETS: u32 = 2500;
/// The maximum number of packets in a request: any such number of timestamps fits into one frame.
pub const MAX_ASK_PACKETS: u32 = 150_000;
/// Min and max size of an IP packet: IP header, UDP header and probe data; the largest jumbo frame.
pub const PACKET_BYTES: (u32, u32) = (96, 9216);
/// The maximum scheduled time of a request.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(120);
/// The maximum number of samples of each flow that a server watches: with [`MAX_WATCHED_FLOWS`], the
/// answer fits into a frame.
pub const MAX_WATCH_SAMPLES: u64 = 50;
/// The maximum number of flows that a server watches for a client, the busiest first.
pub const MAX_WATCHED_FLOWS: u32 = 16;
/// The minimum rate that is assumed for a burst.
const MIN_BURST_BPS: u64 = 1_000_000;

/// Returns the maximum cost of an anonymous client's session.
pub fn anonymous_bounds(limits: &AnonymousLimits) -> ProbeBounds {
    let seconds = limits.seconds.saturating_mul(ANONYMOUS_TIME_FACTOR);
    let by_rate = limits.rate_bps.map(|rate| (rate / 8).saturating_mul(limits.seconds.max(1)));
    let bytes = by_rate.into_iter().chain(limits.bytes).min();
    ProbeBounds {
        flows: 1,
        most_bytes: bytes.unwrap_or(u64::MAX).min(ANONYMOUS_PROBE_BYTES),
        most_time_us: seconds.saturating_mul(1_000_000).min(MAX_PROBING_US),
        dscp: None,
    }
}

/// Checks the requested bounds of a probe session.
pub fn check_bounds(
    bounds: &ProbeBounds,
    limits: Option<&AnonymousLimits>,
) -> Result<(), LimitError> {
    check_range("flows", Some(bounds.flows), 0, 1)?;
    check_range("dscp", bounds.dscp, 0, 63)?;
    check_range("bytes", Some(bounds.most_bytes), 0, MAX_PROBE_BYTES)?;
    check_range("time_us", Some(bounds.most_time_us), 1, MAX_PROBING_US)?;
    let Some(most) = limits.map(anonymous_bounds) else {
        return Ok(());
    };
    if bounds.most_bytes > most.most_bytes {
        let allowed = format!("without a token, at most {}", Bytes(most.most_bytes));
        return Err(limit_error("bytes", Bytes(bounds.most_bytes), allowed));
    }
    if bounds.most_time_us > most.most_time_us {
        let allowed = format!("without a token, at most {} µs", most.most_time_us);
        return Err(limit_error("time_us", bounds.most_time_us, allowed));
    }
    Ok(())
}

/// Checks trains and returns their IP bytes.
pub fn check_trains(trains: &[TrainPlan]) -> Result<u64, LimitError> {
    check_range("trains", Some(trains.len()), 1, MAX_TRAINS)?;
    let (mut packets, mut bytes) = (0, 0);
    for (place, train) in trains.iter().enumerate() {
        check_train(train)?;
        if trains[..place].iter().any(|other| other.index == train.index) {
            return Err(limit_error("train index", train.index, "each index once"));
        }
        packets += train.packets;
        bytes += u64::from(train.packets) * u64::from(train.packet_bytes);
        check_range("packets", Some(packets), 1, MAX_ASK_PACKETS)?;
    }
    if scheduled_time(trains) > MAX_REQUEST_TIME {
        let allowed = format!("at most {} s", MAX_REQUEST_TIME.as_secs());
        return Err(limit_error(
            "time of trains",
            format!("{:?}", scheduled_time(trains)),
            allowed,
        ));
    }
    Ok(bytes)
}

fn check_train(train: &TrainPlan) -> Result<(), LimitError> {
    let most = match train.purpose {
        TrainPurpose::Bucket => MAX_ASK_PACKETS,
        _ => MAX_TRAIN_PACKETS,
    };
    check_range("packets", Some(train.packets), 1, most)?;
    let (least, most) = PACKET_BYTES;
    check_range("packet_bytes", Some(train.packet_bytes), least, most)?;
    check_range("pause_us", Some(train.pause_us), 0, 60_000_000)?;
    match train.schedule {
        TrainSchedule::BackToBack => Ok(()),
        TrainSchedule::RateBps(rate) => check_range("rate_bps", Some(rate), 1000, MAX_RATE_BPS),
        TrainSchedule::Poisson { mean_gap_ns, .. } => {
            check_range("mean_gap_ns", Some(mean_gap_ns), 1, 1_000_000_000)
        }
    }
}

/// Returns the time that the schedules take, without that of the bursts.
fn scheduled_time(trains: &[TrainPlan]) -> Duration {
    let one = |train: &TrainPlan| {
        let pause = Duration::from_micros(train.pause_us);
        match train.schedule {
            TrainSchedule::BackToBack => pause,
            _ => pause + sending_time(train),
        }
    };
    trains.iter().map(one).sum()
}

fn max_train_time(train: &TrainPlan) -> Duration {
    Duration::from_micros(train.pause_us) + sending_time(train) * 2
}

fn sending_time(train: &TrainPlan) -> Duration {
    let bytes = u64::from(train.packets) * u64::from(train.packet_bytes);
    let at = |bps| Rate::bits_per_second(bps).time_for(bytes).unwrap_or(Duration::ZERO);
    match train.schedule {
        TrainSchedule::BackToBack => at(MIN_BURST_BPS),
        TrainSchedule::RateBps(rate) => at(rate),
        TrainSchedule::Poisson { mean_gap_ns, .. } => {
            Duration::from_nanos(mean_gap_ns.saturating_mul(u64::from(train.packets)))
        }
    }
}

/// Checks a request. `is_anonymous`: the client has not shown the token.
pub fn check_request(ask: &SessionRequest, is_anonymous: bool) -> Result<(), LimitError> {
    match ask {
        SessionRequest::Flows(_) if is_anonymous => {
            Err(limit_error("request", "flows", "only with the token".to_owned()))
        }
        SessionRequest::Flows(watch) => check_watch(watch),
        SessionRequest::Collect(collect) => {
            check_range("wait_us", Some(collect.wait_us), 0, 10_000_000)
        }
        SessionRequest::Trace(back) => check_trace(&back.trace),
        SessionRequest::Echoes(asked) => check_round_trips(asked),
        SessionRequest::Arm(trains) | SessionRequest::Send(trains) => {
            check_trains(trains).map(drop)
        }
        SessionRequest::Options | SessionRequest::Files(_) => Ok(()),
    }
}

fn check_watch(watch: &FlowWatchRequest) -> Result<(), LimitError> {
    let most = MAX_REQUEST_TIME.as_micros() as u64;
    check_range("duration_us", Some(watch.duration_us), 1_000_000, most)?;
    let least = watch.duration_us / MAX_WATCH_SAMPLES;
    check_range("interval_us", Some(watch.interval_us), least, watch.duration_us)
}

fn check_trace(trace: &TracePlan) -> Result<(), LimitError> {
    check_range("most_hops", Some(trace.most_hops), 1, 64)?;
    check_range("probes", Some(trace.probes), 1, 10)?;
    check_range("timeout_us", Some(trace.timeout_us), 10_000, 5_000_000)?;
    check_range("confidence_ratio", trace.confidence_ratio, 0.0, 0.999)
}

fn check_round_trips(asked: &RoundTripPlan) -> Result<(), LimitError> {
    check_range("probes", Some(asked.probes), 1, 1000)?;
    check_range("interval_us", Some(asked.interval_us), 10_000, 10_000_000)?;
    check_range("packet_bytes", Some(asked.packet_bytes), 28, PACKET_BYTES.1)?;
    check_range("timeout_us", Some(asked.timeout_us), 1000, 10_000_000)?;
    let time = u64::from(asked.probes) * asked.interval_us;
    check_range("time_us", Some(time), 0, MAX_REQUEST_TIME.as_micros() as u64)
}

/// Returns the maximum time of a checked request at the server.
pub fn max_answer_time(ask: &SessionRequest) -> Duration {
    match ask {
        SessionRequest::Send(trains) => trains.iter().map(max_train_time).sum(),
        SessionRequest::Collect(collect) => Duration::from_micros(collect.wait_us),
        SessionRequest::Trace(_) => MAX_TRACE_TIME,
        SessionRequest::Flows(watch) => Duration::from_micros(watch.duration_us),
        SessionRequest::Echoes(asked) => {
            let sending = u64::from(asked.probes).saturating_mul(asked.interval_us);
            Duration::from_micros(sending.saturating_add(asked.timeout_us))
        }
        SessionRequest::Files(ask) => match **ask {
            FilesRequest::Source(_) | FilesRequest::Enter { .. } | FilesRequest::Begin { .. } => {
                MAX_FILES_TIME
            }
            FilesRequest::Resize(_) => STEP_TIMEOUT,
            _ => Duration::ZERO,
        },
        SessionRequest::Arm(_) | SessionRequest::Options => Duration::ZERO,
    }
}

/// The maximum time of file operations: listing a large folder, or reading and checksumming the
/// remains of an earlier copy.
const MAX_FILES_TIME: Duration = Duration::from_secs(3600);

/// The maximum time of a trace from the server.
pub const MAX_TRACE_TIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn train(index: u32) -> TrainPlan {
        TrainPlan {
            index,
            purpose: TrainPurpose::Sweep,
            packets: 100,
            packet_bytes: 1500,
            schedule: TrainSchedule::RateBps(12_000_000),
            pause_us: 1000,
        }
    }

    #[test]
    fn limits_that_a_hostile_server_announces_do_not_overflow() {
        let most = AnonymousLimits {
            seconds: u64::MAX,
            streams: 1,
            concurrent: 1,
            rate_bps: Some(u64::MAX),
            bytes: None,
        };
        let bounds = anonymous_bounds(&most);
        assert_eq!(
            (bounds.most_bytes, bounds.most_time_us),
            (ANONYMOUS_PROBE_BYTES, MAX_PROBING_US)
        );
    }

    #[test]
    fn trains_cost_what_they_send() {
        let trains = vec![train(0), train(1)];
        assert_eq!(check_trains(&trains), Ok(300_000));
        let time = max_answer_time(&SessionRequest::Send(trains));
        assert_eq!(time, Duration::from_millis(402));
    }

    #[test]
    fn absurd_trains_are_refused_by_name() {
        type Change = fn(&mut TrainPlan);
        let cases: [(&str, Change); 6] = [
            ("packets", |t| t.packets = 2501),
            ("packets", |t| t.packets = 0),
            ("packet_bytes", |t| t.packet_bytes = 40),
            ("rate_bps", |t| t.schedule = TrainSchedule::RateBps(1)),
            ("mean_gap_ns", |t| {
                t.schedule = TrainSchedule::Poisson { mean_gap_ns: u64::MAX, seed: 1 };
            }),
            ("time of trains", |t| {
                t.schedule = TrainSchedule::RateBps(1000);
            }),
        ];
        for (option, change) in cases {
            let mut trains = [train(0)];
            change(&mut trains[0]);
            let error = check_trains(&trains).expect_err(option);
            assert_eq!(error.option, option);
        }
        let many: Vec<_> = (0..129).map(train).collect();
        assert_eq!(check_trains(&many).expect_err("many").option, "trains");
        let twice = [train(3), train(3)];
        let error = check_trains(&twice).expect_err("twice");
        assert_eq!(error.option, "train index");
        let bucket = TrainPlan {
            purpose: TrainPurpose::Bucket,
            packets: 100_000,
            schedule: TrainSchedule::RateBps(1_000_000_000),
            ..train(0)
        };
        assert!(check_trains(&[bucket]).is_ok());
    }

    #[test]
    fn strangers_are_bound_more_tightly() {
        let limits = AnonymousLimits::default();
        let most = anonymous_bounds(&limits);
        assert_eq!(check_bounds(&most, Some(&limits)), Ok(()));
        let more = ProbeBounds { most_bytes: most.most_bytes + 1, ..most.clone() };
        assert_eq!(check_bounds(&more, None), Ok(()));
        let error = check_bounds(&more, Some(&limits)).expect_err("too many bytes");
        assert!(error.to_string().contains("without a token"), "{error}");
        let slow = AnonymousLimits { rate_bps: Some(8_000_000), ..limits };
        assert_eq!(anonymous_bounds(&slow).most_bytes, 30_000_000);
    }
}
