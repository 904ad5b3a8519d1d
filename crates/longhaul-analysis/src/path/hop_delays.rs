//! Computes the delay that each hop adds to the RTT.
//!
//! A router forwards faster than it answers, so the answer of a hop is an upper bound of the RTT to
//! it, and so is that of every later hop, which lies behind it. From the destination backwards each
//! hop takes the minimum of its own floor and of all later ones: a sequence that never falls. A
//! link adds the difference of its two ends, which is never negative; it is given only if both of
//! them answered as fast as their bound, to within [`SLACK_NS`] and [`SLACK_RATIO`].
//!
//! Source: isotonic bounds of our own; that routers answer late: Govindan and Paxson, Estimating
//! Router ICMP Generation Delays, 2002, and the 43 hops of the record of 12 September 2004. Units:
//! ns. Error: the slack. Wrong when: the answers of hops take different return paths: then a link's
//! share includes the difference of those paths too.
//!
//! # Path MTU
//!
//! Derives the path MTU, and detects larger packets that are dropped silently.
//!
//! Source: RFC 1191, RFC 8201 and RFC 8899. Units: bytes of the whole IP packet.
//! Error: the step of the search, which the smallest refused size gives.
//! Wrong when: loss takes every attempt at one size, other sizes that arrived show that.
//!
//! # RTT
//!
//! Summarizes round-trip times and loss of echoes.
//!
//! Source: Wilson 1927 for the interval of the loss. Units: ns, ratios.
//! Error: that of the clock that took the times, which the observation names.
//! Wrong when: the remote host answers echoes later than it receives data: then all times are high.

use crate::stats::{mean_and_deviation, mean_interval, quantile, sort_finite};
use longhaul_model::report::v1::path::{
    HopDelay, MtuProbe, MtuSearch, ObservedHop, ObservedRoute, PathMtu, PathRtt, RoundTripSeries,
};

/// A floor may exceed its bound by this much: the scatter of an answer.
const SLACK_NS: u64 = 200_000;
/// The slack as a share of the bound.
const SLACK_RATIO: f64 = 0.01;

/// Returns the delays by TTL, in the order of the route.
pub fn compute_hop_delays(route: &ObservedRoute) -> Vec<HopDelay> {
    let floors: Vec<Option<u64>> = route.hops.iter().map(find_min_rtt).collect();
    let bounds = compute_rtt_bounds(&floors);
    let mut before = Some(0);
    let mut found = Vec::with_capacity(route.hops.len());
    for (place, hop) in route.hops.iter().enumerate() {
        let (own, bound) = (floors[place], bounds[place]);
        let truthful = own.zip(bound).is_some_and(|(own, bound)| is_within_slack(own, bound));
        let here = bound.filter(|_| truthful);
        found.push(HopDelay {
            ttl: hop.ttl,
            rtt_min_ns: own,
            link_ns: before.zip(here).map(|(near, far)| far.saturating_sub(near)),
            state: classify_hop(route, place, truthful).to_owned(),
        });
        before = here;
    }
    found
}

/// Returns the minimum RTT of the one flow.
fn find_min_rtt(hop: &ObservedHop) -> Option<u64> {
    let own = hop.answers.first()?;
    own.rtts_ns.iter().min().copied()
}

/// Returns for each hop the minimum of its floor and all later ones.
fn compute_rtt_bounds(floors: &[Option<u64>]) -> Vec<Option<u64>> {
    let mut least = None;
    let mut found: Vec<Option<u64>> = floors
        .iter()
        .rev()
        .map(|own| {
            least = [least, *own].into_iter().flatten().min();
            least
        })
        .collect();
    found.reverse();
    found
}

fn is_within_slack(own: u64, bound: u64) -> bool {
    let slack = SLACK_NS.max((bound as f64 * SLACK_RATIO) as u64);
    own.saturating_sub(bound) <= slack
}

