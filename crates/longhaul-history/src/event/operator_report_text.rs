//! Writes a text for the operator of a path.
//!
//! Plain text of at most 78 columns: what changed, when and by how much, both routes side by side,
//! round trips, the likely cause, what did not change, what was checked, and the request. All text
//! from outside is sanitized.

use super::EventExplanation;
use super::change_evidence::ChangeEvidence;
use super::event_case::{EventCase, is_same_route};
use super::event_format::{self, format_quantity};
use longhaul_analysis::path::compare_routes;
use longhaul_analysis::path::path_format::format_hop_change;
use longhaul_analysis::throughput::name_limiter;
use longhaul_model::report::v1::path::{ChangedHops, ObservedHop, ObservedRoute, RouteDifference};
use longhaul_model::report::v1::{ChangeEvent, EventState, QuantityLevel, ReportFinding};
use longhaul_model::sanitize::sanitize;
use longhaul_model::units::{capitalize_first, count_of};

/// Returns the text for the operator of the path.
pub fn build_operator_report(
    event: &ChangeEvent,
    explained: &EventExplanation,
    evidence: &ChangeEvidence,
) -> OperatorReport {
    let case = EventCase { event, evidence };
    let mut mail = OperatorReport::default();
    add_change_section(&case, &mut mail);
    add_rtt_section(&case, &mut mail);
    add_cause_sections(explained, &mut mail);
    add_route_sections(&case, &mut mail);
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
    mail
}

