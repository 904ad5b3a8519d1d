//! An audit as text: limits, advice, changes and their effect.

mod changes;
mod verdicts;

pub use changes::reverted;

use super::figures::{count_of, duration, rate};
use super::page::{Page, WIDTH};
use super::style::{CAVEAT, FAINT, STRONG, paint};
use super::text;
use longhaul_model::report::v1::Host;
use longhaul_model::report::v1::host::{Effective, Observation, Path};
use longhaul_model::units::Bytes;

/// The maximum number of paths listed.
const PATHS_MAX: usize = 5;

pub fn report(report: &Host) -> String {
    page(report, false)
}

/// Renders an audit, either with every rule in full or with good and unknown rules summarized.
pub fn page(report: &Host, all: bool) -> String {
    let mut page = Page::default();
    title(&mut page, report);
    setup(&mut page, &report.observation);
    paths(&mut page, &report.plan.paths);
    page.blank();
    let several = report.plan.paths.len() > 1;
    verdicts::block(&mut page, &report.analysis.verdicts, (all, several));
    live(&mut page, &report.observation.effective);
    changes::block(
        &mut page,
        &report.observation,
        report.analysis.proof.as_ref(),
    );
    if !report.caveats.is_empty() {
        page.blank();
        for caveat in &report.caveats {
            page.hanging_in("caveat: ", &caveat.text, CAVEAT);
        }
    }
    text::footer(&mut page, &report.run);
    page.finish()
}

fn title(page: &mut Page, report: &Host) {
    let who = format!("audit of {}", report.run.initiator.host);
    let when = report.run.started_at.replace('T', " ").replace('Z', " UTC");
    let gap = WIDTH.saturating_sub(who.chars().count() + when.chars().count());
    if gap >= 2 {
        let who = paint(STRONG, &who);
        page.line(&format!("{who}{:gap$}{}", "", paint(FAINT, &when)));
    } else {
        page.line(&paint(STRONG, &who));
        page.line(&paint(FAINT, &when));
    }
}

fn setup(page: &mut Page, observation: &Observation) {
    let host = &observation.host;
    let reading = |name: &str| observation.readings.get(name);
    let mut parts = vec![host.kernel.clone(), count_of(u64::from(host.cores), "core")];
    if let Some(name) = reading("interface.name") {
        parts.push(format!("interface {name}"));
    }
    let speed = reading("interface.speed_bps").and_then(|text| text.parse().ok());
    parts.extend(speed.map(rate));
    parts.extend(reading("interface.mtu").map(|mtu| format!("MTU {mtu} bytes")));
    page.labelled("set up", &parts.join(", "));
}

fn paths(page: &mut Page, paths: &[Path]) {
    for (place, path) in paths.iter().take(PATHS_MAX).enumerate() {
        let label = if place == 0 { "judged for" } else { "" };
        let from = if path.origin == "asked" {
            String::new()
        } else {
            format!(" ({})", path.origin)
        };
        let figures = format!("{} × {}", rate(path.rate_bps), duration(path.rtt_us));
        page.labelled(label, &format!("{}: {figures}{from}", path.name));
    }
    let more = paths.len().saturating_sub(PATHS_MAX);
    if more > 0 {
        let text = format!(
            "and {}; --json has them",
            count_of(more as u64, "more path")
        );
        page.labelled("", &text);
    }
}

/// Writes the requested and actual settings of a live socket.
fn live(page: &mut Page, effective: &[Effective]) {
    if effective.is_empty() {
        return;
    }
    page.blank();
    let (controls, others): (Vec<_>, Vec<_>) = effective
        .iter()
        .partition(|entry| entry.what == "congestion_control");
    for (place, entry) in others.iter().enumerate() {
        let label = if place == 0 { "live socket" } else { "" };
        let verdict = if entry.granted { "" } else { ": NOT as asked" };
        let (asked, got) = (figure(entry, &entry.asked), figure(entry, &entry.got));
        let what = entry.what.replace('_', " ");
        page.labelled(label, &format!("{what}: asked {asked}, got {got}{verdict}"));
    }
    let granted = |entry: &&&Effective| entry.granted;
    let names = |entries: Vec<&str>| entries.join(", ");
    let given = controls.iter().filter(granted).map(|e| e.asked.as_str());
    let refused = controls.iter().filter(|e| !e.granted);
    let refused = names(refused.map(|e| e.asked.as_str()).collect());
    let mut parts = vec![format!("congestion controls: {}", names(given.collect()))];
    if !refused.is_empty() {
        parts.push(format!("refused: {refused}"));
    }
    if !controls.is_empty() {
        page.labelled("", &parts.join("; "));
    }
}

/// Formats a value of a live socket in its unit; text stays unchanged.
fn figure(entry: &Effective, value: &str) -> String {
    let number: Option<u64> = value.parse().ok();
    match (entry.what.as_str(), number) {
        ("pacing", Some(bps)) => rate(bps),
        (_, Some(bytes)) => Bytes(bytes).to_string(),
        (_, None) => value.to_owned(),
    }
}
