//! Memory shared by the streams of one end: payload to send, and sinks to receive into.
//!
//! Memory shared by the streams of one core stays in that core's cache. With page references, two
//! cores that reference the same page contend for its reference count, so zero-copy senders on
//! different cores use different payload pages.

use super::choice::Choice;
use super::run::Shared;
use super::{Role, payload};
use longhaul_model::report::v1::plan::Transport;
use longhaul_sys::region::{Region, Sink};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::Arc;

/// The maximum number of payload regions on huge pages: each occupies 2 MiB.
const REGIONS_MAX: usize = 8;

/// The memory of one stream's thread.
#[derive(Debug, Clone)]
pub(super) enum Tools {
    Send(Arc<Region>),
    Receive(Sink),
    /// UDP streams allocate their own.
    None,
}

/// Returns the memory for each stream of this end, by index.
pub(super) fn tools(shared: &Shared) -> io::Result<Vec<Tools>> {
    let mut made = BTreeMap::new();
    (0..shared.streams.len())
        .map(|index| match made.entry(place(shared, index)) {
            Entry::Occupied(have) => Ok(Tools::clone(have.get())),
            Entry::Vacant(place) => Ok(place.insert(make(shared)?).clone()),
        })
        .collect()
}

/// Returns a key: streams with the same key share their memory.
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