fn add_change_section(case: &EventCase, mail: &mut OperatorReport) {
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

fn add_rtt_section(case: &EventCase, mail: &mut OperatorReport) {
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

fn add_cause_sections(explained: &EventExplanation, mail: &mut OperatorReport) {
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

fn add_cause_evidence(finding: &ReportFinding, mail: &mut OperatorReport) {
    mail.text(&format!("{}.", finding.summary.trim_end_matches('.')));
    finding.supports.iter().for_each(|line| mail.item(&format!("evidence: {line}")));
    finding.contradicts.iter().for_each(|line| mail.item(&format!("against: {line}")));
}

fn add_checks_section(case: &EventCase, mail: &mut OperatorReport) {
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
        (case.run_noun(), sides(&mut evidence.throughput.iter().map(|s| s.at_us))),
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
        let noun = case.run_noun();
        mail.item(&format!("{noun}s after are limited by {}", name_limiter(after)));
    }
    if !any {
        mail.text("Only the values of the series are available.");
    }
}

fn add_request_section(case: &EventCase, explained: &EventExplanation, mail: &mut OperatorReport) {
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

/// The columns that every mail reader shows without wrapping.
const COLUMNS: usize = 78;

/// The kind of a part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorReportKind {
    Title,
    Section,
    Paragraph,
    Item,
    /// A row of a table in columns of fixed width.
    Row,
}

/// The text for the operator of a path, in parts: sanitized, and without line breaks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperatorReport {
    pub parts: Vec<(OperatorReportKind, String)>,
}

impl OperatorReport {
    fn title(&mut self, text: &str) {
        self.push(OperatorReportKind::Title, text);
    }

    fn section(&mut self, heading: &str) {
        self.push(OperatorReportKind::Section, heading);
    }

    fn text(&mut self, text: &str) {
        self.push(OperatorReportKind::Paragraph, text);
    }

    fn item(&mut self, text: &str) {
        self.push(OperatorReportKind::Item, text);
    }

    fn row(&mut self, text: &str) {
        self.push(OperatorReportKind::Row, text);
    }

    fn push(&mut self, kind: OperatorReportKind, text: &str) {
        self.parts.push((kind, sanitize(text).into_owned()));
    }

    /// Returns the text of at most 78 columns; every line ends with a newline.
    pub fn to_text(&self) -> String {
        let mut page = MailText::default();
        for (kind, text) in &self.parts {
            match kind {
                OperatorReportKind::Title => page.push_title(text),
                OperatorReportKind::Section => {
                    page.lines.push(String::new());
                    page.push_wrapped(text, "", "");
                }
                OperatorReportKind::Paragraph => page.push_wrapped(text, "  ", "  "),
                OperatorReportKind::Item => page.push_wrapped(text, "  - ", "    "),
                OperatorReportKind::Row => page.push_row(text),
            }
        }
        page.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

/// The lines written so far.
#[derive(Debug, Default)]
struct MailText {
    lines: Vec<String>,
}

impl MailText {
    fn push_title(&mut self, text: &str) {
        self.push_wrapped(text, "", "");
        let longest = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        self.lines.push("=".repeat(longest));
    }

    /// Adds a row, truncated instead of wrapped.
    fn push_row(&mut self, text: &str) {
        let line: String = text.chars().take(COLUMNS).collect();
        self.lines.push(line.trim_end().to_owned());
    }

    /// Wraps at spaces; words longer than a line are broken.
    fn push_wrapped(&mut self, text: &str, first: &str, rest: &str) {
        let mut line = first.to_owned();
        let mut empty = true;
        for word in text.split_whitespace() {
            let mut word: Vec<char> = word.chars().collect();
            let room = COLUMNS - line.chars().count();
            if !empty && word.len() + 1 > room {
                self.lines.push(std::mem::replace(&mut line, rest.to_owned()));
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            while word.len() > COLUMNS - line.chars().count() {
                let left = word.split_off(COLUMNS - line.chars().count());
                line.extend(word);
                self.lines.push(std::mem::replace(&mut line, rest.to_owned()));
                word = left;
            }
            line.extend(word);
            empty = false;
        }
        self.lines.push(line.trim_end().to_owned());
    }
}

/// Columns for the name of a hop.
const NAME_COLUMNS: usize = 32;
/// The minimum timing score of the route change that is shown.
const MIN_TIMING: f64 = 0.3;

/// Writes the forward route, and the return route if it is known.
fn add_route_sections(case: &EventCase, mail: &mut OperatorReport) {
    let pair = &case.event.pair;
    for (back, from, to) in [(false, &pair.from, &pair.to), (true, &pair.to, &pair.from)] {
        let (from, to) = (event_format::sanitize_name(from), event_format::sanitize_name(to));
        let Some((before, after)) = find_route_pair(case, back) else {
            if !back {
                mail.section(&format!("Route from {from} to {to}"));
                mail.text("Not traced both before and after the change.");
            }
            continue;
        };
        mail.section(&format!("Route from {from} to {to}"));
        if is_same_route(after.0, before.0) {
            mail.text(&format!(
                "The same before and after, {}:",
                count_of(after.0.hops.len() as u64, "hop")
            ));
            after
                .0
                .hops
                .iter()
                .for_each(|hop| mail.row(&format!("    {}", format_hop_cell(Some(hop)))));
        } else {
            add_route_pair(before, after, mail);
        }
    }
}

type TimedRoute<'a> = (&'a ObservedRoute, i64);

/// Returns the routes before and after the change near the event, or else those nearest to it.
fn find_route_pair<'a>(
    case: &EventCase<'a>,
    back: bool,
) -> Option<(TimedRoute<'a>, TimedRoute<'a>)> {
    let turn =
        case.nearest_route_change(back).filter(|turn| case.timing(turn.between_us) >= MIN_TIMING);
    if let Some(turn) = turn {
        let [from, to] = turn.between_us;
        return Some(((turn.before, from), (turn.after, to)));
    }
    let (before, after) = case.routes_around_event(back);
    let traced = |r: super::state_change::StateReading<&'a ObservedRoute>| (r.value, r.at_us);
    Some((traced(before?), traced(after?)))
}

fn add_route_pair(before: TimedRoute, after: TimedRoute, mail: &mut OperatorReport) {
    let change = compare_routes(after.0, before.0);
    mail.text(&format!("{}.", describe_differences(&change)));
    let head = |word: &str, at: i64| format!("    {word}, {}", event_format::format_time(at));
    mail.row(&format!(
        "    {:<38}{}",
        head("before", before.1).trim(),
        head("after", after.1).trim()
    ));
    for (differs, old, new) in pair_hops(before.0, after.0, &change.ranges) {
        let mark = if differs { '*' } else { ' ' };
        mail.row(&format!("  {mark} {}  {}", format_hop_cell(old), format_hop_cell(new)));
    }
}

fn describe_differences(change: &RouteDifference) -> String {
    let all: Vec<String> = change.ranges.iter().map(format_hop_change).collect();
    if all.is_empty() {
        return String::from("No hop differs up to the end of the shorter trace");
    }
    format!("Differences are marked: {}", all.join(", "))
}

/// Flag for a difference, and the hops of both sides; `None` if that side has no hop there.
pub type HopPair<'r> = (bool, Option<&'r ObservedHop>, Option<&'r ObservedHop>);

/// Pairs the hops in order; each changed range is paired with the range it replaced.
pub fn pair_hops<'r>(
    before: &'r ObservedRoute,
    after: &'r ObservedRoute,
    ranges: &[ChangedHops],
) -> Vec<HopPair<'r>> {
    let (mut old, mut new) = (before.hops.iter().peekable(), after.hops.iter().peekable());
    let mut rows: Vec<HopPair> = Vec::new();
    for range in ranges {
        loop {
            let left = old.next_if(|hop| range.other.is_some_and(|[first, _]| hop.ttl < first));
            let right = new.next_if(|hop| range.here.is_some_and(|[first, _]| hop.ttl < first));
            if left.is_none() && right.is_none() {
                break;
            }
            // A range without hops on one side does not give the position of that side.
            let left = left.or_else(|| range.other.is_none().then(|| old.next()).flatten());
            let right = right.or_else(|| range.here.is_none().then(|| new.next()).flatten());
            rows.push((false, left, right));
        }
        loop {
            let left = old.next_if(|hop| range.other.is_some_and(|[_, last]| hop.ttl <= last));
            let right = new.next_if(|hop| range.here.is_some_and(|[_, last]| hop.ttl <= last));
            if left.is_none() && right.is_none() {
                break;
            }
            rows.push((true, left, right));
        }
    }
    while old.peek().is_some() || new.peek().is_some() {
        rows.push((false, old.next(), new.next()));
    }
    rows
}

