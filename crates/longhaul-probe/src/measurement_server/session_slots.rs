//! The limits of concurrent sessions: in total, and of anonymous clients.

use parking_lot::Mutex;

/// The session slots of the server.
#[derive(Debug)]
pub(super) struct SessionSlots {
    most: u32,
    taken: Mutex<TakenSlots>,
}

#[derive(Debug, Default)]
struct TakenSlots {
    all: u32,
    anonymous: u32,
}

/// A session's slot; released when dropped.
#[derive(Debug)]
pub struct SessionSlot<'a> {
    slots: &'a SessionSlots,
    anonymous: bool,
}

impl SessionSlots {
    pub fn new(most: u32) -> SessionSlots {
        SessionSlots { most, taken: Mutex::default() }
    }

    /// Takes a slot; `anonymous` is the limit for a client without the token. The error names the
    /// limit.
    pub fn take(&self, strangers: Option<u32>) -> Result<SessionSlot<'_>, String> {
        let mut taken = self.taken.lock();
        if taken.all >= self.most {
            return Err(format!("{} sessions are already running; try again later", self.most));
        }
        if let Some(most) = strangers {
            if taken.anonymous >= most {
                return Err(format!(
                    "without a token, at most {most} runs at the same time; try again later"
                ));
            }
            taken.anonymous += 1;
        }
        taken.all += 1;
        Ok(SessionSlot { slots: self, anonymous: strangers.is_some() })
    }
}

impl Drop for SessionSlot<'_> {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        if self.anonymous {
            taken.anonymous = taken.anonymous.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_session_ends() {
        let slots = SessionSlots::new(3);
        let first = slots.take(Some(1)).expect("empty");
        assert!(slots.take(Some(1)).expect_err("one stranger").contains("token"));
        let known = slots.take(None).expect("room for those with the token");
        let third = slots.take(None).expect("room for one more");
        assert!(slots.take(None).expect_err("full").contains("3 sessions"));
        drop(first);
        drop(known);
        drop(slots.take(Some(1)).expect("free again"));
        drop(third);
    }
}
