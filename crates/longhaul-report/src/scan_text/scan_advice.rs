//! The recommendation of a scan: the setting, its benefit, and the required host settings.

use super::setting_format;
use crate::document::ReportDocument;
use crate::number_format::{
    RateUnit, count_of, format_micros, format_percent, format_rate, join_parts,
};
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::scan::{NeededSysctl, ScanConclusion, SettingChoice};
use longhaul_model::units::{Bytes, Rate};

/// Writes the recommended setting as a command to paste, and compares it with others.
pub fn write_recommendation(page: &mut ReportDocument, host: &str, conclusion: &ScanConclusion) {
    let Some(choice) = &conclusion.recommended else {
        page.fact("recommended", "no setting: too few measurements");
        return;
    };
    page.strong_fact("recommended", format_headline(choice, conclusion));
    page.command(setting_format::format_test_command(host, &choice.setting, conclusion.forward));
    let unit = RateUnit::for_max(max_goodput(conclusion));
    page.fact("result", describe_choice(choice, unit));
    if let Some(bytes) = choice.least_window_bytes {
        let each = if choice.setting.streams > 1 { " per stream" } else { "" };
        page.fact(
            "BDP",
            format!("{}{each} (goodput x idle RTT): smallest useful window", Bytes(bytes)),
        );
    }
    let beside = [
        ("default", &conclusion.default),
        ("current", &conclusion.present),
        ("highest", &conclusion.best),
    ];
    let mut shown = vec![&choice.setting];
    for (label, other) in beside {
        let new = |other: &&SettingChoice| !shown.contains(&&other.setting);
        if let Some(other) = other.as_ref().filter(new) {
            page.fact(label, compare_choices(other, choice, unit));
            shown.push(&other.setting);
        }
    }
    if let Some(top) = &conclusion.top_tenth {
        let interval = format_interval(top.goodput_interval_bps, unit);
        page.fact(
            "top 10 %",
            format!(
                "10 % of {} reach {} {}{interval}",
                count_of(u64::from(top.cells), "measurement"),
                unit.short(top.goodput_bps),
                unit.name
            ),
        );
    }
    page.fact("limited by", name_limiter(choice.limited_by));
}

fn format_headline(choice: &SettingChoice, conclusion: &ScanConclusion) -> String {
    let setting = setting_format::describe_setting(&choice.setting);
    match &conclusion.default {
        Some(default) if default.setting == choice.setting => {
            format!("the default, {setting}: {}", format_rate(choice.goodput_bps))
        }
        Some(default) => format!(
            "{setting}: {}, {} the default",
            format_rate(choice.goodput_bps),
            format_ratio(choice.goodput_bps, default.goodput_bps)
        ),
        None => format!("{setting}: {}", format_rate(choice.goodput_bps)),
    }
}

fn max_goodput(conclusion: &ScanConclusion) -> u64 {
    let choices = [&conclusion.best, &conclusion.recommended];
    let rates = choices.into_iter().flatten().map(|c| c.goodput_bps);
    rates.max().unwrap_or(0)
}

fn format_interval(of: Option<[u64; 2]>, unit: RateUnit) -> String {
    of.map_or_else(String::new, |[low, high]| {
        format!(", 95 % interval {} to {} {}", unit.short(low), unit.short(high), unit.name)
    })
}

/// Describes the goodput with its interval, and the cost.
fn describe_choice(choice: &SettingChoice, unit: RateUnit) -> String {
    let goodput = Rate::bits_per_second(choice.goodput_bps);
    let (rtt, resent) = (choice.loaded_rtt_us, choice.retransmitted_ratio);
    let probes = count_of(u64::from(choice.probes), "probe");
    let parts = [
        Some(format!("{goodput}{}", format_interval(choice.goodput_interval_bps, unit))),
        rtt.map(|us| format!("RTT under load {}", format_micros(us))),
        resent.map(|ratio| format!("{} retransmitted", format_percent(ratio))),
        (choice.probes > 1).then(|| format!("median of {probes}")),
    ];
    join_parts("; ", parts)
}

fn compare_choices(other: &SettingChoice, choice: &SettingChoice, unit: RateUnit) -> String {
    format!(
        "{}: {} {}, {} the recommended; limited by {}",
        setting_format::describe_setting(&other.setting),
        unit.short(other.goodput_bps),
        unit.name,
        format_ratio(other.goodput_bps, choice.goodput_bps),
        name_limiter(other.limited_by)
    )
}

/// Formats a ratio: `1.8 times`; near one as a percentage, so that one per cent is visible.
fn format_ratio(of: u64, to: u64) -> String {
    if to == 0 {
        return "more than".to_owned();
    }
    let ratio = of as f64 / to as f64;
    match ratio {
        r if r >= 10.0 => format!("{r:.0}x"),
        r if r >= 1.5 => format!("{r:.1}x"),
        r => format!("{:.0} % of", r * 100.0),
    }
}

/// Writes the kernel settings that the recommendation requires, with commands.
pub fn write_needs(page: &mut ReportDocument, conclusion: &ScanConclusion) {
    let mut place = None;
    for need in &conclusion.needs {
        let here = (need.place.as_str(), need.host.as_str());
        if place != Some(here) {
            page.gap();
            page.heading(3, format!("required on {} ({})", need.host, need.place));
            place = Some(here);
        }
        page.item("  ", describe_need(need));
        page.command(format!("sysctl -w {}=\"{}\"", need.name, need.wanted));
    }
}

fn describe_need(need: &NeededSysctl) -> String {
    let is = match &need.is {
        Some(is) => format!("is {is}"),
        None => "could not be read".to_owned(),
    };
    format!("{} {is}: {}", need.name, need.why.trim_end_matches('.'))
}
