//! Client-side state of a series of echoes with four timestamps each. No socket, no clock.
//!
//! An echo has four timestamps: sent here, received there, sent there, received here. The round
//! trip excludes the time that the server held the echo. Each one-way delay is known up to the
//! unknown offset of the two clocks.
//!
//! Error: some microseconds; the send time is taken just before the call.
//! Wrong when: the server's clock is erratic; impossible times (held longer than the whole round
//! trip) are not used, and the round trip then includes the holding time.

use super::probe_datagram::ProbeDatagramHeader;
use longhaul_model::report::v1::load::LoadProbe;
use longhaul_model::report::v1::path::ProbeEcho;
use std::collections::VecDeque;
use std::time::Duration;

/// Timeout after which an echo is lost, unless four round trips are longer.
const MIN_LOSS_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of remembered echoes, which distinguishes duplicate from late answers.
const MAX_REMEMBERED: usize = 4096;

/// An outstanding or recently answered echo.
#[derive(Debug, Clone, Copy)]
struct OutstandingEcho {
    index: u32,
    at_ns: u64,
    answered: bool,
}

/// A series in progress.
#[derive(Debug)]
pub(super) struct EchoTracker {
    number: u32,
    begin_ns: u64,
    loss_timeout: Duration,
    sent: VecDeque<OutstandingEcho>,
    next: u32,
    pub answered: u32,
    pub duplicates: u32,
    pub discarded: u32,
}

impl EchoTracker {
    /// Creates series `number` of the session, started at `begin_ns` of this host's clock.
    pub fn new(number: u32, begin_ns: u64, idle_rtt: Option<Duration>) -> EchoTracker {
        EchoTracker {
            number,
            begin_ns,
            loss_timeout: MIN_LOSS_TIMEOUT.max(idle_rtt.unwrap_or_default() * 4),
            sent: VecDeque::new(),
            next: 0,
            answered: 0,
            duplicates: 0,
            discarded: 0,
        }
    }

    /// Returns the number of the series in the datagrams.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of echoes sent so far, which is the index of the next one.
    pub fn sent_echoes(&self) -> u32 {
        self.next
    }

    pub fn loss_timeout(&self) -> Duration {
        self.loss_timeout
    }

    /// Records that the next echo was sent.
    pub fn record_sent(&mut self, at_ns: u64) {
        self.sent.push_back(OutstandingEcho { index: self.next, at_ns, answered: false });
        self.next = self.next.saturating_add(1);
    }

    /// Records a received echo; returns its result if it is the first answer.
    pub fn record_answer(
        &mut self,
        header: &ProbeDatagramHeader,
        at_ns: u64,
        hop_limit: Option<u8>,
    ) -> Option<LoadProbe> {
        let sent = self
            .sent
            .iter_mut()
            .find(|sent| sent.index == header.index && header.train == self.number);
        // A different send time in the answer means that it is forged.
        let Some(sent) = sent.filter(|sent| sent.at_ns == header.sent_ns && sent.at_ns <= at_ns)
        else {
            self.discarded += 1;
            return None;
        };
        if std::mem::replace(&mut sent.answered, true) {
            self.duplicates += 1;
            return None;
        }
        let at = sent.at_ns;
        self.answered += 1;
        Some(self.build_probe(header, at, at_ns, hop_limit))
    }

    fn build_probe(
        &self,
        header: &ProbeDatagramHeader,
        sent: u64,
        came: u64,
        hop_limit: Option<u8>,
    ) -> LoadProbe {
        let whole = came - sent;
        let kept = header.there_sent_ns.checked_sub(header.there_received_ns);
        let kept = kept.filter(|kept| *kept <= whole);
        let way = |from: u64, to: u64| {
            let time = i128::from(to) - i128::from(from);
            kept.and_then(|_| i64::try_from(time).ok())
        };
        LoadProbe {
            echo: ProbeEcho {
                at_us: self.at_us(sent),
                rtt_ns: Some(whole - kept.unwrap_or(0)),
                ttl: hop_limit,
            },
            forward_ns: way(sent, header.there_received_ns),
            reverse_ns: way(header.there_sent_ns, came),
        }
    }

