//! The bandwidth-delay product that a path needs, and the rate that a window allows on it.
//!
//! Source: bandwidth-delay product as in RFC 6349 (2011). Units: bytes, bit/s, µs.
//! Error: none beyond that of rate and RTT. Wrong when: either is not that of the path.
//!
//! # The reference path
//!
//! The reference path that a host is judged for if the plan names none.
//!
//! Source: ours; 100 ms is the RTT of ESnet's recommended settings (fasterdata, 10 Gbit/s to 100
//! ms).
//! Units: bit/s, µs. Error: it is not a path of the user, and a caveat says so.
//! Wrong when: the interface reports a speed that it does not have, as virtual ones do.

use super::host_readings::HostReadings;
use crate::limit::limit_bounds::window_bound_bps;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::host::{AuditObservation, AuditPath};
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::time::Duration;

/// From this rate on, handling single packets takes a noticeable part of a core.
pub const FAST_BPS: u64 = 10_000_000_000;
/// From this rate on, one core is not enough.
pub const VERY_FAST_BPS: u64 = 40_000_000_000;
/// The maximum buffer that a sysctl can hold: it is an int.
pub const MAX_BUFFER_BYTES: u64 = (1 << 31) - 1;

/// One host, judged for one path.
pub struct AuditCase<'a> {
    pub readings: HostReadings<'a>,
    pub observation: &'a AuditObservation,
    pub path: &'a AuditPath,
}

/// Returns the bandwidth-delay product.
pub fn compute_bdp_bytes(path: &AuditPath) -> u64 {
    Rate::bits_per_second(path.rate_bps).bytes_in(Duration::from_micros(path.rtt_us))
}

impl<'a> AuditCase<'a> {
    pub fn in_flight_bytes(&self) -> u64 {
        compute_bdp_bytes(self.path)
    }

    /// Returns twice the bandwidth-delay product, rounded up to a power of two a sysctl can hold.
    pub fn wanted_buffer(&self) -> u64 {
        let twice = self.in_flight_bytes().saturating_mul(2);
        let power = twice.checked_next_power_of_two().unwrap_or(u64::MAX);
        power.min(MAX_BUFFER_BYTES)
    }

    /// Returns the maximum rate of one stream with this window.
    pub fn max_rate_bps(&self, window: u64) -> Option<u64> {
        window_bound_bps(window, self.path.rtt_us)
    }

    /// Returns whether the path is at least this fast.
    pub fn is_at_least(&self, rate_bps: u64) -> bool {
        self.path.rate_bps >= rate_bps
    }

    /// Returns text such as `10 Gbit/s × 100 ms needs 119.2 MiB in flight`.
    pub fn describe_need(&self) -> String {
        format!(
            "{} × {} needs {} in flight",
            Rate::bits_per_second(self.path.rate_bps),
            self.rtt(),
            Bytes(self.in_flight_bytes())
        )
    }

    pub fn rtt(&self) -> String {
        format_duration(Duration::from_micros(self.path.rtt_us))
    }

    /// Returns the interface's name, for a command.
    pub fn device(&self) -> &'a str {
        self.readings.text("interface.name").unwrap_or("DEV")
    }
}

const RTT_US: u64 = 100_000;
const RATE_BPS: u64 = 10_000_000_000;

/// Returns a path with the interface's speed, or 10 Gbit/s, and an RTT of 100 ms.
pub fn build_reference_path(readings: HostReadings) -> AuditPath {
    let speed = readings.number("interface.speed_bps").ok();
    let rate_bps = speed.filter(|bps| *bps > 0).unwrap_or(RATE_BPS);
    AuditPath {
        name: format!("reference, {} × 100 ms", Rate::bits_per_second(rate_bps)),
        rtt_us: RTT_US,
        rate_bps,
        origin: String::from("reference"),
    }
}

pub fn build_reference_caveat(path: &AuditPath) -> ReportCaveat {
    ReportCaveat::new(
        "reference_path",
        format!(
            "no path is known, so the host is judged for {} × 100 ms; give yours with --rtt and \
             --rate, or measure it",
            Rate::bits_per_second(path.rate_bps)
        ),
    )
}
