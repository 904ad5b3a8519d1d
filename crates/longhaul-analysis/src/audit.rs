//! Is this host set up for the given paths? Rules as data, judged on readings.
//!
//! Each [`Rule`] of [`rules`] names the readings that it needs and where it comes from, and judges
//! one host for one path: the setting cannot carry the path, it may cost something, it is good, or
//! it cannot be told. With several paths the one that asks for most decides. What a remedy names
//! with a value is what the program may write; everything else is for people.
//!
//! Source: each rule names its own; docs/methods/host-audit.md has the table.
//! Units: bytes, bit/s, µs. Error: a bound is what the setting allows, not what will be reached.
//! Wrong when: the paths given are not those that are used.

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

/// One thing that is looked at.
pub struct Rule {
    /// A stable word.
    pub name: &'static str,
    /// What is looked at, for people.
    pub title: &'static str,
    /// The document, with its year.
    pub source: &'static str,
    /// Readings without which nothing can be said.
    pub needs: &'static [&'static str],
    /// Whether the answer depends on the path.
    pub by_path: bool,
    /// Whether the program may write the remedy: it can be put back, and disturbs nobody.
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

/// All rules, by subject.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SUBJECTS.into_iter().flatten()
}

/// Judges every rule for the paths of the plan, or for a reference path where it names none.
pub fn audit(plan: &Plan, observation: &Observation) -> (Analysis, Vec<Finding>, Vec<Caveat>) {
    let readings = Readings::new(observation);
    let mut caveats = caveats(readings);
    let mut paths = plan.paths.clone();
    if paths.is_empty() {
        let path = reference::path(readings);
        caveats.push(reference::caveat(&path));
        paths.push(path);
    }
    // The path that asks for most comes first, so that it is the one that is named.
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

/// The worst judgement over the paths.
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

/// A setting that limits is a finding; with more than one path it says for which.
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
