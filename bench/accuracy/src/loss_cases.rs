//! Observations of a stream that meets a policer of known rate, or random loss, in round trips.

use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, ObservedStream, StreamEnd, StreamSample, TcpReading,
    ThroughputObservation,
};
use longhaul_model::splitmix::SplitMix64;

const MSS: f64 = 1448.0;
const RUN_S: f64 = 15.0;
const SPACING_S: f64 = 0.1;
/// Reno halves the window; the estimator must not depend on the congestion control.
const DROP: f64 = 0.5;

/// A transfer whose losses have one known cause.
pub struct LossCase {
    pub observation: ThroughputObservation,
    /// The rate of the policer; absent if the loss is random.
    pub rate_bps: Option<f64>,
}

impl LossCase {
    /// Draws rates of 5 to 50 Mbit/s, bursts of 50 to 250 ms at that rate, RTTs of 10 to 100 ms.
    pub fn draw_policed(rng: &mut SplitMix64) -> LossCase {
        let rate_bps = rng.between(5e6, 50e6);
        let burst = rate_bps / 8.0 * rng.between(0.05, 0.25);
        let rtt_s = rng.between(0.01, 0.1);
        let mut tokens = burst;
        let observation = simulate_transfer(rtt_s, |sent, elapsed_s| {
            tokens =
                (tokens + rate_bps / 8.0 * elapsed_s).min(burst.max(rate_bps / 8.0 * elapsed_s));
            let passed = sent.min(tokens);
            tokens -= passed;
            passed
        });
        LossCase { observation, rate_bps: Some(rate_bps) }
    }

    /// Draws a loss of 0.05 to 2 %, with the same RTTs.
    pub fn draw_random(rng: &mut SplitMix64) -> LossCase {
        let loss = 10f64.powf(rng.between(-3.3, -1.7));
        let rtt_s = rng.between(0.01, 0.1);
        let observation = simulate_transfer(rtt_s, |sent, _| {
            let segments = (sent / MSS).ceil() as usize;
            let lost = (0..segments).filter(|_| rng.between(0.0, 1.0) < loss).count();
            (sent - lost as f64 * MSS).max(0.0)
        });
        LossCase { observation, rate_bps: None }
    }
}

/// Simulates slow start and additive increase. `passes` returns the bytes of a round that arrive.
fn simulate_transfer(rtt_s: f64, mut passes: impl FnMut(f64, f64) -> f64) -> ThroughputObservation {
    let (mut cwnd, mut threshold) = (10.0 * MSS, 4e6);
    let (mut now_s, mut due_s, mut bytes, mut sent, mut lost) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut cut = false;
    let mut samples = Vec::new();
    while now_s < RUN_S {
        let passed = passes(cwnd, rtt_s);
        now_s += rtt_s;
        bytes += passed;
        sent += cwnd / MSS;
        let dropped = ((cwnd - passed) / MSS).round();
        lost += dropped;
        cut = dropped >= 1.0 && !cut;
        if cut {
            cwnd = (cwnd * DROP).max(2.0 * MSS);
            threshold = cwnd;
        } else if dropped < 1.0 {
            cwnd = if cwnd < threshold { (cwnd * 2.0).min(threshold) } else { cwnd + MSS };
        }
        if now_s >= due_s {
            samples.push(build_sample(rtt_s, [now_s, bytes, cwnd, sent, lost]));
            due_s += SPACING_S;
        }
    }
    build_observation(rtt_s, now_s, bytes, samples)
}

fn build_sample(rtt_s: f64, [now_s, bytes, cwnd, sent, lost]: [f64; 5]) -> StreamSample {
    let rtt_us = (rtt_s * 1e6) as u64;
    let tcp = TcpReading {
        rtt_us,
        rtt_min_us: Some(rtt_us),
        mss_bytes: MSS as u64,
        cwnd_bytes: cwnd as u64,
        unacked_bytes: cwnd as u64,
        retransmitted_segments: lost as u64,
        data_segments_out: Some(sent as u64),
        ..TcpReading::default()
    };
    let at_us = (now_s * 1e6) as u64;
    StreamSample {
        at_us,
        bytes: bytes as u64,
        blocked_us: at_us,
        tcp: Some(tcp),
        ..StreamSample::default()
    }
}

fn build_observation(
    rtt_s: f64,
    now_s: f64,
    bytes: f64,
    samples: Vec<StreamSample>,
) -> ThroughputObservation {
    let end = StreamEnd {
        bytes: bytes as u64,
        duration_us: (now_s * 1e6) as u64,
        samples,
        ..StreamEnd::default()
    };
    ThroughputObservation {
        forward: true,
        elapsed_us: end.duration_us,
        idle_rtt_us: Some((rtt_s * 1e6) as u64),
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: vec![ObservedStream { index: 0, sender: end.clone(), receiver: end }],
        ends: BothEnds { sender: EndObservation::default(), receiver: EndObservation::default() },
        reverse: None,
    }
}
