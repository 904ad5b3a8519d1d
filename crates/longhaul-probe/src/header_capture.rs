//! The packet headers of a sender, captured beside its counters.
//!
//! Counters show how much was lost, packets also which ones: a token bucket drops those that come too
//! early. A sender that turns out to be fast is captured after its first loss only, because most have none.
//!
//! Source: packet(7). Units: packets. Error: packets that the kernel dropped are counted.
//! Wrong when: the packets that show a policer come after the limits of the capture.

use longhaul_capture::packet_buffer::FinishedCapture;
use longhaul_model::report::v1::capture::{CapturePlan, HeaderCapture};
use longhaul_model::report::v1::observation::StreamEnd;
use longhaul_model::units::Rate;
use std::time::Duration;

/// Looks for a policer in the captured headers of these streams, of which this end is the sender. Returns
/// `None` if the capture has none of their packets.
pub type HeaderAnalysis = fn(&FinishedCapture, &[&StreamEnd]) -> Option<HeaderCapture>;

/// The limits of a capture: the whole transfer of a slow sender, and seconds of a fast one.
pub(crate) const HEADER_PLAN: CapturePlan =
    CapturePlan { snap_bytes: None, packets: 200_000, last: false, far: false };
pub(crate) const MAX_HEADER_BYTES: u64 = 32 << 20;
/// A slower sender is captured without a loss. The packets of 900 Mbit/s cost 0.7 % of a core.
const SLOW_BPS: u64 = 1_000_000_000;
/// A faster sender is never captured: copying its headers might slow it down.
const MAX_BPS: u64 = 10_000_000_000;
/// The time after which the rate of a sender is known.
const MIN_LENGTH: Duration = Duration::from_millis(200);

/// Returns whether the headers of a sender are worth what it costs to capture them; `None` while its rate is
/// not known.
pub(crate) fn is_worth_capture(
    sent_bytes: u64,
    length: Duration,
    retransmits: u64,
) -> Option<bool> {
    let rate = Rate::over(sent_bytes, length)?;
    let max_bps = if retransmits > 0 { MAX_BPS } else { SLOW_BPS };
    (length >= MIN_LENGTH && sent_bytes > 0).then(|| rate.as_bps() <= max_bps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_sender_is_captured_at_once_a_fast_one_after_a_loss_and_the_fastest_never() {
        let second = Duration::from_secs(1);
        let cases = [
            (0, second, 0, None),
            (1_000_000, Duration::from_millis(100), 0, None),
            (1_000_000, second, 0, Some(true)),
            (1_000_000_000, second, 0, Some(false)),
            (1_000_000_000, second, 1, Some(true)),
            (2_000_000_000, second, 1, Some(false)),
        ];
        for (bytes, length, retransmits, expected) in cases {
            let due = is_worth_capture(bytes, length, retransmits);
            assert_eq!(due, expected, "{bytes} bytes in {length:?}");
        }
    }
}
