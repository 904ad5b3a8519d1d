//! Checks whether a firewall tracks the connection of every packet.
//!
//! Source: Linux networking/nf_conntrack-sysctl (2025). Units: connections.
//! Error: the count is of one moment. Wrong when: the table fills in bursts.

use super::AuditRule;
use super::audit_case::{AuditCase, FAST_BPS};
use super::host_readings::ReadingResult;
use super::rule_judgement::{RuleJudgement, judge_advice, judge_good, remedy_by_hand};

const TRACKING: &str = "conntrack";
const TABLE: [&str; 2] = ["conntrack.count", "conntrack.max"];
/// Above this a short burst of connections may fill the table.
const NEARLY_FULL_RATIO: f64 = 0.8;

pub const RULES: &[AuditRule] = &[
    AuditRule {
        name: "connection_tracking",
        title: "packets bypass connection tracking",
        source: "Linux networking/nf_conntrack-sysctl (2025)",
        needs: &[TRACKING],
        by_path: true,
        applies: false,
        judge: judge_connection_tracking,
    },
    AuditRule {
        name: "connection_table",
        title: "free space in the connection table",
        source: "Linux networking/nf_conntrack-sysctl (2025)",
        needs: &TABLE,
        by_path: false,
        applies: false,
        judge: judge_connection_table,
    },
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
    Ok(judge_advice(text)
        .remedy(remedy_by_hand("Exempt the transfers with `notrack` rules of nftables")))
}

fn judge_connection_table(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let (count, most) = (case.readings.number(TABLE[0])?, case.readings.number(TABLE[1])?);
    let text = format!("{count} of {most} connections");
    if (count as f64) < NEARLY_FULL_RATIO * most as f64 {
        return Ok(judge_good(text));
    }
    let text = format!("{text}: a full table drops new connections");
    Ok(judge_advice(text).remedy(remedy_by_hand("Raise net.netfilter.nf_conntrack_max")))
}
