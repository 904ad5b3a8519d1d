use super::judge_narrow_link;
use crate::path::{KnownRoute, PathCapacityEstimate, path_test_builder};
use longhaul_accuracy::narrow_link_accuracy::hop_case::{HopCase, QueueLocation};
use longhaul_model::report::v1::path::{NarrowLink, PathObservation};

fn on(observation: &PathObservation) -> NarrowLink {
    let watch = observation.hop_load.as_ref().unwrap();
    judge_narrow_link(observation, watch, &[], None)
}

fn seen(case: &HopCase) -> NarrowLink {
    on(&case.observation(1))
}

fn between(link: &NarrowLink) -> (&str, Option<u8>, Option<u8>) {
    (&link.verdict, link.after_ttl, link.before_ttl)
}

#[test]
fn the_link_before_the_first_risen_hop_is_named() {
    let link = seen(&HopCase::plain(8, QueueLocation::Forward(4)));
    assert_eq!(between(&link), ("link", Some(4), Some(5)));
    assert!(link.rise_ns.unwrap() >= 20_000_000);
    let start = "under our load the queue grew between 10.0.4.1 and 10.0.5.1 (hops 4-5), by ";
    assert!(link.text.starts_with(start), "{}", link.text);
    assert!(link.text.ends_with("; all later hops confirm it"), "{}", link.text);
    assert_eq!(link.capacity_bps, None, "hops give no capacity");
}

#[test]
fn capacity_is_that_of_the_path_where_an_estimate_stands_by() {
    let observation = HopCase::plain(8, QueueLocation::Forward(7)).observation(1);
    let watch = observation.hop_load.as_ref().unwrap();
    let capacity =
        PathCapacityEstimate { bps: 130_000_000, interval_bps: Some([127_000_000, 133_000_000]) };
    let link = judge_narrow_link(&observation, watch, &[], Some(capacity));
    assert_eq!(between(&link), ("link", Some(7), Some(8)), "the last hop");
    assert_eq!(link.capacity_bps, Some(130_000_000));
    let text = "; capacity of the whole path: 130 Mbit/s (127 Mbit/s to 133 Mbit/s)";
    assert!(link.text.ends_with(text), "{}", link.text);
}

#[test]
fn a_queue_that_nearly_empties_now_and_then_is_placed_all_the_same() {
    for seed in 1..=20 {
        let case = HopCase {
            dip_ratio: 0.2,
            period_s: 2.0,
            ..HopCase::plain(6, QueueLocation::Forward(5))
        };
        let link = on(&case.observation(seed));
        assert_eq!(between(&link), ("link", Some(5), Some(6)), "{}", link.text);
    }
}

#[test]
fn hops_that_saw_a_breathing_queue_at_other_moments_show_the_same_one() {
    let mut observation = HopCase::plain(6, QueueLocation::Forward(3)).observation(1);
    let watch = observation.hop_load.as_mut().unwrap();
    // Two probes of the far end met the queue at its emptiest, and none of the others did.
    let loaded = watch.hops[5].echoes.iter_mut().filter(|echo| {
        let at_s = echo.at_us / 1_000_000;
        (10..12).contains(&at_s)
    });
    for echo in loaded {
        echo.rtt_ns = echo.rtt_ns.map(|ns| ns - 20_000_000);
    }
    let link = on(&observation);
    assert_eq!(between(&link), ("link", Some(3), Some(4)), "{}", link.text);
}

#[test]
fn probes_behind_the_end_of_the_payload_take_nothing_from_the_queue() {
    for seed in 1..=20 {
        let case = HopCase { drained_s: 0.6, ..HopCase::plain(6, QueueLocation::Forward(3)) };
        let link = on(&case.observation(seed));
        assert_eq!(between(&link), ("link", Some(3), Some(4)), "{}", link.text);
    }
}

/// What is said where probes of the far end, sent in these seconds, come back so much later, or not.
fn with_far_end(later_ns: impl Fn(u64) -> Option<u64>) -> NarrowLink {
    let mut observation = HopCase::plain(6, QueueLocation::Forward(3)).observation(1);
    let watch = observation.hop_load.as_mut().unwrap();
    for echo in &mut watch.hops[5].echoes {
        let at_s = echo.at_us / 1_000_000;
        // No two are alike.
        echo.rtt_ns = later_ns(at_s).map(|ns| 12_000_000 + 1000 * at_s + ns);
    }
    on(&observation)
}

#[test]
fn what_hides_a_queue_is_told() {
    let slow = |slow: bool| Some(if slow { 20_000_000 } else { 0 });
    let noisy = with_far_end(|at_s| slow(at_s % 4 == 0 || (10..15).contains(&at_s)));
    assert_eq!(noisy.verdict, "cannot_tell");
    assert!(noisy.text.contains("varies by 20 ms"), "{}", noisy.text);
    let few = with_far_end(|at_s| match at_s {
        14 => None,
        _ => slow((11..14).contains(&at_s)),
    });
    assert_eq!(few.verdict, "cannot_tell");
    let start = "too few of 4 RTTs to 10.0.6.1 under our load were longer";
    assert!(few.text.starts_with(start), "{}", few.text);
}

#[test]
fn silence_beside_the_link_makes_it_a_span() {
    for (silent, after, before) in [(4, 3, 5), (5, 4, 6)] {
        let case = HopCase { silent: Some(silent), ..HopCase::plain(8, QueueLocation::Forward(4)) };
        let link = seen(&case);
        assert_eq!(between(&link), ("span", Some(after), Some(before)));
        assert!(link.confidence_ratio < 0.8);
    }
}

