//! Sends single probes to the hops of a path, and matches the answers.

use super::TraceAsked;
use super::outlet::{Heard, Outlet};
use crate::path::error::{PathError, spoken};
use crate::path::packet::{self, Flow};
use crate::path::reply::{About, Kind, Reply, Transport, matching};
use longhaul_model::report::v1::path::MplsLabel;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The maximum number of outstanding probes; older ones are given up.
const MOST_IN_FLIGHT: usize = 20_000;
/// The maximum timeout of an answer.
const MOST_TIMEOUT: Duration = Duration::from_secs(60);
/// Relative movement of two clocks that means that one of them was set.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// A matched answer to a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopEcho {
    /// Number of the probe, as returned by [`HopProber::send`].
    pub number: u16,
    pub ttl: u8,
    pub flow: u16,
    /// Send time, since the prober was created.
    pub sent_at: Duration,
    /// Measured with the kernel's receive timestamp if available.
    pub rtt: Duration,
    pub kernel_time: bool,
    pub address: IpAddr,
    pub reply_ttl: Option<u8>,
    pub quoted_ttl: Option<u8>,
    pub kind: Kind,
    pub mpls: Vec<MplsLabel>,
    pub rewritten: Vec<String>,
}

/// A probe in flight.
#[derive(Debug, Clone, Copy)]
struct Sent {
    ttl: u8,
    flow: u16,
    at: Instant,
    wall: Duration,
}

/// Sends probes to the hops of a path and receives the answers. Answers that match no outstanding
/// probe are counted and discarded.
pub struct HopProber {
    outlet: Outlet,
    asked: TraceAsked,
    begin: Instant,
    timeout: Duration,
    sent: u32,
    discarded: u32,
    unplaced: u32,
    in_flight: HashMap<u16, Sent>,
}

impl HopProber {
    /// # Errors
    /// A missing privilege, or no route to the destination.
    pub fn new(asked: &TraceAsked) -> Result<HopProber, PathError> {
        Ok(HopProber::over(Outlet::open(asked)?, asked))
    }

    /// Creates a prober without raw-socket privileges.
    #[cfg(test)]
    pub(super) fn without_privilege(asked: &TraceAsked) -> Result<HopProber, PathError> {
        Ok(HopProber::over(Outlet::open_modest(asked)?, asked))
    }

    fn over(outlet: Outlet, asked: &TraceAsked) -> HopProber {
        HopProber {
            outlet,
            asked: asked.clone(),
            begin: Instant::now(),
            timeout: Duration::from_micros(asked.trace.timeout_us).min(MOST_TIMEOUT),
            sent: 0,
            discarded: 0,
            unplaced: 0,
            in_flight: HashMap::new(),
        }
    }

    /// Sends one probe of the main flow and returns its number.
    pub fn send(&mut self, ttl: u8) -> Result<u16, PathError> {
        self.send_flow(0, ttl)
    }

    /// Sends one probe of another flow; requires [`HopProber::varies_flows`].
    pub fn send_flow(&mut self, flow: u16, ttl: u8) -> Result<u16, PathError> {
        self.forget_old();
        let number = packet::key(self.sent);
        let probe = Sent {
            ttl,
            flow,
            at: Instant::now(),
            wall: wall(),
        };
        let sent = self.outlet.send(&self.outlet.flow.other(flow), ttl, number);
        sent.map_err(|source| self.trouble("send probes", source))?;
        self.sent += 1;
        self.in_flight.insert(number, probe);
        Ok(number)
    }

