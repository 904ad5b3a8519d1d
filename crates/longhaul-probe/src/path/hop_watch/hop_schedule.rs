//! Schedule of hop probes: one probe per hop and second, never two hops at once.

use std::time::Duration;

/// Minimum interval between two probes of a hop.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// Round-robin schedule of the hops.
#[derive(Debug, Clone)]
pub(super) struct HopSchedule {
    hops: usize,
    round: u32,
    next: usize,
    /// Time of each hop's last probe.
    last_probes: Vec<Option<Duration>>,
}

impl HopSchedule {
    pub(super) fn new(hops: usize) -> HopSchedule {
        HopSchedule { hops, round: 0, next: 0, last_probes: vec![None; hops] }
    }

    /// Returns the time of the next probe; `None` if there are no hops.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let last = self.last_probes.get(self.next)?;
        let slot = PERIOD * self.round + PERIOD * self.next as u32 / self.hops as u32;
        Some(last.map_or(slot, |last| slot.max(last + PERIOD)))
    }

    /// Returns the hop to probe now.
    pub(super) fn take_due(&mut self, now: Duration) -> usize {
        let hop = self.next;
        if let Some(last) = self.last_probes.get_mut(hop) {
            *last = Some(now);
        }
        self.next += 1;
        if self.next >= self.hops {
            self.next = 0;
            // Rounds missed by a busy host are skipped.
            self.round = (self.round + 1).max((now.as_secs()) as u32);
        }
        hop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_hop_nothing_is_due() {
        assert_eq!(HopSchedule::new(0).next_due(), None);
    }

    #[test]
    fn hops_take_turns_within_each_second() {
        let mut roster = HopSchedule::new(4);
        let mut seen = Vec::new();
        while let Some(due) = roster.next_due().filter(|due| *due < PERIOD * 2) {
            seen.push((roster.take_due(due), due.as_millis()));
        }
        let one = [(0, 0), (1, 250), (2, 500), (3, 750)];
        let two = one.map(|(hop, at)| (hop, at + 1000));
        assert_eq!(seen, [one, two].concat());
    }

    proptest! {
        /// However late probes are sent: never more than one per hop and second.
        #[test]
        fn no_hop_is_probed_twice_in_a_second(
            hops in 1_usize..40,
            delays in proptest::collection::vec(0_u64..3000, 1..300),
        ) {
            let mut roster = HopSchedule::new(hops);
            let mut sent: Vec<Vec<Duration>> = vec![Vec::new(); hops];
            let mut now = Duration::ZERO;
            for delay in delays {
                let due = roster.next_due().expect("there are hops");
                // Most probes are on time, some are late.
                let late = if delay > 2700 { delay } else { 0 };
                now = now.max(due) + Duration::from_millis(late);
                sent[roster.take_due(now)].push(now);
            }
            for times in sent {
                prop_assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + PERIOD));
            }
        }
    }
}
