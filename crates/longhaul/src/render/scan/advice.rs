//! The recommendation of a scan: the setting, its benefit, and the required host settings.

use super::words;
use crate::render::figures::{RateUnit, count_of, duration, percent, rate};
use crate::render::page::Page;
use crate::render::style::STRONG;
use longhaul_analysis::throughput::words::name;
use longhaul_model::report::v1::scan::{Choice, Conclusion, Need};
use longhaul_model::units::{Bytes, Rate};

/// Writes the recommended setting as a command to paste, and compares it with others.
pub fn block(page: &mut Page, host: &str, conclusion: &Conclusion) {
    let Some(choice) = &conclusion.recommended else {
        page.labelled(
            "use",
            "no setting can be recommended: too little was measured",
        );
        return;
    };
    page.labelled_in("use", &headline(choice, conclusion), STRONG);
    page.command(
        crate::render::page::LABEL,
        &words::command(host, &choice.setting, conclusion.forward),
    );
    let unit = RateUnit::for_greatest(greatest(conclusion));
    page.labelled("gives", &given(choice, unit));
    if let Some(bytes) = choice.least_window_bytes {
        let each = if choice.setting.streams > 1 {
            " on each stream"
        } else {
            ""
        };
        page.labelled(
            "in flight",
            &format!(
                "at least {}{each}: goodput x idle RTT; no smaller window would do",
                Bytes(bytes)
            ),
        );
    }
    let beside = [
        ("default", &conclusion.default),
        ("in use now", &conclusion.present),
        ("highest", &conclusion.best),
    ];
    let mut shown = vec![&choice.setting];
    for (label, other) in beside {
        let new = |other: &&Choice| !shown.contains(&&other.setting);
        if let Some(other) = other.as_ref().filter(new) {
            page.labelled(label, &compared(other, choice, unit));
            shown.push(&other.setting);
        }
    }
    if let Some(top) = &conclusion.top_tenth {
        let interval = interval(top.goodput_interval_bps, unit);
        page.labelled(
            "top tenth",
            &format!(
                "a tenth of {} reach {} {}{interval}",
                count_of(u64::from(top.cells), "measurement"),
                unit.short(top.goodput_bps),
                unit.name
            ),
        );
    }
    page.labelled("limited now by", name(choice.limited_by));
}

fn headline(choice: &Choice, conclusion: &Conclusion) -> String {
    let setting = words::long(&choice.setting);
    match &conclusion.default {
        Some(default) if default.setting == choice.setting => {
            format!("the default, {setting}: {}", rate(choice.goodput_bps))
        }
        Some(default) => format!(
            "{setting}: {}, {} the default",
            rate(choice.goodput_bps),
            ratio(choice.goodput_bps, default.goodput_bps)
        ),
        None => format!("{setting}: {}", rate(choice.goodput_bps)),
    }
}

fn greatest(conclusion: &Conclusion) -> u64 {
    let choices = [&conclusion.best, &conclusion.recommended];
    let rates = choices.into_iter().flatten().map(|c| c.goodput_bps);
    rates.max().unwrap_or(0)
}

fn interval(of: Option<[u64; 2]>, unit: RateUnit) -> String {
    of.map_or_else(String::new, |[low, high]| {
        format!(
            ", 95 % interval {} to {} {}",
            unit.short(low),
            unit.short(high),
            unit.name
        )
    })
}

/// Describes the goodput with its interval, and the cost.
fn given(choice: &Choice, unit: RateUnit) -> String {
    let goodput = Rate::bits_per_second(choice.goodput_bps);
    let (rtt, resent) = (choice.loaded_rtt_us, choice.retransmitted_ratio);
    let probes = count_of(u64::from(choice.probes), "probe");
    let parts = [
        Some(format!(
            "{goodput}{}",
            interval(choice.goodput_interval_bps, unit)
        )),
        rtt.map(|us| format!("RTT under load {}", duration(us))),
        resent.map(|ratio| format!("{} sent again", percent(ratio))),
        (choice.probes > 1).then(|| format!("median of {probes}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn compared(other: &Choice, choice: &Choice, unit: RateUnit) -> String {
    format!(
        "{}: {} {}, {} the recommended; limited by {}",
        words::long(&other.setting),
        unit.short(other.goodput_bps),
        unit.name,
        ratio(other.goodput_bps, choice.goodput_bps),
        name(other.limited_by)
    )
}

/// Formats a ratio: `1.8 times`; near one as a percentage, so that one per cent is visible.
fn ratio(of: u64, to: u64) -> String {
    if to == 0 {
        return "more than".to_owned();
    }
    let ratio = of as f64 / to as f64;
    match ratio {
        r if r >= 10.0 => format!("{r:.0} times"),
        r if r >= 1.5 => format!("{r:.1} times"),
        r => format!("{:.0} % of", r * 100.0),
    }
}

/// Writes the kernel settings that the recommendation requires, with commands.
pub fn needs(page: &mut Page, conclusion: &Conclusion) {
    let mut place = None;
    for need in &conclusion.needs {
        let here = (need.place.as_str(), need.host.as_str());
        if place != Some(here) {
            page.blank();
            page.heading(&format!("needed at {}, the {}", need.host, need.place));
            place = Some(here);
        }
        page.hanging("  ", &need_sentence(need));
        page.command(4, &format!("sysctl -w {}=\"{}\"", need.name, need.wanted));
    }
}

fn need_sentence(need: &Need) -> String {
    let is = match &need.is {
        Some(is) => format!("is {is}"),
        None => "could not be read".to_owned(),
    };
    format!("{} {is}: {}", need.name, need.why.trim_end_matches('.'))
}
