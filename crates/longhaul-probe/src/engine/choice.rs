//! The engine's defaults for what the plan leaves open: sizes, placement, data in flight.
//!
//! On one host, caches determine the cost of a byte: with both threads of a stream on one core and
//! data in flight that fits its L2 cache, it is a third of that between two cores. On a real path
//! the same limit would throttle the stream, so the kernel sizes the buffers there, and the payload
//! is too long to be compressed.
//!
//! Wrong when: the L2 cache is very large or very small. The values were measured on a 2-core
//! machine with 1 MiB of L2 per core.

use super::{EndSpec, Heads, Role, pace};
use longhaul_model::report::v1::plan::{Affinity, Mode, Stop};
use longhaul_model::units::Rate;
use longhaul_sys::sched;
use std::time::Duration;

const KIB: usize = 1024;
/// The RTT above which an emulated or real path lies between the two ends.
const NEAR_RTT: Duration = Duration::from_millis(1);
/// Unprivileged pipe memory is 64 MiB per user; half of it is left to other programs.
const PIPES_BYTES: usize = 32 * KIB * KIB;

/// The engine's defaults for one end of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub write_bytes: usize,
    pub read_bytes: usize,
    pub payload_bytes: usize,
    pub pipe_bytes: usize,
    /// Set only to keep the data in the cache; never on a real path.
    pub send_buffer_bytes: Option<usize>,
    pub write_rate: Option<Rate>,
    pub read_rate: Option<Rate>,
    /// Readers may move to the core on which their packets arrive; see [`super::follow`].
    pub follows: bool,
    cores: Vec<usize>,
}

impl Choice {
    pub fn new(spec: &EndSpec, streams: usize) -> Choice {
        let plan = &spec.plan;
        let near = spec.same_host && spec.idle_rtt.is_none_or(|rtt| rtt < NEAR_RTT);
        let close = near || spec.idle_rtt.is_some_and(|rtt| rtt < NEAR_RTT);
        let cores = cores(spec, near);
        let per_stream =
            |bps: Option<u64>| bps.map(|bps| Rate::bits_per_second(bps / streams.max(1) as u64));
        let (write_rate, read_rate) = (
            per_stream(plan.write_rate_bps),
            per_stream(plan.read_rate_bps),
        );
        let copies = plan.mode == Mode::Delivered && !plan.zero_copy;
        let capped = near && copies && plan.send_buffer_bytes.is_none();
        Choice {
            write_bytes: write_bytes(spec, write_rate),
            read_bytes: read_bytes(spec, near, read_rate),
            payload_bytes: match (near, plan.zero_copy) {
                (true, false) => 16 * KIB,
                // Compression occurs only on long paths; on short ones the cache matters more.
                _ if close => 64 * KIB,
                _ => 2048 * KIB,
            },
            pipe_bytes: pipe_bytes(plan.mode, streams),
            send_buffer_bytes: (capped && spec.role == Role::Sender).then_some(256 * KIB),
            write_rate,
            read_rate,
            follows: close && cores.is_empty() && plan.affinity == Affinity::Auto,
            cores,
        }
    }

    /// Returns the core for stream `index`; `None` leaves it to the scheduler.
    pub fn core(&self, index: usize) -> Option<usize> {
        let place = index.checked_rem(self.cores.len())?;
        self.cores.get(place).copied()
    }
}

fn cores(spec: &EndSpec, near: bool) -> Vec<usize> {
    // Pinning only one of the two ends hinders the other, which the scheduler places freely.
    let both_ours = spec.heads == Heads::Longhaul;
    match &spec.plan.affinity {
        Affinity::Auto if near && both_ours => sched::allowed_cores().unwrap_or_default(),
        Affinity::Auto | Affinity::Off => Vec::new(),
        Affinity::Cores {
            initiator,
            responder,
        } => {
            let list = if spec.initiator { initiator } else { responder };
            list.iter().map(|&core| usize::from(core)).collect()
        }
    }
}

/// The maximum size of a write or read; larger sizes in the plan are reduced to it.
const CALL_BYTES_MAX: u64 = 64 << 20;

fn write_bytes(spec: &EndSpec, rate: Option<Rate>) -> usize {
    let plan = &spec.plan;
    let chosen = match (plan.zero_copy, plan.mode) {
        (true, Mode::Wire) => 1024 * KIB,
        (true, Mode::Delivered) => 512 * KIB,
        (false, _) => 256 * KIB,
    };
    match (plan.write_bytes, rate) {
        (Some(bytes), _) => bytes.clamp(1, CALL_BYTES_MAX) as usize,
        // Blocks are the unit of the stop rule; pacing must not change them.
        (None, Some(rate)) if !matches!(plan.stop, Stop::Blocks(_)) => {
            pace::quantum(rate, 1460, chosen)
        }
        (None, _) => chosen,
    }
}

fn read_bytes(spec: &EndSpec, near: bool, rate: Option<Rate>) -> usize {
    let plan = &spec.plan;
    let chosen = match (plan.mode, near && !plan.zero_copy) {
        (Mode::Wire, _) => 4096 * KIB,
        (Mode::Delivered, true) => 64 * KIB,
        (Mode::Delivered, false) => 256 * KIB,
    };
    match (plan.read_bytes, rate) {
        (Some(bytes), _) => bytes.clamp(1, CALL_BYTES_MAX) as usize,
        (None, Some(rate)) => pace::quantum(rate, 1460, chosen),
        (None, None) => chosen,
    }
}

fn pipe_bytes(mode: Mode, streams: usize) -> usize {
    let best = match mode {
        Mode::Wire => 1024 * KIB,
        Mode::Delivered => 512 * KIB,
    };
    let share = (PIPES_BYTES / streams.max(1)).max(64 * KIB);
    best.min(1 << share.ilog2())
}
