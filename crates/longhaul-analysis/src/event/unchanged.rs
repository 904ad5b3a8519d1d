//! Lists what did not change.
//!
//! Lists only what was measured on both sides of the event; the rest is unknown, not unchanged.
//!
//! Source: none. Units: us, bit/s, TTL. Error: a step below 5 % or 2 ms (RTT) or 15 % (rates)
//! counts as none. Wrong when: something changed and changed back between two readings.

use super::case::{Case, same_route};
use super::host_facts;
use super::words;
use crate::path::words::count;
use longhaul_model::report::v1::quantity::Quantity;

/// Rates within this ratio are equal.
const SAME_RATE: f64 = 1.15;

/// Returns sentences for people; the quantity of the event itself is left out.
pub fn unchanged(case: &Case) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(route(case, false));
    found.extend(route(case, true));
    found.extend(rtt(case));
    found.extend(hosts(case));
    found.extend(rates(case));
    found.extend(limiter(case));
    found
}

fn route(case: &Case, back: bool) -> Option<String> {
    let (Some(before), Some(after)) = case.routes_beside(back) else {
        return None;
    };
    // The two directions need not change at the same time.
    let end = case.event.between_us[1];
    let mut since = case.routes(back).into_iter().filter(|r| r.at_us >= end);
    let alike = since.all(|r| same_route(r.value, before.value));
    let way = if back {
        "the way back"
    } else {
        "the route there"
    };
    alike.then(|| format!("{way}: {}, as before", count(after.value.hops.len(), "hop")))
}

fn rtt(case: &Case) -> Option<String> {
    if case.is(Quantity::RttFloor) || case.rtt_step().is_some() {
        return None;
    }
    let step = case.rtt()?;
    Some(format!(
        "the least round trip: {} before, {} after",
        words::delay_us(step.before),
        words::delay_us(step.after)
    ))
}

/// Reports hosts that were read on both sides without a change that affects transfers.
fn hosts(case: &Case) -> Option<String> {
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
    if !host_facts::read_beside(case, told) {
        return None;
    }
    let changed = host_facts::changed(case, told);
    let near = changed.iter().any(|c| case.timing(c.turn.between_us) > 0.3);
    (!near).then(|| {
        String::from("the hosts: kernel, settings and interfaces, as far as they were read")
    })
}

fn rates(case: &Case) -> Vec<String> {
    let of = |quantity, step| (quantity, step);
    let known = [
        of(Quantity::Capacity, case.capacity()),
        of(Quantity::Available, case.available()),
    ];
    let same = known
        .into_iter()
        .filter_map(|(quantity, step)| Some((quantity, step?)));
    same.filter(|(quantity, step)| !case.is(*quantity) && step.within(SAME_RATE))
        .map(|(quantity, step)| {
            format!(
                "{}: {} before, {} after",
                quantity.title(),
                words::rate(step.before),
                words::rate(step.after)
            )
        })
        .collect()
}

fn limiter(case: &Case) -> Option<String> {
    let (before, after) = (case.limiter(false)?, case.limiter(true)?);
    (before == after).then(|| {
        format!(
            "what limits bulk runs: {}",
            crate::throughput::words::name(after)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{self, HOUR};
    use super::*;

    const ROUTE: [&str; 3] = ["10.1.0.1", "10.2.0.1", "10.9.0.1"];

    fn told(sketch: &sketch::Sketch) -> Vec<String> {
        let (event, evidence) = (sketch.event(), sketch.evidence());
        unchanged(&Case {
            event: &event,
            evidence: &evidence,
        })
    }

    #[test]
    fn what_nobody_measured_did_not_stay() {
        assert!(told(&sketch::fell()).is_empty());
        let mut one_side = sketch::fell();
        one_side
            .trace(-HOUR, &ROUTE)
            .rtt(-HOUR, 150_000.0)
            .run(-HOUR, |_| {});
        assert!(told(&one_side).is_empty(), "{:?}", told(&one_side));
    }

    #[test]
    fn what_was_the_same_on_both_sides_is_told() {
        let mut sketch = sketch::fell();
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
        assert_eq!(told[1], "the least round trip: 150 ms before, 150 ms after");
    }

    #[test]
    fn hosts_that_said_nothing_did_not_stay() {
        let mut sketch = sketch::fell();
        sketch.run(-HOUR, |_| {}).run(HOUR, |_| {});
        assert!(told(&sketch).is_empty(), "{:?}", told(&sketch));
    }

    #[test]
    fn what_changed_is_not_told() {
        let mut sketch = sketch::fell();
        for (at, us, kernel) in [(-HOUR, 150_000.0, "6.1"), (HOUR, 160_000.0, "6.2")] {
            sketch.rtt(at, us).run(at, |report| {
                report.observation.ends.sender.host.kernel = kernel.to_owned();
            });
        }
        assert!(told(&sketch).is_empty(), "{:?}", told(&sketch));
    }
}
