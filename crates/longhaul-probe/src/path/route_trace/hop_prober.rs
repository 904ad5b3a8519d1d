//! Sends single probes to the hops of a path, and matches the answers.

use super::TraceRequest;
use super::trace_socket::{TraceArrival, TraceSocket};
use crate::path::path_error::{PathError, protocol_name};
use crate::path::probe_packet::{self, ProbeFlow};
use crate::path::probe_reply::{
    ProbeReply, QuotedTransport, ReplyKind, ReplyReference, reply_matching,
};
use longhaul_model::report::v1::path::MplsLabel;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The maximum number of outstanding probes; older ones are given up.
const MAX_IN_FLIGHT: usize = 20_000;
/// The maximum timeout of an answer.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Relative movement of two clocks that means that one of them was set.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(1);

/// A matched answer to a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopEcho {
    /// Number of the probe, as returned by [`HopProber::send`].
    pub number: u16,
    pub ttl: u8,
    pub flow: u16,
    /// Measured with the kernel's receive timestamp if available.
    pub rtt: Duration,
    pub address: IpAddr,
    pub reply_ttl: Option<u8>,
    pub quoted_ttl: Option<u8>,
    pub kind: ReplyKind,
    pub mpls: Vec<MplsLabel>,
    pub rewritten: Vec<String>,
}

/// A probe in flight.
#[derive(Debug, Clone, Copy)]
struct InFlightProbe {
    ttl: u8,
    flow: u16,
    at: Instant,
    wall: Duration,
}

/// Sends probes to the hops of a path and receives the answers. Answers that match no outstanding
/// probe are counted and discarded.
pub struct HopProber {
    socket: TraceSocket,
    request: TraceRequest,
    timeout: Duration,
    sent: u32,
    discarded: u32,
    ambiguous: u32,
    in_flight: HashMap<u16, InFlightProbe>,
}

impl HopProber {
    /// # Errors
    /// A missing privilege, or no route to the destination.
    pub fn new(asked: &TraceRequest) -> Result<HopProber, PathError> {
        Ok(HopProber::with_socket(TraceSocket::open(asked)?, asked))
    }

    /// Creates a prober without raw-socket privileges.
    #[cfg(test)]
    pub(super) fn without_privilege(asked: &TraceRequest) -> Result<HopProber, PathError> {
        let socket = super::trace_socket::open_unprivileged(asked);
        let failed =
            |source| PathError::from_io_error("trace", asked.target.destination, source, None);
        Ok(HopProber::with_socket(socket.map_err(failed)?, asked))
    }

    fn with_socket(outlet: TraceSocket, asked: &TraceRequest) -> HopProber {
        HopProber {
            socket: outlet,
            request: asked.clone(),
            timeout: Duration::from_micros(asked.trace.timeout_us).min(MAX_TIMEOUT),
            sent: 0,
            discarded: 0,
            ambiguous: 0,
            in_flight: HashMap::new(),
        }
    }

    /// Sends one probe of the main flow and returns its number.
    pub fn send(&mut self, ttl: u8) -> Result<u16, PathError> {
        self.send_flow(0, ttl)
    }

    /// Sends one probe of another flow; requires [`HopProber::varies_flows`].
    pub fn send_flow(&mut self, flow: u16, ttl: u8) -> Result<u16, PathError> {
        self.drop_expired();
        let number = probe_packet::probe_key(self.sent);
        let probe = InFlightProbe { ttl, flow, at: Instant::now(), wall: wall_clock() };
        let sent = self.socket.send(&self.socket.flow.sibling_flow(flow), ttl, number);
        sent.map_err(|source| self.path_error("send probes", source))?;
        self.sent += 1;
        self.in_flight.insert(number, probe);
        Ok(number)
    }

