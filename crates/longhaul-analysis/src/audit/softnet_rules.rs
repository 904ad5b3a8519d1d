//! Checks whether this host dropped packets or fell behind in processing them.
//!
//! Source: Linux sysctl/net (2025), netdev_max_backlog and netdev_budget. Units: packets, times.
//! Error: counts are of all cores, since boot. Wrong when: the drops were long ago; a run reads the
//! counters before and after itself.
//!
//! # Connection tracking
//!
//! Checks whether a firewall tracks the connection of every packet.
//!
//! Source: Linux networking/nf_conntrack-sysctl (2025). Units: connections.
//! Error: the count is of one moment. Wrong when: the table fills in bursts.

use super::{
    AuditCase, AuditRule, FAST_BPS, ReadingResult, RuleJudgement, judge_advice, judge_good,
    judge_unless, remedy_by_command, remedy_by_hand,
};

const DROPPED: &str = "softnet.dropped";
const PROCESSED: &str = "softnet.processed";
const SQUEEZED: &str = "softnet.squeezed";
/// The ratio of squeezed softirq rounds to packets above which the rule reports them.
const SQUEEZED_RATIO: f64 = 1e-4;

pub const RULES: &[AuditRule] = &[
    AuditRule::of_host("softnet_drops", judge_softnet_drops)
        .title("packets dropped between interface and TCP")
        .source("Linux sysctl/net, netdev_max_backlog (2025)"),
    AuditRule::of_host("softnet_squeezed", judge_softnet_squeezed)
        .title("softirq rounds that were cut short")
        .source("Linux sysctl/net, netdev_budget (2025)"),
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

const TRACKING: &str = "conntrack";
const TABLE: [&str; 2] = ["conntrack.count", "conntrack.max"];
/// Above this a short burst of connections may fill the table.
const NEARLY_FULL_RATIO: f64 = 0.8;

pub const CONNTRACK_RULES: &[AuditRule] = &[
    AuditRule::of_path("connection_tracking", judge_connection_tracking)
        .title("packets bypass connection tracking")
        .source("Linux networking/nf_conntrack-sysctl (2025)"),
    AuditRule::of_host("connection_table", judge_connection_table)
        .title("free space in the connection table")
        .source("Linux networking/nf_conntrack-sysctl (2025)"),
];

fn judge_connection_tracking(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if !case.readings.switch(TRACKING)? {
        return Ok(judge_good("connections are not tracked"));
    }
    if !case.is_at_least(FAST_BPS) {
        return Ok(judge_good("connections are tracked, which costs little at this rate"));
    }
    let text = "connections are tracked: each packet costs a lookup, and packets that seem out of \
                window may be dropped";
    let why = "Exempt the transfers with `notrack` rules of nftables";
    Ok(judge_advice(text).remedy(remedy_by_hand(why)))
}

fn judge_connection_table(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let (count, most) = (case.readings.number(TABLE[0])?, case.readings.number(TABLE[1])?);
    let is_good = (count as f64) < NEARLY_FULL_RATIO * most as f64;
    let remedy = remedy_by_hand("Raise net.netfilter.nf_conntrack_max");
    let text = format!("{count} of {most} connections");
    Ok(judge_unless(is_good, &text, ": a full table drops new connections", remedy))
}
