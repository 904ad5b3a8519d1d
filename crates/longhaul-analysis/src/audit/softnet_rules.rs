//! Checks whether this host dropped packets or fell behind in processing them.
//!
//! Source: Linux sysctl/net (2025), netdev_max_backlog and netdev_budget. Units: packets, times.
//! Error: counts are of all cores, since boot. Wrong when: the drops were long ago; a run reads the
//! counters before and after itself.

use super::AuditRule;
use super::audit_case::AuditCase;
use super::host_readings::ReadingResult;
use super::rule_judgement::{RuleJudgement, judge_advice, judge_good, remedy_by_command};

const DROPPED: &str = "softnet.dropped";
const PROCESSED: &str = "softnet.processed";
const SQUEEZED: &str = "softnet.squeezed";
/// The ratio of squeezed softirq rounds to packets above which the rule reports them.
const SQUEEZED_RATIO: f64 = 1e-4;

pub const RULES: &[AuditRule] = &[
    AuditRule::of_host("softnet_drops", judge_softnet_drops)
        .title("packets dropped between interface and TCP")
        .source("Linux sysctl/net, netdev_max_backlog (2025)")
        .needs(&[DROPPED, PROCESSED]),
    AuditRule::of_host("softnet_squeezed", judge_softnet_squeezed)
        .title("softirq rounds that were cut short")
        .source("Linux sysctl/net, netdev_budget (2025)")
        .needs(&[SQUEEZED, PROCESSED]),
];

fn judge_softnet_drops(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let dropped = case.readings.number(DROPPED)?;
    let processed = case.readings.number(PROCESSED)?;
    let text = format!("{dropped} of {processed} packets dropped since boot");
    if dropped == 0 {
        return Ok(judge_good(text));
    }
    let text = format!("{text}: TCP treats each as loss on the path");
    let why = "Use a longer queue if the drops increase during a run";
    Ok(advise_doubling(case, text, "net.core.netdev_max_backlog", 1_000_000, why))
}

/// Returns advice to double a sysctl, up to a limit, if it can be read.
fn advise_doubling(
    case: &AuditCase,
    text: String,
    name: &str,
    most: u64,
    why: &str,
) -> RuleJudgement {
    let mut judged = judge_advice(text);
    judged.remedies.extend(case.readings.number(name).ok().map(|present| {
        let twice = present.saturating_mul(2).min(most).max(present);
        remedy_by_command(format!("sysctl -w {name}={twice}"), why)
    }));
    judged
}

fn judge_softnet_squeezed(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let squeezed = case.readings.number(SQUEEZED)?;
    let processed = case.readings.number(PROCESSED)?;
    let text = format!("{squeezed} softirq rounds cut short in {processed} packets since boot");
    if squeezed as f64 <= SQUEEZED_RATIO * processed as f64 {
        return Ok(judge_good(text));
    }
    let text = format!("{text}: packets waited for the next round");
    let why = "Process more packets in one round";
    Ok(advise_doubling(case, text, "net.core.netdev_budget", 10_000, why))
}
