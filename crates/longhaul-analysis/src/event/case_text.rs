//! Writes a text for the operator of a path.
//!
//! Plain text of at most 78 columns: what changed, when and by how much, both routes side by side,
//! round trips, the likely cause, what did not change, what was checked, and the request. All text
//! from outside is sanitized.

mod letter;
pub(super) mod routes;

use super::Explained;
use super::case::Case;
use super::evidence::Evidence;
use super::words::{self, value};
use crate::path::words::count;
use letter::Letter;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::event::{Event, Level, State};

/// Returns the text; every line ends with a newline.
pub fn case_text(event: &Event, explained: &Explained, evidence: &Evidence) -> String {
    let case = Case { event, evidence };
    let mut letter = Letter::default();
    what_changed(&case, &mut letter);
    round_trips(&case, &mut letter);
    causes(explained, &mut letter);
    routes::both(&case, &mut letter);
    letter.section("What did not change");
    if explained.unchanged.is_empty() {
        letter.text("Nothing else was measured both before and after.");
    }
    explained
        .unchanged
        .iter()
        .for_each(|line| letter.item(line));
    if let Some(scope) = &explained.scope {
        letter.section("Other paths");
        letter.text(scope);
    }
    checked(&case, &mut letter);
    asked(&case, explained, &mut letter);
    letter.finish()
}

fn what_changed(case: &Case, letter: &mut Letter) {
    let event = case.event;
    let (from, to) = (
        words::quoted(&event.pair.from),
        words::quoted(&event.pair.to),
    );
    let way = if case.fell() { "fell" } else { "rose" };
    let quantity = event.quantity;
    letter.title(&format!(
        "{} from {from} to {to} {way} on {}",
        letter::sentence(quantity.title()),
        words::date(event.between_us[1])
    ));
    letter.section("What changed");
    let by = match event.change_ratio {
        Some(ratio) if event.before.median > 0.0 => format!(" ({})", words::change(ratio)),
        _ => String::new(),
    };
    letter.text(&format!(
        "The {} from {from} to {to} {way} from {} to {}{by}, {}.",
        quantity.title(),
        value(quantity, event.before.median),
        value(quantity, event.after.median),
        words::span(event.between_us),
    ));
    let level = |level: &Level| {
        format!(
            "{} (median of {}; half of them lie within {} of it)",
            value(quantity, level.median),
            count(level.samples as usize, "value"),
            value(quantity, level.deviation),
        )
    };
    letter.item(&format!("before: {}", level(&event.before)));
    letter.item(&format!("after: {}", level(&event.after)));
    match event.state {
        State::Suspected => letter.text("This is suspected by few values, and not yet confirmed."),
        State::Withdrawn => {
            letter.text("This was suspected once, and later values did not confirm it.");
        }
        State::Recovered => letter.text("The level has come back since."),
        State::Confirmed => {}
    }
}

fn round_trips(case: &Case, letter: &mut Letter) {
    letter.section("Round trips");
    let Some(step) = case.rtt() else {
        letter.text("Not measured on both sides of the change.");
        return;
    };
    let verdict = match case.rtt_step() {
        None => "no step",
        Some(step) if step.after > step.before => "longer",
        Some(_) => "shorter",
    };
    letter.text(&format!(
        "Least round trip: {} before, {} after: {verdict}.",
        words::delay_us(step.before),
        words::delay_us(step.after)
    ));
}

fn causes(explained: &Explained, letter: &mut Letter) {
    if explained.causes.is_empty() {
        letter.section("Cause");
        letter.text("No cause was found in what was measured.");
        if let Some(effect) = &explained.effect {
            letter.text(&format!("{effect}."));
        }
        return;
    }
    for (index, finding) in explained.causes.iter().enumerate() {
        let word = if index == 0 {
            "Likely cause"
        } else {
            "Or, or with it"
        };
        let name = words::quoted(&finding.cause.replace('_', " "));
        letter.section(&format!(
            "{word}: {name} ({:.2} of 1)",
            finding.confidence_ratio
        ));
        evidence(finding, letter);
    }
}

fn evidence(finding: &Finding, letter: &mut Letter) {
    letter.text(&format!("{}.", finding.summary.trim_end_matches('.')));
    finding
        .supports
        .iter()
        .for_each(|line| letter.item(&format!("for: {line}")));
    finding
        .contradicts
        .iter()
        .for_each(|line| letter.item(&format!("against: {line}")));
}

fn checked(case: &Case, letter: &mut Letter) {
    letter.section("What was done to check");
    let [begin, end] = case.event.between_us;
    let sides = |times: &mut dyn Iterator<Item = i64>| {
        times.fold((0_usize, 0_usize), |(before, after), at| {
            (
                before + usize::from(at <= begin),
                after + usize::from(at >= end),
            )
        })
    };
    let evidence = case.evidence;
    let traced = evidence
        .paths
        .iter()
        .filter(|s| s.route().or(s.route_back()).is_some());
    let made = [
        (
            "bulk run",
            sides(&mut evidence.throughput.iter().map(|s| s.at_us)),
        ),
        ("trace", sides(&mut traced.map(|s| s.at_us))),
        (
            "look at available bandwidth",
            sides(&mut evidence.available.iter().map(|s| s.at_us)),
        ),
        (
            "host audit",
            sides(&mut evidence.hosts.iter().map(|s| s.at_us)),
        ),
    ];
    let mut any = false;
    for (noun, (before, after)) in made.into_iter().filter(|(_, (b, a))| b + a > 0) {
        any = true;
        let plural = noun.replacen("look at", "looks at", 1);
        let of = |n: usize| {
            if n == 1 || plural == noun {
                count(n, noun)
            } else {
                format!("{n} {plural}")
            }
        };
        letter.item(&format!(
            "{} before, {} after the change",
            of(before),
            of(after)
        ));
    }
    if let (Some(before), Some(after)) = (case.available(), case.capacity()) {
        letter.item(&format!(
            "available bandwidth {} before, {} after; capacity {} and {}",
            words::rate(before.before),
            words::rate(before.after),
            words::rate(after.before),
            words::rate(after.after)
        ));
    }
    if let Some(after) = case.limiter(true) {
        letter.item(&format!(
            "bulk runs since are limited by {}",
            crate::throughput::words::name(after)
        ));
    }
    if !any {
        letter.text("Only the values themselves are at hand.");
    }
}

fn asked(case: &Case, explained: &Explained, letter: &mut Letter) {
    letter.section("What is asked");
    if case.worse() == Some(false) {
        letter.text(
            "Nothing: this is for the better. If something was mended, please tell what it was.",
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
        let command = advice
            .command
            .as_ref()
            .map_or_else(String::new, |c| format!(": {c}"));
        let line = format!("{who}: {}{command}", advice.text);
        if !told.contains(&line) {
            letter.item(&line);
            told.push(line);
        }
    }
    letter.text(&format!(
        "Please tell us what was changed on this path {}, and whether it was meant.",
        words::span(case.event.between_us)
    ));
}
