//! Sends single probes to the hops of a path, and matches the answers.

use super::TraceRequest;
use crate::path::clock_pair::{ClockPair, stamp_to_monotonic};
use crate::path::path_error::{PING_PRIVILEGE, PathError, RAW_PRIVILEGE, protocol_name};
use crate::path::path_socket::{PathArrival, PathMessage, PathSocket};
use crate::path::probe_packet;
use crate::path::probe_reply::{self, ProbeReply, ReplyKind};
use longhaul_model::report::v1::path::{HopReply, ProbeProtocol};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Number of source ports of a TCP trace, starting with that of the first flow.
const FLOWS: u16 = 256;
/// The maximum number of outstanding probes; older ones are given up.
const MAX_IN_FLIGHT: usize = 20_000;
/// The maximum timeout of an answer.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

const UDP_WITHOUT: &str = "trace with UDP, which needs no privilege, or grant CAP_NET_RAW: \
     `setcap cap_net_raw+ep $(command -v longhaul)`";
const ICMP_WITHOUT: &str = "trace with UDP, which needs no privilege, or permit pings: `sysctl -w \
                            net.ipv4.ping_group_range=\"0 2147483647\"`";

/// A matched answer to a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct HopEcho {
    /// Number of the probe, as returned by [`HopProber::send`].
    pub number: u16,
    /// Measured with the kernel's receive timestamp if available.
    pub rtt: Duration,
    pub address: IpAddr,
    pub kind: ReplyKind,
    /// The answer for the report.
    pub reply: HopReply,
}

/// A probe in flight.
#[derive(Debug, Clone, Copy)]
struct InFlightProbe {
    flow: u16,
    sent: ClockPair,
}

/// Sends probes to the hops of a path and receives the answers. Answers that match no outstanding
/// probe are counted and discarded.
pub struct HopProber {
    pub(super) socket: PathSocket,
    timeout: Duration,
    epoch: Instant,
    /// Number of probes so far.
    pub sent: u32,
    /// Number of discarded answers: malformed, forged, late, or to probes never sent.
    pub discarded: u32,
    /// Number of discarded answers that quote too little to be matched. They could be matched with
    /// a single outstanding probe.
    pub ambiguous: u32,
    in_flight: HashMap<u16, InFlightProbe>,
}

