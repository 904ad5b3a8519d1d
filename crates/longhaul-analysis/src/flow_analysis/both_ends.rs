//! Joins the views that both ends have of one transfer.
//!
//! Source: `limit`. Units: ratios. Error: that of the end that is believed.
//! Wrong when: the two ends were not watched at the same time.

use crate::RunConclusion;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::flows::{ObservedTransfer, TransferAnalysis};

/// Gives both views of a transfer the verdict of the end that knows: a receiver sees its own reader, CPU
/// and window, and the sender everything else. The findings of the other end are dropped.
pub(super) fn join_views(
    transfers: &[ObservedTransfer],
    concluded: &mut [RunConclusion<TransferAnalysis>],
) {
    for (sender, receiver) in find_pairs(transfers) {
        let receiver_knows = is_limited_by_receiver(concluded[receiver].analysis.run.limited_by)
            && concluded[sender].analysis.run.limited_by == Limiter::ReceiveWindow;
        let (known, other) = if receiver_knows { (receiver, sender) } else { (sender, receiver) };
        let verdict = &concluded[known].analysis.run;
        let (limiter, confidence_ratio) = (verdict.limited_by, verdict.confidence_ratio);
        if limiter != Limiter::Unknown {
            let yielding = &mut concluded[other];
            yielding.analysis.run.limited_by = limiter;
            yielding.analysis.run.confidence_ratio = confidence_ratio;
            yielding.findings.clear();
        }
    }
}

fn is_limited_by_receiver(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::Application | Limiter::CpuReceiver)
}

/// Returns the places of the views of a sender and a receiver that have a flow in common.
fn find_pairs(transfers: &[ObservedTransfer]) -> Vec<(usize, usize)> {
    let of_direction = |sends: bool| {
        transfers.iter().enumerate().filter(move |(_, transfer)| transfer.sends == sends)
    };
    let pairs = of_direction(false).filter_map(|(place, receiver)| {
        let (sender, _) = of_direction(true).find(|(_, it)| it.shares_flow_with(receiver))?;
        Some((sender, place))
    });
    pairs.collect()
}
