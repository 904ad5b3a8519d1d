//! State of a series of round trips: due times, matching of answers to probes, duplicates, late and
//! reordered answers. No socket and no clock.
//!
//! Bounds: a series of n probes ends after at most (n - 1) intervals and one timeout.

use crate::path::clock_pair::{ClockPair, stamp_to_monotonic};
use longhaul_model::report::v1::path::{ProbeEcho, ProbeProtocol, RoundTripSeries};
use longhaul_model::serde_name::name_variant;
use serde::Serialize;
use std::time::Duration;

/// The maximum number of probes of one series.
pub const MAX_PROBES: u32 = 100_000;
/// The minimum interval between probes.
pub const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The maximum timeout of the last answer.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Parameters of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoSchedule {
    pub probes: u32,
    pub interval: Duration,
    pub timeout: Duration,
    /// Ends the series early if none of this many first probes is answered in time.
    pub give_up_after: Option<u32>,
}

impl EchoSchedule {
    /// Returns the schedule with all values limited to what a series may use.
    pub fn clamped(self) -> EchoSchedule {
        EchoSchedule {
            probes: self.probes.min(MAX_PROBES),
            interval: self.interval.max(MIN_INTERVAL),
            timeout: self.timeout.min(MAX_TIMEOUT),
            give_up_after: self.give_up_after,
        }
    }
}

/// Source of the timestamps of a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RttClock {
    User,
    KernelReceive,
    Kernel,
}

/// Timing of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerTiming {
    /// Read by this program, with the kernel's receive timestamp if available.
    Read { moment: ClockPair, stamp: Option<Duration> },
    /// The whole round trip was already measured, with this clock.
    Measured { moment: ClockPair, rtt: Duration, clock: RttClock },
}

#[derive(Debug, Clone)]
struct SentEcho {
    sent: ClockPair,
    /// Transmit timestamp of the kernel, on the monotonic clock.
    transmitted: Option<Duration>,
    answer: Option<EchoAnswer>,
}

#[derive(Debug, Clone, Copy)]
struct EchoAnswer {
    at: Duration,
    by_kernel: bool,
    measured: Option<(Duration, RttClock)>,
    ttl: Option<u8>,
}

impl SentEcho {
    fn rtt(&self) -> Option<(Duration, RttClock)> {
        let answer = self.answer?;
        if answer.measured.is_some() {
            return answer.measured;
        }
        let left = self.transmitted.filter(|&left| left <= answer.at);
        let clock = match (left, answer.by_kernel) {
            (Some(_), true) => RttClock::Kernel,
            (None, true) => RttClock::KernelReceive,
            (_, false) => RttClock::User,
        };
        let from = left.unwrap_or(self.sent.monotonic);
        Some((answer.at.saturating_sub(from), clock))
    }

    fn echo(&self) -> ProbeEcho {
        let rtt = self.rtt().map(|(rtt, _)| rtt);
        ProbeEcho {
            at_us: self.sent.monotonic.as_micros() as u64,
            rtt_ns: rtt.map(|rtt| rtt.as_nanos() as u64),
            ttl: self.answer.and_then(|answer| answer.ttl),
        }
    }
}

/// A series in progress.
#[derive(Debug, Clone)]
pub struct EchoSeriesState {
    schedule: EchoSchedule,
    probes: Vec<SentEcho>,
    /// Highest number answered.
    highest_answered: Option<u32>,
    answered: u32,
    pub duplicates: u32,
    reordered: u32,
    pub discarded: u32,
    /// Number of probes whose outcome was reported.
    reported: usize,
    gave_up: bool,
}

impl EchoSeriesState {
    pub fn new(schedule: EchoSchedule) -> EchoSeriesState {
        EchoSeriesState {
            schedule: schedule.clamped(),
            probes: Vec::new(),
            highest_answered: None,
            answered: 0,
            duplicates: 0,
            reordered: 0,
            discarded: 0,
            reported: 0,
            gave_up: false,
        }
    }

    /// Returns the due time of the next probe, from the start; `None` if all are sent.
    pub fn due(&self) -> Option<Duration> {
        let number = self.probes.len() as u32;
        let more = number < self.schedule.probes && !self.gave_up;
        // Relative to the previous probe, so that a stall of this host causes no burst.
        more.then(|| match self.probes.last() {
            Some(last) => last.sent.monotonic + self.schedule.interval,
            None => Duration::ZERO,
        })
    }

    /// Returns the number of the next probe.
    pub fn next_number(&self) -> u32 {
        self.probes.len() as u32
    }

    /// Records that the next probe is sent now.
    pub fn record_sent(&mut self, moment: ClockPair) {
        self.probes.push(SentEcho { sent: moment, transmitted: None, answer: None });
    }

