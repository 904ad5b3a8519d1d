//! The results of a watch for each hop. No I/O; times count from the start of the watch.

use longhaul_model::report::v1::path::{HopReply, ObservedHop, ProbeEcho};
use longhaul_probe::path::route_trace::{HopEcho, first_answer};
use std::collections::VecDeque;
use std::time::Duration;

/// The number of hops probed beyond the last that answered, until the target answers.
const AHEAD: u8 = 8;
/// The number of answers kept per hop for the display and the report.
const MAX_HISTORY: usize = 600;
/// The maximum number of round trips to the target in the report.
const MAX_ECHOES: usize = 50_000;
/// The maximum number of addresses per hop.
const MAX_HOP_ADDRESSES: usize = 16;

/// One hop over all rounds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WatchHopStats {
    pub sent: u32,
    pub answered: u32,
    pub min_ns: Option<u64>,
    pub max_ns: Option<u64>,
    pub last_ns: Option<u64>,
    sum_ns: u128,
    /// The sum of differences between consecutive answers.
    steps_ns: u128,
    steps: u32,
    /// The latest answer of each address, the latest address last.
    pub answers: Vec<HopReply>,
    /// Round trips of the latest rounds; `None`: no answer.
    pub history: VecDeque<Option<u64>>,
    /// Number and send time of the probes without an answer yet.
    outstanding: VecDeque<(u16, Duration)>,
}

impl WatchHopStats {
    pub fn avg_ns(&self) -> Option<u64> {
        (self.answered > 0).then(|| (self.sum_ns / u128::from(self.answered)) as u64)
    }

    /// Returns the mean difference between consecutive round trips.
    pub fn jitter_ns(&self) -> Option<u64> {
        (self.steps > 0).then(|| (self.steps_ns / u128::from(self.steps)) as u64)
    }

    /// Returns the loss ratio of the probes that were answered or timed out.
    pub fn loss_ratio(&self) -> Option<f64> {
        let settled = self.sent - self.outstanding.len() as u32;
        let lost = settled.saturating_sub(self.answered);
        (settled > 0).then(|| f64::from(lost) / f64::from(settled))
    }

    fn push_history(&mut self, rtt: Option<u64>) {
        if self.history.len() == MAX_HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(rtt);
    }

    fn add_answer(&mut self, echo: &HopEcho) {
        let rtt = echo.rtt.as_nanos() as u64;
        self.answered += 1;
        self.sum_ns += u128::from(rtt);
        self.min_ns = Some(self.min_ns.map_or(rtt, |min| min.min(rtt)));
        self.max_ns = Some(self.max_ns.map_or(rtt, |max| max.max(rtt)));
        if let Some(last) = self.last_ns {
            self.steps_ns += u128::from(last.abs_diff(rtt));
            self.steps += 1;
        }
        self.last_ns = Some(rtt);
        self.push_history(Some(rtt));
        let answer = HopReply { rtts_ns: Vec::new(), ..first_answer(echo) };
        self.answers.retain(|other| other.address != answer.address);
        if self.answers.len() == MAX_HOP_ADDRESSES {
            self.answers.remove(0);
        }
        self.answers.push(answer);
    }

    /// Returns the hop as in a report: the latest address first, with all round trips.
    pub fn to_observed_hop(&self, ttl: u8) -> ObservedHop {
        let mut answers: Vec<HopReply> = self.answers.iter().rev().cloned().collect();
        if let Some(latest) = answers.first_mut() {
            latest.rtts_ns = self.history.iter().flatten().copied().collect();
        }
        ObservedHop { ttl, sent: self.history.len() as u32, answers, rate_limited: false }
    }
}

/// The state of a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchState {
    most_hops: u8,
    timeout: Duration,
    /// The hops by TTL, from 1.
    pub hops: Vec<WatchHopStats>,
    /// The TTL at which the target answers.
    pub reached: Option<u8>,
    pub rounds: u32,
    /// The TTL probed last in this round.
    probed: u8,
    /// Round trips to the target, in sending order.
    pub echoes: Vec<ProbeEcho>,
    pub paused: bool,
}

