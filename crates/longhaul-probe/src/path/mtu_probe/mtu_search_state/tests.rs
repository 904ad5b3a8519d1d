use super::*;
use longhaul_model::splitmix::SplitMix64;
use proptest::prelude::*;

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// What stands in the way, with its own MTU.
#[derive(Debug, Clone, Copy)]
struct Hop {
    mtu: u32,
    /// It says so when a packet is too big.
    speaks: bool,
}

const fn hop(mtu: u32, speaks: bool) -> Hop {
    Hop { mtu, speaks }
}

struct World {
    hops: Vec<Hop>,
    rtt: Duration,
    /// Of a probe or its answer.
    loss: f64,
    random: SplitMix64,
    /// Every probe also draws a refusal with this figure, which means nothing.
    forged: Option<u32>,
    deaf: bool,
}

const QUIET: World = World {
    hops: vec![],
    rtt: Duration::from_millis(30),
    loss: 0.0,
    random: SplitMix64::new(1),
    forged: None,
    deaf: false,
};

enum Event {
    Arrives,
    Refused(TooBigReport),
}

impl World {
    fn chance(&mut self) -> f64 {
        self.random.unit()
    }

    fn fate(&mut self, packet_bytes: u32) -> Vec<(Duration, Event)> {
        let mut events = Vec::new();
        if let Some(mtu) = self.forged {
            let lie = TooBigReport { by: "liar".into(), mtu_bytes: Some(mtu) };
            events.push((self.rtt / 4, Event::Refused(lie)));
        }
        if self.deaf || self.chance() < self.loss {
            return events;
        }
        match self.hops.iter().find(|hop| hop.mtu < packet_bytes) {
            Some(Hop { mtu, speaks: true }) => {
                let word = TooBigReport { by: "router".into(), mtu_bytes: Some(*mtu) };
                events.push((self.rtt / 2, Event::Refused(word)));
            }
            Some(Hop { speaks: false, .. }) => {}
            None => events.push((self.rtt, Event::Arrives)),
        }
        events
    }
}

struct Ran {
    end: MtuSearchOutcome,
    took: Duration,
    low: Option<u32>,
    tries: u32,
    search: MtuSearchState,
}

fn limits(local_bytes: u32) -> MtuSearchLimits {
    MtuSearchLimits {
        is_ipv6: false,
        local_bytes,
        gap: ms(50),
        timeout: ms(1000),
        max_time: ms(40_000),
    }
}

fn run(limits: MtuSearchLimits, world: &mut World) -> Ran {
    let mut search = MtuSearchState::new(limits);
    let mut now = Duration::ZERO;
    let mut under_way: Vec<(Duration, u32, Event)> = Vec::new();
    let end = loop {
        match search.step(now) {
            MtuSearchStep::Done(end) => break end,
            MtuSearchStep::Send { number, packet_bytes } => {
                let fate = world.fate(packet_bytes).into_iter();
                under_way.extend(fate.map(|(after, event)| (now + after, number, event)));
            }
            MtuSearchStep::Wait { until } => {
                assert!(until > now, "a wait that waits for nothing");
                under_way.sort_by_key(|(at, _, _)| *at);
                if under_way.first().is_some_and(|(at, _, _)| *at <= until) {
                    let (at, number, event) = under_way.remove(0);
                    now = now.max(at);
                    match event {
                        Event::Arrives => search.record_answer(number, now),
                        Event::Refused(refusal) => search.record_refusal(number, refusal),
                    }
                } else {
                    now = until;
                }
            }
        }
    };
    Ran { end, took: now, low: search.largest_passed(), tries: search.tries.len() as u32, search }
}

#[test]
fn a_path_as_wide_as_the_interface_costs_a_handful_of_packets() {
    let ran = run(limits(1500), &mut World { ..QUIET });
    assert_eq!((ran.end, ran.low), (MtuSearchOutcome::Found, Some(1500)));
    assert!(ran.tries <= 6 && ran.took < ms(400), "{} in {:?}", ran.tries, ran.took);
    assert_eq!(ran.search.smallest_failed(), None);
}

#[test]
fn a_router_that_speaks_is_believed_and_checked() {
    let mut world = World { hops: vec![hop(1500, true), hop(1400, true)], ..QUIET };
    let ran = run(limits(9000), &mut world);
    assert_eq!(
        (ran.end, ran.low, ran.search.smallest_failed()),
        (MtuSearchOutcome::Found, Some(1400), Some(1401))
    );
    assert!(ran.tries <= 11, "{}", ran.tries);
    let result = ran.search.result();
    let refused: Vec<_> = result
        .probes
        .iter()
        .filter_map(|probe| Some((probe.packet_bytes, probe.refused_mtu_bytes?)))
        .collect();
    assert_eq!(refused, [(1401, 1400), (1500, 1400), (9000, 1500)]);
}

#[test]
fn where_larger_packets_vanish_the_edge_is_found_to_the_byte() {
    for mtu in [577, 1000, 1280, 1400, 1492, 1499] {
        let mut world = World { hops: vec![hop(mtu, false)], ..QUIET };
        let ran = run(limits(1500), &mut world);
        assert_eq!(
            (ran.end, ran.low, ran.search.smallest_failed()),
            (MtuSearchOutcome::Found, Some(mtu), Some(mtu + 1))
        );
        assert!(ran.took < ms(6000), "{mtu}: {:?}", ran.took);
        let silent = ran.search.result();
        assert!(silent.probes.iter().all(|probe| probe.refused_by.is_none()));
        assert!(silent.probes.iter().all(|probe| probe.arrived > 0 || probe.sent >= 3));
    }
}

