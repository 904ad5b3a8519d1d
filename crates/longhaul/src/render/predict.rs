//! A prediction as text.

use longhaul_model::report::v1::Predict;

pub fn report(report: &Predict) -> String {
    format!("run {}\n", report.run.id)
}
