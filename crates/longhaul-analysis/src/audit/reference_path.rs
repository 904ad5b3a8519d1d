//! The reference path that a host is judged for if the plan names none.
//!
//! Source: ours; 100 ms is the RTT of ESnet's recommended settings (fasterdata, 10 Gbit/s to 100
//! ms).
//! Units: bit/s, µs. Error: it is not a path of the user, and a caveat says so.
//! Wrong when: the interface reports a speed that it does not have, as virtual ones do.

use super::host_readings::HostReadings;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::host::AuditPath;
use longhaul_model::units::Rate;

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
