//! Findings and advice from the scan as a whole.
//!
//! First the findings from all cells (the path changed, streams compensate for a clipped window,
//! settings do not matter, many streams), then those of the runs of the recommended, the best and the
//! default setting.
//!
//! Source: the conclusions; the runs' findings. Units: as printed. Error: that of the goodputs.
//! Wrong when: the runs' reports are missing; then only the first kind is reported.

use super::kernel_needs::ClippedWindow;
use super::scan_cells::{SettingGroup, estimate_noise, group_by_setting};
use super::scan_conclusion::{format_setting_phrase, name_direction};
use crate::stats::mean_and_deviation;
use crate::throughput::{name_limiter, to_rate};
use longhaul_model::report::v1::scan::{PathRegime, ScanCell, ScanConclusion};
use longhaul_model::report::v1::{ReportFinding, ThroughputReport};
use longhaul_model::units::{Bytes, capitalize_first, count_of, format_duration};
use std::time::Duration;

/// More streams than this take more than a fair share.
const FAIR_STREAMS: u32 = 8;
/// The minimum number of settings for the finding that none matters.
const MIN_SETTINGS: usize = 4;
/// Settings do not matter if they scatter no more than this, or than their repeats.
const ALIKE_RATIO: f64 = 0.015;
/// The maximum number of findings copied from each run.
const MAX_FINDINGS_PER_RUN: usize = 2;

/// The input of the findings of one direction.
pub struct ScanCase<'a> {
    pub found: &'a ScanConclusion,
    pub cells: &'a [&'a ScanCell],
    pub gap: Option<&'a ClippedWindow>,
    pub runs: &'a [ThroughputReport],
    /// Both directions were scanned, so each finding names its direction.
    pub both: bool,
}

pub fn list_scan_findings(case: &ScanCase) -> Vec<ReportFinding> {
    let mut all: Vec<ReportFinding> = [
        case.gap.and_then(|gap| report_clipped_window(case, gap)),
        find_no_effect(case),
        find_many_streams(case),
    ]
    .into_iter()
    .flatten()
    .collect();
    let own = collect_run_findings(case);
    let window_told = case.gap.is_some();
    all.extend(own.into_iter().filter(|f| !(window_told && f.cause == "receive_window")));
    if case.both {
        for finding in &mut all {
            let way = capitalize_first(name_direction(case.found.forward));
            finding.summary = format!("{way}: {}", finding.summary);
        }
    }
    all
}

pub fn find_path_change(regimes: &[PathRegime]) -> Option<ReportFinding> {
    let last = regimes.last()?;
    let supports = regimes.iter().map(describe_regime).collect();
    let change = last.change.as_deref().filter(|c| !c.is_empty());
    let what = change.unwrap_or("its level changed");
    Some(ReportFinding {
        supports,
        ..ReportFinding::new(
            "path_changed",
            0.95,
            format!(
                "The path changed during the scan: {what}. Cells before and after are neither compared nor averaged"
            ),
        )
    })
}

fn describe_regime(regime: &PathRegime) -> String {
    let time = |us: u64| format_duration(Duration::from_micros(us));
    let level =
        regime.sentinel_bps.map_or(String::new(), |bps| format!(", sentinel {}", to_rate(bps)));
    let rtt = regime.idle_rtt_us.map_or(String::new(), |us| format!(", idle RTT {}", time(us)));
    format!(
        "cells {} to {}, from {} to {} of the scan{level}{rtt}",
        regime.first_cell,
        regime.last_cell,
        time(regime.from_us),
        time(regime.to_us)
    )
}

