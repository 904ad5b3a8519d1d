//! The result of a rule.
//!
//! Source: none; data types only. Units: bit/s. Error: none. Wrong when: never.

use super::audit_case::AuditCase;
use super::host_readings::ReadingResult;
use longhaul_model::report::v1::host::{AuditGrade, AuditRemedy};

/// The function of a rule that judges the readings for one path.
pub type JudgeRule = fn(&AuditCase) -> ReadingResult<RuleJudgement>;

pub struct RuleJudgement {
    pub grade: AuditGrade,
    pub text: String,
    pub bound_bps: Option<u64>,
    pub remedies: Vec<AuditRemedy>,
}

fn build_judgement(grade: AuditGrade, text: impl Into<String>) -> RuleJudgement {
    RuleJudgement { grade, text: text.into(), bound_bps: None, remedies: Vec::new() }
}

pub fn judge_good(text: impl Into<String>) -> RuleJudgement {
    build_judgement(AuditGrade::Good, text)
}

pub fn judge_advice(text: impl Into<String>) -> RuleJudgement {
    build_judgement(AuditGrade::Advice, text)
}

pub fn judge_limits(text: impl Into<String>) -> RuleJudgement {
    build_judgement(AuditGrade::Limits, text)
}

pub fn judge_unknown(why: String) -> RuleJudgement {
    build_judgement(AuditGrade::Unknown, why)
}

/// Returns a good judgement with the text, or else advice with the trouble after the text.
pub fn judge_unless(
    is_good: bool,
    what: &str,
    trouble: &str,
    remedy: AuditRemedy,
) -> RuleJudgement {
    if is_good {
        return judge_good(what);
    }
    judge_advice(format!("{what}{trouble}")).remedy(remedy)
}

impl RuleJudgement {
    pub fn bound(mut self, bound_bps: Option<u64>) -> Self {
        self.bound_bps = bound_bps;
        self
    }

    pub fn remedy(mut self, remedy: AuditRemedy) -> Self {
        self.remedies.push(remedy);
        self
    }
}

/// Returns a remedy that writes a sysctl. The program may apply it: it is reversible.
pub fn remedy_by_sysctl(
    name: &str,
    value: impl Into<String>,
    text: impl Into<String>,
) -> AuditRemedy {
    let value = value.into();
    let quoted = if value.contains(' ') { format!("\"{value}\"") } else { value.clone() };
    AuditRemedy {
        name: Some(name.to_owned()),
        value: Some(value),
        command: Some(format!("sysctl -w {name}={quoted}")),
        text: text.into(),
    }
}

/// Returns a remedy that is a command for the user.
pub fn remedy_by_command(command: impl Into<String>, text: impl Into<String>) -> AuditRemedy {
    AuditRemedy { name: None, value: None, command: Some(command.into()), text: text.into() }
}

/// Returns a remedy that no command can apply.
pub fn remedy_by_hand(text: impl Into<String>) -> AuditRemedy {
    AuditRemedy { name: None, value: None, command: None, text: text.into() }
}