impl WatchState {
    pub fn new(most_hops: u8, timeout: Duration) -> WatchState {
        WatchState {
            most_hops,
            timeout,
            hops: Vec::new(),
            reached: None,
            rounds: 0,
            probed: 0,
            echoes: Vec::new(),
            paused: false,
        }
    }

    /// Returns the last TTL to probe, as far as is known.
    pub fn last_ttl(&self) -> u8 {
        if let Some(reached) = self.reached {
            return reached;
        }
        let last = self.hops.iter().rposition(|hop| hop.answered > 0);
        let last = last.map_or(0, |place| place as u8 + 1);
        self.most_hops.min(last.saturating_add(AHEAD))
    }

    /// Returns the hops up to the last one to probe.
    pub fn shown_hops(&self) -> &[WatchHopStats] {
        &self.hops[..usize::from(self.last_ttl()).min(self.hops.len())]
    }

    pub fn begin_round(&mut self) {
        self.rounds += 1;
        self.probed = 0;
    }

    /// Returns the TTL to probe next in this round.
    pub fn next_ttl(&self) -> Option<u8> {
        let next = self.probed.checked_add(1)?;
        (!self.paused && self.rounds > 0 && next <= self.last_ttl()).then_some(next)
    }

    /// Records a sent probe.
    pub fn record_sent(&mut self, ttl: u8, number: u16, at: Duration) {
        self.probed = ttl;
        while self.hops.len() < usize::from(ttl) {
            self.hops.push(WatchHopStats::default());
        }
        if let Some(hop) = self.hop(ttl) {
            hop.sent += 1;
            hop.outstanding.push_back((number, at));
        }
    }

    fn hop(&mut self, ttl: u8) -> Option<&mut WatchHopStats> {
        self.hops.get_mut(usize::from(ttl).checked_sub(1)?)
    }

    /// Records an answer; `reached` if the target sent it. An answer without an outstanding probe is
    /// ignored.
    pub fn record_answer(&mut self, echo: &HopEcho, reached: bool) {
        let Some(hop) = self.hop(echo.ttl) else {
            return;
        };
        let own = hop.outstanding.iter().position(|(number, _)| *number == echo.number);
        let Some((_, sent)) = own.and_then(|place| hop.outstanding.remove(place)) else {
            return;
        };
        hop.add_answer(echo);
        if reached && self.reached.is_none_or(|known| echo.ttl <= known) {
            if self.reached.is_some_and(|known| echo.ttl < known) {
                self.echoes.clear();
            }
            self.reached = Some(echo.ttl);
            self.hops.truncate(usize::from(echo.ttl));
        }
        if self.reached == Some(echo.ttl) {
            self.push_echo(sent, Some(echo.rtt.as_nanos() as u64));
        }
    }

    /// Counts probes as lost after the timeout.
    pub fn expire(&mut self, now: Duration) {
        let mut lost = Vec::new();
        for (place, hop) in self.hops.iter_mut().enumerate() {
            while let Some((_, sent)) = hop.outstanding.front().copied()
                && now.saturating_sub(sent) >= self.timeout
            {
                hop.outstanding.pop_front();
                hop.push_history(None);
                if self.reached == Some(place as u8 + 1) {
                    lost.push(sent);
                }
            }
        }
        for sent in lost {
            self.push_echo(sent, None);
        }
    }

    fn push_echo(&mut self, sent: Duration, rtt_ns: Option<u64>) {
        if self.echoes.len() < MAX_ECHOES {
            self.echoes.push(ProbeEcho { at_us: sent.as_micros() as u64, rtt_ns, ttl: None });
        }
    }

