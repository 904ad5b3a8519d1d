//! Memory shared by the streams of one end: payload to send, and sinks to receive into.
//!
//! Memory shared by the streams of one core stays in that core's cache. With page references, two
//! cores that reference the same page contend for its reference count, so zero-copy senders on
//! different cores use different payload pages.

use super::defaults::EngineDefaults;
use super::end_run::EngineShared;
use super::{TransferRole, payload_pattern};
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_sys::memory_region::{MemoryRegion, ReceiveSink};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::Arc;

/// The maximum number of payload regions on huge pages: each occupies 2 MiB.
const MAX_REGIONS: usize = 8;

/// The memory of one stream's thread.
#[derive(Debug, Clone)]
pub(super) enum StreamMemory {
    Send(Arc<MemoryRegion>),
    Receive(ReceiveSink),
    /// UDP streams allocate their own.
    None,
}

/// Returns the memory for each stream of this end, by index.
pub(super) fn allocate_memory(shared: &EngineShared) -> io::Result<Vec<StreamMemory>> {
    let mut made = BTreeMap::new();
    (0..shared.streams.len())
        .map(|index| match made.entry(sharing_key(shared, index)) {
            Entry::Occupied(have) => Ok(StreamMemory::clone(have.get())),
            Entry::Vacant(place) => Ok(place.insert(allocate_one(shared)?).clone()),
        })
        .collect()
}

/// Returns a key: streams with the same key share their memory.
fn sharing_key(shared: &EngineShared, index: usize) -> usize {
    let core = shared.defaults.core_for(index);
    match shared.spec.role {
        TransferRole::Receiver => core.unwrap_or(index),
        TransferRole::Sender if shared.spec.plan.zero_copy => core.unwrap_or(index) % MAX_REGIONS,
        TransferRole::Sender => 0,
    }
}

fn allocate_one(shared: &EngineShared) -> io::Result<StreamMemory> {
    let (plan, choice): (_, &EngineDefaults) = (&shared.spec.plan, &shared.defaults);
    if plan.transport != RunTransport::Tcp {
        return Ok(StreamMemory::None);
    }
    Ok(match shared.spec.role {
        TransferRole::Sender => {
            let region = payload_pattern::new_payload_region(choice.payload_bytes, plan.zero_copy)?;
            StreamMemory::Send(Arc::new(region))
        }
        TransferRole::Receiver => StreamMemory::Receive(ReceiveSink::new(choice.read_bytes)?),
    })
}
