//! The engine's defaults for what the plan leaves open: sizes, placement, data in flight.
//!
//! The kernel sizes the buffers and places the threads. The payload is too long to be compressed on
//! long paths, and fits the L2 cache on short ones.
//!
//! Wrong when: the L2 cache is very large or very small. The values were measured on a 2-core
//! machine with 1 MiB of L2 per core.

use super::{DataSocket, EndSpec, TransferRole};
use longhaul_model::report::v1::plan::{CoreAffinity, ReceiveMode, StopCondition};
use longhaul_model::units::Rate;
use std::time::Duration;

const KIB: usize = 1024;
/// The RTT above which the payload must not be compressible.
const MAX_LOCAL_RTT: Duration = Duration::from_millis(1);
/// Unprivileged pipe memory is 64 MiB per user; half of it is left to other programs.
const TOTAL_PIPE_BYTES: usize = 32 * KIB * KIB;

/// The engine's defaults for one end of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineDefaults {
    pub write_bytes: usize,
    pub read_bytes: usize,
    pub payload_bytes: usize,
    pub pipe_bytes: usize,
    pub write_rate: Option<Rate>,
    pub read_rate: Option<Rate>,
    cores: Vec<u16>,
}

impl EngineDefaults {
    pub fn new(spec: &EndSpec, streams: usize) -> EngineDefaults {
        let plan = &spec.plan;
        let low_rtt = spec.idle_rtt.is_some_and(|rtt| rtt < MAX_LOCAL_RTT);
        let per_stream =
            |bps: Option<u64>| bps.map(|bps| Rate::bits_per_second(bps / streams.max(1) as u64));
        let (write_rate, read_rate) =
            (per_stream(plan.write_rate_bps), per_stream(plan.read_rate_bps));
        EngineDefaults {
            write_bytes: choose_write_bytes(spec, write_rate),
            read_bytes: choose_read_bytes(spec, read_rate),
            payload_bytes: if low_rtt { 64 * KIB } else { 2048 * KIB },
            pipe_bytes: choose_pipe_bytes(plan.mode, streams),
            write_rate,
            read_rate,
            cores: choose_cores(spec),
        }
    }

    /// Returns the number of payload regions. Streams of one core share a region, which stays in
    /// that core's cache. With page references, two cores that reference the same page contend for
    /// its reference count, so zero-copy senders on different cores use different regions.
    pub fn payload_regions(
        &self,
        zero_copy: bool,
        role: TransferRole,
        sockets: &[DataSocket],
    ) -> usize {
        let tcp = sockets.iter().any(|socket| matches!(socket, DataSocket::Tcp(_)));
        let cores = if self.cores.is_empty() { usize::MAX } else { self.cores.len() };
        match role {
            TransferRole::Sender if tcp && zero_copy => cores.min(sockets.len()).min(MAX_REGIONS),
            TransferRole::Sender if tcp => 1,
            _ => 0,
        }
    }

    /// Returns the core for stream `index`; `None` leaves it to the scheduler.
    pub fn core_for(&self, index: usize) -> Option<usize> {
        let place = index.checked_rem(self.cores.len())?;
        self.cores.get(place).map(|&core| usize::from(core))
    }
}

/// The maximum number of payload regions on huge pages: each occupies 2 MiB.
const MAX_REGIONS: usize = 8;

fn choose_cores(spec: &EndSpec) -> Vec<u16> {
    match &spec.plan.affinity {
        CoreAffinity::Auto | CoreAffinity::Off => Vec::new(),
        CoreAffinity::Cores { initiator, .. } if spec.initiator => initiator.clone(),
        CoreAffinity::Cores { responder, .. } => responder.clone(),
    }
}

/// The maximum size of a write or read; larger sizes in the plan are reduced to it.
const MAX_CALL_BYTES: u64 = 64 << 20;

fn choose_write_bytes(spec: &EndSpec, rate: Option<Rate>) -> usize {
    let plan = &spec.plan;
    let chosen = match (plan.zero_copy, plan.mode) {
        (true, ReceiveMode::Wire) => 1024 * KIB,
        (true, ReceiveMode::Delivered) => 512 * KIB,
        (false, _) => 256 * KIB,
    };
    // Blocks are the unit of the stop rule; pacing must not change them.
    let rate = rate.filter(|_| !matches!(plan.stop, StopCondition::Blocks(_)));
    choose_call_bytes(plan.write_bytes, rate, chosen)
}

fn choose_read_bytes(spec: &EndSpec, rate: Option<Rate>) -> usize {
    let plan = &spec.plan;
    let chosen = match plan.mode {
        ReceiveMode::Wire => 4096 * KIB,
        ReceiveMode::Delivered => 256 * KIB,
    };
    choose_call_bytes(plan.read_bytes, rate, chosen)
}

fn choose_call_bytes(asked: Option<u64>, rate: Option<Rate>, chosen: usize) -> usize {
    match (asked, rate) {
        (Some(bytes), _) => bytes.clamp(1, MAX_CALL_BYTES) as usize,
        (None, Some(rate)) => super::paced_call_bytes(rate, 1460, chosen),
        (None, None) => chosen,
    }
}

fn choose_pipe_bytes(mode: ReceiveMode, streams: usize) -> usize {
    let best = match mode {
        ReceiveMode::Wire => 1024 * KIB,
        ReceiveMode::Delivered => 512 * KIB,
    };
    let share = (TOTAL_PIPE_BYTES / streams.max(1)).max(64 * KIB);
    best.min(1 << share.ilog2())
}