fn classify_hop(route: &ObservedRoute, place: usize, truthful: bool) -> &'static str {
    let hop = &route.hops[place];
    let Some(own) = hop.answers.first() else {
        return if hop.rate_limited { "rate_limited" } else { "silent" };
    };
    let same =
        |other: &ObservedHop| other.answers.first().map(|a| &a.address) == Some(&own.address);
    let repeats = place > 0 && same(&route.hops[place - 1]);
    if hop.rate_limited {
        "rate_limited"
    } else if repeats {
        "stutter"
    } else if own.quoted_ttl.is_some_and(|ttl| ttl > 1) {
        "tunnel"
    } else if truthful {
        "answers"
    } else {
        "slow_answers"
    }
}

/// The number of attempts without an answer after which a size counts as not passing.
const MIN_ATTEMPTS: u32 = 2;

/// Returns `None` if no size arrived.
pub fn derive_path_mtu(search: &MtuSearch) -> Option<PathMtu> {
    let arrived = |probe: &&MtuProbe| probe.arrived > 0;
    let bytes = search.probes.iter().filter(arrived).map(|p| p.packet_bytes).max()?;
    let above = |probe: &&MtuProbe| probe.packet_bytes > bytes;
    let failed = |probe: &&MtuProbe| {
        probe.refused_mtu_bytes.is_some()
            || probe.refused_by.is_some()
            || probe.sent >= MIN_ATTEMPTS
    };
    let refused: Vec<&MtuProbe> = search.probes.iter().filter(above).filter(failed).collect();
    Some(PathMtu {
        bytes,
        refused_bytes: refused.iter().map(|probe| probe.packet_bytes).min(),
        black_hole: is_black_hole(search, &refused),
    })
}

/// Returns true if packets that this host may send are dropped silently. A router that refuses one
/// size explains the larger ones too.
fn is_black_hole(search: &MtuSearch, refused: &[&MtuProbe]) -> bool {
    let told = refused.iter().any(|probe| probe.refused_by.is_some());
    let sent = refused
        .iter()
        .any(|probe| probe.packet_bytes <= search.local_bytes && probe.refused_mtu_bytes.is_none());
    sent && !told
}

