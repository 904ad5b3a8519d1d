//! Memory that the streams of one end share: payload to send, and sinks to receive into.
//!
//! What one core's streams share stays in that core's cache. Page references are another matter: two
//! cores that pass references to one page fight over its reference count, so that zero-copy senders
//! on different cores have different payload pages.

use super::choice::Choice;
use super::run::Shared;
use super::{Role, payload};
use longhaul_model::report::v1::plan::Transport;
use longhaul_sys::region::{Region, Sink};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::Arc;

/// Payload regions on huge pages are few: each occupies 2 MiB.
const REGIONS_MAX: usize = 8;

/// What one stream's thread is given.
#[derive(Debug, Clone)]
pub(super) enum Tools {
    Send(Arc<Region>),
    Receive(Sink),
    /// UDP streams bring their own.
    None,
}

/// What each stream of this end is given, by index.
pub(super) fn tools(shared: &Shared) -> io::Result<Vec<Tools>> {
    let mut made = BTreeMap::new();
    (0..shared.streams.len())
        .map(|index| match made.entry(place(shared, index)) {
            Entry::Occupied(have) => Ok(Tools::clone(have.get())),
            Entry::Vacant(place) => Ok(place.insert(make(shared)?).clone()),
        })
        .collect()
}

/// Streams with the same place share their memory.
fn place(shared: &Shared, index: usize) -> usize {
    let core = shared.choice.core(index);
    match shared.spec.role {
        Role::Receiver => core.unwrap_or(index),
        Role::Sender if shared.spec.plan.zero_copy => core.unwrap_or(index) % REGIONS_MAX,
        Role::Sender => 0,
    }
}

fn make(shared: &Shared) -> io::Result<Tools> {
    let (plan, choice): (_, &Choice) = (&shared.spec.plan, &shared.choice);
    if plan.transport != Transport::Tcp {
        return Ok(Tools::None);
    }
    Ok(match shared.spec.role {
        Role::Sender => {
            let region = payload::region(choice.payload_bytes, plan.zero_copy)?;
            Tools::Send(Arc::new(region))
        }
        Role::Receiver => Tools::Receive(Sink::new(choice.read_bytes)?),
    })
}
