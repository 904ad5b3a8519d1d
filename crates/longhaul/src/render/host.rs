//! An audit as text.

use longhaul_model::report::v1::Host;

pub fn report(report: &Host) -> String {
    format!("run {}\n", report.run.id)
}
