//! Estimates the limiter of a moment during a run, from two readings of this end's streams.
//!
//! Rules for the time between the readings, in order: the shares of time in which the receive window
//! and the send buffer limited the sender (`tcpi_rwnd_limited`, `tcpi_sndbuf_limited`), the time of
//! the sending thread outside of its calls, its CPU time, retransmits, the queue (RTT above the
//! least one), and the congestion window. The estimate of most of the bytes counts.
//!
//! Source: as for the verdict on a whole run (`interval_classifier`), whose rules that need the whole
//! run are absent. Units: shares of time, bytes, microseconds.
//! Error: a moment that changes its state midway counts whole for one state; the kernel's counters
//! are up to a sampling interval older than the others.
//! Wrong when: a state is shorter than the time between the readings. The verdict after the run knows
//! both ends and all samples, and may differ. A receiver alone knows only its own reader.

use super::stream_intervals::{BELOW_WINDOW_RATIO, HALF, compute_window_room};
use crate::throughput::limiter_label;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::{StreamEnd, StreamSample, TcpReading};
use std::collections::BTreeMap;

/// The parameters of the estimate.
struct LiveTuning;

impl LiveTuning {
    /// A thread that runs or is runnable for this share of the time is short of CPU.
    const STARVED_RATIO: f64 = 0.85;
    /// Unread bytes above this share of the advertised window: the reader is behind.
    const UNREAD_RATIO: f64 = 0.25;
    /// An RTT above the least one by this ratio and this time is a queue.
    const QUEUE_RATIO: f64 = 1.25;
    const MIN_QUEUE_US: u64 = 1_000;
    /// A window that grows by this ratio between two readings is still growing.
    const GROWTH_RATIO: f64 = 1.15;
}

/// Returns the label of the limiter between two readings of this end of the same streams, each with
/// one sample, in at most two words; `None` if it is unknown. `sends`: this end is the sender.
pub fn name_live_limiter(
    before: &[StreamEnd],
    now: &[StreamEnd],
    sends: bool,
) -> Option<&'static str> {
    let mut weights: BTreeMap<Option<&'static str>, u64> = BTreeMap::new();
    for (before, now) in before.iter().zip(now) {
        let (Some(before), Some(now)) = (before.samples.last(), now.samples.last()) else {
            continue;
        };
        let label = if sends { judge_sender(before, now) } else { judge_receiver(before, now) };
        // A stream that moves nothing counts a little.
        *weights.entry(label).or_default() += now.bytes.saturating_sub(before.bytes).max(1);
    }
    weights.into_iter().max_by_key(|(_, bytes)| *bytes)?.0
}

/// The activity of a thread between two readings, in shares of the time.
struct ThreadShares {
    time_us: f64,
    outside_calls: f64,
    demand: Option<f64>,
}

impl ThreadShares {
    fn between(before: &StreamSample, now: &StreamSample) -> Option<ThreadShares> {
        let time_us = now.at_us.checked_sub(before.at_us).filter(|time| *time > 0)? as f64;
        let blocked = now.blocked_us.saturating_sub(before.blocked_us) as f64;
        let spent = |read: fn(&StreamSample) -> Option<u64>| {
            Some(read(now)?.saturating_sub(read(before)?) as f64)
        };
        let demand =
            spent(|it| it.cpu_us).map(|cpu| cpu + spent(|it| it.core_wait_us).unwrap_or(0.0));
        Some(ThreadShares {
            time_us,
            outside_calls: 1.0 - blocked / time_us,
            demand: demand.map(|busy| busy / time_us),
        })
    }

    fn is_starved(&self) -> bool {
        self.demand.is_some_and(|share| share >= LiveTuning::STARVED_RATIO)
    }
}

