//! Against a path with balancers that is known in full.

use super::*;
use longhaul_model::splitmix::mix_bits;
use std::collections::VecDeque;

/// Hops of a path: widths of what a balancer before them shares out to. A hop of width 1 joins.
struct Diamonds<'a> {
    widths: &'a [u16],
    seed: u64,
    loss_ratio: f64,
}

fn address(ttl: u8, which: u16) -> IpAddr {
    IpAddr::from([10, ttl, 0, which as u8])
}

impl Diamonds<'_> {
    fn destination(&self) -> IpAddr {
        address(self.widths.len() as u8, 0)
    }

    fn at(&self, ttl: u8, flow: u16) -> IpAddr {
        let width = u64::from(self.widths[usize::from(ttl) - 1]);
        let hash = mix_bits(self.seed ^ mix_bits(u64::from(ttl) << 32 | u64::from(flow)));
        address(ttl, (hash % width) as u16)
    }

    fn known(&self) -> Vec<Option<IpAddr>> {
        (1..=self.widths.len() as u8).map(|ttl| Some(self.at(ttl, 0))).collect()
    }

    /// Runs the search to its end; probes that it took, and its time.
    fn search(&self, confidence: f64, most_time: Duration) -> (MultipathDiscovery, u32, Duration) {
        const RTT: Duration = Duration::from_millis(40);
        let mut search =
            MultipathDiscovery::new(confidence, self.destination(), &self.known(), most_time);
        let mut answers: VecDeque<(Duration, u16, IpAddr)> = VecDeque::new();
        let (mut now, mut probes) = (Duration::ZERO, 0_u32);
        loop {
            match search.next_step(now) {
                TraceStep::Done => return (search, probes, now),
                TraceStep::Send { ttl, flow } => {
                    probes += 1;
                    search.record_sent(probes as u16, ttl, flow, now);
                    let chance = mix_bits(self.seed.wrapping_add(u64::from(probes) << 20));
                    if chance as f64 / u64::MAX as f64 >= self.loss_ratio {
                        answers.push_back((now + RTT, probes as u16, self.at(ttl, flow)));
                    }
                }
                TraceStep::Wait(until) => match answers.front() {
                    Some((at, number, address)) if *at <= until => {
                        now = now.max(*at);
                        search.record_reply(*number, *address, RTT);
                        answers.pop_front();
                    }
                    _ => {
                        assert!(until > now, "a wait that does not end");
                        now = until;
                    }
                },
            }
        }
    }

    fn all(&self) -> BTreeSet<(u8, IpAddr)> {
        let hops = self.widths.iter().zip(1_u8..);
        hops.flat_map(|(width, ttl)| (0..*width).map(move |which| (ttl, address(ttl, which))))
            .collect()
    }
}

const MINUTES: Duration = Duration::from_secs(600);

#[test]
fn stopping_points_are_those_of_the_paper() {
    let points: Vec<u32> = (1..=6).map(|seen| flows_needed(seen, 0.05)).collect();
    assert_eq!(points, [6, 11, 16, 21, 27, 33]);
    assert_eq!(flows_needed(1, 0.01), 8);
}

#[test]
fn diamonds_are_found_whole_with_the_confidence_that_was_asked() {
    let paths: [&[u16]; 5] =
        [&[1, 1, 2, 1, 1], &[1, 3, 1, 1], &[1, 1, 5, 1], &[1, 2, 1, 3, 1, 1], &[1, 2, 2, 1, 1]];
    for widths in paths {
        let mut whole = 0;
        for seed in 0..200 {
            let path = Diamonds { widths, seed: mix_bits(seed), loss_ratio: 0.01 };
            let (search, _, _) = path.search(0.95, MINUTES);
            whole += u32::from(search.addresses() == path.all());
            assert!(search.confidence_ratio() >= 0.95, "{widths:?}");
        }
        assert!(whole >= 190, "{widths:?}: {whole} of 200");
    }
}

#[test]
fn links_carry_the_flows_that_took_them() {
    let path = Diamonds { widths: &[1, 2, 1], seed: 5, loss_ratio: 0.0 };
    let (search, _, _) = path.search(0.95, MINUTES);
    let links = search.links();
    assert_eq!(links.len(), 4);
    for side in [0, 1] {
        let router = address(2, side).to_string();
        let into: Vec<_> = links.iter().filter(|link| link.to == router).collect();
        assert_eq!((into.len(), into[0].ttl), (1, 1));
        let expected = (0..MAX_FLOWS)
            .filter(|flow| (0..2).all(|hop| search.settled_position(hop, *flow).is_some()))
            .filter(|flow| path.at(2, *flow) == address(2, side))
            .count();
        assert_eq!(into[0].flows as usize, expected);
    }
}

#[test]
fn a_plain_route_costs_six_flows_a_hop() {
    let path = Diamonds { widths: &[1; 12], seed: 1, loss_ratio: 0.0 };
    let (search, probes, time) = path.search(0.95, MINUTES);
    assert_eq!(search.addresses(), path.all());
    assert!(probes <= 12 * 5, "{probes}");
    assert!(time < Duration::from_secs(2), "{time:?}");
}

#[test]
fn without_time_the_confidence_is_what_was_reached() {
    let path = Diamonds { widths: &[1, 5, 5, 1], seed: 9, loss_ratio: 0.0 };
    let (search, _, time) = path.search(0.99, Duration::from_millis(400));
    assert!(time <= Duration::from_millis(400));
    assert!(search.confidence_ratio() < 0.9, "{}", search.confidence_ratio());
}

#[test]
fn a_hop_that_never_answers_keeps_nothing_waiting_for_ever() {
    let mut path = Diamonds { widths: &[1, 3, 2, 1], seed: 3, loss_ratio: 1.0 };
    let (search, _, time) = path.search(0.95, MINUTES);
    assert_eq!(search.addresses().len(), 4);
    assert!(time < MINUTES, "{time:?}");
    path.loss_ratio = 0.4;
    let (search, _, _) = path.search(0.95, MINUTES);
    assert_eq!(search.addresses(), path.all());
}
