//! The decisions of a session-reflector, without I/O: what it answers, how often, and how it counts.
//!
//! Nobody proves anything to a reflector without a key, so an answer is never longer than what it
//! answers, every source has a rate, and all tables have a fixed size. A packet that is itself an
//! answer is not answered: two reflectors would exchange it for ever.

use super::test_packet::{PacketCodec, TestReply};
use super::wire_time::{ErrorEstimate, encode_ntp_time};
use crate::measurement_server::SourcePrefix;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

/// The maximum rate of a source, and its burst: packets every millisecond.
const SOURCE_PACKETS_PER_SECOND: f64 = 1000.0;
/// The maximum rate of all sources together.
const TOTAL_PACKETS_PER_SECOND: f64 = 10_000.0;
/// The number of rates; sources whose hash is the same share one.
const RATE_SLOTS: usize = 4096;
/// The maximum number of sessions that are counted.
const MAX_SESSIONS: usize = 4096;
/// The time after which a silent session is forgotten (REFWAIT of RFC 5357, section 4.2).
const SESSION_TIMEOUT: Duration = Duration::from_secs(900);
/// The time after which a session of a single packet is forgotten if others need its place.
const SINGLE_PACKET_TIMEOUT: Duration = Duration::from_secs(2);

/// A packet that came, with its time and TTL.
#[derive(Debug, Clone, Copy)]
pub struct ReflectorArrival {
    pub from: SocketAddr,
    /// By the wall clock, in nanoseconds since 1970.
    pub received_ns: u64,
    pub ttl: u8,
}

/// A rate with a burst of one second.
#[derive(Debug, Clone, Copy, Default)]
struct PacketRate {
    /// Tokens spent, and when.
    spent: f64,
    at: Duration,
}

impl PacketRate {
    /// Takes a token of `per_second`, if there is one.
    fn take(&mut self, per_second: f64, now: Duration) -> bool {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.spent = (self.spent - passed * per_second).max(0.0);
        self.at = now;
        let granted = self.spent + 1.0 <= per_second;
        if granted {
            self.spent += 1.0;
        }
        granted
    }
}

/// The count of a session.
#[derive(Debug, Clone, Copy)]
struct CountedSession {
    answered: u32,
    last: Duration,
}

impl CountedSession {
    fn is_over(&self, now: Duration, single_packet_timeout: Duration) -> bool {
        let timeout = if self.answered > 1 { SESSION_TIMEOUT } else { single_packet_timeout };
        now.saturating_sub(self.last) > timeout
    }
}

/// The state of a reflector.
#[derive(Debug)]
pub struct ReflectorState {
    codec: PacketCodec,
    hasher: RandomState,
    rates: Vec<PacketRate>,
    total: PacketRate,
    /// By the sender's address and session identifier; `None` for a stateless reflector, which
    /// repeats the sequence numbers of the senders (RFC 8762, section 4.3).
    sessions: Option<HashMap<(SocketAddr, u16), CountedSession>>,
    swept: Duration,
}

impl ReflectorState {
    pub fn new(codec: PacketCodec, is_stateful: bool) -> ReflectorState {
        ReflectorState {
            codec,
            hasher: RandomState::new(),
            rates: vec![PacketRate::default(); RATE_SLOTS],
            total: PacketRate::default(),
            sessions: is_stateful.then(HashMap::new),
            swept: Duration::ZERO,
        }
    }

    /// Turns a packet into its answer; returns whether there is one. `now` is the time since any
    /// fixed moment; `clock` returns the wall clock, just before the answer leaves.
    pub fn answer(
        &mut self,
        packet: &mut [u8],
        arrival: &ReflectorArrival,
        now: Duration,
        error: ErrorEstimate,
        clock: impl FnOnce() -> u64,
    ) -> bool {
        if !self.is_within_rate(arrival.from, now) {
            return false;
        }
        let Some(request) = self.codec.decode_request(packet) else {
            return false;
        };
        if self.codec.is_reflected(packet) {
            return false;
        }
        let key = (arrival.from, request.session);
        let Some(sequence) = self.next_sequence(key, request.sequence, now) else {
            return false;
        };
        let reply = TestReply {
            sequence,
            timestamp: encode_ntp_time(clock()),
            error,
            received: encode_ntp_time(arrival.received_ns),
            request,
            request_ttl: arrival.ttl,
        };
        self.codec.encode_reply(&reply, packet);
        true
    }

    fn is_within_rate(&mut self, from: SocketAddr, now: Duration) -> bool {
        let host = SourcePrefix::from(from.ip()).host;
        let slot = self.hasher.hash_one(host) as usize % RATE_SLOTS;
        // A source beyond its rate takes nothing from the others.
        self.rates[slot].take(SOURCE_PACKETS_PER_SECOND, now)
            && self.total.take(TOTAL_PACKETS_PER_SECOND, now)
    }

