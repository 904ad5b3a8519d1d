//! The states of an interval of a stream, their published words and their limiters.
//!
//! The words are part of report v1 (`shares[].state`); [`super::interval_classifier`] defines when each holds.
//!
//! Source: docs/methods. Units: none. Error: none, a fixed list.
//! Wrong when: a cause is new; it is then `unknown`.

use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::serde_name;
use serde::Serialize;

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
