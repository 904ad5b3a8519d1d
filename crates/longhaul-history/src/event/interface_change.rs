//! Cause: an interface of one of the two hosts was changed.
//!
//! We would see: another speed, MTU, duplex, offload, ring or interface from the time of the event
//! on, in that direction. Refuted by: a rate above the new speed, or a change the other way.
//! Needs: the host facts of bulk runs, or audits. To do: put it back; check the cable.
//!
//! Units: bit/s, bytes. Wrong when: the speed that a virtual interface reports means nothing.

use super::event_case::EventCase;
use super::host_facts::{self, HostFactChange, create_fact_candidate, format_fact_change};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;

/// An interface faster than this multiple of the rate was not its limit.
const AMPLE_SPEED_RATIO: f64 = 3.0;
/// Tolerance for headers, and for drivers that report a speed that is too low.
const SPEED_TOLERANCE: f64 = 1.1;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let all = host_facts::find_changed_facts(case, is_interface_fact);
    let score = |c: &HostFactChange| case.timing(c.change.between_us) * rate_interface_fit(case, c);
    let first = all.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    let told = format_fact_change(first);
    let mut found = create_fact_candidate(case, "interface", "The interface", first, &told);
    let fit = rate_interface_fit(case, first);
    found.confidence_ratio *= fit;
    if !first.change.lasted {
        found.contradict("the old value is back, but the level is not");
    } else if fit < 0.5 {
        found.contradict("it does not match the size or the direction of the change");
    }
    if case.is_worse() == Some(true) {
        let host = case.host(first.role);
        let text = format!(
            "If that was not intended, restore it on {host}; a lower speed may be a bad cable or optic"
        );
        found.advise(first.role.word(), text);
    }
    Some(found)
}

fn is_interface_fact(name: &str) -> bool {
    const STARTS: [&str; 4] =
        ["interface.feature.", "interface.ring.", "interface.pci.", "interface.channels."];
    let one = matches!(
        name,
        "interface.mtu" | "interface.speed_bps" | "interface.duplex" | "interface.name"
    );
    (one || STARTS.iter().any(|start| name.starts_with(start))) && !name.ends_with("_max")
}

fn rate_interface_fit(case: &EventCase, changed: &HostFactChange) -> f64 {
    if !changed.change.lasted {
        return 0.0;
    }
    let worse = case.is_worse() == Some(true);
    let less = changed.numbers().map(|(old, new)| new < old);
    match changed.name.as_str() {
        "interface.speed_bps" => rate_speed_fit(case, changed),
        "interface.mtu" => rate_mtu_fit(case, less.unwrap_or(false) == worse),
        "interface.duplex" => f64::from(u8::from(changed.change.to.contains("half") == worse)),
        "interface.name" => 0.7,
        name if name.starts_with("interface.feature.") => {
            rate_feature_fit(case, changed.change.to == "off")
        }
        _ if less == Some(worse) => 0.7,
        _ => 0.4,
    }
}

fn rate_speed_fit(case: &EventCase, changed: &HostFactChange) -> f64 {
    let Some((old, new)) = changed.numbers() else {
        return 0.5;
    };
    if (new < old) != (case.is_worse() == Some(true)) {
        return 0.0;
    }
    if !case.is_rate_quantity() {
        return 0.8;
    }
    let slow = old.min(new);
    let (low, high) = case.ordered_levels();
    match () {
        () if low > slow * SPEED_TOLERANCE => 0.0,
        () if high * AMPLE_SPEED_RATIO < slow => 0.4,
        () => 1.0,
    }
}

/// Smaller packets cost more CPU time, and more throughput at equal loss; larger ones may be lost.
fn rate_mtu_fit(case: &EventCase, as_expected: bool) -> f64 {
    let strained = matches!(
        case.frequent_limiter(true),
        Some(Limiter::Loss | Limiter::CpuSender | Limiter::CpuReceiver)
    );
    match (as_expected, strained) {
        (true, true) => 1.0,
        (true, false) => 0.9,
        (false, true) => 0.8,
        (false, false) => 0.7,
    }
}

fn rate_feature_fit(case: &EventCase, off: bool) -> f64 {
    if off != (case.is_worse() == Some(true)) {
        return 0.4;
    }
    let processor =
        matches!(case.frequent_limiter(true), Some(Limiter::CpuSender | Limiter::CpuReceiver));
    if processor || !case.has_fallen() { 1.0 } else { 0.7 }
}

#[cfg(test)]
mod tests {
    use super::super::cause_selection::weight;
    use super::super::event_test_builder::{self, HOUR};
    use super::*;
    use longhaul_model::report::v1::observation::HostInterface;

    fn consistency(before: HostInterface, after: HostInterface) -> f64 {
        let mut sketch = event_test_builder::build_goodput_drop();
        for (at, interface) in [(-HOUR, before), (HOUR, after)] {
            sketch.run(at, |report| {
                report.observation.ends.sender.host.interface = Some(interface.clone());
            });
        }
        sketch.consistency(find_candidate, weight::HOST).unwrap_or(0.0)
    }

    fn fast(speed_bps: u64, mtu_bytes: u32) -> HostInterface {
        HostInterface {
            name: String::from("eth0"),
            mtu_bytes: Some(mtu_bytes),
            speed_bps: Some(speed_bps),
        }
    }

    #[test]
    fn a_slower_interface_explains_a_fall_to_it() {
        assert!(
            (consistency(fast(1_000_000_000, 1500), fast(160_000_000, 1500)) - 1.0).abs() < 1e-9
        );
    }

    #[test]
    fn a_faster_one_or_one_below_the_rate_contradicts() {
        assert!(consistency(fast(100_000_000, 1500), fast(1_000_000_000, 1500)).abs() < 1e-9);
        assert!(consistency(fast(1_000_000_000, 1500), fast(10_000_000, 1500)).abs() < 1e-9);
    }

    #[test]
    fn one_that_is_still_ample_hardly_counts() {
        assert!(consistency(fast(100_000_000_000, 1500), fast(10_000_000_000, 1500)) < 0.5);
    }

    #[test]
    fn a_smaller_mtu_is_likely() {
        assert!(consistency(fast(1_000_000_000, 9000), fast(1_000_000_000, 1500)) >= 0.9);
    }
}
