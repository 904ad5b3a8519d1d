//! Finds the facts of the two hosts that changed, and when.
//!
//! Bulk runs carry some facts of both hosts, audits carry all of them. Both use the same names
//! (those of an audit's readings), so they form one series of readings for each fact.
//!
//! Source: none; it sorts what was read. Units: as the kernel gives them. Error: none.
//! Wrong when: one name denotes two interfaces because the route moved to another one.

use super::cause_selection::weight;
use super::change_evidence::HostRole;
use super::event_case::EventCase;
use super::event_format;
use super::state_change::{StateChange, StateReading};
use longhaul_model::report::v1::{ReportFinding, observation};
use std::collections::BTreeMap;

/// A changed fact of one host.
pub struct HostFactChange {
    pub role: HostRole,
    pub name: String,
    pub change: StateChange<String>,
}

impl HostFactChange {
    /// Returns the last number of both values; in a triple that is the maximum.
    pub fn numbers(&self) -> Option<(f64, f64)> {
        Some((parse_last_number(&self.change.from)?, parse_last_number(&self.change.to)?))
    }
}

fn parse_last_number(text: &str) -> Option<f64> {
    text.split_whitespace().next_back()?.parse::<f64>().ok().filter(|n| n.is_finite())
}

type FactReadings = BTreeMap<(HostRole, String), Vec<StateReading<String>>>;

/// Creates the candidate of a changed fact; `subject` is what changed, `told` describes it.
pub fn create_fact_candidate(
    case: &EventCase,
    cause: &str,
    subject: &str,
    changed: &HostFactChange,
    told: &str,
) -> ReportFinding {
    let (role, between_us) = (changed.role, changed.change.between_us);
    let span = event_format::format_time_span(between_us);
    let text =
        format!("{subject} of the {} {} changed {span}: {told}", role.word(), case.host(role));
    case.candidate(cause, weight::HOST, between_us, text)
}

pub fn format_fact_change(changed: &HostFactChange) -> String {
    let [name, from, to] = [&changed.name, &changed.change.from, &changed.change.to]
        .map(|text| event_format::sanitize_name(text));
    format!("{name} from {from} to {to}")
}

/// Returns the matching facts, each with its change nearest to the event.
pub fn find_changed_facts(case: &EventCase, fits: impl Fn(&str) -> bool) -> Vec<HostFactChange> {
    let rows = collect_fact_readings(case).into_iter().filter(|((_, name), _)| fits(name));
    rows.filter_map(|((role, name), readings)| {
        let change = case.nearest_state_change(readings, PartialEq::eq)?;
        Some(HostFactChange { role, name, change })
    })
    .collect()
}

/// Returns true if each host has a matching fact that was read before and after the event.
pub fn is_read_on_both_sides(case: &EventCase, fits: impl Fn(&str) -> bool) -> bool {
    let [begin, end] = case.event.between_us;
    let beside = |readings: &[StateReading<String>]| {
        readings.iter().any(|r| r.at_us <= begin) && readings.iter().any(|r| r.at_us >= end)
    };
    let rows = collect_fact_readings(case);
    [HostRole::Sender, HostRole::Receiver].into_iter().all(|role| {
        rows.iter().any(|((of, name), readings)| *of == role && fits(name) && beside(readings))
    })
}

fn collect_fact_readings(case: &EventCase) -> FactReadings {
    let mut rows = FactReadings::new();
    for seen in &case.evidence.throughput {
        for place in [HostRole::Sender, HostRole::Receiver] {
            let Some(end) = seen.end(place) else { continue };
            for (name, value) in list_host_facts(&end.host) {
                push_fact_reading(&mut rows, (place, name), seen.at_us, &value);
            }
            let initiates = (place == HostRole::Sender) == seen.forward;
            let run = &seen.report.run;
            let party = if initiates { &run.initiator } else { &run.responder };
            if let Some(version) = party.longhaul.as_ref().filter(|v| !v.is_empty()) {
                let key = (place, String::from("longhaul"));
                push_fact_reading(&mut rows, key, seen.at_us, version);
            }
        }
    }
    for audit in &case.evidence.hosts {
        let seen = &audit.report.observation;
        let facts = list_host_facts(&seen.host)
            .into_iter()
            .filter(|(name, _)| !seen.readings.contains_key(name));
        for (name, value) in facts.chain(seen.readings.clone()) {
            push_fact_reading(&mut rows, (audit.initiator_role(), name), audit.at_us, &value);
        }
    }
    rows
}

fn push_fact_reading(rows: &mut FactReadings, key: (HostRole, String), at_us: i64, value: &str) {
    // One source separates triples with tabs, the other with spaces.
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    rows.entry(key).or_default().push(StateReading { at_us, value });
}

/// Returns the host facts of a bulk run, under the names that audits use.
fn list_host_facts(host: &observation::HostFacts) -> Vec<(String, String)> {
    let triple = |t: [u64; 3]| format!("{} {} {}", t[0], t[1], t[2]);
    let interface = host.interface.as_ref();
    let known = [
        ("kernel", Some(host.kernel.clone()).filter(|kernel| !kernel.is_empty())),
        ("net.ipv4.tcp_rmem", host.tcp_rmem_bytes.map(triple)),
        ("net.ipv4.tcp_wmem", host.tcp_wmem_bytes.map(triple)),
        ("net.core.rmem_max", host.rmem_max_bytes.map(|b| b.to_string())),
        ("net.core.wmem_max", host.wmem_max_bytes.map(|b| b.to_string())),
        ("net.ipv4.tcp_congestion_control", host.congestion_control.clone()),
        ("interface.name", interface.map(|i| i.name.clone())),
        ("interface.mtu", interface.and_then(|i| i.mtu_bytes).map(|b| b.to_string())),
        ("interface.speed_bps", interface.and_then(|i| i.speed_bps).map(|b| b.to_string())),
    ];
    let mut facts: BTreeMap<String, String> = host.sysctl.clone();
    facts.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    facts.into_iter().collect()
}
