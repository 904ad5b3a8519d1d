//! Paths of the seeds, as small as can be: no noise, no ramp, no competition.

use crate::tune::{HostLimits, ProbeTrial};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::TransferSetting;
use std::time::Duration;

pub const MIB: u64 = 1 << 20;

/// A path without noise: what the windows, the loss and the capacity allow.
#[derive(Clone)]
pub struct Model {
    pub capacity_bps: f64,
    pub rtt_s: f64,
    pub sender: HostLimits,
    pub receiver: HostLimits,
    /// Of one stream of the sender's default.
    pub loss_bps: f64,
    pub policed_bps: f64,
    pub bbr: bool,
}

pub fn limits(explicit: u64, automatic: u64) -> HostLimits {
    HostLimits { explicit_bytes: Some(explicit), automatic_bytes: Some(automatic), cores: Some(8) }
}

impl Model {
    pub fn sdsc() -> Model {
        Model {
            capacity_bps: 122e6,
            rtt_s: 0.029,
            sender: limits(256 * MIB, 16 * MIB),
            receiver: limits(256 * MIB, 6 * MIB),
            loss_bps: f64::INFINITY,
            policed_bps: f64::INFINITY,
            bbr: true,
        }
    }

    pub fn geneva() -> Model {
        Model { capacity_bps: 6.18e9, rtt_s: 0.172, ..Model::sdsc() }
    }

    pub fn daresbury() -> Model {
        Model {
            capacity_bps: 9.5e6,
            rtt_s: 0.160,
            receiver: limits(65_536, 131_072),
            ..Model::sdsc()
        }
    }

    pub fn cesnet() -> Model {
        Model { capacity_bps: 300e6, rtt_s: 0.160, loss_bps: 9e6, bbr: false, ..Model::sdsc() }
    }

    pub fn truth(&self, setting: &TransferSetting) -> (f64, Limiter) {
        let window = setting.window_bytes.map_or_else(
            || {
                let halved = self.receiver.automatic_bytes.unwrap() / 2;
                halved.min(self.sender.automatic_bytes.unwrap())
            },
            |w| {
                w.min(self.receiver.explicit_bytes.unwrap())
                    .min(self.sender.explicit_bytes.unwrap())
            },
        );
        let streams = f64::from(setting.streams);
        let bbr = setting.congestion_control.as_deref() == Some("bbr");
        let loss = if bbr { f64::INFINITY } else { self.loss_bps };
        let paced = setting.pacing_bps.map_or(f64::INFINITY, |bps| bps as f64);
        let unpaced = if paced.is_finite() { 1.0 } else { 0.9 };
        [
            (window as f64 * 8.0 / self.rtt_s * streams, Limiter::ReceiveWindow),
            (loss * streams, Limiter::Loss),
            (paced * streams, Limiter::Pacing),
            (self.policed_bps * unpaced, Limiter::Policer),
            (self.capacity_bps, Limiter::PathCapacity),
        ]
        .into_iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap()
    }

    pub fn probe(&self, setting: TransferSetting) -> ProbeTrial {
        let (bps, limiter) = self.truth(&setting);
        let bps = bps as u64;
        let mut permitted = vec![String::from("cubic")];
        permitted.extend(self.bbr.then(|| String::from("bbr")));
        ProbeTrial {
            goodput_bps: Some(bps),
            interval_bps: Some([bps - bps / 100, bps + bps / 100]),
            limiter,
            bucket_bps: (limiter == Limiter::Policer).then_some(self.policed_bps as u64),
            idle_rtt: Some(Duration::from_secs_f64(self.rtt_s)),
            loaded_rtt: Some(Duration::from_secs_f64(self.rtt_s)),
            sender: self.sender,
            receiver: self.receiver,
            congestion_control: Some(setting.congestion_control.clone().unwrap_or("cubic".into())),
            permitted,
            ..ProbeTrial::failed(setting)
        }
    }
}
