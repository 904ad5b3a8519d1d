//! The decisions of a session-reflector, without I/O: what it answers, how often, and how it counts.
//!
//! Nobody proves anything to a reflector without a key or a session, so there an answer is never
//! longer than what it answers. Every source has a rate, and all tables have a fixed size. A packet
//! that is itself an answer is not answered: two reflectors would exchange it for ever.

use super::session_table::SharedTwampSessions;
use super::source_rates::SourceRates;
use super::test_packet::{PacketCodec, TestReply, TestRequest};
use super::wire_time::{ErrorEstimate, encode_ntp_time};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The maximum rate of a source, and its burst: packets every millisecond.
const SOURCE_PACKETS_PER_SECOND: f64 = 1000.0;
/// The maximum rate of all sources together.
const TOTAL_PACKETS_PER_SECOND: f64 = 10_000.0;
/// The maximum number of sessions of STAMP that are counted, and of sessions of TWAMP.
pub(super) const MAX_SESSIONS: usize = 4096;
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
    /// Of STAMP; `None` for a reflector that answers the sessions of TWAMP only.
    codec: Option<PacketCodec>,
    rates: SourceRates,
    /// By the sender's address and session identifier; `None` for a stateless reflector, which
    /// repeats the sequence numbers of the senders (RFC 8762, section 4.3).
    sessions: Option<HashMap<(SocketAddr, u16), CountedSession>>,
    swept: Duration,
    twamp: SharedTwampSessions,
}

impl ReflectorState {
    /// Creates a reflector for everybody whose packets `codec` reads, and for the sessions in `twamp`.
    pub fn new(
        codec: Option<PacketCodec>,
        is_stateful: bool,
        twamp: SharedTwampSessions,
    ) -> ReflectorState {
        ReflectorState {
            codec,
            rates: SourceRates::new(SOURCE_PACKETS_PER_SECOND, TOTAL_PACKETS_PER_SECOND),
            sessions: is_stateful.then(HashMap::new),
            swept: Duration::ZERO,
            twamp,
        }
    }

    /// Turns a packet into its answer; returns whether there is one. `now` is the time since any
    /// fixed moment; `clock` returns the wall clock, just before the answer leaves.
    pub fn answer(
        &mut self,
        packet: &mut Vec<u8>,
        arrival: &ReflectorArrival,
        now: Duration,
        error: ErrorEstimate,
        clock: impl FnOnce() -> u64,
    ) -> bool {
        if !self.rates.take(arrival.from.ip(), now) {
            return false;
        }
        let encode = |codec: &PacketCodec, request: TestRequest, sequence, packet: &mut Vec<u8>| {
            let reply = TestReply {
                sequence,
                timestamp: encode_ntp_time(clock()),
                error,
                received: encode_ntp_time(arrival.received_ns),
                request,
                request_ttl: arrival.ttl,
            };
            packet.resize(codec.reply_bytes(packet.len()), 0);
            codec.encode_reply(&reply, packet);
        };
        if let Some(session) = self.twamp.lock().find(arrival.from, now) {
            let Some(request) = read_request(&session.codec, packet) else {
                return false;
            };
            let sequence = session.next_sequence(now);
            encode(&session.codec, request, sequence, packet);
            return true;
        }
        let Some(request) = self.codec.as_ref().and_then(|codec| read_request(codec, packet))
        else {
            return false;
        };
        let key = (arrival.from, request.session);
        let Some(sequence) = self.next_sequence(key, request.sequence, now) else {
            return false;
        };
        if let Some(codec) = &self.codec {
            encode(codec, request, sequence, packet);
        }
        self.codec.is_some()
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

/// Returns the fields of a packet that is answered.
fn read_request(codec: &PacketCodec, packet: &[u8]) -> Option<TestRequest> {
    codec.decode_request(packet).filter(|_| !codec.is_reflected(packet))
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
        ReflectorState::new(
            Some(PacketCodec::new(None)),
            is_stateful,
            SharedTwampSessions::default(),
        )
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