    /// Returns the next answer, if one arrives before `until`.
    pub fn poll(&mut self, until: Instant) -> Result<Option<HopEcho>, PathError> {
        loop {
            let heard = self.socket.receive();
            let heard = heard.map_err(|source| self.path_error("receive answers", source))?;
            let nothing = heard.is_none();
            if let Some(echo) = heard.and_then(|heard| self.match_arrival(heard)) {
                return Ok(Some(echo));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if nothing {
                let waited = self.socket.wait(left);
                waited.map_err(|source| self.path_error("wait for answers", source))?;
            }
        }
    }

    /// Returns the flow of the probes.
    pub fn flow(&self) -> &ProbeFlow {
        &self.socket.flow
    }

    /// Returns whether other flows can be sent, which requires raw sockets.
    pub fn varies_flows(&self) -> bool {
        self.socket.varies_flows()
    }

    /// Returns the number of probes sent so far.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Returns the number of discarded answers: malformed, forged, late, or to probes never sent.
    pub fn discarded(&self) -> u32 {
        self.discarded
    }

    /// Returns the number of discarded answers that quote too little to be matched. They could be
    /// matched with a single outstanding probe.
    pub fn ambiguous(&self) -> u32 {
        self.ambiguous
    }

    fn path_error(&self, what: &str, source: std::io::Error) -> PathError {
        let what = format!("{what} with {} to", protocol_name(self.request.target.protocol));
        PathError::from_io_error(what, self.request.target.destination, source, None)
    }

    fn drop_expired(&mut self) {
        let timeout = self.timeout;
        if self.in_flight.len() >= MAX_IN_FLIGHT || self.sent.is_multiple_of(256) {
            self.in_flight.retain(|_, sent| sent.at.elapsed() < timeout);
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            self.in_flight.clear();
        }
    }

    fn match_arrival(&mut self, heard: TraceArrival) -> Option<HopEcho> {
        let now = Instant::now();
        let Some(reply) = heard.reply else {
            self.discard();
            return None;
        };
        let probe = if is_ambiguous(&reply) { self.only_probe() } else { self.find_probe(&reply) };
        let Some((number, sent)) = probe else {
            if self.is_for_our_flow(&reply) {
                self.discard();
                self.ambiguous += u32::from(is_ambiguous(&reply));
            }
            return None;
        };
        let times = ProbeTimes {
            waited: now.saturating_duration_since(sent.at),
            left: sent.wall,
            came: heard.at,
            now: wall_clock(),
        };
        let Some(rtt) = times.rtt().filter(|rtt| *rtt <= self.timeout) else {
            self.discard();
            return None;
        };
        self.in_flight.remove(&number);
        let flow = self.socket.flow.sibling_flow(sent.flow);
        Some(HopEcho {
            number,
            ttl: sent.ttl,
            flow: sent.flow,
            rtt,
            address: reply.from,
            reply_ttl: reply.ttl,
            quoted_ttl: quoted_ttl(&reply),
            kind: reply.kind,
            rewritten: reply_matching::find_rewritten_fields(&flow, number, &reply),
            mpls: reply.mpls,
        })
    }

    fn discard(&mut self) {
        self.discarded = self.discarded.saturating_add(1);
    }

    /// Returns the outstanding probe, if there is exactly one.
    fn only_probe(&mut self) -> Option<(u16, InFlightProbe)> {
        let timeout = self.timeout;
        self.in_flight.retain(|_, sent| sent.at.elapsed() < timeout);
        let mut probes = self.in_flight.iter();
        let (number, sent) = probes.next()?;
        probes.next().is_none().then_some((*number, *sent))
    }

    /// Returns the outstanding probe that the reply matches, in that probe's flow.
    fn find_probe(&self, reply: &ProbeReply) -> Option<(u16, InFlightProbe)> {
        let candidates = reply_matching::candidate_keys(reply);
        candidates.into_iter().flatten().find_map(|number| {
            let sent = *self.in_flight.get(&number)?;
            let flow = self.socket.flow.sibling_flow(sent.flow);
            (reply_matching::match_probe_key(&flow, reply) == Some(number))
                .then_some((number, sent))
        })
    }

    /// Returns whether the reply has our identifier, port or tag, so that it is not another
    /// program's.
    fn is_for_our_flow(&self, reply: &ProbeReply) -> bool {
        let flow = &self.socket.flow;
        match &reply.reference {
            ReplyReference::Echo { identifier, .. } => *identifier == flow.source_id,
            ReplyReference::Segment { .. } => true,
            ReplyReference::Quote(quote) => {
                let near = match quote.transport {
                    QuotedTransport::Hidden => return quote.ip.is_none(),
                    QuotedTransport::Icmp { identifier, .. } => identifier,
                    QuotedTransport::Udp { source_port, .. }
                    | QuotedTransport::Tcp { source_port, .. } => source_port,
                };
                near == flow.source_id || quote.mark.is_some_and(|mark| mark.tag == flow.tag)
            }
        }
    }
}

/// Returns whether an error of our socket quotes only headers, which the kernel removes.
fn is_ambiguous(reply: &ProbeReply) -> bool {
    match &reply.reference {
        ReplyReference::Quote(quote) => {
            quote.ip.is_none() && quote.mark.is_none() && quote.transport == QuotedTransport::Hidden
        }
        ReplyReference::Echo { .. } | ReplyReference::Segment { .. } => false,
    }
}

fn quoted_ttl(reply: &ProbeReply) -> Option<u8> {
    match &reply.reference {
        ReplyReference::Quote(quote) => quote.ip.map(|ip| ip.ttl),
        _ => None,
    }
}

/// Returns the wall clock, which the kernel also uses for timestamps.
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Send and receive times of a probe, by two clocks.
struct ProbeTimes {
    /// Monotonic time until this program read the answer.
    waited: Duration,
    /// Wall-clock time of sending.
    left: Duration,
    came: Option<Duration>,
    now: Duration,
}

impl ProbeTimes {
    /// Returns the round trip, to the kernel's time of arrival if there is one; `None` if the answer
    /// arrived before its probe was sent. Ignores a wall clock that was set meanwhile.
    fn rtt(&self) -> Option<Duration> {
        let by_wall = self.now.checked_sub(self.left);
        let steady = by_wall.is_some_and(|time| time.abs_diff(self.waited) <= MAX_CLOCK_STEP);
        match self.came {
            Some(came) if steady => {
                let rtt = came.checked_sub(self.left).filter(|rtt| !rtt.is_zero())?;
                Some(rtt.min(self.waited))
            }
            _ => Some(self.waited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(waited: u64, left: u64, came: Option<u64>, now: u64) -> ProbeTimes {
        let ms = Duration::from_millis;
        ProbeTimes { waited: ms(waited), left: ms(left), came: came.map(ms), now: ms(now) }
    }

    #[test]
    fn a_clock_set_in_between_and_an_answer_before_its_probe_give_no_wrong_time() {
        let ms = Duration::from_millis;
        // The kernel's timestamp excludes the time that the answer waited to be read.
        assert_eq!(times(30, 1000, Some(1020), 1030).rtt(), Some(ms(20)));
        // The wall clock was set back by 400 ms, or forward by 5 s.
        assert_eq!(times(30, 1000, Some(620), 630).rtt(), Some(ms(30)));
        assert_eq!(times(30, 1000, Some(6020), 6030).rtt(), Some(ms(30)));
        // No stamp.
        assert_eq!(times(30, 1000, None, 1030).rtt(), Some(ms(30)));
        // The answer arrived before the probe was sent.
        assert_eq!(times(30, 1000, Some(999), 1030).rtt(), None);
    }
}
