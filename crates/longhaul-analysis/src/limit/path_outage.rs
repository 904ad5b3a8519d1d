//! Finds outages of the path: times in which nothing arrived though data was on its way.
//!
//! Source: the arrivals of segments at the receiver, all streams together, and the retransmission
//! timeouts of the sender (`tcpi_total_rto` since Linux 6.7, `TcpExt.TCPTimeouts` before). Units:
//! microseconds. Error: an outage seems longer than it was by the backed-off retransmission timer
//! (RFC 6298 section 5.5), up to twice. Wrong when: the sender's host was stopped meanwhile.

use super::run_reading::RunView;
use crate::throughput::{last_tcp_info, read_protocol_counter};
use longhaul_model::report::v1::observation::ObservedStream;

/// The parameters of the search.
struct OutageTuning;

impl OutageTuning {
    /// The minimum silence, in time and in round trips.
    const MIN_SILENCE_US: u64 = 400_000;
    const MIN_SILENCE_TRIPS: u64 = 3;
    /// A rate below this share of the run's level is silence: probes of a timer may pass.
    const SILENT_RATIO: f64 = 0.02;
    /// More interruptions than this are timeouts of a lossy path, not outages.
    const MAX_OUTAGES: usize = 3;
}

/// A time in which nothing arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathOutage {
    pub from_us: u64,
    pub to_us: u64,
}

impl PathOutage {
    pub fn length_us(self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }
}

/// Returns the outages of the run, in order.
pub fn find_outages(run: &RunView) -> Vec<PathOutage> {
    if run.has_pausing_reader || count_timeouts(run) == 0 {
        return Vec::new();
    }
    let trips = run.idle_rtt_us.unwrap_or(0).saturating_mul(OutageTuning::MIN_SILENCE_TRIPS);
    let min_us = OutageTuning::MIN_SILENCE_US.max(trips);
    let is_silent = |rate: f64| rate < OutageTuning::SILENT_RATIO * run.level_bps;
    let mut outages = Vec::new();
    let mut has_carried = false;
    for part in
        run.segments.bins.chunk_by(|a, b| is_silent(a.rate_bps()) == is_silent(b.rate_bps()))
    {
        let (from_us, to_us) = (part[0].from_us, part[part.len() - 1].to_us);
        let silent = is_silent(part[0].rate_bps());
        if silent && has_carried && to_us - from_us >= min_us {
            outages.push(PathOutage { from_us, to_us });
        }
        has_carried |= !silent;
    }
    outages.retain(|outage| outage.to_us < run.segments.to_us());
    if outages.len() > OutageTuning::MAX_OUTAGES { Vec::new() } else { outages }
}

/// Returns the retransmission timeouts of the sender, from the streams' own counters or the host's.
pub fn count_timeouts(run: &RunView) -> u64 {
    let ends = &run.observation.ends;
    let timeouts = |stream: &ObservedStream| last_tcp_info(&stream.sender)?.timeouts;
    let own = run.observation.streams.iter().filter_map(timeouts).fold(0, u64::saturating_add);
    own.max(read_protocol_counter(&ends.sender, "TCPTimeouts"))
}
