//! Writes a text for the operator of a path.
//!
//! Plain text of at most 78 columns: what changed, when and by how much, both routes side by side,
//! round trips, the likely cause, what did not change, what was checked, and the request. All text
//! from outside is sanitized.

mod mail_text;
pub(super) mod route_pair_text;

use super::EventExplanation;
use super::change_evidence::ChangeEvidence;
use super::event_case::EventCase;
use super::event_format::{self, format_quantity};
use longhaul_analysis::throughput::limiter_text::name_limiter;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::event::{ChangeEvent, EventState, QuantityLevel};
use longhaul_model::units::{capitalize_first, count_of};
use mail_text::MailText;

/// Returns the text; every line ends with a newline.
pub fn format_operator_report(
    event: &ChangeEvent,
    explained: &EventExplanation,
    evidence: &ChangeEvidence,
) -> String {
    let case = EventCase { event, evidence };
    let mut mail = MailText::default();
    add_change_section(&case, &mut mail);
    add_rtt_section(&case, &mut mail);
    add_cause_sections(explained, &mut mail);
    route_pair_text::add_route_sections(&case, &mut mail);
    mail.section("What did not change");
    if explained.unchanged.is_empty() {
        mail.text("Nothing else was measured both before and after.");
    }
    explained.unchanged.iter().for_each(|line| mail.item(line));
    if let Some(scope) = &explained.scope {
        mail.section("Other paths");
        mail.text(scope);
    }
    add_checks_section(&case, &mut mail);
    add_request_section(&case, explained, &mut mail);
    mail.finish()
}

fn add_change_section(case: &EventCase, mail: &mut MailText) {
    let event = case.event;
    let (from, to) = (
        event_format::sanitize_name(&event.pair.from),
        event_format::sanitize_name(&event.pair.to),
    );
    let way = if case.has_fallen() { "fell" } else { "rose" };
    let quantity = event.quantity;
    mail.title(&format!(
        "{} from {from} to {to} {way} on {}",
        capitalize_first(quantity.title()),
        event_format::format_date(event.between_us[1])
    ));
    mail.section("What changed");
    let by = match event.change_ratio {
        Some(ratio) if event.before.median > 0.0 => {
            format!(" ({})", event_format::format_change(ratio))
        }
        _ => String::new(),
    };
    mail.text(&format!(
        "The {} from {from} to {to} {way} from {} to {}{by}, {}.",
        quantity.title(),
        format_quantity(quantity, event.before.median),
        format_quantity(quantity, event.after.median),
        event_format::format_time_span(event.between_us),
    ));
    let level = |level: &QuantityLevel| {
        format!(
            "median {}, n = {}, MAD {}",
            format_quantity(quantity, level.median),
            level.samples,
            format_quantity(quantity, level.deviation),
        )
    };
    mail.item(&format!("before: {}", level(&event.before)));
    mail.item(&format!("after: {}", level(&event.after)));
    match event.state {
        EventState::Suspected => {
            mail.text("This change is suspected from few values and not yet confirmed.");
        }
        EventState::Withdrawn => {
            mail.text("This change was suspected, but later values did not confirm it.");
        }
        EventState::Recovered => mail.text("The level has returned since."),
        EventState::Confirmed => {}
    }
}

fn add_rtt_section(case: &EventCase, mail: &mut MailText) {
    mail.section("Round trips");
    let Some(step) = case.rtt() else {
        mail.text("Not measured both before and after the change.");
        return;
    };
    let verdict = match case.rtt_step() {
        None => "no step",
        Some(step) if step.after > step.before => "longer",
        Some(_) => "shorter",
    };
    let [before, after] = step.format(event_format::format_delay_us);
    mail.text(&format!("Min RTT: {before} before, {after} after: {verdict}."));
}

fn add_cause_sections(explained: &EventExplanation, mail: &mut MailText) {
    if explained.causes.is_empty() {
        mail.section("Cause");
        mail.text("No cause was found in the measurements.");
        if let Some(effect) = &explained.effect {
            mail.text(&format!("{effect}."));
        }
        return;
    }
    for (index, finding) in explained.causes.iter().enumerate() {
        let word = if index == 0 { "Likely cause" } else { "Other possible cause" };
        let name = event_format::sanitize_name(&finding.cause.replace('_', " "));
        mail.section(&format!("{word}: {name} ({:.2} of 1)", finding.confidence_ratio));
        add_cause_evidence(finding, mail);
    }
}

fn add_cause_evidence(finding: &ReportFinding, mail: &mut MailText) {
    mail.text(&format!("{}.", finding.summary.trim_end_matches('.')));
    finding.supports.iter().for_each(|line| mail.item(&format!("evidence: {line}")));
    finding.contradicts.iter().for_each(|line| mail.item(&format!("against: {line}")));
}

fn add_checks_section(case: &EventCase, mail: &mut MailText) {
    mail.section("What was done to check");
    let [begin, end] = case.event.between_us;
    let sides = |times: &mut dyn Iterator<Item = i64>| {
        times.fold((0_usize, 0_usize), |(before, after), at| {
            (before + usize::from(at <= begin), after + usize::from(at >= end))
        })
    };
    let evidence = case.evidence;
    let traced = evidence.paths.iter().filter(|s| s.route().or(s.return_route()).is_some());
    let made = [
        ("bulk run", sides(&mut evidence.throughput.iter().map(|s| s.at_us))),
        ("trace", sides(&mut traced.map(|s| s.at_us))),
        ("available-bandwidth measurement", sides(&mut evidence.available.iter().map(|s| s.at_us))),
        ("host audit", sides(&mut evidence.hosts.iter().map(|s| s.at_us))),
    ];
    let mut any = false;
    for (noun, (before, after)) in made.into_iter().filter(|(_, (b, a))| b + a > 0) {
        any = true;
        mail.item(&format!(
            "{} before, {} after the change",
            count_of(before as u64, noun),
            count_of(after as u64, noun)
        ));
    }
    if let (Some(available), Some(capacity)) = (case.available(), case.capacity()) {
        let [before, after] = available.format(event_format::format_rate);
        let [was, is] = capacity.format(event_format::format_rate);
        mail.item(&format!(
            "available bandwidth {before} before, {after} after; capacity {was} and {is}"
        ));
    }
    if let Some(after) = case.frequent_limiter(true) {
        mail.item(&format!("bulk runs after are limited by {}", name_limiter(after)));
    }
    if !any {
        mail.text("Only the values of the series are available.");
    }
}

fn add_request_section(case: &EventCase, explained: &EventExplanation, mail: &mut MailText) {
    mail.section("What is asked");
    if case.is_worse() == Some(false) {
        mail.text(
            "Nothing: this is an improvement. If something was repaired, please let us know what it was.",
        );
        return;
    }
    let mut told = Vec::new();
    let advices = explained.causes.iter().flat_map(|finding| &finding.advice);
    for advice in advices {
        let who = match advice.place.as_str() {
            "path" => "of the operators",
            _ => "at the ends (our side)",
        };
        let command = advice.command.as_ref().map_or_else(String::new, |c| format!(": {c}"));
        let line = format!("{who}: {}{command}", advice.text);
        if !told.contains(&line) {
            mail.item(&line);
            told.push(line);
        }
    }
    mail.text(&format!(
        "Please let us know what was changed on this path {}, and whether it was intended.",
        event_format::format_time_span(case.event.between_us)
    ));
}
