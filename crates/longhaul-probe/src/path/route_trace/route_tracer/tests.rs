//! Whole traces over paths that are known, on virtual time.

use super::*;
use longhaul_model::report::v1::path::{HopReply, MplsLabel};

/// One hop of a known path.
#[derive(Clone, Copy)]
struct Truth {
    rtt_ms: u64,
    silent: bool,
    /// Answers a second.
    limit: Option<f64>,
}

const fn hop(rtt_ms: u64) -> Truth {
    Truth { rtt_ms, silent: false, limit: None }
}

const SILENT: Truth = Truth { silent: true, ..hop(0) };

/// The last hop is the far end.
struct Path {
    hops: Vec<Truth>,
    /// Addresses that differ from those by TTL, for loops.
    address: fn(usize) -> IpAddr,
    /// The last hop says this.
    last: ReplyKind,
    /// It is the destination.
    arrives: bool,
    tokens: Vec<f64>,
    burst: Vec<f64>,
    filled: Vec<Duration>,
}

fn numbered(index: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, index as u8 + 1])
}

const DESTINATION: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 9));

fn path(hops: Vec<Truth>) -> Path {
    Path {
        tokens: vec![0.0; hops.len()],
        burst: vec![1.0; hops.len()],
        filled: vec![Duration::ZERO; hops.len()],
        hops,
        address: numbered,
        last: ReplyKind::PortUnreachable,
        arrives: true,
    }
}

impl Path {
    fn answer(&mut self, number: u16, ttl: u8, now: Duration) -> Option<(Duration, HopEcho)> {
        let index = (usize::from(ttl) - 1).min(self.hops.len() - 1);
        let truth = self.hops[index];
        let is_last = index + 1 == self.hops.len();
        if truth.silent || !self.permits(index, now) {
            return None;
        }
        let rtt = Duration::from_millis(truth.rtt_ms);
        let address = if is_last && self.arrives { DESTINATION } else { (self.address)(index) };
        let kind = if is_last { self.last } else { ReplyKind::TimeExceeded };
        let reply = HopReply {
            address: address.to_string(),
            rtts_ns: vec![rtt.as_nanos() as u64],
            reply_ttl: Some(60),
            quoted_ttl: is_last.then(|| ttl - index as u8),
            kind: kind.as_str().to_owned(),
            mpls: vec![MplsLabel { label: 17, traffic_class: 0, ttl: 1 }],
            ..HopReply::default()
        };
        let echo = HopEcho { number, rtt, address, kind, reply };
        Some((now + rtt, echo))
    }

    fn permits(&mut self, index: usize, now: Duration) -> bool {
        let Some(limit) = self.hops[index].limit else {
            return true;
        };
        let passed = now.saturating_sub(self.filled[index]).as_secs_f64();
        self.filled[index] = now;
        let tokens = (self.tokens[index] + passed * limit).min(self.burst[index]);
        let permitted = tokens >= 1.0;
        self.tokens[index] = if permitted { tokens - 1.0 } else { tokens };
        permitted
    }

    /// Traces to the end; when each probe was sent, and how long it took.
    fn trace(
        &mut self,
        asked: &TracePlan,
        most_time: Duration,
    ) -> (RouteTracer, Vec<(u8, Duration)>, Duration) {
        let mut tracer = RouteTracer::new(asked, DESTINATION, most_time);
        let mut answers: Vec<(Duration, HopEcho)> = Vec::new();
        let (mut now, mut sends) = (Duration::ZERO, Vec::new());
        loop {
            match tracer.next_step(now) {
                TraceStep::Done => return (tracer, sends, now),
                TraceStep::Send { ttl, .. } => {
                    sends.push((ttl, now));
                    let number = sends.len() as u16;
                    tracer.record_sent(number, ttl, now);
                    answers.extend(self.answer(number, ttl, now));
                    answers.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
                }
                TraceStep::Wait(until) => match answers.pop() {
                    Some((at, echo)) if at <= until => {
                        now = now.max(at);
                        tracer.record_answer(&echo);
                    }
                    later => {
                        answers.extend(later);
                        assert!(until > now, "a wait that does not end at {now:?}");
                        now = until;
                    }
                },
            }
        }
    }
}

fn asked() -> TracePlan {
    TracePlan { most_hops: 64, probes: 3, timeout_us: 2_000_000, confidence_ratio: None }
}

const MINUTE: Duration = Duration::from_secs(60);

/// 43 hops to 440 ms, some silent.
fn long() -> Vec<Truth> {
    let silent = [8, 16, 23, 24, 31];
    (1..=43).map(|ttl| if silent.contains(&ttl) { SILENT } else { hop(ttl * 440 / 43) }).collect()
}

#[test]
fn a_long_route_with_silent_hops_is_traced_whole_in_a_few_seconds() {
    let (tracer, sends, time) = path(long()).trace(&asked(), MINUTE);
    let seen = tracer.snapshot();
    assert_eq!((seen.hops.len(), seen.reached, seen.ended_by), (43, true, "reached"));
    for hop in &seen.hops {
        let silent = [8, 16, 23, 24, 31].contains(&hop.ttl);
        assert_eq!((hop.sent, hop.answers.is_empty()), (3, silent), "{}", hop.ttl);
        assert!(!hop.rate_limited);
        if !silent {
            assert_eq!(hop.answers[0].rtts_ns.len(), 3);
        }
    }
    assert_eq!(seen.hops[42].answers[0].kind, "port_unreachable");
    assert!(time < Duration::from_secs(7), "{time:?}");
    // Few run past the end, where answers are counted.
    assert!(sends.iter().filter(|(ttl, _)| *ttl > 43).count() <= 1, "{sends:?}");
}