fn report_clipped_window(case: &ScanCase, gap: &ClippedWindow) -> Option<ReportFinding> {
    let recommended = case.found.recommended.as_ref()?;
    let sysctl =
        if gap.clip.is_some() { gap.end.max_sysctl() } else { gap.end.autotuning_sysctl() };
    let cut = gap.clip.map_or_else(
        || format!("does not autotune a large enough window ({sysctl})"),
        |(asked, granted)| {
            format!("got {} of the requested {} ({sysctl})", Bytes(granted), Bytes(asked))
        },
    );
    let each = gap.one_stream_bps.map_or(String::new(), |bps| {
        format!(
            "; at {} RTT that is {} per stream",
            format_duration(Duration::from_micros(gap.idle_rtt_us)),
            to_rate(bps)
        )
    });
    let many = count_of(u64::from(recommended.setting.streams), "stream");
    let summary = format!(
        "{} {cut}{each}. The {many} work around that window: together they reach {}",
        gap.host,
        to_rate(recommended.goodput_bps)
    );
    let mut found = ReportFinding::new("window_clipped", 0.9, summary);
    let text = format!("On {}: allow {} per stream", gap.host, Bytes(gap.wanted_bytes));
    for need in case.found.needs.iter().filter(|n| n.place == gap.end.place()) {
        let quote = if need.wanted.contains(' ') { "\"" } else { "" };
        let advice = found.advise(gap.end.place(), text.clone());
        advice.command = Some(format!("sysctl -w {}={quote}{}{quote}", need.name, need.wanted));
        advice.expected_bps = case.found.best.as_ref().map(|b| b.goodput_bps);
    }
    let text = format!("Until then, use {}", format_setting_phrase(&recommended.setting));
    found.advise("initiator", text);
    Some(found)
}

fn find_no_effect(case: &ScanCase) -> Option<ReportFinding> {
    let groups = group_by_setting(case.cells, case.found.forward);
    let medians: Vec<f64> = groups.iter().map(SettingGroup::median_bps).collect();
    if medians.len() < MIN_SETTINGS {
        return None;
    }
    let (mean, deviation) = mean_and_deviation(&medians)?;
    let repeats = case.cells.iter().filter(|c| c.forward == case.found.forward).count() as f64
        / groups.len() as f64;
    let by_chance = estimate_noise(&groups).map_or(0.0, |n| n.ratio / repeats.sqrt());
    if deviation > mean * by_chance.max(ALIKE_RATIO) {
        return None;
    }
    let (best, recommended) = (case.found.best.as_ref()?, case.found.recommended.as_ref()?);
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let summary = format!(
        "The settings make no difference: all {} gave {} to {}, which is within noise. They are limited by {}",
        groups.len(),
        to_rate(least.round() as u64),
        to_rate(best.goodput_bps),
        name_limiter(recommended.limited_by)
    );
    Some(ReportFinding::new("settings_do_not_matter", 0.8, summary))
}

fn find_many_streams(case: &ScanCase) -> Option<ReportFinding> {
    let recommended = case.found.recommended.as_ref()?;
    let count = recommended.setting.streams;
    (count > FAIR_STREAMS).then(|| {
        let summary = format!(
            "on a shared path, {} take the share of {count} flows",
            count_of(u64::from(count), "stream")
        );
        let mut found = ReportFinding::new("many_streams", 1.0, summary);
        found.advise("initiator", "Use that many only on a path of your own, or at quiet hours");
        found
    })
}

/// Returns the findings of the runs of the recommended, the best and the default setting, one for
/// each cause and place.
fn collect_run_findings(case: &ScanCase) -> Vec<ReportFinding> {
    let found = case.found;
    let choices = [&found.recommended, &found.best, &found.default];
    let mut kept: Vec<ReportFinding> = Vec::new();
    for choice in choices.into_iter().flatten() {
        let of_choice = |r: &&ThroughputReport| choice.run_ids.contains(&r.run.id);
        let Some(run) = case.runs.iter().rfind(of_choice) else {
            continue;
        };
        for finding in run.findings.iter().take(MAX_FINDINGS_PER_RUN) {
            if !kept.iter().any(|k| {
                k.cause == finding.cause && find_advice_place(k) == find_advice_place(finding)
            }) {
                let summary =
                    format!("With {}: {}", format_setting_phrase(&choice.setting), finding.summary);
                kept.push(ReportFinding { summary, ..finding.clone() });
            }
        }
    }
    kept
}

fn find_advice_place(finding: &ReportFinding) -> Option<&str> {
    finding.advice.first().map(|a| a.place.as_str())
}
