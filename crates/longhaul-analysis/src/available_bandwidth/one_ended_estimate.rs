//! Estimates without a cooperating server.
//!
//! The share of one TCP connection, from its delivery rate after slow start while the application
//! did not limit it; and the fastest stretch as a lower bound of the capacity. Neither is the
//! available bandwidth, and neither is reported as such.
//!
//! Source: delivery rate of RFC 9438's peers (draft-cheng-iccrg-delivery-rate-estimation);
//! docs/methods.
//! Units: bit/s of TCP payload. Error: a sixth of the share. Wrong when: a policer or other flows
//! limit the connection, or acknowledgements are bunched.

use crate::stats::quantile::{quantile, sort_finite};
use longhaul_model::report::v1::available::{
    AvailableEstimate, DirectionProbing, EstimateVerdict, MethodEstimate, TcpSample,
};

/// The parameters of the estimates from one end.
struct OneEndedTuning;

impl OneEndedTuning {
    /// The minimum number of samples for a share.
    const MIN_SAMPLES: usize = 10;
    /// The quantile of the delivery rates that bunched acknowledgements do not yet inflate.
    const SHARE_QUANTILE: f64 = 0.9;
    /// The number of RTTs after which slow start is over.
    const SLOW_START_RTTS: u64 = 10;
    /// The minimum length of a stretch whose rate is a lower bound of the capacity.
    const MIN_STRETCH_US: u64 = 5_000;
}

/// Returns the share of one connection and a lower bound of the capacity.
pub fn estimate_by_tcp(probing: &DirectionProbing) -> AvailableEstimate {
    let samples = &probing.tcp_samples;
    let capacity = find_fastest_rate(samples);
    let unlimited = skip_slow_start(samples).filter(|s| !s.application_limited);
    let rates = sort_finite(unlimited.filter_map(|s| s.delivery_bps).map(|bps| bps as f64));
    let share = (rates.len() >= OneEndedTuning::MIN_SAMPLES)
        .then(|| quantile(&rates, OneEndedTuning::SHARE_QUANTILE))
        .flatten();
    let span = quantile(&rates, 0.5).zip(quantile(&rates, 1.0));
    AvailableEstimate {
        verdict: if capacity.is_some() {
            EstimateVerdict::CapacityOnly
        } else {
            EstimateVerdict::NoAnswer
        },
        capacity_bps: capacity.map(|bps| bps as u64),
        methods: vec![MethodEstimate {
            name: String::from("tcp_share"),
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

/// Returns the samples after slow start.
fn skip_slow_start(samples: &[TcpSample]) -> impl Iterator<Item = &TcpSample> {
    let rtt_us = samples.iter().filter_map(|s| s.rtt_us).min().unwrap_or(0);
    let from = samples.first().map_or(0, |s| s.at_us) + OneEndedTuning::SLOW_START_RTTS * rtt_us;
    samples.iter().filter(move |s| s.at_us >= from)
}

fn find_fastest_rate(samples: &[TcpSample]) -> Option<f64> {
    let mut best: Option<f64> = None;
    let mut from = 0;
    for (to, late) in samples.iter().enumerate() {
        while from < to
            && late.at_us.saturating_sub(samples[from + 1].at_us) >= OneEndedTuning::MIN_STRETCH_US
        {
            from += 1;
        }
        let early = samples[from];
        let us = late.at_us.saturating_sub(early.at_us);
        if us >= OneEndedTuning::MIN_STRETCH_US && late.bytes > early.bytes {
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
        let found = estimate_by_tcp(&probing(20_000, 100, 80_000_000));
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
        assert_eq!(estimate_by_tcp(&held).methods[0].available_bps, None);
    }

    #[test]
    fn no_samples_are_no_answer() {
        let found = estimate_by_tcp(&DirectionProbing::default());
        assert_eq!((found.verdict, found.capacity_bps), (EstimateVerdict::NoAnswer, None));
    }
}