    fn at_us(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.begin_ns) / 1000
    }

    /// Removes and returns the next echo that is lost at `now_ns`.
    pub fn take_lost(&mut self, now_ns: u64) -> Option<LoadProbe> {
        let patience = super::probe_clock::saturating_nanos(self.loss_timeout);
        loop {
            let oldest = self.sent.front()?;
            let late = now_ns.saturating_sub(oldest.at_ns) > patience;
            if !late && self.sent.len() <= MAX_REMEMBERED {
                return None;
            }
            let gone = self.sent.pop_front()?;
            if !gone.answered {
                return Some(LoadProbe {
                    echo: ProbeEcho { at_us: self.at_us(gone.at_ns), rtt_ns: None, ttl: None },
                    forward_ns: None,
                    reverse_ns: None,
                });
            }
        }
    }

    /// Returns whether every echo is answered or given up.
    pub fn is_settled(&self) -> bool {
        self.sent.iter().all(|sent| sent.answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probing::probe_datagram::DatagramKind;
    use proptest::prelude::*;

    fn answer(index: u32, sent_ns: u64, there: (u64, u64)) -> ProbeDatagramHeader {
        ProbeDatagramHeader {
            kind: DatagramKind::Echo,
            session: 0,
            train: 3,
            index,
            sent_ns,
            there_received_ns: there.0,
            there_sent_ns: there.1,
        }
    }

    #[test]
    fn a_round_trip_is_what_the_network_took_and_each_way_has_the_offset_in_it() {
        let mut series = EchoTracker::new(3, 1_000_000, None);
        series.record_sent(1_500_000);
        // The server's clock is 1 s ahead; 10 us forward, 5 us held, 20 us back.
        let header = answer(0, 1_500_000, (1_001_510_000, 1_001_515_000));
        let probe = series.record_answer(&header, 1_535_000, Some(61)).expect("an echo");
        assert_eq!((probe.echo.at_us, probe.echo.rtt_ns), (500, Some(30_000)));
        assert_eq!(probe.echo.ttl, Some(61));
        assert_eq!(probe.forward_ns, Some(1_000_010_000));
        assert_eq!(probe.reverse_ns, Some(20_000 - 1_000_000_000));
        assert!(series.is_settled());
    }

    #[test]
    fn times_of_a_liar_are_left_out_and_the_round_trip_stays() {
        for there in [(9, 3), (0, 50_000), (u64::MAX, 0), (0, u64::MAX)] {
            let mut series = EchoTracker::new(3, 0, None);
            series.record_sent(1000);
            let probe = series.record_answer(&answer(0, 1000, there), 41_000, None);
            let probe = probe.expect("an echo");
            assert_eq!(probe.echo.rtt_ns, Some(40_000));
            assert_eq!((probe.forward_ns, probe.reverse_ns), (None, None));
        }
    }

    #[test]
    fn lost_late_and_repeated_echoes_are_told_apart() {
        let mut series = EchoTracker::new(3, 0, None);
        for at in [1000, 2000, 3000] {
            series.record_sent(at);
        }
        assert!(series.record_answer(&answer(2, 3000, (1, 1)), 9000, None).is_some());
        assert!(series.record_answer(&answer(0, 1000, (1, 1)), 9500, None).is_some());
        assert!(series.record_answer(&answer(0, 1000, (1, 1)), 9700, None).is_none());
        assert!(series.record_answer(&answer(1, 1999, (1, 1)), 9800, None).is_none());
        assert!(series.take_lost(1_000_000_000).is_none(), "too early");
        let lost = series.take_lost(4_000_000_000).expect("one is lost");
        assert_eq!((lost.echo.at_us, lost.echo.rtt_ns), (2, None));
        assert!(series.take_lost(4_000_000_000).is_none());
        assert!(series.record_answer(&answer(1, 2000, (1, 1)), 9900, None).is_none());
        assert_eq!(series.answered, 2);
        assert_eq!(series.duplicates, 1);
        assert_eq!(series.discarded, 2, "a made-up time, and one too late");
        assert!(series.is_settled());
    }

    proptest! {
        #[test]
        fn every_echo_is_told_once_whatever_comes_back(
            came in prop::collection::vec((0..3_u32, 0..30_u32, any::<(u64, u64)>(), 0..40_000_u64), 0..80),
        ) {
            let mut series = EchoTracker::new(1, 0, None);
            for number in 0..20_u64 {
                series.record_sent(number * 1000);
            }
            let mut told = 0;
            for (train, index, there, at) in came {
                let header = ProbeDatagramHeader { train, ..answer(index, u64::from(index) * 1000, there) };
                told += u32::from(series.record_answer(&header, at, None).is_some());
            }
            prop_assert_eq!(told, series.answered);
            while series.take_lost(u64::MAX).is_some() {
                told += 1;
            }
            prop_assert_eq!(told, 20);
        }
    }
}
