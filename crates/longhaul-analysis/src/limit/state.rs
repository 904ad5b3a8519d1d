//! The states of an interval of a stream, their published words and their limiters.
//!
//! The words are part of report v1 (`shares[].state`); [`super::states`] defines when each holds.
//!
//! Source: docs/methods. Units: none. Error: none, a fixed list.
//! Wrong when: a cause is new; it is then `unknown`.

use longhaul_model::report::v1::analysis::Limiter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    StalledRto,
    SenderApp,
    SenderCpu,
    ReceiverApp,
    ReceiverCpu,
    WindowClip,
    WindowGrowing,
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

impl State {
    pub const fn word(self) -> &'static str {
        match self {
            State::StalledRto => "stalled_rto",
            State::SenderApp => "sender_app",
            State::SenderCpu => "sender_cpu",
            State::ReceiverApp => "receiver_app",
            State::ReceiverCpu => "receiver_cpu",
            State::WindowClip => "rwnd_clip",
            State::WindowGrowing => "rwnd_growing",
            State::SendBufferClip => "sndbuf_clip",
            State::SlowStart => "slow_start",
            State::Climbing => "climbing",
            State::PathFull => "path_full",
            State::Sawtooth => "sawtooth",
            State::Overshot => "overshot",
            State::Shaper => "shaper",
            State::Policer => "policer",
            State::Loss => "loss",
            State::Recovering => "recovering",
            State::Pacing => "pacing",
            State::Unknown => "unknown",
        }
    }

    pub const fn limiter(self) -> Limiter {
        match self {
            State::StalledRto | State::Loss | State::Recovering => Limiter::Loss,
            State::SenderApp | State::ReceiverApp => Limiter::Application,
            State::SenderCpu => Limiter::CpuSender,
            State::ReceiverCpu => Limiter::CpuReceiver,
            State::WindowClip => Limiter::ReceiveWindow,
            State::SendBufferClip => Limiter::SendBuffer,
            State::WindowGrowing | State::SlowStart | State::Climbing | State::Overshot => {
                Limiter::Ramp
            }
            State::PathFull | State::Sawtooth => Limiter::PathCapacity,
            State::Shaper => Limiter::Shaper,
            State::Policer => Limiter::Policer,
            State::Pacing => Limiter::Pacing,
            State::Unknown => Limiter::Unknown,
        }
    }

    /// Returns true for states that a token bucket on the path would cause at the sender.
    pub const fn is_path_like(self) -> bool {
        matches!(
            self,
            State::StalledRto
                | State::SlowStart
                | State::Climbing
                | State::PathFull
                | State::Sawtooth
                | State::Overshot
                | State::Loss
                | State::Recovering
                | State::Unknown
        )
    }
}