impl HopProber {
    /// # Errors
    /// A missing privilege, or no route to the destination.
    pub fn new(asked: &TraceRequest) -> Result<HopProber, PathError> {
        let target = &asked.target;
        let ports = if asked.trace.confidence_ratio.is_some() { FLOWS } else { 1 };
        let opened = match PathSocket::open_raw(target, ports) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                PathSocket::open_unprivileged(target, true)
            }
            opened => opened,
        };
        HopProber::with_socket(opened, asked)
    }

    /// Creates a prober without raw-socket privileges.
    #[cfg(test)]
    pub(super) fn without_privilege(asked: &TraceRequest) -> Result<HopProber, PathError> {
        HopProber::with_socket(PathSocket::open_unprivileged(&asked.target, true), asked)
    }

    fn with_socket(
        opened: io::Result<PathSocket>,
        asked: &TraceRequest,
    ) -> Result<HopProber, PathError> {
        let target = &asked.target;
        let right = match target.protocol {
            ProbeProtocol::Icmp => (PING_PRIVILEGE, ICMP_WITHOUT),
            ProbeProtocol::Udp | ProbeProtocol::Tcp => (RAW_PRIVILEGE, UDP_WITHOUT),
        };
        let socket = opened.map_err(|source| {
            let what = format!("trace the route with {} to", protocol_name(target.protocol));
            PathError::from_io_error(what, target.destination, source, Some(right))
        })?;
        Ok(HopProber {
            socket,
            timeout: Duration::from_micros(asked.trace.timeout_us).min(MAX_TIMEOUT),
            epoch: Instant::now(),
            sent: 0,
            discarded: 0,
            ambiguous: 0,
            in_flight: HashMap::new(),
        })
    }

    /// Sends one probe of the main flow and returns its number.
    pub fn send(&mut self, ttl: u8) -> Result<u16, PathError> {
        self.send_flow(0, ttl)
    }

    /// Sends one probe of another flow; requires [`PathSocket::varies_flows`].
    pub fn send_flow(&mut self, flow: u16, ttl: u8) -> Result<u16, PathError> {
        self.drop_expired();
        // Late answers to an earlier trace of the same flow have other numbers.
        let number = probe_packet::probe_key(self.socket.flow.tag.wrapping_add(self.sent));
        let probe = InFlightProbe { flow, sent: ClockPair::now(self.epoch) };
        match self.socket.send(&self.socket.flow.sibling_flow(flow), ttl, number, 0) {
            // A full queue on this host loses the probe like a full queue on the path.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(self.path_error("send probes", error));
            }
            _ => {}
        }
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
            if let Some(echo) = heard.and_then(|heard| self.match_arrival(&heard)) {
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

    fn path_error(&self, what: &str, source: io::Error) -> PathError {
        let flow = &self.socket.flow;
        let what = format!("{what} with {} to", protocol_name(flow.protocol));
        PathError::from_io_error(what, flow.destination, source, None)
    }

    fn drop_expired(&mut self) {
        if self.in_flight.len() >= MAX_IN_FLIGHT || self.sent.is_multiple_of(256) {
            self.retain_waiting();
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            self.in_flight.clear();
        }
    }

    fn retain_waiting(&mut self) {
        let (now, timeout) = (self.epoch.elapsed(), self.timeout);
        self.in_flight.retain(|_, probe| now < probe.sent.monotonic + timeout);
    }

    fn match_arrival(&mut self, heard: &PathArrival) -> Option<HopEcho> {
        let read = ClockPair::now(self.epoch);
        let reply = match &heard.message {
            PathMessage::Reply(reply) => reply,
            PathMessage::Malformed => {
                self.discard();
                return None;
            }
            PathMessage::Transmitted(_) => return None,
        };
        let number = if is_ambiguous(reply) { self.only_probe() } else { self.find_probe(reply) };
        let Some((number, probe)) =
            number.and_then(|number| self.in_flight.get(&number).map(|probe| (number, *probe)))
        else {
            if self.socket.is_own_reply(reply, heard.own) {
                self.discard();
                self.ambiguous += u32::from(is_ambiguous(reply));
            }
            return None;
        };
        let stamp = heard.at.and_then(|stamp| stamp_to_monotonic(stamp, &probe.sent, &read));
        let rtt = stamp.unwrap_or(read.monotonic).saturating_sub(probe.sent.monotonic);
        if rtt > self.timeout {
            self.discard();
            return None;
        }
        self.in_flight.remove(&number);
        let flow = self.socket.flow.sibling_flow(probe.flow);
        let (heard_from, kind) = (reply.from, reply.kind);
        let reply = HopReply {
            address: reply.from.to_string(),
            rtts_ns: vec![rtt.as_nanos() as u64],
            reply_ttl: reply.ttl,
            quoted_ttl: reply.probe.ip.map(|ip| ip.ttl),
            kind: reply.kind.as_str().to_owned(),
            mpls: reply.mpls.clone(),
            rewritten: probe_reply::find_rewritten_fields(&flow, number, reply),
            ..HopReply::default()
        };
        Some(HopEcho { number, rtt, address: heard_from, kind, reply })
    }

    fn discard(&mut self) {
        self.discarded = self.discarded.saturating_add(1);
    }

    /// Returns the number of the outstanding probe, if there is exactly one.
    fn only_probe(&mut self) -> Option<u16> {
        self.retain_waiting();
        let mut numbers = self.in_flight.keys();
        let number = *numbers.next()?;
        numbers.next().is_none().then_some(number)
    }

    /// Returns the number of the outstanding probe that the reply matches, in that probe's flow.
    fn find_probe(&self, reply: &ProbeReply) -> Option<u16> {
        probe_reply::find_probe_key(reply, |number| {
            self.in_flight.get(&number).map(|probe| self.socket.flow.sibling_flow(probe.flow))
        })
    }
}

/// Returns whether an error of our socket quotes only headers, which the kernel removes.
fn is_ambiguous(reply: &ProbeReply) -> bool {
    let probe = &reply.probe;
    probe.ip.is_none() && probe.mark.is_none() && probe.transport.is_none()
}
