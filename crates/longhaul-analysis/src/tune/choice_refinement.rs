//! Refines the choice when no step up is left: is it right, and would less be as good?
//!
//! Source: docs/methods/tune.md. Units: ratios of goodput. Error: settles if 5 % more is unlikely
//! (one standard error). Wrong when: the noise of the path exceeds the intervals of its probes.

use super::next_setting::{NextSetting, SearchView, convert_rate, geometric_mean};
use super::setting_aggregate::{SettingAggregate, choose_smallest, compute_gain, find_best};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::units::{Bytes, count_of};

/// The number of probes after which the search is no longer refined.
const ENOUGH_PROBES: usize = 8;
/// The maximum number of probes of one setting.
const MAX_SAMPLES: usize = 2;
/// The choice is tested again while another setting may be better by more than this.
const DOUBT_RATIO: f64 = 0.05;
/// Ratios of stream numbers between which other numbers are tried.
const MIN_GAP_RATIO: u32 = 3;
const MIN_JUMP_RATIO: u32 = 4;

/// Returns `None` if no further probe is worthwhile.
pub fn refine_choice(view: &SearchView) -> Option<NextSetting> {
    if view.trials.len() >= ENOUGH_PROBES {
        return None;
    }
    let choice = choose_smallest(&view.tallies)?;
    try_between_above(view, choice)
        .or_else(|| try_named_control(view, choice))
        .or_else(|| repeat_doubtful(view, choice))
        .or_else(|| try_fewer_streams(view, choice))
}

/// A long step up gained nothing: the maximum may be in between.
fn try_between_above(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let present = choice.setting.streams;
    let above = view
        .tallies
        .iter()
        .filter(|t| t.setting.streams > present && view.is_similar(choice.setting, t.setting));
    let above = above.min_by_key(|t| t.setting.streams)?;
    if above.setting.streams <= MIN_JUMP_RATIO * present || compute_gain(choice, above).0 < -0.15 {
        return None;
    }
    try_streams_between(view, choice.setting, present, above.setting.streams, None)
}

/// Tries a congestion control that the plan names and no probe has used.
fn try_named_control(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let used = |name: &str| {
        view.trials.iter().any(|t| {
            t.setting.congestion_control.as_deref() == Some(name)
                || t.congestion_control.as_deref() == Some(name)
        })
    };
    let mut named = view.allowed.named_controls().filter(|name| !used(name));
    let setting = TransferSetting {
        congestion_control: Some(named.next()?.to_owned()),
        ..choice.setting.clone()
    };
    view.is_new(&setting).then(|| NextSetting {
        why: format!(
            "{} is also available: {} gave {} without it",
            setting.congestion_control.as_deref().unwrap_or("it"),
            count_of(u64::from(setting.streams), "stream"),
            convert_rate(choice.goodput_bps())
        ),
        setting,
    })
}

/// Another setting may be better, or the choice was lucky: repeats the less measured of the two.
fn repeat_doubtful(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let risk = |other: &SettingAggregate| {
        let (more, error) = compute_gain(choice, other);
        more + error - DOUBT_RATIO
    };
    let others = view.tallies.iter().filter(|t| t.setting != choice.setting);
    let rival = others.max_by(|a, b| risk(a).total_cmp(&risk(b)))?;
    if risk(rival) <= 0.0 {
        return None;
    }
    let again = if rival.trials.len() <= choice.trials.len() { rival } else { choice };
    let times = view.trials.iter().filter(|t| t.setting == *again.setting);
    (times.count() < MAX_SAMPLES).then(|| NextSetting {
        setting: again.setting.clone(),
        why: format!(
            "{} and {} are within noise ({} and {}); repeating both",
            format_difference(choice.setting, rival.setting),
            format_difference(rival.setting, choice.setting),
            convert_rate(choice.goodput_bps()),
            convert_rate(rival.goodput_bps()),
        ),
    })
}

/// Formats a setting by the first difference from another.
fn format_difference(setting: &TransferSetting, other: &TransferSetting) -> String {
    if setting.streams != other.streams {
        return count_of(u64::from(setting.streams), "stream");
    }
    if setting.window_bytes != other.window_bytes {
        let window = setting.window_bytes.map(|bytes| Bytes(bytes).to_string());
        return window.unwrap_or_else(|| String::from("autotuned window"));
    }
    let control = setting.congestion_control.as_deref();
    control.unwrap_or("the default congestion control").to_owned()
}

/// The number of streams was reached by a jump: tries fewer.
fn try_fewer_streams(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let present = choice.setting.streams;
    let below = view
        .tallies
        .iter()
        .filter(|t| t.setting.streams < present && view.is_similar(t.setting, choice.setting));
    let below = below.max_by_key(|t| t.setting.streams)?;
    let low = below.setting.streams;
    if present < MIN_GAP_RATIO * low {
        return None;
    }
    // The rate of each stream while the path was not the limit.
    let each = below.goodput_bps() / f64::from(low);
    let top = find_best(&view.tallies)?.goodput_bps();
    let needed = (below.limiter() != Limiter::PathCapacity && each > 0.0)
        .then(|| (1.05 * top / each).ceil() as u32);
    try_streams_between(view, choice.setting, low, present, needed)
}

/// Tries the needed number of streams if it is in between, else the geometric mean.
fn try_streams_between(
    view: &SearchView,
    like: &TransferSetting,
    low: u32,
    high: u32,
    needed: Option<u32>,
) -> Option<NextSetting> {
    let centre = geometric_mean(low, high);
    let wanted = needed.filter(|n| (low + 1..high).contains(n)).unwrap_or(centre);
    let setting = TransferSetting {
        streams: view.allowed.streams_between(wanted, low, high)?,
        ..like.clone()
    };
    view.is_new(&setting).then(|| NextSetting {
        why: format!(
            "a value between {low} and {} may be as good or better; try {}",
            count_of(u64::from(high), "stream"),
            setting.streams
        ),
        setting,
    })
}
