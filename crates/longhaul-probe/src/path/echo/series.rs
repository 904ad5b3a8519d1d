//! State of a series of round trips: due times, matching of answers to probes, duplicates, late and
//! reordered answers. No socket and no clock.
//!
//! Bounds: a series of n probes ends after at most (n - 1) intervals and one timeout.

use super::moment::{Moment, place};
use longhaul_model::report::v1::path::{Echo, Echoes, Protocol};
use std::time::Duration;

/// The maximum number of probes of one series.
pub const MOST_PROBES: u32 = 100_000;
/// The minimum interval between probes.
pub const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// The maximum timeout of the last answer.
pub const MOST_TIMEOUT: Duration = Duration::from_secs(60);

/// Parameters of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    pub probes: u32,
    pub interval: Duration,
    pub timeout: Duration,
    /// Ends the series early if none of this many first probes is answered in time.
    pub give_up_after: Option<u32>,
}

impl Schedule {
    /// Returns the schedule with all values limited to what a series may use.
    pub fn bounded(self) -> Schedule {
        Schedule {
            probes: self.probes.min(MOST_PROBES),
            interval: self.interval.max(LEAST_INTERVAL),
            timeout: self.timeout.min(MOST_TIMEOUT),
            give_up_after: self.give_up_after,
        }
    }
}

/// Source of the timestamps of a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    User,
    KernelReceive,
    Kernel,
}

impl Clock {
    pub const fn word(self) -> &'static str {
        match self {
            Clock::User => "user",
            Clock::KernelReceive => "kernel_receive",
            Clock::Kernel => "kernel",
        }
    }
}

/// Timing of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// Read by this program, with the kernel's receive timestamp if available.
    Read {
        moment: Moment,
        stamp: Option<Duration>,
    },
    /// The whole round trip was already measured, with this clock.
    Measured {
        moment: Moment,
        rtt: Duration,
        clock: Clock,
    },
}

/// Classification of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Counts,
    Duplicate,
    /// Arrived after its timeout, or for a probe that was never sent.
    Discarded,
}

#[derive(Debug, Clone)]
struct Probe {
    sent: Moment,
    /// Transmit timestamp of the kernel, on the monotonic clock.
    left: Option<Duration>,
    answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    at: Duration,
    by_kernel: bool,
    measured: Option<(Duration, Clock)>,
    ttl: Option<u8>,
}

impl Probe {
    fn rtt(&self) -> Option<(Duration, Clock)> {
        let answer = self.answer?;
        if answer.measured.is_some() {
            return answer.measured;
        }
        let left = self.left.filter(|&left| left <= answer.at);
        let clock = match (left, answer.by_kernel) {
            (Some(_), true) => Clock::Kernel,
            (None, true) => Clock::KernelReceive,
            (_, false) => Clock::User,
        };
        let from = left.unwrap_or(self.sent.monotonic);
        Some((answer.at.saturating_sub(from), clock))
    }

    fn echo(&self) -> Echo {
        let rtt = self.rtt().map(|(rtt, _)| rtt);
        Echo {
            at_us: self.sent.monotonic.as_micros() as u64,
            rtt_ns: rtt.map(|rtt| rtt.as_nanos() as u64),
            ttl: self.answer.and_then(|answer| answer.ttl),
        }
    }
}

/// A series in progress.
#[derive(Debug, Clone)]
pub struct Series {
    schedule: Schedule,
    probes: Vec<Probe>,
    /// Highest number answered.
    latest: Option<u32>,
    answered: u32,
    duplicates: u32,
    reordered: u32,
    discarded: u32,
    /// Number of probes whose outcome was reported.
    told: usize,
    gave_up: bool,
}