    /// Returns the number of the answer to packet `number`; `None` if the reflector counts and the table
    /// is full.
    fn next_sequence(&mut self, key: (SocketAddr, u16), number: u32, now: Duration) -> Option<u32> {
        let Some(sessions) = &mut self.sessions else {
            return Some(number);
        };
        if let Some(session) = sessions.get_mut(&key).filter(|it| !it.is_over(now, SESSION_TIMEOUT))
        {
            let sequence = session.answered;
            *session = CountedSession { answered: sequence.wrapping_add(1), last: now };
            return Some(sequence);
        }
        let interval = Duration::from_secs(1);
        if sessions.len() >= MAX_SESSIONS && now.saturating_sub(self.swept) >= interval {
            self.swept = now;
            sessions.retain(|_, session| !session.is_over(now, SINGLE_PACKET_TIMEOUT));
        }
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(&key) {
            return None;
        }
        sessions.insert(key, CountedSession { answered: 1, last: now });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::test_packet::TestRequest;
    use crate::latency::wire_time::TimestampFormat;
    use longhaul_model::report::v1::latency::LatencyProtocol;
    use std::net::{IpAddr, Ipv4Addr};

    const RECEIVED_NS: u64 = 1_795_842_000_000_000_000;

    fn packet(sequence: u32) -> Vec<u8> {
        let request =
            TestRequest { sequence, timestamp: encode_ntp_time(RECEIVED_NS), error: 1, session: 7 };
        let mut packet = vec![0; 44];
        PacketCodec::new(None).encode_request(&request, LatencyProtocol::Stamp, &mut packet);
        packet
    }

    fn source(number: u32) -> SocketAddr {
        (IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number)), 40_000).into()
    }

    fn ask_packet(
        state: &mut ReflectorState,
        from: SocketAddr,
        mut packet: Vec<u8>,
        now_ms: u64,
    ) -> Option<TestReply> {
        let arrival = ReflectorArrival { from, received_ns: RECEIVED_NS, ttl: 250 };
        let error = ErrorEstimate {
            synchronized: false,
            format: TimestampFormat::Ntp,
            error: Duration::ZERO,
        };
        let now = Duration::from_millis(now_ms);
        let clock = || RECEIVED_NS + 5000;
        let is_answered = state.answer(&mut packet, &arrival, now, error, clock);
        is_answered.then(|| PacketCodec::new(None).decode_reply(&packet).expect("an answer"))
    }

    fn ask(
        state: &mut ReflectorState,
        from: SocketAddr,
        sequence: u32,
        now_ms: u64,
    ) -> Option<TestReply> {
        ask_packet(state, from, packet(sequence), now_ms)
    }

    fn reflector(is_stateful: bool) -> ReflectorState {
        ReflectorState::new(PacketCodec::new(None), is_stateful)
    }

    #[test]
    fn a_stateless_reflector_repeats_the_number_and_a_stateful_one_counts() {
        for (is_stateful, expected) in [(false, [5, 7, 9]), (true, [0, 1, 2])] {
            let mut state = reflector(is_stateful);
            let answers =
                [5, 7, 9].map(|number| ask(&mut state, source(1), number, 0).expect("an answer"));
            assert_eq!(answers.map(|answer| answer.sequence), expected);
            assert_eq!(answers.map(|answer| answer.request.sequence), [5, 7, 9]);
            assert_eq!(answers[0].received, encode_ntp_time(RECEIVED_NS));
            assert_eq!(answers[0].timestamp, encode_ntp_time(RECEIVED_NS + 5000));
            assert_eq!(answers[0].request_ttl, 250);
        }
    }

    #[test]
    fn sessions_are_counted_apart_and_forgotten_after_15_minutes() {
        let mut state = reflector(true);
        let mut count = |from, now_ms| ask(&mut state, from, 0, now_ms).map(|it| it.sequence);
        assert_eq!([count(source(1), 0), count(source(1), 0)], [Some(0), Some(1)]);
        assert_eq!(count(source(2), 0), Some(0));
        assert_eq!(count(source(1), 899_000), Some(2));
        assert_eq!(count(source(1), 1_800_000), Some(0));
    }

    #[test]
    fn a_source_has_a_rate_and_the_others_do_not_suffer() {
        let mut state = reflector(false);
        let answered =
            (0..3000).filter(|number| ask(&mut state, source(1), *number, 0).is_some()).count();
        assert_eq!(answered, 1000);
        assert!(ask(&mut state, source(1), 0, 1).is_some());
        assert!(ask(&mut state, source(1), 0, 1).is_none());
        // Three have not all the same hash.
        assert!((77..80).any(|other| ask(&mut state, source(other), 0, 1).is_some()));
    }

    #[test]
    fn a_flood_of_invented_sources_ends_at_the_total_rate() {
        let mut state = reflector(false);
        let answered = (0..50_000).filter(|from| ask(&mut state, source(*from), 0, 0).is_some());
        assert_eq!(answered.count(), 10_000);
    }

    #[test]
    fn a_full_table_keeps_the_sessions_that_last() {
        let mut state = reflector(true);
        for number in 0..2 {
            assert!(ask(&mut state, source(0), number, 0).is_some());
        }
        for from in 1..MAX_SESSIONS as u32 {
            assert!(ask(&mut state, source(from), 0, 0).is_some());
        }
        assert!(ask(&mut state, source(90_000), 0, 500).is_none());
        let replaced = ask(&mut state, source(90_000), 0, 3000);
        assert_eq!(replaced.map(|it| it.sequence), Some(0));
        assert_eq!(ask(&mut state, source(0), 2, 3000).map(|it| it.sequence), Some(2));
    }

    #[test]
    fn an_answer_is_not_answered() {
        let mut state = reflector(false);
        let mut packet = packet(1);
        let arrival = ReflectorArrival { from: source(1), received_ns: RECEIVED_NS, ttl: 1 };
        let error = ErrorEstimate::decode(0x8001);
        let clock = || RECEIVED_NS + 1_000_000;
        assert!(state.answer(&mut packet, &arrival, Duration::ZERO, error, clock));
        assert_eq!(ask_packet(&mut state, source(2), packet, 0), None);
    }
}
