//! Findings and advice from the scan as a whole.
//!
//! First the findings from all cells (the path changed, streams compensate for a clipped window,
//! the present setting is too small, settings do not matter, many streams), then those of the runs
//! of the recommended, the best and the default setting.
//!
//! Source: the conclusions; the runs' findings. Units: as printed. Error: that of the goodputs.
//! Wrong when: the runs' reports are missing; then only the first kind is reported.

use super::cells::{Group, groups};
use super::needs::Stopgap;
use super::noise::noise;
use super::words::{direction, setting};
use crate::diagnose::{advice, unproven};
use crate::stats::robust::mean_and_deviation;
use crate::throughput::words::{name, percent, rate, streams};
use longhaul_model::report::v1::scan::{Cell, Choice, Conclusion, Need, Regime};
use longhaul_model::report::v1::{Advice, Finding, Throughput};
use longhaul_model::units::{Bytes, format_duration};
use std::time::Duration;

/// The present setting is too small below this share of the best.
const PRESENT_RATIO: f64 = 0.9;
/// More streams than this take more than a fair share.
const FAIR_STREAMS: u32 = 8;
/// The minimum number of settings for the finding that none matters.
const LEAST_SETTINGS: usize = 4;
/// Settings do not matter if they scatter no more than this, or than their repeats.
const ALIKE_RATIO: f64 = 0.015;
/// The maximum number of findings copied from each run.
const MOST_OF_A_RUN: usize = 2;

/// The input of the findings of one direction.
pub struct Case<'a> {
    pub found: &'a Conclusion,
    pub cells: &'a [&'a Cell],
    pub gap: Option<&'a Stopgap>,
    pub runs: &'a [Throughput],
    /// Both directions were scanned, so each finding names its direction.
    pub both: bool,
}

pub fn findings(case: &Case) -> Vec<Finding> {
    let mut all: Vec<Finding> = [
        case.gap.and_then(|gap| clipped(case, gap)),
        present_too_small(case),
        nothing_matters(case),
        many_streams(case),
    ]
    .into_iter()
    .flatten()
    .collect();
    let own = taken_over(case);
    let window_told = case.gap.is_some();
    all.extend(
        own.into_iter()
            .filter(|f| !(window_told && f.cause == "receive_window")),
    );
    if case.both {
        for finding in &mut all {
            let way = direction(case.found.forward);
            finding.summary = format!(
                "{}{}: {}",
                way[..1].to_uppercase(),
                &way[1..],
                finding.summary
            );
        }
    }
    all
}

pub fn path_changed(regimes: &[Regime]) -> Option<Finding> {
    let last = regimes.last()?;
    let supports = regimes.iter().map(told).collect();
    let change = last.change.as_deref().filter(|c| !c.is_empty());
    let what = change.unwrap_or("its level changed");
    Some(Finding {
        supports,
        ..unproven(
            "path_changed",
            0.95,
            format!(
                "The path changed during the scan: {what}. Cells of the two are not compared, and nothing is averaged over the change"
            ),
        )
    })
}

fn told(regime: &Regime) -> String {
    let time = |us: u64| format_duration(Duration::from_micros(us));
    let level = regime
        .sentinel_bps
        .map_or(String::new(), |bps| format!(", sentinel {}", rate(bps)));
    let rtt = regime
        .idle_rtt_us
        .map_or(String::new(), |us| format!(", idle RTT {}", time(us)));
    format!(
        "cells {} to {}, from {} to {} of the scan{level}{rtt}",
        regime.first_cell,
        regime.last_cell,
        time(regime.from_us),
        time(regime.to_us)
    )
}

fn clipped(case: &Case, gap: &Stopgap) -> Option<Finding> {
    let recommended = case.found.recommended.as_ref()?;
    let sysctl = if gap.clip.is_some() {
        gap.end.ceiling()
    } else {
        gap.end.sizes()
    };
    let cut = gap.clip.map_or_else(
        || format!("sizes no window wide enough ({sysctl})"),
        |(asked, granted)| {
            format!(
                "granted {} of the {} asked for: its {sysctl} allows no more",
                Bytes(granted),
                Bytes(asked)
            )
        },
    );
    let each = gap.one_stream_bps.map_or(String::new(), |bps| {
        format!(
            "; per {} that is {} for each stream",
            format_duration(Duration::from_micros(gap.idle_rtt_us)),
            rate(bps)
        )
    });
    let many = streams(recommended.setting.streams);
    let summary = format!(
        "{} {cut}{each}. The {many} are a stopgap for that window: together they reach {}",
        gap.host,
        rate(recommended.goodput_bps)
    );
    let mut found = unproven("window_clipped", 0.9, summary);
    let needs = case
        .found
        .needs
        .iter()
        .filter(|n| n.place == gap.end.place());
    found.advice = needs.map(|n| raise(n, gap, case)).collect();
    found.advice.push(advice(
        "initiator",
        format!("Until then, use {}", setting(&recommended.setting)),
    ));
    Some(found)
}

