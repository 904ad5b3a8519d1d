//! The limits of concurrent sessions: in total, and of anonymous clients.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The session slots of the server.
#[derive(Debug)]
pub(super) struct Slots {
    most: u32,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: u32,
    strangers: u32,
}

/// A session's slot; released when dropped.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    slots: &'a Slots,
    stranger: bool,
}

impl Slots {
    pub fn new(most: u32) -> Slots {
        Slots {
            most,
            taken: Mutex::default(),
        }
    }

    /// Takes a slot; `strangers` is the limit for a client without the token. The error names the
    /// limit.
    pub fn take(&self, strangers: Option<u32>) -> Result<Slot<'_>, String> {
        let mut taken = self.lock();
        if taken.all >= self.most {
            return Err(format!(
                "{} sessions run already; try again later",
                self.most
            ));
        }
        if let Some(most) = strangers {
            if taken.strangers >= most {
                return Err(format!(
                    "without a token at most {most} runs at one time; try again later"
                ));
            }
            taken.strangers += 1;
        }
        taken.all += 1;
        Ok(Slot {
            slots: self,
            stranger: strangers.is_some(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.all = taken.all.saturating_sub(1);
        if self.stranger {
            taken.strangers = taken.strangers.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_session_ends() {
        let slots = Slots::new(3);
        let first = slots.take(Some(1)).expect("empty");
        assert!(
            slots
                .take(Some(1))
                .expect_err("one stranger")
                .contains("token")
        );
        let known = slots.take(None).expect("room for those with the token");
        let third = slots.take(None).expect("room for one more");
        assert!(slots.take(None).expect_err("full").contains("3 sessions"));
        drop(first);
        drop(known);
        drop(slots.take(Some(1)).expect("free again"));
        drop(third);
    }
}