    /// Returns the next answer, if one arrives before `until`.
    pub fn poll(&mut self, until: Instant) -> Result<Option<HopEcho>, PathError> {
        loop {
            let heard = self.outlet.receive();
            let heard = heard.map_err(|source| self.trouble("hear the answers", source))?;
            let nothing = heard.is_none();
            if let Some(echo) = heard.and_then(|heard| self.believe(heard)) {
                return Ok(Some(echo));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if nothing {
                let waited = self.outlet.wait(left);
                waited.map_err(|source| self.trouble("wait for answers", source))?;
            }
        }
    }

    /// Returns the flow of the probes.
    pub fn flow(&self) -> &Flow {
        &self.outlet.flow
    }

    /// Returns whether other flows can be sent, which requires raw sockets.
    pub fn varies_flows(&self) -> bool {
        self.outlet.varies_flows()
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
    pub fn unplaced(&self) -> u32 {
        self.unplaced
    }

    fn trouble(&self, what: &str, source: std::io::Error) -> PathError {
        let what = format!("{what} by {} to", spoken(self.asked.protocol));
        PathError::of(what, self.asked.destination, source, None)
    }

    fn forget_old(&mut self) {
        let timeout = self.timeout;
        if self.in_flight.len() >= MOST_IN_FLIGHT || self.sent.is_multiple_of(256) {
            self.in_flight.retain(|_, sent| sent.at.elapsed() < timeout);
        }
        if self.in_flight.len() >= MOST_IN_FLIGHT {
            self.in_flight.clear();
        }
    }

    fn believe(&mut self, heard: Heard) -> Option<HopEcho> {
        let now = Instant::now();
        let Some(reply) = heard.reply else {
            self.discard();
            return None;
        };
        let probe = if says_too_little(&reply) {
            self.only_probe()
        } else {
            self.probe_of(&reply)
        };
        let Some((number, sent)) = probe else {
            if self.is_about_us(&reply) {
                self.discard();
                self.unplaced += u32::from(says_too_little(&reply));
            }
            return None;
        };
        let times = Times {
            waited: now.saturating_duration_since(sent.at),
            left: sent.wall,
            came: heard.at,
            now: wall(),
        };
        let Some((rtt, kernel_time)) = times.rtt().filter(|(rtt, _)| *rtt <= self.timeout) else {
            self.discard();
            return None;
        };
        self.in_flight.remove(&number);
        let flow = self.outlet.flow.other(sent.flow);
        Some(HopEcho {
            number,
            ttl: sent.ttl,
            flow: sent.flow,
            sent_at: sent.at.saturating_duration_since(self.begin),
            rtt,
            kernel_time,
            address: reply.from,
            reply_ttl: reply.ttl,
            quoted_ttl: quoted_ttl(&reply),
            kind: reply.kind,
            rewritten: matching::rewritten(&flow, number, &reply),
            mpls: reply.mpls,
        })
    }

    fn discard(&mut self) {
        self.discarded = self.discarded.saturating_add(1);
    }

    /// Returns the outstanding probe, if there is exactly one.
    fn only_probe(&mut self) -> Option<(u16, Sent)> {
        let timeout = self.timeout;
        self.in_flight.retain(|_, sent| sent.at.elapsed() < timeout);
        let mut probes = self.in_flight.iter();
        let (number, sent) = probes.next()?;
        probes.next().is_none().then_some((*number, *sent))
    }

    /// Returns the outstanding probe that the reply matches, in that probe's flow.
    fn probe_of(&self, reply: &Reply) -> Option<(u16, Sent)> {
        let candidates = matching::candidates(reply);
        candidates.into_iter().flatten().find_map(|number| {
            let sent = *self.in_flight.get(&number)?;
            let flow = self.outlet.flow.other(sent.flow);
            (matching::key(&flow, reply) == Some(number)).then_some((number, sent))
        })
    }

    /// Returns whether the reply has our identifier, port or tag, so that it is not another
    /// program's.
    fn is_about_us(&self, reply: &Reply) -> bool {
        let flow = &self.outlet.flow;
        match &reply.about {
            About::Echo { identifier, .. } => *identifier == flow.near,
            About::Segment { .. } => true,
            About::Quote(quote) => {
                let near = match quote.transport {
                    Transport::Hidden => return quote.ip.is_none(),
                    Transport::Icmp { identifier, .. } => identifier,
                    Transport::Udp { source_port, .. } | Transport::Tcp { source_port, .. } => {
                        source_port
                    }
                };
                near == flow.near || quote.mark.is_some_and(|mark| mark.tag == flow.tag)
            }
        }
    }
}

/// Returns whether an error of our socket quotes only headers, which the kernel removes.
fn says_too_little(reply: &Reply) -> bool {
    match &reply.about {
        About::Quote(quote) => {
            quote.ip.is_none() && quote.mark.is_none() && quote.transport == Transport::Hidden
        }
        About::Echo { .. } | About::Segment { .. } => false,
    }
}

fn quoted_ttl(reply: &Reply) -> Option<u8> {
    match &reply.about {
        About::Quote(quote) => quote.ip.map(|ip| ip.ttl),
        _ => None,
    }
}

/// Returns the wall clock, which the kernel also uses for timestamps.
fn wall() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Send and receive times of a probe, by two clocks.
struct Times {
    /// Monotonic time until this program read the answer.
    waited: Duration,
    /// Wall-clock time of sending.
    left: Duration,
    came: Option<Duration>,
    now: Duration,
}

impl Times {
    /// Returns the round trip, and whether the kernel timed its end; `None` if the answer arrived
    /// before its probe was sent. Ignores a wall clock that was set meanwhile.
    fn rtt(&self) -> Option<(Duration, bool)> {
        let by_wall = self.now.checked_sub(self.left);
        let steady = by_wall.is_some_and(|time| time.abs_diff(self.waited) <= CLOCK_STEP);
        match self.came {
            Some(came) if steady => {
                let rtt = came.checked_sub(self.left).filter(|rtt| !rtt.is_zero())?;
                Some((rtt.min(self.waited), true))
            }
            _ => Some((self.waited, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(waited: u64, left: u64, came: Option<u64>, now: u64) -> Times {
        let ms = Duration::from_millis;
        Times {
            waited: ms(waited),
            left: ms(left),
            came: came.map(ms),
            now: ms(now),
        }
    }

    #[test]
    fn a_clock_set_in_between_and_an_answer_before_its_probe_give_no_wrong_time() {
        let ms = Duration::from_millis;
        // The kernel's timestamp excludes the time that the answer waited to be read.
        assert_eq!(
            times(30, 1000, Some(1020), 1030).rtt(),
            Some((ms(20), true))
        );
        // The wall clock was set back by 400 ms, or forward by 5 s.
        assert_eq!(times(30, 1000, Some(620), 630).rtt(), Some((ms(30), false)));
        assert_eq!(
            times(30, 1000, Some(6020), 6030).rtt(),
            Some((ms(30), false))
        );
        // No stamp.
        assert_eq!(times(30, 1000, None, 1030).rtt(), Some((ms(30), false)));
        // The answer arrived before the probe was sent.
        assert_eq!(times(30, 1000, Some(999), 1030).rtt(), None);
    }
}