#[test]
fn a_hop_that_answers_slowly_under_load_is_set_aside() {
    let case = HopCase { slow_path: Some(2), ..HopCase::plain(8, QueueLocation::Forward(5)) };
    let link = seen(&case);
    assert_eq!(between(&link), ("link", Some(5), Some(6)));
    assert!(link.confidence_ratio < 0.8, "something speaks against it");
}

#[test]
fn without_a_standing_queue_none_is_named() {
    for queue in [QueueLocation::Policer, QueueLocation::None] {
        let link = seen(&HopCase::plain(8, queue));
        assert_eq!(between(&link), ("none", None, None), "{queue:?}");
        assert!(link.text.starts_with("no queue built up"), "{}", link.text);
    }
}

#[test]
fn a_queue_on_the_way_back_is_told_by_both_ends_alone() {
    let case = HopCase::plain(8, QueueLocation::Return(3));
    let link = seen(&case);
    assert_eq!(between(&link), ("return_path", None, None));
    assert!(link.text.contains("in the opposite direction, back"), "{}", link.text);
    let one_ended = HopCase { two_ended: false, ..case };
    let link = seen(&one_ended);
    assert_eq!(between(&link), ("link", Some(3), Some(4)));
    let unsure = "the direction is not known";
    assert!(link.text.contains(unsure), "{}", link.text);
}

#[test]
fn a_rise_at_the_first_hop_is_the_own_host_if_its_queue_explains_it() {
    let mut observation = HopCase::plain(8, QueueLocation::Forward(0)).observation(1);
    assert_eq!(between(&on(&observation)), ("link", Some(0), Some(1)));
    let text = on(&observation).text;
    assert!(text.contains("between this host and 10.0.1.1"), "{text}");
    let watch = observation.hop_load.as_mut().unwrap();
    // 50 Mbyte in 8 s, for 40 ms.
    watch.own_backlog_bytes = Some(250_000);
    let link = on(&observation);
    assert_eq!(between(&link), ("own_host", Some(0), Some(1)));
    assert!(link.text.contains("own interface"), "{}", link.text);
}

#[test]
fn a_far_end_that_is_silent_is_stood_in_for_by_its_own_times() {
    let mut observation = HopCase::plain(8, QueueLocation::Forward(7)).observation(1);
    let watch = observation.hop_load.as_mut().unwrap();
    watch.hops.pop();
    // How many hops lie behind the last one is not known.
    let link = on(&observation);
    assert_eq!(between(&link), ("span", Some(7), None));
    let text = "between 10.0.7.1 and 10.0.8.1 (beyond hop 7), by";
    assert!(link.text.contains(text), "{}", link.text);
    let mut whole = path_test_builder::build_route(&["", "", "", "", "", "", "", "10.0.8.1"]);
    whole.to = String::from("10.0.8.1");
    observation.route = Some(whole);
    assert_eq!(between(&on(&observation)), ("link", Some(7), Some(8)));
    observation.route = None;
    let watch = observation.hop_load.as_mut().unwrap();
    watch.ends.clear();
    let link = on(&observation);
    assert_eq!(between(&link), ("cannot_tell", None, None));
    assert!(link.confidence_ratio.abs() < f64::EPSILON);
}

#[test]
fn without_load_or_answers_nothing_is_said() {
    let full = HopCase::plain(8, QueueLocation::Forward(4)).observation(1);
    let cut = |change: fn(&mut longhaul_model::report::v1::path::HopWatch)| {
        let mut observation = full.clone();
        change(observation.hop_load.as_mut().unwrap());
        on(&observation).verdict
    };
    assert_eq!(cut(|watch| watch.load_bytes = Some(0)), "cannot_tell");
    assert_eq!(cut(|watch| watch.load_until_us = 0), "cannot_tell");
    assert_eq!(cut(|watch| watch.hops.clear()), "cannot_tell");
    let stepped = cut(|watch| {
        for probe in watch.ends.iter_mut().filter(|p| p.at_us > 12_000_000) {
            probe.forward_ns = probe.forward_ns.map(|ns| ns + 3_600_000_000_000);
            probe.reverse_ns = probe.reverse_ns.map(|ns| ns - 3_600_000_000_000);
        }
    });
    assert_eq!(stepped, "link", "round trips know no clock but their own");
    let garbled = cut(|watch| {
        for (probe, wild) in watch.ends.iter_mut().zip([i64::MIN, i64::MAX].iter().cycle()) {
            (probe.forward_ns, probe.reverse_ns) = (Some(*wild), Some(*wild));
        }
    });
    assert_eq!(garbled, "link", "the far end's wild times are left aside");
}

#[test]
fn the_same_link_in_an_earlier_run_makes_it_surer() {
    let observation = HopCase::plain(8, QueueLocation::Forward(4)).observation(1);
    let watch = observation.hop_load.as_ref().unwrap();
    let first = on(&observation);
    let mut earlier = path_test_builder::build_report(
        "2003-06-11T22:00:00Z",
        path_test_builder::build_route(&["10.0.1.1"]),
    );
    earlier.analysis.route_number = Some(1);
    earlier.analysis.narrow_link = Some(first.clone());
    let known = [KnownRoute::of(&earlier).unwrap()];
    let second = judge_narrow_link(&observation, watch, &known, None);
    assert!(second.confidence_ratio > first.confidence_ratio);
}
