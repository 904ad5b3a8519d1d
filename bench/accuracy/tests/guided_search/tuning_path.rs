//! A simulated path: the true goodput of any setting, and the result of a probe.
//!
//! The goodput is the minimum of what windows, loss, hosts and path allow, with a soft knee where
//! the path fills. Competing flows are elastic and share evenly, whatever the congestion control.
//! The only advantage of BBR is that it does not slow down on random loss.
//!
//! Source: Mathis 1997 and RFC 9438 for the loss; Altman 2006 for parallel streams. Units: bit/s,
//! seconds, bytes. Error: none; this is the truth of the simulation.
//! Wrong when: taken as a model of a real path; it models only what makes settings differ.

use longhaul_analysis::limit::loss_response::loss_bound_bps;
use longhaul_analysis::tune::{HostLimits, ProbeTrial};
use longhaul_model::report::v1::analysis::{Limiter, RateBound};
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::splitmix::SplitMix64;
use std::time::Duration;

pub const MSS_BYTES: f64 = 1460.0;
/// The sharpness of the knee where demand meets the capacity; higher is sharper.
const KNEE: f64 = 6.0;
/// The utilisation by BBR, which drains the queue now and then.
const BBR_RATIO: f64 = 0.98;
/// The share of the CPU rate lost for each stream beyond the number of cores.
const SWITCHING_RATIO: f64 = 0.002;
/// Standard deviation of the noise between probes.
const NOISE_RATIO: f64 = 0.05;
/// The share of probes that name a wrong limiter.
const WRONG_RATIO: f64 = 0.1;

#[derive(Debug, Clone)]
pub struct TuningPath {
    pub capacity_bps: f64,
    pub rtt_s: f64,
    /// `rmem_max` and `wmem_max`.
    pub explicit_cap_bytes: f64,
    /// Half of the maximum of `tcp_rmem`.
    pub automatic_cap_bytes: f64,
    pub loss_ratio: f64,
    pub competing: f64,
    /// The rate that one core can handle, and the number of cores.
    pub core_bps: f64,
    pub cores: u32,
    /// The rate that the application can handle.
    pub application_bps: f64,
    /// The bottleneck buffer as a ratio of the bandwidth-delay product.
    pub buffer_ratio: f64,
    pub bbr_permitted: bool,
}

/// The true result of one setting.
#[derive(Debug, Clone, Copy)]
pub struct SettingTruth {
    pub goodput_bps: f64,
    pub limiter: Limiter,
    pub loaded_rtt_s: f64,
}

fn draw_log_uniform(rng: &mut SplitMix64, low: f64, high: f64) -> f64 {
    rng.between(low.ln(), high.ln()).exp()
}

impl TuningPath {
    pub fn draw(rng: &mut SplitMix64) -> TuningPath {
        let capacity_bps = draw_log_uniform(rng, 1e7, 2e10);
        let kernel_cap = |rng: &mut SplitMix64| draw_log_uniform(rng, 65_536.0, 67_108_864.0);
        let lossless = rng.between(0.0, 1.0) < 0.3;
        let loss_ratio = draw_log_uniform(rng, 1e-7, 1e-3);
        let alone = rng.between(0.0, 1.0) < 0.4;
        let competing = rng.below(11) as f64;
        let slow = rng.between(0.0, 1.0) < 0.1;
        let application_bps = capacity_bps * draw_log_uniform(rng, 0.1, 1.0);
        TuningPath {
            capacity_bps,
            rtt_s: draw_log_uniform(rng, 0.001, 0.25),
            explicit_cap_bytes: kernel_cap(rng),
            automatic_cap_bytes: kernel_cap(rng),
            loss_ratio: if lossless { 0.0 } else { loss_ratio },
            competing: if alone { 0.0 } else { competing },
            core_bps: draw_log_uniform(rng, 2e9, 4e10),
            cores: 1 << rng.below(6),
            application_bps: if slow { application_bps } else { f64::INFINITY },
            buffer_ratio: draw_log_uniform(rng, 0.05, 2.0),
            bbr_permitted: rng.below(2) == 0,
        }
    }

