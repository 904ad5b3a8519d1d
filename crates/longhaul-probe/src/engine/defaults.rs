//! The engine's defaults for what the plan leaves open: sizes, placement, data in flight.
//!
//! On one host, caches determine the cost of a byte: with both threads of a stream on one core and
//! data in flight that fits its L2 cache, it is a third of that between two cores. On a real path
//! the same limit would throttle the stream, so the kernel sizes the buffers there, and the payload
//! is too long to be compressed.
//!
//! Wrong when: the L2 cache is very large or very small. The values were measured on a 2-core
//! machine with 1 MiB of L2 per core.

use super::{DatagramFormat, EndSpec, TransferRole, pace};
use longhaul_model::report::v1::plan::{CoreAffinity, ReceiveMode, StopCondition};
use longhaul_model::units::Rate;
use longhaul_sys::sched;
use std::time::Duration;

const KIB: usize = 1024;
/// The RTT above which an emulated or real path lies between the two ends.
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
    /// Set only to keep the data in the cache; never on a real path.
    pub send_buffer_bytes: Option<usize>,
    pub write_rate: Option<Rate>,
    pub read_rate: Option<Rate>,
    /// Readers may move to the core on which their packets arrive; see [`super::rx_affinity`].
    pub uses_rx_affinity: bool,
    cores: Vec<usize>,
}

impl EngineDefaults {
    pub fn new(spec: &EndSpec, streams: usize) -> EngineDefaults {
        let plan = &spec.plan;
        let same_host = spec.same_host && spec.idle_rtt.is_none_or(|rtt| rtt < MAX_LOCAL_RTT);
        let low_rtt = same_host || spec.idle_rtt.is_some_and(|rtt| rtt < MAX_LOCAL_RTT);
        let cores = choose_cores(spec, same_host);
        let per_stream =
            |bps: Option<u64>| bps.map(|bps| Rate::bits_per_second(bps / streams.max(1) as u64));
        let (write_rate, read_rate) = (
            per_stream(plan.write_rate_bps),
            per_stream(plan.read_rate_bps),
        );
        let copies = plan.mode == ReceiveMode::Delivered && !plan.zero_copy;
        let capped = same_host && copies && plan.send_buffer_bytes.is_none();
        EngineDefaults {
            write_bytes: choose_write_bytes(spec, write_rate),
            read_bytes: choose_read_bytes(spec, same_host, read_rate),
            payload_bytes: match (same_host, plan.zero_copy) {
                (true, false) => 16 * KIB,
                // Compression occurs only on long paths; on short ones the cache matters more.
                _ if low_rtt => 64 * KIB,
                _ => 2048 * KIB,
            },
            pipe_bytes: choose_pipe_bytes(plan.mode, streams),
            send_buffer_bytes: (capped && spec.role == TransferRole::Sender).then_some(256 * KIB),
            write_rate,
            read_rate,
            uses_rx_affinity: low_rtt && cores.is_empty() && plan.affinity == CoreAffinity::Auto,
            cores,
        }
    }

    /// Returns the core for stream `index`; `None` leaves it to the scheduler.
    pub fn core_for(&self, index: usize) -> Option<usize> {
        let place = index.checked_rem(self.cores.len())?;
        self.cores.get(place).copied()
    }
}

fn choose_cores(spec: &EndSpec, same_host: bool) -> Vec<usize> {
    // Pinning only one of the two ends hinders the other, which the scheduler places freely.
    let both_ours = spec.heads == DatagramFormat::Longhaul;
    match &spec.plan.affinity {
        CoreAffinity::Auto if same_host && both_ours => sched::allowed_cores().unwrap_or_default(),
        CoreAffinity::Auto | CoreAffinity::Off => Vec::new(),
        CoreAffinity::Cores {
            initiator,
            responder,
        } => {
            let list = if spec.initiator { initiator } else { responder };
            list.iter().map(|&core| usize::from(core)).collect()
        }
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
    match (plan.write_bytes, rate) {
        (Some(bytes), _) => bytes.clamp(1, MAX_CALL_BYTES) as usize,
        // Blocks are the unit of the stop rule; pacing must not change them.
        (None, Some(rate)) if !matches!(plan.stop, StopCondition::Blocks(_)) => {
            pace::paced_call_bytes(rate, 1460, chosen)
        }
        (None, _) => chosen,
    }
}

fn choose_read_bytes(spec: &EndSpec, same_host: bool, rate: Option<Rate>) -> usize {
    let plan = &spec.plan;
    let chosen = match (plan.mode, same_host && !plan.zero_copy) {
        (ReceiveMode::Wire, _) => 4096 * KIB,
        (ReceiveMode::Delivered, true) => 64 * KIB,
        (ReceiveMode::Delivered, false) => 256 * KIB,
    };
    match (plan.read_bytes, rate) {
        (Some(bytes), _) => bytes.clamp(1, MAX_CALL_BYTES) as usize,
        (None, Some(rate)) => pace::paced_call_bytes(rate, 1460, chosen),
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
