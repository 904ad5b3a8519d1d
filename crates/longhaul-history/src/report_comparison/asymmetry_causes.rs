//! Causes of the difference between the two directions of a path.
//!
//! Checks the limiter of each direction, clipped buffers, capacities, losses and routes, and
//! whether both directions were measured with the same settings. Each cause is reported with its
//! evidence; none is certain.

use super::archived_path::{ArchivedBulkRun, ArchivedPath};
use super::period_settings;
use longhaul_analysis::stats::median;
use longhaul_analysis::throughput::{format_whole_percent, name_limiter};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::SocketBuffer;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, ReportFinding, TimePeriod};
use longhaul_model::units::{Bytes, Rate};
use std::collections::BTreeSet;

/// The minimum ratio of two values that counts as a difference.
const MIN_ASYMMETRY_RATIO: f64 = 1.15;
/// The minimum retransmit ratio that counts as loss.
const MIN_LOSS_RATIO: f64 = 1e-4;

/// Returns the causes, most likely first. `ratio` is forward divided by reverse, if known.
pub fn find_asymmetry_causes(
    material: &ArchivedPath,
    period: TimePeriod,
    ratio: Option<f64>,
) -> Vec<ReportFinding> {
    let Some(ratio) = ratio.filter(|ratio| ratio.max(1.0 / ratio) >= MIN_ASYMMETRY_RATIO) else {
        return Vec::new();
    };
    let [forward, reverse] = material.directions().map(|pair| {
        let mut runs = material.bulk_runs(&pair);
        runs.retain(|run| run.is_standalone() && period.contains(run.at_us));
        runs
    });
    let slow = if ratio > 1.0 { &reverse } else { &forward };
    let words = if ratio > 1.0 { "reverse" } else { "forward" };
    let mut found: Vec<ReportFinding> = [
        find_different_settings(&material.pair.to, &forward, &reverse),
        find_clipped_buffer(slow, words),
        find_different_capacities(material, period, ratio),
        find_different_limiters(&forward, &reverse),
        find_one_way_loss(material, period, ratio),
        find_different_routes(material, period),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.sort_by(|a, b| b.confidence_ratio.total_cmp(&a.confidence_ratio));
    found
}

fn find_different_settings(
    far: &str,
    forward: &[ArchivedBulkRun],
    reverse: &[ArchivedBulkRun],
) -> Option<ReportFinding> {
    let of = |runs: &[ArchivedBulkRun]| -> BTreeSet<_> {
        runs.iter().map(|run| period_settings::setting_of_plan(&run.report.plan)).collect()
    };
    let (there, back) = (of(forward), of(reverse));
    if there.is_empty() || back.is_empty() || !there.is_disjoint(&back) {
        return None;
    }
    let summary = "The two directions were measured with different settings, so their ratio \
                   says nothing about the path";
    let mut found = ReportFinding::new("different_settings", 0.9, summary);
    found.advise("initiator", "Measure both directions with the same setting").command =
        Some(format!("longhaul test {far} --bidir"));
    Some(found)
}

/// Finds a host that granted less than was requested, in the direction limited by that buffer.
fn find_clipped_buffer(slow: &[ArchivedBulkRun], way: &str) -> Option<ReportFinding> {
    let limited = period_settings::find_common_limiter(slow)?;
    let of = |run: &ArchivedBulkRun| -> Option<(SocketBuffer, String)> {
        let stream = run.observation.streams.first()?;
        let (buffer, end) = match limited {
            Limiter::ReceiveWindow => {
                (stream.receiver.receive_buffer?, &run.observation.ends.receiver)
            }
            Limiter::SendBuffer => (stream.sender.send_buffer?, &run.observation.ends.sender),
            _ => return None,
        };
        let clipped = buffer.asked_bytes.is_some_and(|asked| asked > buffer.granted_bytes);
        clipped.then(|| (buffer, end.host.name.clone()))
    };
    let (buffer, host) = slow.iter().rev().find_map(of)?;
    let asked = Bytes(buffer.asked_bytes?);
    let granted = Bytes(buffer.granted_bytes);
    let summary =
        format!("{host}: requested {asked}, got {granted}, which limits only the {way} direction");
    let mut found = ReportFinding::new("buffer_clipped", 0.85, summary);
    found.support(format!("runs {way} are limited by {}", name_limiter(limited)));
    Some(found)
}

/// Returns the medians of a quantity, forward and in reverse.
fn compute_medians(
    material: &ArchivedPath,
    quantity: PathQuantity,
    period: TimePeriod,
) -> Option<(f64, f64)> {
    let [there, back] =
        material.directions().map(|pair| median(material.values(&pair, quantity, period)));
    there.zip(back)
}

fn find_different_capacities(
    material: &ArchivedPath,
    period: TimePeriod,
    ratio: f64,
) -> Option<ReportFinding> {
    let (there, back) = compute_medians(material, PathQuantity::Capacity, period)?;
    let of_capacity = there / back;
    let same_way = (of_capacity > 1.0) == (ratio > 1.0);
    if of_capacity.max(1.0 / of_capacity) < MIN_ASYMMETRY_RATIO || !same_way {
        return None;
    }
    // The confidence falls as the ratio of the capacities departs from that of the rates.
    let off = (of_capacity.ln() - ratio.ln()).abs() / ratio.ln().abs();
    let rate = |bps: f64| Rate::bits_per_second(bps.round() as u64);
    let summary = format!(
        "The bottleneck link carries {} forward and {} in reverse",
        rate(there),
        rate(back)
    );
    let confidence = (0.9 - 0.5 * off).clamp(0.3, 0.9);
    let mut found = ReportFinding::new("capacity_differs", confidence, summary);
    found.support(format!(
        "capacity forward is {} of that in reverse, goodput {}",
        format_whole_percent(of_capacity),
        format_whole_percent(ratio)
    ));
    Some(found)
}

fn find_different_limiters(
    forward: &[ArchivedBulkRun],
    reverse: &[ArchivedBulkRun],
) -> Option<ReportFinding> {
    let (there, back) = (
        period_settings::find_common_limiter(forward)?,
        period_settings::find_common_limiter(reverse)?,
    );
    if there == back {
        return None;
    }
    let summary = format!(
        "Forward is mostly limited by {}, reverse by {}",
        name_limiter(there),
        name_limiter(back)
    );
    Some(ReportFinding::new("other_limit", 0.6, summary))
}

fn find_one_way_loss(
    material: &ArchivedPath,
    period: TimePeriod,
    ratio: f64,
) -> Option<ReportFinding> {
    let (there, back) = compute_medians(material, PathQuantity::Retransmits, period)?;
    let (slow, fast) = if ratio > 1.0 { (back, there) } else { (there, back) };
    if slow < MIN_LOSS_RATIO || slow < 3.0 * fast {
        return None;
    }
    let share = |ratio: f64| format!("{:.3} %", ratio * 100.0);
    let summary = format!(
        "{} of the segments are retransmitted forward, {} in reverse",
        share(there),
        share(back)
    );
    Some(ReportFinding::new("loss_one_way", 0.5, summary))
}

fn find_different_routes(material: &ArchivedPath, period: TimePeriod) -> Option<ReportFinding> {
    let seen = material.runs_within(period).rev().find_map(|run| match &run.report {
        AnyReport::Path(path) => path.analysis.symmetry.as_ref(),
        _ => None,
    })?;
    let share = format_whole_percent(seen.shared_ratio);
    let summary = format!("Forward and reverse routes share {share} of their routers");
    let mut found = ReportFinding::new("routes_differ", 0.4, summary);
    found.support(seen.text.clone());
    (seen.shared_ratio < 1.0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::test_archive;
    use super::*;

    const ALL: TimePeriod = TimePeriod { begin_us: i64::MIN, end_us: i64::MAX };

    fn told(sketch: &test_archive::TestArchive, ratio: f64) -> Vec<String> {
        let found = find_asymmetry_causes(&sketch.material(), ALL, Some(ratio));
        found.into_iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn a_clipped_buffer_is_named_before_anything_else() {
        let mut sketch = test_archive::TestArchive::default();
        sketch.run(0, true, 3e6);
        sketch.change_last(|run| {
            run.analysis.limited_by = Limiter::ReceiveWindow;
            run.observation.streams[0].receiver.receive_buffer = Some(SocketBuffer {
                asked_bytes: Some(1 << 20),
                granted_bytes: 65_536,
                stored_bytes: 131_072,
            });
        });
        sketch.run(1, false, 9e6);
        assert_eq!(told(&sketch, 0.33), ["buffer_clipped", "other_limit"]);
        assert!(told(&sketch, 1.02).is_empty(), "alike");
    }

    #[test]
    fn runs_of_different_settings_are_not_compared_in_silence() {
        let mut sketch = test_archive::TestArchive::default();
        sketch.run(0, true, 3e6);
        sketch.change_last(|run| run.plan.streams = 8);
        sketch.run(1, false, 9e6);
        assert_eq!(told(&sketch, 0.33)[0], "different_settings");
    }
}
