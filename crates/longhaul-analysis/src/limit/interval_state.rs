//! The states of an interval of a stream, their published words and their limiters.
//!
//! The words are part of report v1 (`shares[].state`); [`super::interval_classifier`] defines when each holds.
//!
//! Source: docs/methods. Units: none. Error: none, a fixed list.
//! Wrong when: a cause is new; it is then `unknown`.
//!
//! # State shares
//!
//! Attributes the bytes of the transfer to states.
//!
//! Every judged interval of every stream weighs as many bytes as it delivered; a stalled interval,
//! which delivers none, weighs what the stream would have delivered at its mean rate.
//! Source: our own rule: users wait for bytes, so bytes are the weight. Units: shares, summing to one.
//! Error: the bytes of one interval at each change of state.
//! Wrong when: nothing was sampled; then all is `unknown`.

use super::interval_classifier;
use super::run_reading::RunView;
use longhaul_model::report::v1::analysis::{Limiter, LimiterShare};
use longhaul_model::serde_name;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalState {
    StalledRto,
    SenderApp,
    SenderCpu,
    ReceiverApp,
    ReceiverCpu,
    #[serde(rename = "rwnd_clip")]
    WindowClip,
    #[serde(rename = "rwnd_growing")]
    WindowGrowing,
    #[serde(rename = "sndbuf_clip")]
    SendBufferClip,
    SlowStart,
    Climbing,
    PathFull,
    /// Growing back after a loss in a full queue.
    Sawtooth,
    /// Far below a level that was reached, after overshooting a full queue.
    Overshot,
    Shaper,
    Policer,
    Loss,
    /// Growing back after a loss without a queue.
    Recovering,
    Pacing,
    Unknown,
}

impl IntervalState {
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }

    /// Describes the state within a sentence.
    pub const fn describe(self) -> &'static str {
        match self {
            IntervalState::StalledRto => "stalled by retransmission timeouts",
            IntervalState::SenderApp => "limited by the sending application",
            IntervalState::SenderCpu => "limited by the sender's CPU",
            IntervalState::ReceiverApp => "limited by the receiving application",
            IntervalState::ReceiverCpu => "limited by the receiver's CPU",
            IntervalState::WindowClip => "limited by the receive window",
            IntervalState::WindowGrowing => "receive window growing",
            IntervalState::SendBufferClip => "limited by the send buffer",
            IntervalState::SlowStart => "slow start",
            IntervalState::Climbing => "congestion window growing",
            IntervalState::PathFull => "path full",
            IntervalState::Sawtooth => "growing back after a loss in a full queue",
            IntervalState::Overshot => "recovering from an overshoot",
            IntervalState::Shaper => "shaped",
            IntervalState::Policer => "policed",
            IntervalState::Loss => "limited by loss",
            IntervalState::Recovering => "growing back after a random loss",
            IntervalState::Pacing => "paced",
            IntervalState::Unknown => "limiter unknown",
        }
    }

    pub const fn limiter(self) -> Limiter {
        match self {
            IntervalState::StalledRto | IntervalState::Loss | IntervalState::Recovering => {
                Limiter::Loss
            }
            IntervalState::SenderApp | IntervalState::ReceiverApp => Limiter::Application,
            IntervalState::SenderCpu => Limiter::CpuSender,
            IntervalState::ReceiverCpu => Limiter::CpuReceiver,
            IntervalState::WindowClip => Limiter::ReceiveWindow,
            IntervalState::SendBufferClip => Limiter::SendBuffer,
            IntervalState::WindowGrowing
            | IntervalState::SlowStart
            | IntervalState::Climbing
            | IntervalState::Overshot => Limiter::Ramp,
            IntervalState::PathFull | IntervalState::Sawtooth => Limiter::PathCapacity,
            IntervalState::Shaper => Limiter::Shaper,
            IntervalState::Policer => Limiter::Policer,
            IntervalState::Pacing => Limiter::Pacing,
            IntervalState::Unknown => Limiter::Unknown,
        }
    }

    /// Returns true for states that a token bucket on the path would cause at the sender.
    pub const fn is_path_like(self) -> bool {
        let of_path = matches!(
            self.limiter(),
            Limiter::Loss | Limiter::Ramp | Limiter::PathCapacity | Limiter::Unknown
        );
        of_path && !matches!(self, IntervalState::WindowGrowing)
    }
}

/// Shares by state, largest first, and sums over them.
#[derive(Debug, Clone, PartialEq)]
pub struct StateShares {
    by_state: Vec<(IntervalState, f64)>,
}

pub fn attribute_bytes(run: &RunView) -> StateShares {
    let mut weights: BTreeMap<IntervalState, f64> = BTreeMap::new();
    for (observed, stream) in run.observation.streams.iter().zip(&run.streams) {
        let bytes: f64 = stream.iter().map(|i| i.delivered_bytes).sum();
        let time: f64 = stream.iter().map(|i| i.length_us() as f64).sum();
        let mean = if bytes > 0.0 { bytes / time.max(1.0) } else { 1.0 };
        for (interval, state) in
            stream.iter().zip(interval_classifier::classify_stream(run, observed, stream))
        {
            if !run.is_judged(interval) {
                continue;
            }
            let usual = mean * interval.length_us() as f64;
            let weight = match state {
                IntervalState::StalledRto => interval.delivered_bytes.max(usual),
                // The programs of others pause and send in bursts: time is what they wait for.
                _ if interval.sender.blocked.is_none() => interval.length_us() as f64,
                _ if bytes > 0.0 => interval.delivered_bytes,
                _ => usual,
            };
            *weights.entry(state).or_default() += weight;
        }
    }
    StateShares::from_weights(weights)
}

impl StateShares {
    pub fn from_weights(weights: BTreeMap<IntervalState, f64>) -> StateShares {
        let total: f64 = weights.values().sum();
        if !(total.is_finite() && total > 0.0) {
            return StateShares { by_state: vec![(IntervalState::Unknown, 1.0)] };
        }
        let shares = weights.into_iter().filter(|w| w.1 > 0.0).map(|(s, w)| (s, w / total));
        let mut by_state: Vec<(IntervalState, f64)> = shares.collect();
        by_state.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        StateShares { by_state }
    }

    pub fn state(&self, state: IntervalState) -> f64 {
        self.by_state.iter().find(|s| s.0 == state).map_or(0.0, |s| s.1)
    }

    pub fn limiter(&self, limiter: Limiter) -> f64 {
        self.by_state.iter().filter(|s| s.0.limiter() == limiter).map(|s| s.1).sum()
    }

    /// Returns the limiters with their shares, largest first.
    pub fn limiters(&self) -> Vec<(Limiter, f64)> {
        let mut sums: BTreeMap<Limiter, f64> = BTreeMap::new();
        for (state, share) in &self.by_state {
            *sums.entry(state.limiter()).or_default() += share;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        sums
    }

    pub fn to_report(&self) -> Vec<LimiterShare> {
        let shares = self.by_state.iter().map(|(state, share)| LimiterShare {
            state: state.word().to_owned(),
            limiter: state.limiter(),
            share_ratio: *share,
        });
        shares.collect()
    }
}