fn judge_sender(before: &StreamSample, now: &StreamSample) -> Option<&'static str> {
    let thread = ThreadShares::between(before, now)?;
    let (old, tcp) = (before.tcp.as_ref()?, now.tcp.as_ref()?);
    let limited = |read: fn(&TcpReading) -> Option<u64>| {
        let spent = read(tcp)?.saturating_sub(read(old)?) as f64;
        Some(spent / thread.time_us >= HALF)
    };
    let grows = |now: Option<u64>, old: Option<u64>| {
        now.zip(old)
            .is_some_and(|(now, old)| now as f64 >= LiveTuning::GROWTH_RATIO * old.max(1) as f64)
    };
    let dry = tcp.unsent_bytes.is_none_or(|bytes| bytes <= tcp.mss_bytes.saturating_mul(2));
    let filled = tcp.unacked_bytes as f64 >= BELOW_WINDOW_RATIO * compute_window_room(tcp) as f64;
    let limiter = if limited(|it| it.receive_window_limited_us) == Some(true) {
        if grows(tcp.peer_window_bytes, old.peer_window_bytes) {
            Limiter::Ramp
        } else {
            Limiter::ReceiveWindow
        }
    } else if limited(|it| it.send_buffer_limited_us) == Some(true) {
        Limiter::SendBuffer
    } else if thread.is_starved() && !filled {
        Limiter::CpuSender
    } else if thread.outside_calls >= HALF && dry {
        Limiter::Application
    } else {
        return judge_window(old, tcp, filled);
    };
    Some(limiter_label(limiter))
}

/// Judges a sender that neither windows of the hosts nor its application limit.
fn judge_window(old: &TcpReading, tcp: &TcpReading, filled: bool) -> Option<&'static str> {
    let least = tcp.rtt_min_us.filter(|rtt| *rtt > 0);
    let queued = least.is_some_and(|least| {
        tcp.rtt_us as f64 > LiveTuning::QUEUE_RATIO * least as f64
            && tcp.rtt_us > least + LiveTuning::MIN_QUEUE_US
    });
    let lost = tcp.retransmitted_segments > old.retransmitted_segments || tcp.ca_state >= 3;
    let growing = tcp.cwnd_bytes as f64 >= LiveTuning::GROWTH_RATIO * old.cwnd_bytes as f64;
    let slow_start = tcp.ssthresh_bytes.is_none_or(|threshold| tcp.cwnd_bytes < threshold);
    Some(match (queued, lost) {
        (true, _) => limiter_label(Limiter::PathCapacity),
        (false, true) => limiter_label(Limiter::Loss),
        _ if growing && slow_start => limiter_label(Limiter::Ramp),
        _ if filled => "congestion window",
        _ => return None,
    })
}

