//! Estimates without a cooperating server.
//!
//! By TCP: the share of one connection, from its delivery rate after slow start while the
//! application did not limit it; and the fastest stretch as a lower bound of the capacity. By
//! echoes: the minimum share of time in which the worse direction was idle. None of these is the
//! available bandwidth, and none is reported as such.
//!
//! Source: delivery rate of RFC 9438's peers (draft-cheng-iccrg-delivery-rate-estimation);
//! docs/methods.
//! Units: bit/s of TCP payload. Error: a sixth of the share. Wrong when: a policer or other flows
//! limit the connection, or acknowledgements are bunched.

use crate::stats::quantile::{quantile, sort_finite};
use longhaul_model::report::v1::available::{
    AvailableEstimate, DirectionProbing, EstimateVerdict, FallbackMethod, MethodEstimate, TcpSample,
};

/// The parameters of the estimates from one end.
struct OneEndedTuning {
    /// The minimum number of samples for a share.
    min_samples: usize,
    /// The quantile of the delivery rates that bunched acknowledgements do not yet inflate.
    share_quantile: f64,
    /// The number of RTTs after which slow start is over.
    slow_start_rtts: u64,
    /// The minimum number of echoes; the quantile of RTTs without a queue; and their minimum spread.
    min_echoes: usize,
    unqueued_quantile: f64,
    min_width_us: f64,
    /// The minimum length of a stretch whose rate is a lower bound of the capacity.
    min_stretch_us: u64,
}

const TUNING: OneEndedTuning = OneEndedTuning {
    min_samples: 10,
    share_quantile: 0.9,
    slow_start_rtts: 10,
    min_echoes: 50,
    unqueued_quantile: 0.1,
    min_width_us: 50.0,
    min_stretch_us: 5_000,
};

/// Returns the share of one connection and a lower bound of the capacity.
pub fn estimate_by_tcp(probing: &DirectionProbing, fallback: FallbackMethod) -> AvailableEstimate {
    let samples = &probing.tcp_samples;
    let capacity = find_fastest_rate(samples);
    let rates = sort_finite(
        skip_slow_start(samples).filter(|s| !s.application_limited).filter_map(delivery_rate_bps),
    );
    let share = (rates.len() >= TUNING.min_samples)
        .then(|| quantile(&rates, TUNING.share_quantile))
        .flatten();
    let span = quantile(&rates, 0.5).zip(quantile(&rates, 1.0));
    let name = match fallback {
        FallbackMethod::TcpBulk => "tcp_share",
        FallbackMethod::TcpReset => "tcp_reset",
        FallbackMethod::IcmpEcho => "echo",
    };
    AvailableEstimate {
        verdict: if capacity.is_some() {
            EstimateVerdict::CapacityOnly
        } else {
            EstimateVerdict::NoAnswer
        },
        capacity_bps: capacity.map(|bps| bps as u64),
        methods: vec![MethodEstimate {
            name: name.to_owned(),
            available_bps: share.map(|bps| bps as u64),
            interval_bps: share.and(span).map(|(low, high)| [low as u64, high as u64]),
            weight_ratio: 0.0,
            invalid: Some(String::from(
                "the throughput of one TCP connection is not available bandwidth",
            )),
        }],
        probe_bytes: probing.probe_bytes,
        duration_us: probing.duration_us,
        flags: vec![String::from("uncooperative"), String::from("capacity_at_least")],
        ..AvailableEstimate::default()
    }
}

/// Returns the minimum share of the time in which neither direction had a queue, from echoes.
pub fn estimate_idle_share(probing: &DirectionProbing) -> Option<f64> {
    let trips =
        sort_finite(probing.tcp_samples.iter().filter_map(|s| s.rtt_us).map(|us| us as f64));
    let least = trips.first().filter(|_| trips.len() >= TUNING.min_echoes)?;
    let early = quantile(&trips, TUNING.unqueued_quantile)?;
    let width = (2.0 * (early - least)).max(TUNING.min_width_us);
    let within = trips.partition_point(|us| *us <= least + width);
    Some(within as f64 / trips.len() as f64)
}

fn delivery_rate_bps(sample: &TcpSample) -> Option<f64> {
    sample.delivery_bps.map(|bps| bps as f64)
}

/// Returns the samples after slow start.
fn skip_slow_start(samples: &[TcpSample]) -> impl Iterator<Item = &TcpSample> {
    let rtt_us = samples.iter().filter_map(|s| s.rtt_us).min().unwrap_or(0);
    let from = samples.first().map_or(0, |s| s.at_us) + TUNING.slow_start_rtts * rtt_us;
    samples.iter().filter(move |s| s.at_us >= from)
}

fn find_fastest_rate(samples: &[TcpSample]) -> Option<f64> {
    let mut best: Option<f64> = None;
    let mut from = 0;
    for (to, late) in samples.iter().enumerate() {
        while from < to
            && late.at_us.saturating_sub(samples[from + 1].at_us) >= TUNING.min_stretch_us
        {
            from += 1;
        }
        let early = samples[from];
        let us = late.at_us.saturating_sub(early.at_us);
        if us >= TUNING.min_stretch_us && late.bytes > early.bytes {
            let bps = (late.bytes - early.bytes) as f64 * 8e6 / us as f64;
            best = Some(best.map_or(bps, |b| b.max(bps)));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probing(step_us: u64, count: u64, bps: u64) -> DirectionProbing {
        let sample = |i: u64| TcpSample {
            at_us: i * step_us,
            bytes: bps / 8 * i * step_us / 1_000_000,
            rtt_us: Some(10_000),
            delivery_bps: Some(bps),
            application_limited: false,
        };
        DirectionProbing {
            tcp_samples: (0..count).map(sample).collect(),
            ..DirectionProbing::default()
        }
    }

    #[test]
    fn a_steady_transfer_gives_its_share_and_a_bound_of_the_capacity() {
        let found = estimate_by_tcp(&probing(20_000, 100, 80_000_000), FallbackMethod::TcpBulk);
        assert_eq!(found.verdict, EstimateVerdict::CapacityOnly);
        assert!((found.capacity_bps.unwrap() as f64 / 80e6 - 1.0).abs() < 0.01);
        assert_eq!(found.methods[0].available_bps, Some(80_000_000));
        assert_eq!(found.available_bps, None);
    }

    #[test]
    fn what_the_application_held_back_is_no_share() {
        let mut held = probing(20_000, 100, 80_000_000);
        for sample in &mut held.tcp_samples {
            sample.application_limited = true;
        }
        assert_eq!(estimate_by_tcp(&held, FallbackMethod::TcpBulk).methods[0].available_bps, None);
    }

    #[test]
    fn echoes_that_wait_are_no_idle_time() {
        let mut echoes = probing(20_000, 100, 0);
        for (i, sample) in echoes.tcp_samples.iter_mut().enumerate() {
            sample.rtt_us = Some(if i % 4 == 0 { 15_000 } else { 10_000 + i as u64 % 7 });
        }
        assert_eq!(estimate_idle_share(&echoes), Some(0.75));
        assert_eq!(estimate_idle_share(&DirectionProbing::default()), None);
    }

    #[test]
    fn no_samples_are_no_answer() {
        let found = estimate_by_tcp(&DirectionProbing::default(), FallbackMethod::TcpReset);
        assert_eq!((found.verdict, found.capacity_bps), (EstimateVerdict::NoAnswer, None));
    }
}
