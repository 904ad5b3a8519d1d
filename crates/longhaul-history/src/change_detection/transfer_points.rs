//! The series of transfers of other programs: their names, and the values of a report.
//!
//! Source: the report's own analysis. Units: bit/s, ratios. Error: that of the report.
//! Wrong when: programs with the same name do different things; they share a series.

use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::flows::{ObservedTransfer, TransferIdentity};
use longhaul_model::report::v1::{FlowsReport, HostPair, Report, ThroughputReport};
use longhaul_model::sanitize::sanitize_line;

/// The maximum number of transfers of a report that become points of series, the busiest first.
pub const MAX_SERIES_TRANSFERS: usize = 16;
/// The maximum length of the name of a program in a series; the kernel's are shorter.
const MAX_PROGRAM_CHARS: usize = 32;
/// The maximum length of an address.
const MAX_PEER_CHARS: usize = 64;

/// Returns the pair of the series of a transfer on this host.
pub fn transfer_pair(host: &str, transfer: &ObservedTransfer) -> HostPair {
    let name = transfer.process.as_ref().map_or("", |process| process.name.as_str());
    let program = sanitize_line(name, MAX_PROGRAM_CHARS);
    let peer = sanitize_line(&transfer.peer, MAX_PEER_CHARS);
    let named = |text: &str| if text.is_empty() { "?".to_owned() } else { text.to_owned() };
    let (program, peer) = (named(&program), named(&peer));
    TransferIdentity { host, program: &program, peer: &peer, sends: transfer.sends }.to_pair()
}

/// Returns the busiest transfer of a series as a run of which this end was observed, with its own
/// findings.
pub fn extract_transfer(report: &FlowsReport, pair: &HostPair) -> Option<ThroughputReport> {
    let host = TransferIdentity::of_pair(pair)?.host;
    let mut all = report.observation.transfers.iter().zip(&report.analysis.transfers);
    let (seen, judged) = all.find(|(seen, _)| transfer_pair(host, seen) == *pair)?;
    let findings = judged.finding_index.iter().filter_map(|at| report.findings.get(*at as usize));
    let run =
        Report::new(report.run.clone(), seen.plan.clone(), seen.run.clone(), judged.run.clone());
    Some(run.with_notes(findings.cloned().collect(), Vec::new()))
}

/// The values of a report for one series.
pub struct TransferValues<'a> {
    pub pair: HostPair,
    /// Of all transfers with this name.
    pub rate_bps: u64,
    /// The busiest of them.
    pub run: &'a ThroughputAnalysis,
}

/// Returns the values of the busiest transfers of a host. A transfer without payload has none.
pub fn list_transfer_values<'a>(report: &'a FlowsReport, host: &str) -> Vec<TransferValues<'a>> {
    let mut named: Vec<TransferValues<'a>> = Vec::new();
    for (seen, judged) in report.observation.transfers.iter().zip(&report.analysis.transfers) {
        let (pair, run) = (transfer_pair(host, seen), &judged.run);
        let Some(rate_bps) = run.goodput_bps.filter(|bps| *bps > 0) else { continue };
        if let Some(known) = named.iter_mut().find(|known| known.pair == pair) {
            known.rate_bps = known.rate_bps.saturating_add(rate_bps);
        } else if named.len() < MAX_SERIES_TRANSFERS {
            named.push(TransferValues { pair, rate_bps, run });
        }
    }
    named
}

/// The minimum share of the time that must be explained.
const MIN_EXPLAINED_RATIO: f64 = 0.5;

/// Returns the share of the explained time in which a host was the limit and not the network.
pub fn compute_host_share(analysis: &ThroughputAnalysis) -> Option<f64> {
    let sum = |is: fn(Limiter) -> bool| -> f64 {
        let shares = analysis.shares.iter().filter(|it| is(it.limiter));
        shares.map(|it| it.share_ratio).sum()
    };
    let host = sum(|it| {
        it.is_window()
            || matches!(
                it,
                Limiter::Application | Limiter::CpuSender | Limiter::CpuReceiver | Limiter::Pacing
            )
    });
    let explained = 1.0 - sum(|it| matches!(it, Limiter::Ramp | Limiter::Unknown));
    (explained >= MIN_EXPLAINED_RATIO && !analysis.shares.is_empty())
        .then(|| (host / explained).clamp(0.0, 1.0))
}
