//! Causes of the difference between the two directions of a path.
//!
//! Checks the limiter of each direction, clipped buffers, capacities, losses and routes, and
//! whether both directions were measured with the same settings. Each cause is reported with its
//! evidence; none is certain.

use super::material::{Bulk, Material};
use super::settings;
use crate::stats::quantile::median;
use crate::throughput::words::{name, percent};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::comparison::Period;
use longhaul_model::report::v1::observation::Buffer;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::{Advice, AnyReport, Finding};
use longhaul_model::units::{Bytes, Rate};
use std::collections::BTreeSet;

/// The minimum ratio of two values that counts as a difference.
const ALIKE: f64 = 1.15;
/// The minimum retransmit ratio that counts as loss.
const LEAST_LOSS: f64 = 1e-4;

/// Returns the causes, most likely first. `ratio` is forward divided by reverse, if known.
pub fn causes(material: &Material, period: Period, ratio: Option<f64>) -> Vec<Finding> {
    let Some(ratio) = ratio.filter(|ratio| ratio.max(1.0 / ratio) >= ALIKE) else {
        return Vec::new();
    };
    let [forward, reverse] = material.directions().map(|pair| {
        let mut runs = material.bulk(&pair);
        runs.retain(|run| run.alone() && period.holds(run.at_us));
        runs
    });
    let slow = if ratio > 1.0 { &reverse } else { &forward };
    let words = if ratio > 1.0 { "reverse" } else { "forward" };
    let mut found: Vec<Finding> = [
        other_settings(&forward, &reverse),
        clipped(slow, words),
        capacities(material, period, ratio),
        limits(&forward, &reverse),
        losses(material, period, ratio),
        routes(material, period),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.sort_by(|a, b| b.confidence_ratio.total_cmp(&a.confidence_ratio));
    found
}

fn finding(cause: &str, confidence_ratio: f64, summary: String, supports: Vec<String>) -> Finding {
    Finding {
        cause: cause.to_owned(),
        summary,
        confidence_ratio,
        supports,
        contradicts: Vec::new(),
        advice: Vec::new(),
    }
}

fn other_settings(forward: &[Bulk], reverse: &[Bulk]) -> Option<Finding> {
    let of = |runs: &[Bulk]| -> BTreeSet<_> {
        runs.iter()
            .map(|run| settings::of_plan(&run.report.plan))
            .collect()
    };
    let (there, back) = (of(forward), of(reverse));
    if there.is_empty() || back.is_empty() || !there.is_disjoint(&back) {
        return None;
    }
    let summary = "The two directions were measured with different settings, so that their ratio \
                   says nothing of the path";
    let mut found = finding("different_settings", 0.9, summary.to_owned(), Vec::new());
    found.advice.push(Advice {
        place: String::from("initiator"),
        text: String::from("Measure both directions with one setting"),
        command: Some(String::from("longhaul test HOST --bidir")),
        expected_bps: None,
    });
    Some(found)
}

/// Finds a host that granted less than was requested, in the direction limited by that buffer.
fn clipped(slow: &[Bulk], way: &str) -> Option<Finding> {
    let limited = settings::limiter(slow)?;
    let of = |run: &Bulk| -> Option<(Buffer, String)> {
        let stream = run.seen.streams.first()?;
        let (buffer, end) = match limited {
            Limiter::ReceiveWindow => (stream.receiver.receive_buffer?, &run.seen.ends.receiver),
            Limiter::SendBuffer => (stream.sender.send_buffer?, &run.seen.ends.sender),
            _ => return None,
        };
        let clipped = buffer
            .asked_bytes
            .is_some_and(|asked| asked > buffer.granted_bytes);
        clipped.then(|| (buffer, end.host.name.clone()))
    };
    let (buffer, host) = slow.iter().rev().find_map(of)?;
    let asked = Bytes(buffer.asked_bytes?);
    let granted = Bytes(buffer.granted_bytes);
    Some(finding(
        "buffer_clipped",
        0.85,
        format!(
            "{host} grants {granted} of the {asked} that were asked for, which limits the {way} \
             direction alone"
        ),
        vec![format!("runs {way} are limited by {}", name(limited))],
    ))
}

fn capacities(material: &Material, period: Period, ratio: f64) -> Option<Finding> {
    let [there, back] = material
        .directions()
        .map(|pair| median(material.values(&pair, Quantity::Capacity, period)));
    let (there, back) = (there?, back?);
    let of_capacity = there / back;
    let same_way = (of_capacity > 1.0) == (ratio > 1.0);
    if of_capacity.max(1.0 / of_capacity) < ALIKE || !same_way {
        return None;
    }
    // The confidence falls as the ratio of the capacities departs from that of the rates.
    let off = (of_capacity.ln() - ratio.ln()).abs() / ratio.ln().abs();
    let rate = |bps: f64| Rate::bits_per_second(bps.round() as u64);
    Some(finding(
        "capacity_differs",
        (0.9 - 0.5 * off).clamp(0.3, 0.9),
        format!(
            "The narrow link carries {} forward and {} in reverse",
            rate(there),
            rate(back)
        ),
        vec![format!(
            "capacity forward is {} of that in reverse, goodput {}",
            percent(of_capacity),
            percent(ratio)
        )],
    ))
}

fn limits(forward: &[Bulk], reverse: &[Bulk]) -> Option<Finding> {
    let (there, back) = (settings::limiter(forward)?, settings::limiter(reverse)?);
    if there == back {
        return None;
    }
    Some(finding(
        "other_limit",
        0.6,
        format!(
            "Forward is mostly limited by {}, reverse by {}",
            name(there),
            name(back)
        ),
        Vec::new(),
    ))
}

fn losses(material: &Material, period: Period, ratio: f64) -> Option<Finding> {
    let [there, back] = material
        .directions()
        .map(|pair| median(material.values(&pair, Quantity::Retransmits, period)));
    let (there, back) = (there?, back?);
    let (slow, fast) = if ratio > 1.0 {
        (back, there)
    } else {
        (there, back)
    };
    if slow < LEAST_LOSS || slow < 3.0 * fast {
        return None;
    }
    let share = |ratio: f64| format!("{:.3} %", ratio * 100.0);
    Some(finding(
        "loss_one_way",
        0.5,
        format!(
            "{} of the segments are sent again forward, {} in reverse",
            share(there),
            share(back)
        ),
        Vec::new(),
    ))
}

fn routes(material: &Material, period: Period) -> Option<Finding> {
    let mut runs: Vec<_> = material.within(period).collect();
    runs.reverse();
    let seen = runs.iter().find_map(|run| match &run.report {
        AnyReport::Path(path) => path.analysis.symmetry.as_ref(),
        _ => None,
    })?;
    (seen.shared_ratio < 1.0).then(|| {
        finding(
            "routes_differ",
            0.4,
            format!(
                "The ways there and back share {} of their routers",
                percent(seen.shared_ratio)
            ),
            vec![seen.text.clone()],
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::sketch;
    use super::*;

    const ALL: Period = Period {
        begin_us: i64::MIN,
        end_us: i64::MAX,
    };

    fn told(sketch: &sketch::Archive, ratio: f64) -> Vec<String> {
        let found = causes(&sketch.material(), ALL, Some(ratio));
        found.into_iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn a_clipped_buffer_is_named_before_anything_else() {
        let mut sketch = sketch::Archive::default();
        sketch.run(0, true, 3e6);
        sketch.change_last(|run| {
            run.analysis.limited_by = Limiter::ReceiveWindow;
            run.observation.streams[0].receiver.receive_buffer = Some(Buffer {
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
        let mut sketch = sketch::Archive::default();
        sketch.run(0, true, 3e6);
        sketch.change_last(|run| run.plan.streams = 8);
        sketch.run(1, false, 9e6);
        assert_eq!(told(&sketch, 0.33)[0], "different_settings");
    }
}