    /// Returns the time at which a probe was sent.
    pub fn sent_at(&self, number: u32) -> Option<ClockPair> {
        self.probes.get(number as usize).map(|probe| probe.sent)
    }

    /// Records the kernel's transmit timestamp of a probe; it was read at `read`.
    pub fn record_transmit_time(&mut self, number: u32, stamp: Duration, read: &ClockPair) {
        if let Some(probe) = self.probes.get_mut(number as usize) {
            probe.transmitted = stamp_to_monotonic(stamp, &probe.sent, read);
        }
    }

    /// Records an answer to a probe; returns whether it is the first, and in time.
    pub fn record_answer(&mut self, number: u32, came: AnswerTiming, ttl: Option<u8>) -> bool {
        let timeout = self.schedule.timeout;
        let Some(probe) = self.probes.get_mut(number as usize) else {
            self.discard();
            return false;
        };
        if probe.answer.is_some() {
            self.duplicates = self.duplicates.saturating_add(1);
            return false;
        }
        let answer = time_answer(&probe.sent, came, ttl);
        if answer.at.saturating_sub(probe.sent.monotonic) > timeout {
            self.discard();
            return false;
        }
        probe.answer = Some(answer);
        self.answered += 1;
        if self.highest_answered.is_some_and(|latest| number < latest) {
            self.reordered += 1;
        }
        self.highest_answered = self.highest_answered.max(Some(number));
        true
    }

    /// Counts a message that is no answer: forged, malformed, or stale.
    pub fn discard(&mut self) {
        self.discarded = self.discarded.saturating_add(1);
    }

    /// Returns the deadline of the outstanding answers; `None` while probes remain to be sent.
    pub fn answer_deadline(&self) -> Option<Duration> {
        if self.due().is_some() {
            return None;
        }
        let waiting = self.probes.iter().rev().find(|probe| probe.answer.is_none());
        Some(waiting.map_or(Duration::ZERO, |probe| probe.sent.monotonic + self.schedule.timeout))
    }

    /// Returns whether nothing remains to be sent or awaited.
    pub fn is_over(&mut self, now: Duration) -> bool {
        self.check_give_up(now);
        self.answer_deadline().is_some_and(|end| now >= end)
    }

    fn check_give_up(&mut self, now: Duration) {
        let Some(first) = self.schedule.give_up_after.filter(|_| self.answered == 0) else {
            return;
        };
        let last = first.checked_sub(1).and_then(|last| self.probes.get(last as usize));
        let silent = last.is_some_and(|probe| now >= probe.sent.monotonic + self.schedule.timeout);
        self.gave_up |= silent;
    }

    pub fn answered_probes(&self) -> u32 {
        self.answered
    }

    /// Returns the probes answered or given up since the last call, in sending order.
    pub fn take_settled(&mut self, now: Duration) -> Vec<ProbeEcho> {
        let timeout = self.schedule.timeout;
        let open = self.probes.iter().skip(self.reported);
        let settled: Vec<ProbeEcho> = open
            .take_while(|probe| probe.answer.is_some() || now >= probe.sent.monotonic + timeout)
            .map(SentEcho::echo)
            .collect();
        self.reported += settled.len();
        settled
    }

    /// Returns the clock of most answers.
    pub fn clock(&self) -> RttClock {
        let mut clocks: Vec<RttClock> =
            self.probes.iter().filter_map(|probe| probe.rtt().map(|(_, clock)| clock)).collect();
        clocks.sort_unstable();
        clocks.get(clocks.len() / 2).copied().unwrap_or(RttClock::User)
    }

    /// Returns the results of the series.
    pub fn echoes(&self, protocol: ProbeProtocol, packet_bytes: u32) -> RoundTripSeries {
        RoundTripSeries {
            protocol,
            clock: name_variant(&self.clock()).to_owned(),
            packet_bytes,
            sent: self.probes.len() as u32,
            echoes: self.probes.iter().map(SentEcho::echo).collect(),
            duplicates: self.duplicates,
            reordered: self.reordered,
            discarded: self.discarded,
        }
    }
}

fn time_answer(sent: &ClockPair, came: AnswerTiming, ttl: Option<u8>) -> EchoAnswer {
    match came {
        AnswerTiming::Measured { moment, rtt, clock } => {
            EchoAnswer { at: moment.monotonic, by_kernel: false, measured: Some((rtt, clock)), ttl }
        }
        AnswerTiming::Read { moment, stamp } => {
            let placed = stamp.and_then(|stamp| stamp_to_monotonic(stamp, sent, &moment));
            EchoAnswer {
                at: placed.unwrap_or(moment.monotonic),
                by_kernel: placed.is_some(),
                measured: None,
                ttl,
            }
        }
    }
}

#[cfg(test)]
mod tests;
