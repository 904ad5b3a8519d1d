//! The slots of sessions: how many may run at once, in total, without the token, and of one source.

use super::heavy_run_lock::{HeavyRunLock, ServedRun};
use super::source_prefix::SourcePrefix;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;

/// The session slots of the server.
#[derive(Debug)]
pub(super) struct SessionSlots {
    most: u32,
    taken: Mutex<TakenSlots>,
    heavy_runs: Option<HeavyRunLock>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    all: u32,
    /// The slots of clients without the token, by network.
    anonymous: HashMap<IpAddr, u32>,
}

/// A session's slot; released when dropped.
#[derive(Debug)]
pub struct SessionSlot<'a> {
    slots: &'a SessionSlots,
    /// The network of a client without the token.
    anonymous: Option<IpAddr>,
    _served: Option<ServedRun>,
}

impl SessionSlots {
    pub fn new(most: u32, heavy_runs: Option<HeavyRunLock>) -> SessionSlots {
        SessionSlots { most, taken: Mutex::default(), heavy_runs }
    }

    /// Takes a slot for a client at this address; `anonymous` is the maximum number of sessions
    /// without the token, half of which one network may have. The error names the limit.
    pub fn take(&self, peer: IpAddr, anonymous: Option<u32>) -> Result<SessionSlot<'_>, String> {
        let mut taken = self.taken.lock();
        if taken.all >= self.most {
            return Err(format!("{} sessions are already running; try again later", self.most));
        }
        let network = SourcePrefix::from(peer).network;
        if let Some(most) = anonymous {
            taken.check_anonymous(network, most)?;
        }
        let served = self.heavy_runs.as_ref().map(HeavyRunLock::serve_run).transpose()?;
        taken.all += 1;
        let anonymous = anonymous.map(|_| network);
        if let Some(network) = anonymous {
            *taken.anonymous.entry(network).or_default() += 1;
        }
        Ok(SessionSlot { slots: self, anonymous, _served: served })
    }
}

impl TakenSlots {
    fn check_anonymous(&self, network: IpAddr, most: u32) -> Result<(), String> {
        let runs = |count| match count {
            1 => "1 run".to_owned(),
            count => format!("{count} runs"),
        };
        if self.anonymous.values().sum::<u32>() >= most {
            let most = runs(most);
            return Err(format!(
                "without a token, at most {most} at the same time; try again later"
            ));
        }
        let share = most.div_ceil(2);
        if self.anonymous.get(&network).is_some_and(|own| *own >= share) {
            let share = runs(share);
            return Err(format!(
                "without a token, at most {share} at the same time from one network; try again later"
            ));
        }
        Ok(())
    }
}

impl Drop for SessionSlot<'_> {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(network) = self.anonymous
            && let Some(own) = taken.anonymous.get_mut(&network)
        {
            *own -= 1;
            if *own == 0 {
                taken.anonymous.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_slot_is_free_again_when_its_session_ends() {
        let here = address("192.0.2.1");
        let slots = SessionSlots::new(3, None);
        let first = slots.take(here, Some(1)).expect("empty");
        assert!(slots.take(here, Some(1)).expect_err("one stranger").contains("token"));
        let known = slots.take(here, None).expect("room for those with the token");
        let third = slots.take(here, None).expect("room for one more");
        assert!(slots.take(here, None).expect_err("full").contains("3 sessions"));
        drop(first);
        drop(known);
        drop(slots.take(here, Some(1)).expect("free again"));
        drop(third);
    }

    #[test]
    fn one_network_leaves_half_of_the_anonymous_slots_to_others() {
        let slots = SessionSlots::new(32, None);
        let first = slots.take(address("192.0.2.1"), Some(2)).expect("empty");
        let why = slots.take(address("192.0.2.77"), Some(2)).expect_err("a neighbour's share");
        assert!(why.contains("1 run at the same time from one network"), "{why}");
        slots.take(address("192.0.2.1"), None).expect("its neighbour with the token");
        let other = slots.take(address("2001:db8::1"), Some(2)).expect("another network");
        drop(first);
        slots.take(address("192.0.2.77"), Some(2)).expect("the share is free again");
        drop(other);
    }
}