#[test]
fn no_hop_is_asked_faster_than_its_gap_and_no_window_is_overrun() {
    let (_, sends, _) = path(long()).trace(&asked(), MINUTE);
    for ttl in 1..=43 {
        let times: Vec<_> = sends.iter().filter(|(to, _)| *to == ttl).collect();
        let spaced = times.windows(2).all(|pair| pair[1].1 >= pair[0].1 + HOP_GAP);
        assert!(spaced, "{ttl}: {times:?}");
    }
    assert!(sends.windows(2).all(|pair| pair[1].1 >= pair[0].1 + SEND_GAP));
}

#[test]
fn thirty_silent_hops_and_no_far_end_end_as_silent() {
    let hops = [vec![hop(10), hop(20)], vec![SILENT; 60]].concat();
    let (tracer, sends, time) = path(hops).trace(&asked(), MINUTE);
    let seen = tracer.snapshot();
    assert_eq!((seen.reached, seen.ended_by), (false, "silent"));
    assert_eq!(seen.hops.len(), 2 + SILENT_GAP);
    assert!(sends.iter().any(|(ttl, _)| *ttl == 64), "the far end is tried");
    assert!(time < Duration::from_secs(8), "{time:?}");
}

#[test]
fn a_far_end_behind_thirty_silent_hops_is_found() {
    let hops = [vec![hop(10), hop(20)], vec![SILENT; 31], vec![hop(200)]].concat();
    let (tracer, _, time) = path(hops).trace(&asked(), MINUTE);
    let seen = tracer.snapshot();
    assert_eq!((seen.hops.len(), seen.ended_by), (34, "reached"));
    assert!(time < Duration::from_secs(12), "{time:?}");
}

#[test]
fn a_limit_of_answers_is_not_called_loss() {
    let mut hops = vec![hop(5); 6];
    hops[2].limit = Some(1.0);
    let mut path = path(hops);
    path.tokens[2] = 1.0;
    let (tracer, _, _) = path.trace(&asked(), MINUTE);
    let limited: Vec<bool> = tracer.snapshot().hops.iter().map(|hop| hop.rate_limited).collect();
    assert_eq!(limited, [false, false, true, false, false, false]);
}

#[test]
fn a_far_end_that_limits_errors_as_linux_does_answers_all_probes() {
    // Six at once, then one a second.
    for rtt_ms in [1, 20, 160] {
        let mut path = path(vec![hop(rtt_ms); 4]);
        path.hops[3].limit = Some(1.0);
        (path.burst[3], path.tokens[3]) = (6.0, 6.0);
        let (tracer, _, _) = path.trace(&asked(), MINUTE);
        assert_eq!(tracer.snapshot().hops[3].answers[0].rtts_ns.len(), 3, "{rtt_ms}");
    }
}

#[test]
fn a_router_without_a_way_on_ends_the_trace() {
    let mut barred = path(vec![hop(5), hop(9), hop(12)]);
    barred.last = ReplyKind::NetUnreachable;
    barred.arrives = false;
    let (tracer, sends, _) = barred.trace(&asked(), MINUTE);
    let seen = tracer.snapshot();
    assert_eq!((seen.reached, seen.ended_by, seen.hops.len()), (false, "unreachable", 3));
    assert_eq!(seen.hops[2].answers[0].kind, "net_unreachable");
    assert!(sends.len() < 20);
}

#[test]
fn routers_that_come_again_and_again_are_a_loop() {
    let mut looping = path(vec![hop(8); 255]);
    looping.arrives = false;
    looping.last = ReplyKind::TimeExceeded;
    looping.address = |index| numbered(if index < 4 { index } else { 4 + index % 2 });
    let (tracer, sends, _) = looping.trace(&asked(), MINUTE);
    assert_eq!(tracer.snapshot().ended_by, "loop");
    assert!(sends.len() < 150, "{}", sends.len());
}

#[test]
fn time_and_hops_bound_every_trace() {
    let most = Duration::from_millis(700);
    let (tracer, _, time) = path(long()).trace(&asked(), most);
    assert!(time <= most);
    // The far end answered in this time, though not every hop was asked thrice.
    assert_eq!(tracer.snapshot().ended_by, "reached");
    let mut few = asked();
    few.most_hops = 5;
    let (tracer, _, _) = path(long()).trace(&few, MINUTE);
    let seen = tracer.snapshot();
    assert_eq!((seen.hops.len(), seen.ended_by), (5, "most_hops"));
}

#[test]
fn one_at_a_time_leaves_no_two_waiting() {
    let mut tracer = RouteTracer::new(&asked(), DESTINATION, MINUTE);
    tracer.limit_to_one_probe();
    let TraceStep::Send { ttl, .. } = tracer.next_step(Duration::ZERO) else {
        panic!("nothing to send");
    };
    tracer.record_sent(1, ttl, Duration::ZERO);
    let mut now = Duration::ZERO;
    while let TraceStep::Wait(until) = tracer.next_step(now) {
        now = until;
    }
    assert_eq!(now, Duration::from_micros(asked().timeout_us));
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut path = path(vec![hop(5); 3]);
    let (mut tracer, _, _) = path.trace(&asked(), MINUTE);
    let before = tracer.snapshot().hops;
    let (_, forged) = path.answer(9999, 2, Duration::ZERO).expect("an answer");
    tracer.record_answer(&forged);
    assert_eq!(tracer.snapshot().hops, before);
}
