//! Limits of the window, from the kernels of both ends and from the probes.
//!
//! A requested window disables autotuning and is capped by `rmem_max` and `wmem_max`; an autotuned
//! one may grow to half of `tcp_rmem`'s maximum, or to `tcp_wmem`'s.
//!
//! Source: tcp(7), socket(7); docs/methods/limited-by.md. Units: bytes of payload in flight, for
//! one stream. Error: the kernel's overhead for each packet varies, so half is a round number.
//! Wrong when: `tcp_adv_win_scale` or the memory of all sockets together limits earlier.

use super::ProbeTrial;
use crate::limit::window_range;
use longhaul_model::report::v1::scan::TransferSetting;

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