    pub fn truth(&self, setting: &TransferSetting) -> SettingTruth {
        let streams = f64::from(setting.streams);
        let bbr = setting.congestion_control.as_deref() == Some("bbr");
        let window = setting
            .window_bytes
            .map_or(self.automatic_cap_bytes, |asked| (asked as f64).min(self.explicit_cap_bytes));
        let loss_bps = loss_bound_bps(MSS_BYTES, self.rtt_s, self.loss_ratio)
            .filter(|_| !bbr)
            .unwrap_or(f64::INFINITY);
        let window_bps = window * 8.0 / self.rtt_s;
        let paced_bps = setting.pacing_bps.map_or(f64::INFINITY, |bps| bps as f64);
        let busy_cores = streams.min(f64::from(self.cores));
        let switching = (streams - f64::from(self.cores)).max(0.0) * SWITCHING_RATIO;
        let demands = [
            (window_bps * streams, Limiter::ReceiveWindow),
            (loss_bps * streams, Limiter::Loss),
            (paced_bps * streams, Limiter::Pacing),
            (self.core_bps * busy_cores * (1.0 - switching), Limiter::CpuReceiver),
            (self.application_bps, Limiter::Application),
        ];
        let path_bps = self.share_bps(streams, bbr);
        let least = demands
            .iter()
            .copied()
            .fold((f64::INFINITY, Limiter::Unknown), |a, b| if b.0 < a.0 { b } else { a });
        let goodput_bps = (least.0.powf(-KNEE) + path_bps.powf(-KNEE)).powf(-1.0 / KNEE);
        let full = path_bps <= least.0;
        let bdp = self.capacity_bps * self.rtt_s / 8.0;
        let queued = (window * streams - bdp).clamp(0.0, self.buffer_ratio * bdp);
        SettingTruth {
            goodput_bps,
            limiter: if full { Limiter::PathCapacity } else { least.1 },
            loaded_rtt_s: self.rtt_s + if full { 8.0 * queued / self.capacity_bps } else { 0.0 },
        }
    }

    /// The part of the path's capacity that `streams` streams get.
    fn share_bps(&self, streams: f64, bbr: bool) -> f64 {
        let all = streams + self.competing;
        let shallow = (1.0 - self.buffer_ratio).max(0.0);
        let used = if bbr { BBR_RATIO } else { 1.0 - shallow / (1.0 + 3.0 * all) };
        self.capacity_bps * used * streams / all
    }

    /// Returns the truth with noise, and sometimes a wrong limiter.
    pub fn probe(&self, rng: &mut SplitMix64, setting: &TransferSetting) -> ProbeTrial {
        let truth = self.truth(setting);
        let goodput = (truth.goodput_bps * (1.0 + NOISE_RATIO * rng.normal())).max(1.0);
        let half = 1.96 * NOISE_RATIO * goodput;
        let wrong = rng.between(0.0, 1.0) < WRONG_RATIO;
        let other = Limiter::ALL[rng.below(Limiter::ALL.len())];
        let limiter = if wrong { other } else { truth.limiter };
        let host = |explicit: f64, automatic: f64| HostLimits {
            explicit_bytes: Some(explicit as u64),
            automatic_bytes: Some(automatic as u64),
            cores: Some(self.cores),
        };
        let permitted: &[&str] = if self.bbr_permitted { &["cubic", "bbr"] } else { &["cubic"] };
        let granted = setting.window_bytes.map(|w| w.min(self.explicit_cap_bytes as u64));
        ProbeTrial {
            goodput_bps: Some(goodput as u64),
            interval_bps: Some([(goodput - half).max(0.0) as u64, (goodput + half) as u64]),
            limiter,
            next_limit: self.next_limit(setting, limiter),
            bucket_bps: matches!(limiter, Limiter::Policer | Limiter::Shaper)
                .then_some(goodput as u64),
            idle_rtt: Some(Duration::from_secs_f64(self.rtt_s)),
            loaded_rtt: Some(Duration::from_secs_f64(truth.loaded_rtt_s)),
            loss_ratio: Some(self.loss_ratio),
            granted_send_bytes: granted,
            granted_receive_bytes: granted,
            sender: host(self.explicit_cap_bytes, self.automatic_cap_bytes),
            receiver: host(self.explicit_cap_bytes, 2.0 * self.automatic_cap_bytes),
            congestion_control: Some(
                setting.congestion_control.clone().unwrap_or_else(|| String::from("cubic")),
            ),
            permitted: permitted.iter().map(|c| (*c).to_owned()).collect(),
            ..ProbeTrial::failed(setting.clone())
        }
    }

    /// The next limit after the receive window is loss: the path's capacity was not measured.
    fn next_limit(&self, setting: &TransferSetting, limiter: Limiter) -> Option<RateBound> {
        let loss = loss_bound_bps(MSS_BYTES, self.rtt_s, self.loss_ratio)?;
        (limiter == Limiter::ReceiveWindow).then(|| RateBound {
            limiter: Limiter::Loss,
            rate_bps: (loss * f64::from(setting.streams)) as u64,
            why: String::from("the path's own capacity is unknown until measured"),
        })
    }
}