    /// Returns true if no probe is outstanding or due.
    pub fn has_no_outstanding(&self) -> bool {
        self.next_ttl().is_none() && self.hops.iter().all(|hop| hop.outstanding.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_probe::path::probe_reply::ReplyKind;
    use std::net::IpAddr;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn answer(number: u16, ttl: u8, rtt: Duration) -> HopEcho {
        HopEcho {
            number,
            ttl,
            flow: 0,
            rtt,
            address: IpAddr::from([192, 0, 2, ttl]),
            reply_ttl: None,
            quoted_ttl: None,
            kind: ReplyKind::EchoReply,
            mpls: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    /// Runs one round over `hops` hops, the last of which is the target.
    fn round(state: &mut WatchState, now: u64, hops: u8, rtt_ms: u64) {
        state.begin_round();
        while let Some(ttl) = state.next_ttl() {
            state.record_sent(ttl, 7, at(now));
            if ttl <= hops {
                state.record_answer(&answer(7, ttl, at(rtt_ms)), ttl == hops);
            }
        }
    }

    #[test]
    fn the_first_round_finds_the_far_end_and_later_ones_stop_there() {
        let mut state = WatchState::new(64, at(2000));
        round(&mut state, 0, 12, 10);
        assert_eq!((state.reached, state.hops.len()), (Some(12), 12));
        state.begin_round();
        let mut probed = 0;
        while let Some(ttl) = state.next_ttl() {
            state.record_sent(ttl, 1, at(1000));
            probed += 1;
        }
        assert_eq!(probed, 12);
    }

    #[test]
    fn silence_to_the_end_is_bounded() {
        let mut state = WatchState::new(64, at(2000));
        round(&mut state, 0, 0, 10);
        assert_eq!(state.hops.len(), usize::from(AHEAD));
        state.expire(at(2000));
        assert!(state.has_no_outstanding());
        assert_eq!(state.hops[0].loss_ratio(), Some(1.0));
        let mut few = WatchState::new(3, at(2000));
        round(&mut few, 0, 0, 10);
        assert_eq!(few.hops.len(), 3);
    }

    #[test]
    fn figures_follow_the_answers() {
        let mut state = WatchState::new(64, at(2000));
        for (place, rtt) in [10, 30, 20].into_iter().enumerate() {
            round(&mut state, place as u64 * 1000, 2, rtt);
        }
        let hop = &state.hops[1];
        assert_eq!((hop.sent, hop.answered), (3, 3));
        assert_eq!((hop.min_ns, hop.max_ns), (Some(10 * MS), Some(30 * MS)));
        assert_eq!((hop.avg_ns(), hop.last_ns), (Some(20 * MS), Some(20 * MS)));
        assert_eq!(hop.jitter_ns(), Some(15 * MS));
        assert_eq!(hop.loss_ratio(), Some(0.0));
        assert_eq!(state.echoes.len(), 3);
        assert_eq!(state.echoes[1].at_us, 1_000_000);
    }

    #[test]
    fn a_probe_is_lost_only_when_its_time_is_over() {
        let mut state = WatchState::new(64, at(2000));
        round(&mut state, 0, 1, 10);
        state.begin_round();
        state.record_sent(1, 8, at(1000));
        assert_eq!(state.hops[0].loss_ratio(), Some(0.0), "still under way");
        state.expire(at(2999));
        assert_eq!(state.hops[0].loss_ratio(), Some(0.0));
        state.expire(at(3000));
        assert_eq!(state.hops[0].loss_ratio(), Some(0.5));
        assert_eq!(state.hops[0].history, [Some(10 * MS), None]);
        // Later answers are ignored.
        state.record_answer(&answer(8, 1, at(2100)), true);
        assert_eq!(state.hops[0].answered, 1);
    }

    #[test]
    fn a_paused_watch_sends_nothing() {
        let mut state = WatchState::new(64, at(2000));
        state.begin_round();
        state.paused = true;
        assert_eq!(state.next_ttl(), None);
    }

    #[test]
    fn memory_is_bounded_however_long_it_lasts() {
        let mut state = WatchState::new(64, at(2000));
        for now in 0..2 * MAX_HISTORY as u64 {
            round(&mut state, now * 1000, 1, 10);
        }
        assert_eq!(state.hops[0].history.len(), MAX_HISTORY);
        assert_eq!(state.hops[0].answered, 2 * MAX_HISTORY as u32);
    }
}
