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

mod autotuning;
mod buffers;
mod bus;
mod case;
mod clock;
mod congestion;
mod conntrack;
mod interface;
mod judgement;
mod offloads;
mod processor;
mod proof;
mod queueing;
mod readings;
mod reference;
mod softnet;
#[cfg(test)]
mod tests;

use case::Case;
use judgement::{Judge, Judgement, unknown};
use longhaul_model::report::v1::host::{Analysis, Grade, Observation, Path, Plan, Verdict};
use longhaul_model::report::v1::{Advice, Caveat, Finding};
use readings::Readings;

pub use proof::{Bearing, bearing, helped, prove};

/// A rule of the host audit.
pub struct Rule {
    /// Its stable identifier.
    pub name: &'static str,
    /// The checked property, for people.
    pub title: &'static str,
    /// The document, with its year.
    pub source: &'static str,
    /// Readings without which the rule cannot be checked.
    pub needs: &'static [&'static str],
    /// Set if the verdict depends on the path.
    pub by_path: bool,
    /// Set if the program may write the remedy: it is reversible and affects no one else.
    pub applies: bool,
    judge: Judge,
}

const SUBJECTS: [&[Rule]; 11] = [
    buffers::RULES,
    autotuning::RULES,
    congestion::RULES,
    queueing::RULES,
    interface::RULES,
    offloads::RULES,
    processor::RULES,
    bus::RULES,
    clock::RULES,
    conntrack::RULES,
    softnet::RULES,
];

/// Returns all rules, by subject.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SUBJECTS.into_iter().flatten()
}

/// Applies every rule to the paths of the plan, or to a reference path if the plan names none.
pub fn audit(plan: &Plan, observation: &Observation) -> (Analysis, Vec<Finding>, Vec<Caveat>) {
    let readings = Readings::new(observation);
    let mut caveats = caveats(readings);
    let mut paths = plan.paths.clone();
    if paths.is_empty() {
        let path = reference::path(readings);
        caveats.push(reference::caveat(&path));
        paths.push(path);
    }
    // The most demanding path comes first, so that verdicts name it.
    paths.sort_by_key(|path| std::cmp::Reverse(case::in_flight_bytes(path)));
    let mut verdicts: Vec<Verdict> = rules()
        .map(|rule| verdict(rule, observation, &paths))
        .collect();
    verdicts.sort_by_key(|verdict| (verdict.grade, verdict.bound_bps.unwrap_or(u64::MAX)));
    let findings = verdicts.iter().filter_map(finding).collect();
    let analysis = Analysis {
        version: crate::VERSION,
        verdicts,
        proof: prove(&observation.trials),
    };
    (analysis, findings, caveats)
}

/// Returns the worst judgement over the paths.
fn verdict(rule: &Rule, observation: &Observation, paths: &[Path]) -> Verdict {
    let readings = Readings::new(observation);
    let unread = rule.needs.iter().find_map(|name| readings.text(name).err());
    let judge = |path| {
        let case = Case::new(readings, observation, path);
        let judged = match &unread {
            Some(why) => Err(why.clone()),
            None => (rule.judge)(&case),
        };
        (path, judged.unwrap_or_else(unknown))
    };
    let worst = paths.iter().map(judge).min_by_key(|(_, j)| j.grade);
    let (path, judgement) = worst.map_or_else(
        || (None, unknown(String::from("no path is given"))),
        |(path, judgement)| (Some(path), judgement),
    );
    let Judgement {
        grade,
        text,
        bound_bps,
        mut remedies,
    } = judgement;
    for remedy in remedies.iter_mut().filter(|_| !rule.applies) {
        remedy.name = None;
        remedy.value = None;
    }
    Verdict {
        rule: rule.name.to_owned(),
        grade,
        text,
        path: path
            .filter(|_| rule.by_path && grade != Grade::Unknown)
            .map(|path| path.name.clone()),
        bound_bps,
        remedies,
        source: rule.source.to_owned(),
    }
}

/// Returns a finding for a setting that limits; it names the path if the verdict does.
fn finding(verdict: &Verdict) -> Option<Finding> {
    if verdict.grade != Grade::Limits {
        return None;
    }
    let advice = verdict.remedies.iter().map(|remedy| Advice {
        place: String::from("initiator"),
        text: remedy.text.clone(),
        command: remedy.command.clone(),
        expected_bps: None,
    });
    Some(Finding {
        cause: verdict.rule.clone(),
        summary: verdict.text.clone(),
        confidence_ratio: 1.0,
        supports: verdict.path.iter().map(|p| format!("path {p}")).collect(),
        contradicts: Vec::new(),
        advice: advice.collect(),
    })
}

fn caveats(readings: Readings) -> Vec<Caveat> {
    let mut found = Vec::new();
    if readings.switch("cpu.hypervisor") == Ok(true) {
        found.push(Caveat::new(
            "virtual_machine",
            "this is a virtual machine: the interface, the processor and the queues beneath it \
             are not seen from here",
        ));
    }
    found
}
