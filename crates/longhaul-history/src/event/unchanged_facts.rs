//! Lists what did not change.
//!
//! Lists only what was measured on both sides of the event; the rest is unknown, not unchanged.
//!
//! Source: none. Units: us, bit/s, TTL. Error: a step below 5 % or 2 ms (RTT) or 15 % (rates)
//! counts as none. Wrong when: something changed and changed back between two readings.

use super::event_case::{EventCase, is_same_route};
use super::{event_format, host_facts};
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::units::count_of;

/// Rates within this ratio are equal.
const SAME_RATE_RATIO: f64 = 1.15;

/// Returns sentences for people; the quantity of the event itself is left out.
pub fn list_unchanged(case: &EventCase) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(describe_unchanged_route(case, false));
    found.extend(describe_unchanged_route(case, true));
    found.extend(describe_unchanged_rtt(case));
    found.extend(describe_unchanged_hosts(case));
    found.extend(describe_unchanged_rates(case));
    found.extend(describe_unchanged_limiter(case));
    found
}

fn describe_unchanged_route(case: &EventCase, back: bool) -> Option<String> {
    let (Some(before), Some(after)) = case.routes_around_event(back) else {
        return None;
    };
    // The two directions need not change at the same time.
    let end = case.event.between_us[1];
    let mut since = case.routes(back).into_iter().filter(|r| r.at_us >= end);
    let alike = since.all(|r| is_same_route(r.value, before.value));
    let way = if back { "the reverse route" } else { "the forward route" };
    alike.then(|| format!("{way}: {}, as before", count_of(after.value.hops.len() as u64, "hop")))
}

fn describe_unchanged_rtt(case: &EventCase) -> Option<String> {
    if case.is_quantity(PathQuantity::RttFloor) || case.rtt_step().is_some() {
        return None;
    }
    let [before, after] = case.rtt()?.format(event_format::format_delay_us);
    Some(format!("min RTT: {before} before, {after} after"))
}

/// Reports hosts that were read on both sides without a change that affects transfers.
fn describe_unchanged_hosts(case: &EventCase) -> Option<String> {
    // Counters and addresses change all the time.
    let told = |name: &str| {
        [
            "net.",
            "kernel",
            "longhaul",
            "interface.mtu",
            "interface.speed_bps",
            "interface.feature.",
            "interface.qdisc",
            "cpu.governor",
        ]
        .iter()
        .any(|start| name.starts_with(start))
    };
    if !host_facts::is_read_on_both_sides(case, told) {
        return None;
    }
    let changed = host_facts::find_changed_facts(case, told);
    let near = changed.iter().any(|c| case.timing(c.change.between_us) > 0.3);
    (!near).then(|| {
        String::from("the hosts: kernel, settings and interfaces, as far as they were read")
    })
}

fn describe_unchanged_rates(case: &EventCase) -> Vec<String> {
    let known =
        [(PathQuantity::Capacity, case.capacity()), (PathQuantity::Available, case.available())];
    let same = known.into_iter().filter_map(|(quantity, step)| Some((quantity, step?)));
    same.filter(|(quantity, step)| !case.is_quantity(*quantity) && step.is_within(SAME_RATE_RATIO))
        .map(|(quantity, step)| {
            let [before, after] = step.format(event_format::format_rate);
            format!("{}: {before} before, {after} after", quantity.title())
        })
        .collect()
}

fn describe_unchanged_limiter(case: &EventCase) -> Option<String> {
    let (before, after) = (case.frequent_limiter(false)?, case.frequent_limiter(true)?);
    (before == after).then(|| format!("what limits {}s: {}", case.run_noun(), name_limiter(after)))
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    const ROUTE: [&str; 3] = ["10.1.0.1", "10.2.0.1", "10.9.0.1"];

    fn told(sketch: &event_test_builder::EvidenceBuilder) -> Vec<String> {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        list_unchanged(&EventCase { event: &event, evidence: &evidence })
    }

    #[test]
    fn what_nobody_measured_did_not_stay() {
        assert!(told(&event_test_builder::build_goodput_drop()).is_empty());
        let mut one_side = event_test_builder::build_goodput_drop();
        one_side.trace(-HOUR, &ROUTE).rtt(-HOUR, 150_000.0).run(-HOUR, |_| {});
        assert!(told(&one_side).is_empty(), "{:?}", told(&one_side));
    }

    #[test]
    fn what_was_the_same_on_both_sides_is_told() {
        let mut sketch = event_test_builder::build_goodput_drop();
        for at in [-HOUR, HOUR] {
            sketch
                .trace(at, &ROUTE)
                .rtt(at, 150_000.0)
                .run(at, |report| {
                    let ends = &mut report.observation.ends;
                    ends.sender.host.kernel = String::from("6.1");
                    ends.receiver.host.kernel = String::from("6.1");
                })
                .estimate(at, 622e6, 400e6, None);
        }
        let told = told(&sketch);
        assert_eq!(told.len(), 5, "{told:?}");
        assert_eq!(told[1], "min RTT: 150 ms before, 150 ms after");
    }

    #[test]
    fn hosts_that_said_nothing_did_not_stay() {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.run(-HOUR, |_| {}).run(HOUR, |_| {});
        assert!(told(&sketch).is_empty(), "{:?}", told(&sketch));
    }

    #[test]
    fn what_changed_is_not_told() {
        let mut sketch = event_test_builder::build_goodput_drop();
        for (at, us, kernel) in [(-HOUR, 150_000.0, "6.1"), (HOUR, 160_000.0, "6.2")] {
            sketch.rtt(at, us).run(at, |report| {
                report.observation.ends.sender.host.kernel = kernel.to_owned();
            });
        }
        assert!(told(&sketch).is_empty(), "{:?}", told(&sketch));
    }
}
