//! Tests that links crossed without events give the same times as links processed one by one.

use super::bench::*;
use super::wire::segments;
use crate::emulation_engine::{EmulationEngine, LabHost, Nanos};
use crate::path_spec::{ChangeSpec, EventSpec, LinkPlace, LinkSpec, PathSpec};
use proptest::prelude::*;
use std::time::Duration;

/// Returns a path of links with the given Mbit/s (0 means no rate) and 2 ms each.
fn chain(rates: &[u64]) -> PathSpec {
    let link = |mbps: &u64| match mbps {
        0 => delay(2),
        mbps => LinkSpec { delay: Duration::from_millis(2), ..rate(*mbps) },
    };
    let hops = rates.iter().map(|mbps| hop("r", link(mbps), delay(1)));
    path(hops.collect())
}

/// Returns the same path with every link as a station, because a later event changes it.
fn looked_at_everywhere(mut spec: PathSpec) -> PathSpec {
    let event = |(hop, it): (usize, &crate::path_spec::HopSpec)| EventSpec {
        at: Duration::from_secs(1000),
        change: ChangeSpec::Link {
            place: LinkPlace { route: "main".to_owned(), hop, forward: true },
            to: Box::new(it.forward.clone()),
        },
    };
    spec.events = spec.hops.iter().enumerate().map(event).collect();
    spec
}

/// Sends packets with these gaps and payloads; returns the arrival time of each one's last segment.
fn times(spec: &PathSpec, sent: &[(Nanos, usize)]) -> Vec<Nanos> {
    let mut engine = EmulationEngine::new(spec, 0);
    let (mut now, mut sequence) = (0, 0);
    let mut ends = vec![];
    for (gap, payload) in sent {
        now += gap;
        send(&mut engine, LabHost::Near, &tcp(sequence), &vec![0; *payload], now);
        sequence += *payload as u32;
        ends.push(sequence);
    }
    let arrivals = collect(&mut engine, 900 * SECOND);
    let each = arrivals.iter().flat_map(|it| segments(it).into_iter().map(|s| (it.due, s)));
    let last = each.filter(|(_, s)| ends.contains(&(s.sequence + s.payload.len() as u32)));
    let times: Vec<Nanos> = last.map(|(due, _)| due).collect();
    assert_eq!(times.len(), sent.len());
    times
}

/// Generates the rates of the links of a chain in Mbit/s.
fn rates() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(prop_oneof![Just(0u64), Just(10_000), 1u64..10_000], 2..30)
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn a_train_of_equal_packets_keeps_its_times(
        rates in rates(),
        gaps in proptest::collection::vec(0u64..300_000, 1..60),
        payload in 1usize..1448,
    ) {
        let sent: Vec<_> = gaps.iter().map(|gap| (*gap, payload)).collect();
        let quick = times(&chain(&rates), &sent);
        let slow = times(&looked_at_everywhere(chain(&rates)), &sent);
        for (quick, slow) in quick.iter().zip(&slow) {
            // Each link may round by a nanosecond.
            prop_assert!(quick.abs_diff(*slow) <= 2 * rates.len() as u64, "{quick} {slow}");
        }
    }

    #[test]
    fn a_mixed_train_is_right_to_a_packet_time_of_the_narrow_link(
        rates in rates(),
        sent in proptest::collection::vec((0u64..300_000, 1usize..1448), 1..60),
    ) {
        let quick = times(&chain(&rates), &sent);
        let slow = times(&looked_at_everywhere(chain(&rates)), &sent);
        let narrow = rates.iter().filter(|rate| **rate > 0).min().copied().unwrap_or(1_000_000);
        let bound = 1526 * 8000 / narrow + 2 * rates.len() as u64;
        for (quick, slow) in quick.iter().zip(&slow) {
            prop_assert!(quick.abs_diff(*slow) <= bound, "{quick} {slow}");
        }
    }
}
