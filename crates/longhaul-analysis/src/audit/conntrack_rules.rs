//! Checks whether a firewall tracks the connection of every packet.
//!
//! Source: Linux networking/nf_conntrack-sysctl (2025). Units: connections.
//! Error: the count is of one moment. Wrong when: the table fills in bursts.

use super::AuditRule;
use super::audit_case::{AuditCase, FAST_BPS};
use super::host_readings::ReadingResult;
use super::rule_judgement::{
    RuleJudgement, judge_advice, judge_good, judge_unless, remedy_by_hand,
};

const TRACKING: &str = "conntrack";
const TABLE: [&str; 2] = ["conntrack.count", "conntrack.max"];
/// Above this a short burst of connections may fill the table.
const NEARLY_FULL_RATIO: f64 = 0.8;

pub const RULES: &[AuditRule] = &[
    AuditRule::of_path("connection_tracking", judge_connection_tracking)
        .title("packets bypass connection tracking")
        .source("Linux networking/nf_conntrack-sysctl (2025)")
        .needs(&[TRACKING]),
    AuditRule::of_host("connection_table", judge_connection_table)
        .title("free space in the connection table")
        .source("Linux networking/nf_conntrack-sysctl (2025)")
        .needs(&TABLE),
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
    judge_unless(is_good, &text, ": a full table drops new connections", remedy)
}
