//! Audits the host's settings for the given paths, with rules as data applied to readings.
//!
//! Each rule names the readings that it needs and its source, and judges one host for one path: the
//! setting limits the path, it may cost something, it is good, or it could not be checked. With
//! several paths the most demanding one decides. The program may write a remedy that names a
//! setting and a value; every other remedy is for the user.
//!
//! Source: each rule names its own; docs/methods/host-audit.md has the table.
//! Units: bytes, bit/s, µs. Error: a bound is what the setting allows, not the rate that will be
//! reached.
//! Wrong when: the given paths are not the ones in use.

mod audit_case;
mod buffer_rules;
mod change_trials;
mod clock_rules;
mod cpu_rules;
mod host_readings;
mod interface_rules;
mod offload_rules;
mod queueing_rules;
mod rule_judgement;
mod softnet_rules;
mod tcp_rules;
#[cfg(test)]
mod tests;

use audit_case::AuditCase;
use host_readings::HostReadings;
use longhaul_model::report::v1::host::{
    AuditAnalysis, AuditGrade, AuditObservation, AuditPath, AuditPlan, AuditVerdict,
};
use longhaul_model::report::v1::{FindingAdvice, ReportCaveat, ReportFinding};
use rule_judgement::{JudgeRule, RuleJudgement, judge_unknown};

pub use change_trials::{affects_direction, evaluate_trials, has_helped};

/// A rule of the host audit.
pub struct AuditRule {
    /// Its stable identifier.
    pub name: &'static str,
    /// The checked property, for people.
    pub title: &'static str,
    /// The document, with its year.
    pub source: &'static str,
    /// Set if the verdict depends on the path.
    pub by_path: bool,
    judge: JudgeRule,
}

impl AuditRule {
    /// Creates a rule whose verdict depends on the path.
    const fn of_path(name: &'static str, judge: JudgeRule) -> AuditRule {
        AuditRule { by_path: true, ..AuditRule::of_host(name, judge) }
    }

    /// Creates a rule whose verdict is the same for all paths.
    const fn of_host(name: &'static str, judge: JudgeRule) -> AuditRule {
        AuditRule { name, title: "", source: "", by_path: false, judge }
    }

    const fn title(self, title: &'static str) -> AuditRule {
        AuditRule { title, ..self }
    }

    const fn source(self, source: &'static str) -> AuditRule {
        AuditRule { source, ..self }
    }
}

const SUBJECTS: [&[AuditRule]; 11] = [
    buffer_rules::RULES,
    tcp_rules::RULES,
    tcp_rules::CONGESTION_RULES,
    queueing_rules::RULES,
    interface_rules::RULES,
    offload_rules::RULES,
    cpu_rules::RULES,
    interface_rules::BUS_RULES,
    clock_rules::RULES,
    softnet_rules::CONNTRACK_RULES,
    softnet_rules::RULES,
];

/// Returns all rules, by subject.
pub fn list_rules() -> impl Iterator<Item = &'static AuditRule> {
    SUBJECTS.into_iter().flatten()
}

/// Applies every rule to the paths of the plan, or to a reference path if the plan names none.
pub fn audit_host(
    plan: &AuditPlan,
    observation: &AuditObservation,
) -> (AuditAnalysis, Vec<ReportFinding>, Vec<ReportCaveat>) {
    let readings = HostReadings::new(observation);
    let mut caveats = collect_audit_caveats(readings);
    let mut paths = plan.paths.clone();
    if paths.is_empty() {
        let path = audit_case::build_reference_path(readings);
        caveats.push(audit_case::build_reference_caveat(&path));
        paths.push(path);
    }
    // The most demanding path comes first, so that verdicts name it.
    paths.sort_by_key(|path| std::cmp::Reverse(audit_case::compute_bdp_bytes(path)));
    let mut verdicts: Vec<AuditVerdict> =
        list_rules().map(|rule| judge_rule(rule, observation, &paths)).collect();
    verdicts.sort_by_key(|verdict| (verdict.grade, verdict.bound_bps.unwrap_or(u64::MAX)));
    let findings = verdicts.iter().filter_map(build_audit_finding).collect();
    let analysis = AuditAnalysis {
        version: crate::VERSION,
        verdicts,
        proof: evaluate_trials(&observation.trials),
    };
    (analysis, findings, caveats)
}

/// Returns the worst judgement over the paths.
fn judge_rule(
    rule: &AuditRule,
    observation: &AuditObservation,
    paths: &[AuditPath],
) -> AuditVerdict {
    let readings = HostReadings::new(observation);
    let judge = |path| {
        let case = AuditCase { readings, observation, path };
        (path, (rule.judge)(&case).unwrap_or_else(judge_unknown))
    };
    let worst = paths.iter().map(judge).min_by_key(|(_, j)| j.grade);
    let (path, judgement) = worst.map_or_else(
        || (None, judge_unknown(String::from("no path was given"))),
        |(path, judgement)| (Some(path), judgement),
    );
    let RuleJudgement { grade, text, bound_bps, remedies } = judgement;
    AuditVerdict {
        rule: rule.name.to_owned(),
        grade,
        text,
        path: path
            .filter(|_| rule.by_path && grade != AuditGrade::Unknown)
            .map(|path| path.name.clone()),
        bound_bps,
        remedies,
        source: rule.source.to_owned(),
    }
}

/// Returns a finding for a setting that limits; it names the path if the verdict does.
fn build_audit_finding(verdict: &AuditVerdict) -> Option<ReportFinding> {
    if verdict.grade != AuditGrade::Limits {
        return None;
    }
    let advice = verdict.remedies.iter().map(|remedy| FindingAdvice {
        place: String::from("initiator"),
        text: remedy.text.clone(),
        command: remedy.command.clone(),
        expected_bps: None,
    });
    Some(ReportFinding {
        cause: verdict.rule.clone(),
        summary: verdict.text.clone(),
        confidence_ratio: 1.0,
        supports: verdict.path.iter().map(|p| format!("path {p}")).collect(),
        contradicts: Vec::new(),
        advice: advice.collect(),
    })
}

fn collect_audit_caveats(readings: HostReadings) -> Vec<ReportCaveat> {
    let mut found = Vec::new();
    if readings.switch("cpu.hypervisor") == Ok(true) {
        found.push(ReportCaveat::new(
            "virtual_machine",
            "this is a virtual machine: the physical interface, CPU and queues beneath it are not \
             visible",
        ));
    }
    found
}