fn raise(need: &Need, gap: &Stopgap, case: &Case) -> Advice {
    let value = if need.wanted.contains(' ') {
        format!("\"{}\"", need.wanted)
    } else {
        need.wanted.clone()
    };
    Advice {
        command: Some(format!("sysctl -w {}={value}", need.name)),
        expected_bps: case.found.best.as_ref().map(|b| b.goodput_bps),
        ..advice(
            gap.end.place(),
            format!(
                "On {}, let one stream have {}",
                gap.host,
                Bytes(gap.wanted_bytes)
            ),
        )
    }
}

fn present_too_small(case: &Case) -> Option<Finding> {
    let (present, best) = (case.found.present.as_ref()?, case.found.best.as_ref()?);
    let recommended = case.found.recommended.as_ref()?;
    let ratio = present.goodput_bps as f64 / best.goodput_bps.max(1) as f64;
    if ratio >= PRESENT_RATIO || overlap(present, best) {
        return None;
    }
    let summary = format!(
        "The present setting, {}, gives {}: {} of the {} that {} gives. It is held by {}",
        setting(&present.setting),
        rate(present.goodput_bps),
        percent(ratio),
        rate(best.goodput_bps),
        setting(&best.setting),
        name(present.limited_by)
    );
    let mut found = unproven("present_too_small", 0.9, summary);
    found.advice.push(Advice {
        expected_bps: Some(recommended.goodput_bps),
        ..advice(
            "initiator",
            format!("Use {}", setting(&recommended.setting)),
        )
    });
    Some(found)
}

fn overlap(lower: &Choice, upper: &Choice) -> bool {
    let bounds = lower.goodput_interval_bps.zip(upper.goodput_interval_bps);
    bounds.is_some_and(|(lower, upper)| lower[1] >= upper[0])
}

fn nothing_matters(case: &Case) -> Option<Finding> {
    let groups = groups(case.cells, case.found.forward);
    let medians: Vec<f64> = groups.iter().map(Group::median_bps).collect();
    if medians.len() < LEAST_SETTINGS {
        return None;
    }
    let (mean, deviation) = mean_and_deviation(&medians)?;
    let repeats = case
        .cells
        .iter()
        .filter(|c| c.forward == case.found.forward)
        .count() as f64
        / groups.len() as f64;
    let by_chance = noise(&groups).map_or(0.0, |n| n.ratio / repeats.sqrt());
    if deviation > mean * by_chance.max(ALIKE_RATIO) {
        return None;
    }
    let (best, recommended) = (case.found.best.as_ref()?, case.found.recommended.as_ref()?);
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let summary = format!(
        "The settings do not matter here: all {} gave {} to {}, no more apart than chance makes them. What holds them is {}",
        groups.len(),
        rate(least.round() as u64),
        rate(best.goodput_bps),
        name(recommended.limited_by)
    );
    Some(unproven("settings_do_not_matter", 0.8, summary))
}

fn many_streams(case: &Case) -> Option<Finding> {
    let recommended = case.found.recommended.as_ref()?;
    let count = recommended.setting.streams;
    (count > FAIR_STREAMS).then(|| {
        let mut found = unproven(
            "many_streams",
            1.0,
            format!(
                "{} take the share of {count} flows where the path is shared",
                streams(count)
            ),
        );
        found.advice.push(advice(
            "initiator",
            String::from("Use that many only where the path is yours, or at quiet hours"),
        ));
        found
    })
}

/// Returns the findings of the runs of the recommended, the best and the default setting, one for
/// each cause and place.
fn taken_over(case: &Case) -> Vec<Finding> {
    let found = case.found;
    let choices = [&found.recommended, &found.best, &found.default];
    let mut kept: Vec<Finding> = Vec::new();
    for choice in choices.into_iter().flatten() {
        let of_choice = |r: &&Throughput| choice.run_ids.contains(&r.run.id);
        let Some(run) = case.runs.iter().rfind(of_choice) else {
            continue;
        };
        for finding in run.findings.iter().take(MOST_OF_A_RUN) {
            if !kept
                .iter()
                .any(|k| k.cause == finding.cause && place(k) == place(finding))
            {
                let summary = format!("With {}: {}", setting(&choice.setting), finding.summary);
                kept.push(Finding {
                    summary,
                    ..finding.clone()
                });
            }
        }
    }
    kept
}

fn place(finding: &Finding) -> Option<&str> {
    finding.advice.first().map(|a| a.place.as_str())
}
