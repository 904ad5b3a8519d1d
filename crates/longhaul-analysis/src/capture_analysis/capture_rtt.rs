//! RTTs of a direction, measured at the capture point.
//!
//! From a packet to the first acknowledgement of its end. Retransmitted packets are excluded, since it
//! is unknown which copy was acknowledged (Karn).
//!
//! Source: Karn and Partridge 1987. Units: us in the report, ns here.
//! Error: delayed acknowledgements are included, up to 40 ms on Linux; the median uses at most 4096
//! evenly spread samples.
//! Wrong when: the capture is from the receiver: then only that host's response time is measured.

use longhaul_model::report::v1::capture::CapturedRtt;
use std::collections::VecDeque;

/// The maximum number of unacknowledged packets that are tracked.
const MAX_PENDING_PACKETS: usize = 8192;
const MAX_RTT_SAMPLES: usize = 4096;

/// RTT samples, thinned evenly.
#[derive(Debug, Clone, Default)]
pub(super) struct RttSamples {
    count: u64,
    least_ns: u64,
    most_ns: u64,
    kept: Vec<u64>,
    /// Every `stride`-th sample is kept.
    stride: u64,
}

impl RttSamples {
    fn add(&mut self, sample_ns: u64) {
        if self.count == 0 {
            (self.least_ns, self.stride) = (sample_ns, 1);
        }
        self.least_ns = self.least_ns.min(sample_ns);
        self.most_ns = self.most_ns.max(sample_ns);
        if self.count.is_multiple_of(self.stride) {
            self.kept.push(sample_ns);
        }
        self.count += 1;
        if self.kept.len() >= MAX_RTT_SAMPLES {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub fn finish(mut self) -> Option<CapturedRtt> {
        self.kept.sort_unstable();
        let median_ns = *self.kept.get(self.kept.len() / 2)?;
        Some(CapturedRtt {
            samples: self.count,
            least_us: self.least_ns / 1000,
            median_us: median_ns / 1000,
            most_us: self.most_ns / 1000,
        })
    }
}

/// RTTs from acknowledgements.
#[derive(Debug, Clone, Default)]
pub(super) struct AckRtt {
    /// End and send time of unacknowledged packets, in order of their ends.
    waiting: VecDeque<(u64, u64)>,
    pub samples: RttSamples,
}

impl AckRtt {
    pub fn sent(&mut self, end: u64, at_ns: u64) {
        if self.waiting.len() >= MAX_PENDING_PACKETS {
            self.waiting.pop_front();
        }
        self.waiting.push_back((end, at_ns));
    }

    /// Discards pending packets after a retransmit or reordering: they are ambiguous.
    pub fn discard_pending(&mut self) {
        self.waiting.clear();
    }

    pub fn acknowledged(&mut self, place: u64, at_ns: u64) {
        let mut last = None;
        while let Some((_, sent_ns)) = self.waiting.front().filter(|(end, _)| *end <= place) {
            last = Some(*sent_ns);
            self.waiting.pop_front();
        }
        if let Some(sent_ns) = last {
            self.samples.add(at_ns.saturating_sub(sent_ns));
        }
    }
}

/// Compares timestamps, which wrap around.
pub(super) fn is_later_timestamp(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}