/// Formats a hop like `  4 router.example.net`, truncated or padded to its columns.
fn format_hop_cell(hop: Option<&ObservedHop>) -> String {
    let Some(hop) = hop else {
        return " ".repeat(NAME_COLUMNS + 4);
    };
    let name = hop.answers.first().map_or_else(
        || String::from("(silent)"),
        |answer| sanitize(answer.name.as_ref().unwrap_or(&answer.address)).into_owned(),
    );
    let short: String = if name.chars().count() > NAME_COLUMNS {
        name.chars().take(NAME_COLUMNS - 2).chain("..".chars()).collect()
    } else {
        name
    };
    format!("{:>3} {short:<NAME_COLUMNS$}", hop.ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_text_leaves_its_columns_or_its_lines(text in "\\PC{0,400}|[a-z\u{1b}\n\r\u{9b} ]{0,200}") {
            let mut mail = OperatorReport::default();
            mail.title(&text);
            mail.item(&text);
            mail.row(&text);
            let plain = mail.to_text();
            for line in plain.lines() {
                proptest::prop_assert!(line.chars().count() <= COLUMNS, "{line}");
                proptest::prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn items_hang_under_their_first_word() {
        let mut mail = OperatorReport::default();
        mail.item(&"word ".repeat(30));
        let text = mail.to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  - word") && lines[1].starts_with("    word"));
    }
}

#[cfg(test)]
mod route_pair_text_tests {
    use super::*;
    use crate::path_test_builder::build_route;

    fn numbers(before: &[&str], after: &[&str]) -> Vec<(bool, Option<u8>, Option<u8>)> {
        let (before, after) = (build_route(before), build_route(after));
        let change = compare_routes(&after, &before);
        let ttl = |hop: Option<&ObservedHop>| hop.map(|hop| hop.ttl);
        pair_hops(&before, &after, &change.ranges)
            .into_iter()
            .map(|(m, a, b)| (m, ttl(a), ttl(b)))
            .collect()
    }

    #[test]
    fn a_shorter_detour_stands_beside_the_longer_one() {
        let before = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.9.0.1"];
        let after = ["10.1.0.1", "10.7.0.1", "10.9.0.1"];
        assert_eq!(
            numbers(&before, &after),
            [
                (false, Some(1), Some(1)),
                (true, Some(2), Some(2)),
                (true, Some(3), None),
                (false, Some(4), Some(3))
            ]
        );
    }

    #[test]
    fn hops_that_came_in_stand_alone() {
        let before = ["10.1.0.1", "10.9.0.1"];
        let after = ["10.1.0.1", "10.7.0.1", "10.9.0.1"];
        assert_eq!(
            numbers(&before, &after),
            [(false, Some(1), Some(1)), (true, None, Some(2)), (false, Some(2), Some(3))]
        );
    }

    proptest::proptest! {
        #[test]
        fn every_hop_is_shown_once(
            a in proptest::collection::vec(0u8..6, 0..20),
            b in proptest::collection::vec(0u8..6, 0..20),
        ) {
            let named = |hops: &[u8]| -> Vec<String> {
                hops.iter().map(|n| if *n == 0 { String::new() } else { format!("10.{n}.0.1") }).collect()
            };
            let (a, b) = (named(&a), named(&b));
            let refs = |all: &[String]| build_route(&all.iter().map(String::as_str).collect::<Vec<_>>());
            let (before, after) = (refs(&a), refs(&b));
            let change = compare_routes(&after, &before);
            let rows = pair_hops(&before, &after, &change.ranges);
            let left: Vec<u8> = rows.iter().filter_map(|r| r.1).map(|h| h.ttl).collect();
            let right: Vec<u8> = rows.iter().filter_map(|r| r.2).map(|h| h.ttl).collect();
            proptest::prop_assert_eq!(left, (1..=a.len() as u8).collect::<Vec<_>>());
            proptest::prop_assert_eq!(right, (1..=b.len() as u8).collect::<Vec<_>>());
        }
    }
}