/// Summarizes the answered probes; `None` if none was answered.
pub fn summarize_rtt(echoes: &RoundTripSeries) -> Option<PathRtt> {
    let times =
        sort_finite(echoes.echoes.iter().filter_map(|echo| echo.rtt_ns).map(|ns| ns as f64));
    let answered = u32::try_from(times.len()).unwrap_or(u32::MAX);
    let (least, most) = (times.first()?, times.last()?);
    let (mean, deviation) = mean_and_deviation(&times).unwrap_or((*least, 0.0));
    let lost = echoes.sent.saturating_sub(answered);
    // At least as many were sent as answered.
    let sent = echoes.sent.max(answered);
    Some(PathRtt {
        sent,
        answered,
        min_ns: *least as u64,
        avg_ns: mean.round() as u64,
        max_ns: *most as u64,
        stddev_ns: deviation.round() as u64,
        median_ns: quantile(&times, 0.5)?.round() as u64,
        p95_ns: quantile(&times, 0.95).map(|ns| ns.round() as u64),
        loss_ratio: f64::from(lost) / f64::from(sent),
        loss_interval_ratio: mean_interval::proportion_interval(lost.into(), sent.into()),
        duplicates: echoes.duplicates,
        reordered: echoes.reordered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::path_test_builder::{build_answer, build_hop, build_route};

    /// RTTs by hop from San Jose to Lulea in the record submission of 12 September 2004.
    const RECORD_MS: [f64; 43] = [
        2.554, 3.927, 2.362, 2.496, 42.365, 42.429, 53.072, 53.176, 103.180, 103.314, 105.730,
        105.512, 125.224, 125.547, 148.753, 148.658, 148.627, 219.872, 369.752, 229.642, 403.593,
        239.534, 254.658, 245.388, 248.710, 261.456, 456.846, 253.476, 390.525, 322.420, 322.506,
        324.196, 324.173, 401.493, 409.121, 409.234, 416.407, 416.737, 416.692, 418.342, 421.155,
        436.836, 436.656,
    ];

    fn record() -> ObservedRoute {
        let mut all = build_route(&["10.0.0.1"; 43]);
        for (place, ms) in RECORD_MS.iter().enumerate() {
            let mut only = build_answer(&format!("10.0.0.{}", place + 1));
            only.rtts_ns = vec![(ms * 1e6) as u64];
            all.hops[place].answers = vec![only];
        }
        all
    }

    #[test]
    fn no_link_of_the_record_route_takes_negative_time() {
        let found = compute_hop_delays(&record());
        let sum: u64 = found.iter().filter_map(|hop| hop.link_ns).sum();
        assert!(sum <= 436_656_000, "links add up to the far end at most");
        // 369.752 ms at hop 19 come before 229.642 ms at hop 20.
        assert_eq!((found[18].link_ns, found[19].link_ns), (None, None));
        assert_eq!(found[18].state, "slow_answers");
        // The Atlantic leg cannot be determined, the leg of 40 ms behind hop 4 can.
        assert_eq!(found[4].state, "answers");
        let leg = found[4].link_ns.unwrap();
        assert!((39_000_000..41_000_000).contains(&leg), "{leg}");
    }

    #[test]
    fn a_link_behind_a_silent_hop_has_no_time_of_its_own() {
        let mut all = build_route(&["10.0.0.1", "", "10.0.0.3"]);
        all.hops[2].rate_limited = true;
        let found = compute_hop_delays(&all);
        let states: Vec<&str> = found.iter().map(|h| h.state.as_str()).collect();
        assert_eq!(states, ["answers", "silent", "rate_limited"]);
        assert!(found[0].link_ns.is_some());
        assert_eq!((found[1].link_ns, found[2].link_ns), (None, None));
    }

    #[test]
    fn one_router_at_two_hops_stutters_and_a_tunnel_shows_its_ttl() {
        let mut all = build_route(&["10.0.0.1", "10.0.0.1", "10.0.0.3"]);
        all.hops[2].answers[0].quoted_ttl = Some(3);
        let found = compute_hop_delays(&all);
        assert_eq!(
            [&found[1].state, &found[2].state],
            [&String::from("stutter"), &String::from("tunnel")]
        );
    }

    #[test]
    fn a_hop_that_answered_other_flows_only_has_no_floor() {
        let mut all = build_route(&["10.0.0.1", "10.0.0.2"]);
        all.hops[1] = build_hop(2, "10.0.0.2", &[]);
        assert_eq!(compute_hop_delays(&all)[1].rtt_min_ns, None);
    }

    proptest::proptest! {
        #[test]
        fn links_never_add_up_to_more_than_the_far_end(
            ms in proptest::collection::vec(proptest::option::of(0u64..500), 1..64),
        ) {
            let mut all = build_route(&vec!["10.0.0.1"; ms.len()]);
            for (place, rtt) in ms.iter().enumerate() {
                let address = format!("10.0.0.{}", place + 1);
                all.hops[place] = match rtt {
                    Some(ms) => build_hop(place as u8 + 1, &address, &[ms * 1_000_000]),
                    None => build_hop(place as u8 + 1, "", &[]),
                };
            }
            let sum: u64 = compute_hop_delays(&all).iter().filter_map(|hop| hop.link_ns).sum();
            let most = ms.iter().flatten().max().copied().unwrap_or(0);
            proptest::prop_assert!(sum <= most * 1_000_000);
        }
    }
}

#[cfg(test)]
mod mtu_analysis_tests {
    use super::*;

    /// Size, sent, arrived, refused by.
    fn search(probes: &[(u32, u32, u32, Option<&str>)]) -> MtuSearch {
        let probe = |&(packet_bytes, sent, arrived, by): &(u32, u32, u32, Option<&str>)| MtuProbe {
            packet_bytes,
            sent,
            arrived,
            refused_by: by.map(str::to_owned),
            refused_mtu_bytes: by.map(|_| 1500),
        };
        MtuSearch { local_bytes: 9000, probes: probes.iter().map(probe).collect() }
    }

    fn found(bytes: u32, refused: Option<u32>, black_hole: bool) -> PathMtu {
        PathMtu { bytes, refused_bytes: refused, black_hole }
    }

    #[test]
    fn sizes_that_arrive_bound_it_from_below_and_refused_ones_from_above() {
        let told =
            search(&[(9000, 1, 0, Some("10.1.0.1")), (1500, 1, 1, None), (1501, 3, 0, None)]);
        assert_eq!(derive_path_mtu(&told), Some(found(1500, Some(1501), false)));
        let vanished = search(&[(9000, 3, 0, None), (1500, 3, 2, None), (4000, 3, 0, None)]);
        assert_eq!(derive_path_mtu(&vanished), Some(found(1500, Some(4000), true)));
        assert_eq!(derive_path_mtu(&search(&[(9000, 1, 1, None)])), Some(found(9000, None, false)));
        assert_eq!(derive_path_mtu(&search(&[(1500, 3, 0, None)])), None);
    }

    #[test]
    fn one_lost_packet_is_no_black_hole() {
        let lost = search(&[(9000, 1, 0, None), (8000, 2, 1, None)]);
        assert_eq!(derive_path_mtu(&lost), Some(found(8000, None, false)));
    }

    #[test]
    fn what_the_own_host_refuses_is_no_black_hole() {
        let large = search(&[(9000, 2, 2, None), (9600, 3, 0, None)]);
        assert_eq!(derive_path_mtu(&large), Some(found(9000, Some(9600), false)));
    }
}

#[cfg(test)]
mod rtt_summary_tests {
    use super::*;
    use longhaul_model::report::v1::path::{ProbeEcho, ProbeProtocol};

    fn echoes(rtts_us: &[Option<u64>]) -> RoundTripSeries {
        RoundTripSeries {
            protocol: ProbeProtocol::Icmp,
            clock: String::from("kernel"),
            packet_bytes: 84,
            sent: rtts_us.len() as u32,
            echoes: rtts_us
                .iter()
                .map(|us| ProbeEcho { at_us: 0, rtt_ns: us.map(|us| us * 1000), ttl: None })
                .collect(),
            duplicates: 1,
            reordered: 2,
            discarded: 0,
        }
    }

    /// The three pings from San Jose to Lulea in the record submission of 12 September 2004.
    #[test]
    fn the_pings_of_the_record_are_summed_up() {
        let rtt = summarize_rtt(&echoes(&[Some(436_593), Some(436_647), Some(436_626)])).unwrap();
        assert_eq!((rtt.sent, rtt.answered), (3, 3));
        assert_eq!([rtt.min_ns, rtt.max_ns], [436_593_000, 436_647_000]);
        assert_eq!([rtt.avg_ns, rtt.median_ns], [436_622_000, 436_626_000]);
        // The submission has 0.027 ms, also with the divisor n − 1.
        assert_eq!(rtt.stddev_ns / 1000, 27);
        assert!(rtt.loss_ratio.abs() < f64::EPSILON);
        assert_eq!((rtt.duplicates, rtt.reordered), (1, 2));
    }

    #[test]
    fn loss_has_an_interval_and_no_answer_is_no_round_trip() {
        let rtt = summarize_rtt(&echoes(&[Some(5), None, Some(7), None])).unwrap();
        assert!((rtt.loss_ratio - 0.5).abs() < f64::EPSILON);
        let [low, high] = rtt.loss_interval_ratio;
        assert!(low > 0.1 && high < 0.9, "{low} {high}");
        assert_eq!(summarize_rtt(&echoes(&[None, None])), None);
        assert_eq!(summarize_rtt(&echoes(&[])), None);
    }

    #[test]
    fn more_answers_than_probes_are_no_negative_loss() {
        let mut garbled = echoes(&[Some(5), Some(6)]);
        garbled.sent = 1;
        let rtt = summarize_rtt(&garbled).unwrap();
        assert!(rtt.loss_ratio.abs() < f64::EPSILON);
    }
}