#[test]
fn a_far_end_that_never_answers_ends_the_search_soon() {
    let ran = run(limits(1500), &mut World { deaf: true, ..QUIET });
    assert_eq!((ran.end, ran.low), (MtuSearchOutcome::NoAnswer, None));
    assert!(ran.took <= ms(1400), "{:?}", ran.took);
}

#[test]
fn absurd_refusals_change_nothing() {
    for lie in [0, 1, 67, 1500, 9000, u32::MAX] {
        let mut world = World { forged: Some(lie), ..QUIET };
        let ran = run(limits(1500), &mut world);
        assert_eq!((ran.end, ran.low), (MtuSearchOutcome::Found, Some(1500)), "{lie}");
    }
}

#[test]
fn a_lie_that_could_be_true_is_found_out_by_what_arrives() {
    for lie in [68, 600, 1000, 1399] {
        let mut open = World { forged: Some(lie), ..QUIET };
        assert_eq!(run(limits(1500), &mut open).low, Some(1500), "{lie}");
        let mut narrow = World { forged: Some(lie), hops: vec![hop(1400, true)], ..QUIET };
        assert_eq!(run(limits(1500), &mut narrow).low, Some(1400), "{lie}");
    }
}

#[test]
fn no_word_below_the_least_mtu_of_ipv6_is_believed() {
    let six = MtuSearchLimits { is_ipv6: true, ..limits(1500) };
    let mut world = World { forged: Some(600), hops: vec![hop(1300, true)], ..QUIET };
    let ran = run(six, &mut world);
    assert_eq!((ran.end, ran.low), (MtuSearchOutcome::Found, Some(1300)));
    let ran = run(six, &mut World { hops: vec![hop(1200, true)], ..QUIET });
    assert_eq!((ran.end, ran.low), (MtuSearchOutcome::NoAnswer, None));
}

#[test]
fn a_path_narrower_than_the_first_size_is_found_where_a_router_says_so() {
    let ran = run(limits(1500), &mut World { hops: vec![hop(296, true)], ..QUIET });
    assert_eq!((ran.end, ran.low), (MtuSearchOutcome::Found, Some(296)));
}

#[test]
fn what_this_host_does_not_send_has_failed_without_a_word() {
    let mut search = MtuSearchState::new(limits(1500));
    let mut now = Duration::ZERO;
    let end = loop {
        match search.step(now) {
            MtuSearchStep::Send { number, packet_bytes } if packet_bytes > 1480 => {
                search.record_unsendable(number);
            }
            MtuSearchStep::Send { number, .. } => search.record_answer(number, now + ms(1)),
            MtuSearchStep::Wait { until } => now = until,
            MtuSearchStep::Done(end) => break end,
        }
    };
    assert_eq!(
        (end, search.largest_passed(), search.smallest_failed()),
        (MtuSearchOutcome::Found, Some(1480), Some(1481))
    );
}

#[test]
fn with_three_packets_of_ten_lost_the_answer_is_right_and_in_time() {
    let mut right = 0;
    for seed in 0..200 {
        let speaks = seed % 2 == 0;
        let mut world = World {
            loss: 0.3,
            random: SplitMix64::new(seed),
            hops: vec![hop(1400, speaks)],
            ..QUIET
        };
        let ran = run(limits(1500), &mut world);
        assert!(ran.took <= ms(40_000) && ran.tries <= MAX_TRIES);
        right += u32::from(ran.low == Some(1400));
    }
    assert!(right >= 194, "{right} of 200");
}

proptest! {
    /// Without loss every path's MTU is found to the byte, whoever speaks.
    #[test]
    fn any_path_without_loss_is_measured_exactly(
        hops in proptest::collection::vec((576_u32..9000, any::<bool>()), 0..6),
        local in 576_u32..9100,
        rtt in 1_u64..300,
    ) {
        let hops: Vec<Hop> = hops.into_iter().map(|(mtu, speaks)| hop(mtu, speaks)).collect();
        let truth = hops.iter().map(|hop| hop.mtu).min().unwrap_or(local).min(local);
        let ran = run(limits(local), &mut World { hops, rtt: ms(rtt), ..QUIET });
        prop_assert_eq!(ran.low, Some(truth));
        prop_assert_eq!(ran.end, MtuSearchOutcome::Found);
    }

    /// Whatever happens, the search ends within its time and its tries, and nothing is reported
    /// as arrived that did not.
    #[test]
    fn every_search_ends_within_its_bounds(
        hops in proptest::collection::vec((68_u32..9000, any::<bool>()), 0..4),
        loss in 0.0_f64..1.0,
        seed in any::<u64>(),
        forged in proptest::option::of(any::<u32>()),
        rtt in 1_u64..3000,
    ) {
        let hops: Vec<Hop> = hops.into_iter().map(|(mtu, speaks)| hop(mtu, speaks)).collect();
        let truth = hops.iter().map(|hop| hop.mtu).min().unwrap_or(1500);
        let rtt = ms(rtt);
        let ran = run(limits(1500), &mut World { hops, rtt, loss, random: SplitMix64::new(seed), forged, deaf: false });
        prop_assert!(ran.took <= ms(40_000));
        prop_assert!(ran.tries <= MAX_TRIES);
        prop_assert!(ran.low.unwrap_or(0) <= truth);
    }
}