impl Series {
    pub fn new(schedule: Schedule) -> Series {
        Series {
            schedule: schedule.bounded(),
            probes: Vec::new(),
            latest: None,
            answered: 0,
            duplicates: 0,
            reordered: 0,
            discarded: 0,
            told: 0,
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
    pub fn sent(&mut self, moment: Moment) {
        self.probes.push(Probe {
            sent: moment,
            left: None,
            answer: None,
        });
    }

    /// Records the kernel's transmit timestamp of a probe; it was read at `read`.
    pub fn left(&mut self, number: u32, stamp: Duration, read: &Moment) {
        if let Some(probe) = self.probes.get_mut(number as usize) {
            probe.left = place(stamp, &probe.sent, read);
        }
    }

    /// Records an answer to a probe.
    pub fn answer(&mut self, number: u32, came: Came, ttl: Option<u8>) -> Verdict {
        let timeout = self.schedule.timeout;
        let Some(probe) = self.probes.get_mut(number as usize) else {
            return self.discard();
        };
        if probe.answer.is_some() {
            self.duplicates = self.duplicates.saturating_add(1);
            return Verdict::Duplicate;
        }
        let answer = received(&probe.sent, came, ttl);
        if answer.at.saturating_sub(probe.sent.monotonic) > timeout {
            return self.discard();
        }
        probe.answer = Some(answer);
        self.answered += 1;
        if self.latest.is_some_and(|latest| number < latest) {
            self.reordered += 1;
        }
        self.latest = self.latest.max(Some(number));
        Verdict::Counts
    }

    /// Counts a message that is no answer: forged, malformed, or stale.
    pub fn discard(&mut self) -> Verdict {
        self.discarded = self.discarded.saturating_add(1);
        Verdict::Discarded
    }

    /// Returns the deadline of the outstanding answers; `None` while probes remain to be sent.
    pub fn ends(&self) -> Option<Duration> {
        if self.due().is_some() {
            return None;
        }
        let waiting = self
            .probes
            .iter()
            .rev()
            .find(|probe| probe.answer.is_none());
        Some(waiting.map_or(Duration::ZERO, |probe| {
            probe.sent.monotonic + self.schedule.timeout
        }))
    }

    /// Returns whether nothing remains to be sent or awaited.
    pub fn is_over(&mut self, now: Duration) -> bool {
        self.look_for_silence(now);
        self.ends().is_some_and(|end| now >= end)
    }

    fn look_for_silence(&mut self, now: Duration) {
        let Some(first) = self.schedule.give_up_after.filter(|_| self.answered == 0) else {
            return;
        };
        let last = first
            .checked_sub(1)
            .and_then(|last| self.probes.get(last as usize));
        let silent = last.is_some_and(|probe| now >= probe.sent.monotonic + self.schedule.timeout);
        self.gave_up |= silent;
    }

    /// Returns whether the series ended early because no first probe was answered.
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    pub fn answered(&self) -> u32 {
        self.answered
    }

    /// Returns the probes answered or given up since the last call, in sending order.
    pub fn settled(&mut self, now: Duration) -> Vec<Echo> {
        let timeout = self.schedule.timeout;
        let open = self.probes.iter().skip(self.told);
        let settled: Vec<Echo> = open
            .take_while(|probe| probe.answer.is_some() || now >= probe.sent.monotonic + timeout)
            .map(Probe::echo)
            .collect();
        self.told += settled.len();
        settled
    }

    /// Returns the clock of most answers.
    fn clock(&self) -> Clock {
        let mut clocks: Vec<Clock> = self
            .probes
            .iter()
            .filter_map(|probe| probe.rtt().map(|(_, clock)| clock))
            .collect();
        clocks.sort_unstable();
        clocks.get(clocks.len() / 2).copied().unwrap_or(Clock::User)
    }

    /// Returns the results of the series.
    pub fn echoes(&self, protocol: Protocol, packet_bytes: u32) -> Echoes {
        Echoes {
            protocol,
            clock: self.clock().word().to_owned(),
            packet_bytes,
            sent: self.probes.len() as u32,
            echoes: self.probes.iter().map(Probe::echo).collect(),
            duplicates: self.duplicates,
            reordered: self.reordered,
            discarded: self.discarded,
        }
    }
}

fn received(sent: &Moment, came: Came, ttl: Option<u8>) -> Answer {
    match came {
        Came::Measured { moment, rtt, clock } => Answer {
            at: moment.monotonic,
            by_kernel: false,
            measured: Some((rtt, clock)),
            ttl,
        },
        Came::Read { moment, stamp } => {
            let placed = stamp.and_then(|stamp| place(stamp, sent, &moment));
            Answer {
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