/// Judges a receiver, which knows whether its reader is behind.
fn judge_receiver(before: &StreamSample, now: &StreamSample) -> Option<&'static str> {
    let thread = ThreadShares::between(before, now)?;
    let window = now.tcp.as_ref()?.own_window_bytes?;
    let behind = now.queue_bytes? as f64 > LiveTuning::UNREAD_RATIO * window as f64;
    let limiter = if thread.is_starved() { Limiter::CpuReceiver } else { Limiter::Application };
    behind.then(|| limiter_label(limiter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;
    const MSS: u64 = 1448;

    /// A sender that sleeps in its calls and fills its windows, over an empty path of 100 ms.
    fn reading(seconds: u64) -> StreamSample {
        StreamSample {
            at_us: seconds * SECOND_US,
            bytes: seconds * 1_000_000,
            blocked_us: seconds * 950_000,
            cpu_us: Some(seconds * 30_000),
            core_wait_us: Some(0),
            queue_bytes: Some(1 << 20),
            tcp: Some(TcpReading {
                rtt_us: 100_500,
                rtt_min_us: Some(100_000),
                mss_bytes: MSS,
                cwnd_bytes: 100 * MSS,
                ssthresh_bytes: Some(50 * MSS),
                unacked_bytes: 100 * MSS,
                unsent_bytes: Some(500 * MSS),
                receive_window_limited_us: Some(0),
                send_buffer_limited_us: Some(0),
                peer_window_bytes: Some(1 << 20),
                own_window_bytes: Some(1 << 20),
                ..TcpReading::default()
            }),
            ..StreamSample::default()
        }
    }

    fn changed(change: impl FnOnce(&mut StreamSample, &mut TcpReading)) -> StreamSample {
        let mut sample = reading(2);
        let mut tcp = sample.tcp.take().expect("a reading");
        change(&mut sample, &mut tcp);
        StreamSample { tcp: Some(tcp), ..sample }
    }

    fn name(before: &[StreamSample], now: &[StreamSample], sends: bool) -> Option<&'static str> {
        let ends = |samples: &[StreamSample]| -> Vec<StreamEnd> {
            let end =
                |it: &StreamSample| StreamEnd { samples: vec![it.clone()], ..StreamEnd::default() };
            samples.iter().map(end).collect()
        };
        name_live_limiter(&ends(before), &ends(now), sends)
    }

    #[test]
    fn each_counter_names_its_limiter() {
        let cases: [(&str, StreamSample); 10] = [
            ("receive window", changed(|_, tcp| tcp.receive_window_limited_us = Some(600_000))),
            ("send buffer", changed(|_, tcp| tcp.send_buffer_limited_us = Some(900_000))),
            (
                "ramp",
                changed(|_, tcp| {
                    tcp.receive_window_limited_us = Some(900_000);
                    tcp.peer_window_bytes = Some(2 << 20);
                }),
            ),
            (
                "application",
                changed(|sample, tcp| {
                    sample.blocked_us = 960_000;
                    tcp.unsent_bytes = Some(0);
                    tcp.unacked_bytes = MSS;
                }),
            ),
            (
                "sender's CPU",
                changed(|sample, tcp| {
                    sample.cpu_us = Some(980_000);
                    tcp.unacked_bytes = 10 * MSS;
                }),
            ),
            ("path capacity", changed(|_, tcp| tcp.rtt_us = 180_000)),
            (
                "path capacity",
                changed(|_, tcp| (tcp.rtt_us, tcp.retransmitted_segments) = (180_000, 9)),
            ),
            ("loss", changed(|_, tcp| tcp.retransmitted_segments = 1)),
            (
                "ramp",
                changed(|_, tcp| {
                    (tcp.cwnd_bytes, tcp.ssthresh_bytes) = (200 * MSS, None);
                }),
            ),
            ("congestion window", reading(2)),
        ];
        for (label, now) in cases {
            assert_eq!(name(&[reading(1)], &[now], true), Some(label));
        }
    }

    #[test]
    fn what_no_counter_shows_is_unknown() {
        let idle = changed(|_, tcp| tcp.unacked_bytes = 10 * MSS);
        assert_eq!(name(&[reading(1)], &[idle], true), None);
        assert_eq!(name(&[], &[reading(2)], true), None);
        assert_eq!(name(&[reading(2)], &[reading(2)], true), None);
        let udp = |seconds| StreamSample { tcp: None, ..reading(seconds) };
        assert_eq!(name(&[udp(1)], &[udp(2)], true), None);
    }

    #[test]
    fn a_receiver_knows_only_a_reader_that_is_behind() {
        let kept = changed(|sample, _| sample.queue_bytes = Some(0));
        assert_eq!(name(&[reading(1)], &[kept], false), None);
        assert_eq!(name(&[reading(1)], &[reading(2)], false), Some("application"));
        let busy = changed(|sample, _| sample.cpu_us = Some(980_000));
        assert_eq!(name(&[reading(1)], &[busy], false), Some("receiver's CPU"));
    }

    #[test]
    fn the_streams_with_most_bytes_decide() {
        let clipped = changed(|sample, tcp| {
            sample.bytes = 3_000_000;
            tcp.receive_window_limited_us = Some(900_000);
        });
        let both = [clipped, reading(2)];
        let label = name(&[reading(1), reading(1)], &both, true);
        assert_eq!(label, Some("receive window"));
    }
}
