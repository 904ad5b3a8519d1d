//! Curves of goodput over streams, for each window.
//!
//! Source: medians over repeats. Units: bit/s. Error: the range of the repeats.
//! Wrong when: a point has only one probe; then the line includes chance.

use super::scan_cells::{SettingGroup, group_by_setting};
use longhaul_model::report::v1::scan::{CurvePoint, GoodputCurve, ScanCell};
use std::collections::BTreeMap;

/// Returns one curve for each window and congestion control, by rising window.
pub fn build_curves(cells: &[&ScanCell], forward: bool) -> Vec<GoodputCurve> {
    let mut curves: BTreeMap<(Option<u64>, Option<&str>), GoodputCurve> = BTreeMap::new();
    for group in group_by_setting(cells, forward) {
        let setting = group.setting;
        let key = (setting.window_bytes, setting.congestion_control.as_deref());
        let curve = curves.entry(key).or_insert_with(|| GoodputCurve {
            window_bytes: setting.window_bytes,
            congestion_control: setting.congestion_control.clone(),
            points: Vec::new(),
        });
        curve.points.push(build_curve_point(&group));
    }
    let mut curves: Vec<GoodputCurve> = curves.into_values().collect();
    for curve in &mut curves {
        curve.points.sort_by_key(|p| p.streams);
    }
    curves
}

fn build_curve_point(group: &SettingGroup) -> CurvePoint {
    let repeats = u32::try_from(group.cells.len()).unwrap_or(u32::MAX);
    CurvePoint {
        streams: group.setting.streams,
        goodput_bps: group.median_bps().round() as u64,
        range_bps: (repeats > 1).then(|| group.range_bps()),
        repeats,
        limited_by: group.limiter(),
    }
}
