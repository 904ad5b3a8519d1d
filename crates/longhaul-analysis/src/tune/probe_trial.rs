//! The result of one probe, reduced to the values that decide the next step.
//!
//! # Limits of windows
//!
//! Limits of the window, from the kernels of both ends and from the probes.
//!
//! A requested window disables autotuning and is capped by `rmem_max` and `wmem_max`; an autotuned
//! one may grow to half of `tcp_rmem`'s maximum, or to `tcp_wmem`'s.
//!
//! Source: tcp(7), socket(7); docs/methods/limited-by.md. Units: bytes of payload in flight, for
//! one stream. Error: the kernel's overhead for each packet varies, so half is a round number.
//! Wrong when: `tcp_adv_win_scale` or the memory of all sockets together limits earlier.

use crate::limit::window_range;
use crate::scan::find_min_granted;
use crate::throughput;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::analysis::{Limiter, RateBound};
use longhaul_model::report::v1::observation::HostFacts;
use longhaul_model::report::v1::scan::TransferSetting;
use std::time::Duration;

/// A finished probe. `None` means that a value could not be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProbeTrial {
    /// The requested setting.
    pub setting: TransferSetting,
    /// `None` if the probe failed.
    pub goodput_bps: Option<u64>,
    pub interval_bps: Option<[u64; 2]>,
    pub limiter: Limiter,
    pub next_limit: Option<RateBound>,
    /// The rate of the policer or shaper that was found.
    pub bucket_bps: Option<u64>,
    pub idle_rtt: Option<Duration>,
    pub loaded_rtt: Option<Duration>,
    /// Segments retransmitted over data segments sent.
    pub loss_ratio: Option<f64>,
    /// The minimum that each end's kernel granted to any stream.
    pub granted_send_bytes: Option<u64>,
    pub granted_receive_bytes: Option<u64>,
    pub sender: HostLimits,
    pub receiver: HostLimits,
    /// The congestion control that the sender's kernel used.
    pub congestion_control: Option<String>,
    /// The congestion controls that the sender's kernel permits to any process.
    pub permitted: Vec<String>,
}

/// The limits of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostLimits {
    /// `wmem_max` of the sender, `rmem_max` of the receiver: the maximum that can be requested.
    pub explicit_bytes: Option<u64>,
    /// The last value of `tcp_wmem` or `tcp_rmem`: the maximum of autotuning.
    pub automatic_bytes: Option<u64>,
    pub cores: Option<u32>,
}

const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

impl ProbeTrial {
    /// Extracts the result of one finished probe of one direction.
    pub fn of(setting: TransferSetting, report: &ThroughputReport) -> ProbeTrial {
        let (seen, analysis) = (&report.observation, &report.analysis);
        let ends = (&seen.ends.sender.host, &seen.ends.receiver.host);
        let bucket = |b: &&RateBound| matches!(b.limiter, Limiter::Policer | Limiter::Shaper);
        let totals = &analysis.totals;
        let lost = totals.retransmitted_segments.zip(totals.data_segments_sent);
        ProbeTrial {
            setting,
            goodput_bps: analysis.goodput_bps,
            interval_bps: analysis.goodput_interval_bps,
            limiter: analysis.limited_by,
            next_limit: analysis.next_limit.clone(),
            bucket_bps: analysis.bounds.iter().find(bucket).map(|b| b.rate_bps),
            idle_rtt: throughput::find_idle_rtt_us(seen).map(Duration::from_micros),
            loaded_rtt: analysis.rtt_us.map(|rtt| Duration::from_micros(rtt.mean)),
            loss_ratio: lost.and_then(|(lost, sent)| (sent > 0).then(|| lost as f64 / sent as f64)),
            granted_send_bytes: find_min_granted(seen.streams.iter().map(|s| s.sender.send_buffer)),
            granted_receive_bytes: find_min_granted(
                seen.streams.iter().map(|s| s.receiver.receive_buffer),
            ),
            sender: HostLimits {
                explicit_bytes: ends.0.wmem_max_bytes,
                automatic_bytes: ends.0.tcp_wmem_bytes.map(|m| m[2]),
                cores: read_cores(ends.0),
            },
            receiver: HostLimits {
                explicit_bytes: ends.1.rmem_max_bytes,
                automatic_bytes: ends.1.tcp_rmem_bytes.map(|m| m[2]),
                cores: read_cores(ends.1),
            },
            congestion_control: seen
                .streams
                .iter()
                .find_map(|s| s.sender.congestion_control.clone()),
            permitted: list_permitted_controls(ends.0),
        }
    }

    /// Creates the result of a failed probe.
    pub fn failed(setting: TransferSetting) -> ProbeTrial {
        ProbeTrial { setting, ..ProbeTrial::default() }
    }
}

fn read_cores(host: &HostFacts) -> Option<u32> {
    (host.cores > 0).then_some(host.cores)
}

/// An unprivileged process may choose congestion controls that are both loaded and allowed.
fn list_permitted_controls(sender: &HostFacts) -> Vec<String> {
    let words = |name: &str| -> Option<Vec<String>> {
        let line = sender.sysctl.get(name)?;
        Some(line.split_whitespace().map(str::to_owned).collect())
    };
    let available = words(AVAILABLE).unwrap_or_default();
    match words(ALLOWED) {
        Some(allowed) => available.into_iter().filter(|name| allowed.contains(name)).collect(),
        None => available,
    }
}

/// The window limits known from the probes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimits {
    /// The maximum that both kernels grant on request.
    pub explicit_bytes: u64,
    /// The maximum of an autotuned window; `None` if unknown.
    pub automatic_bytes: Option<u64>,
}

pub fn find_window_limits(trials: &[ProbeTrial]) -> WindowLimits {
    let explicit = trials.iter().flat_map(|t| {
        let caps = [t.sender.explicit_bytes, t.receiver.explicit_bytes];
        let asked = t.setting.window_bytes;
        // Less than requested: the kernel's maximum, even if it cannot be read.
        let clipped = [t.granted_send_bytes, t.granted_receive_bytes]
            .map(|granted| granted.filter(|g| asked.is_some_and(|a| *g < a)));
        caps.into_iter().chain(clipped).flatten()
    });
    let automatic = trials.iter().filter_map(|t| {
        let received = t.receiver.automatic_bytes.map(|bytes| bytes / 2);
        received.into_iter().chain(t.sender.automatic_bytes).min()
    });
    WindowLimits {
        explicit_bytes: explicit
            .chain([window_range::MAX_WINDOW])
            .min()
            .unwrap_or(window_range::MAX_WINDOW),
        automatic_bytes: automatic.min(),
    }
}

impl WindowLimits {
    /// Returns the bytes that one stream of this setting may have in flight, as far as known.
    pub fn usable_bytes(&self, setting: &TransferSetting) -> Option<u64> {
        match setting.window_bytes {
            Some(asked) => Some(asked.min(self.explicit_bytes)),
            None => self.automatic_bytes,
        }
    }
}

/// Returns the bytes that each stream had in flight, by rate and RTT.
pub fn compute_in_flight_bytes(trial: &ProbeTrial) -> Option<u64> {
    let trip = trial.loaded_rtt.or(trial.idle_rtt)?.as_secs_f64();
    let each = trial.goodput_bps? as f64 / f64::from(trial.setting.streams.max(1));
    Some((each * trip / 8.0) as u64).filter(|bytes| *bytes > 0)
}
