//! The panels of a figure of a scan: one for each direction and congestion control.

use super::figure_frame::{describe_ends, shorten_name};
use longhaul_model::report::v1::ScanReport;
use longhaul_model::report::v1::scan::{GoodputCurve, ScanConclusion};
use std::collections::BTreeSet;

const MAX_PANELS: usize = 6;

pub struct ScanPanel<'a> {
    pub title: String,
    pub found: &'a ScanConclusion,
    pub control: Option<&'a str>,
    pub curves: Vec<&'a GoodputCurve>,
}

pub fn list_scan_panels(scan: &ScanReport) -> Vec<ScanPanel<'_>> {
    let mut panels = Vec::new();
    for found in &scan.analysis.directions {
        let control_of = |curve: &'_ GoodputCurve| curve.congestion_control.clone();
        let controls: BTreeSet<Option<String>> = found.curves.iter().map(control_of).collect();
        for name in controls {
            let of_it = |curve: &&GoodputCurve| curve.congestion_control == name;
            let curves: Vec<&GoodputCurve> = found.curves.iter().filter(of_it).collect();
            let control = curves.first().and_then(|curve| curve.congestion_control.as_deref());
            let named = control.map_or(String::new(), |name| format!(", {}", shorten_name(name)));
            let title = format!("{}{named}", describe_ends(&scan.run, found.forward));
            panels.push(ScanPanel { title, found, control, curves });
        }
    }
    panels.truncate(MAX_PANELS);
    panels
}
