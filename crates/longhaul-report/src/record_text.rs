//! A record, and the result of verifying a bundle, as text.

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{format_grouped, format_rate};
use crate::style::{CAVEAT, ERROR, FAINT, STRONG};
use crate::throughput_text::describe_plan;
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd};
use longhaul_model::report::v1::{PathReport, RunInfo, ThroughputReport};
use longhaul_model::units::capitalize_first;
use longhaul_record::bundle_verification::BundleVerification;
use longhaul_record::speed_record::{
    ManifestEntry, RecordAnalysis, RecordLeg, RecordObservation, RecordStop, RuleCheck,
    RuleVerdict, SpeedRecord, format_kilometres, format_mark,
};
use std::fmt::Write;
use std::path::Path;

/// Returns the title: `San Jose to Lulea`, or the hosts.
pub fn record_title(record: &SpeedRecord) -> String {
    if let Some(name) = &record.about.name {
        return name.clone();
    }
    let seen = &record.observation;
    if let (Some(first), Some(last)) = (seen.stops.first(), seen.stops.last()) {
        return format!("{} to {}", first.city, last.city);
    }
    let (from, to) = sender_and_receiver(seen);
    format!("{from} to {to}")
}

/// Returns sender and receiver.
pub fn sender_and_receiver(seen: &RecordObservation) -> (&str, &str) {
    let (initiator, responder) = (&seen.initiator.host, &seen.responder.host);
    if seen.forward { (initiator, responder) } else { (responder, initiator) }
}

/// Describes the class.
pub fn describe_class(found: &RecordAnalysis) -> String {
    match &found.class {
        Some(class) => class.replace("ipv", "IPv").replace('_', " "),
        None => "none: classes exist only for TCP over a known IP version".to_owned(),
    }
}

/// Returns the label and value of each figure.
pub fn list_figures(record: &SpeedRecord) -> Vec<(&'static str, String)> {
    let (seen, found) = (&record.observation, &record.analysis);
    let (from, to) = sender_and_receiver(seen);
    let mut figures = Vec::new();
    if let Some(made) = found.mark_bit_m_per_s {
        let exact = format!("{} ({made:.0} bit·m/s)", format_mark(made));
        figures.push(("Score", exact));
    }
    figures.push(("Class", describe_class(found)));
    figures.push(("Data", format!("{from} to {to}, {}", seen.started_at)));
    let seconds = seen.elapsed_us as f64 / 1e6;
    figures.push((
        "Transfer",
        format!(
            "{} bytes in {seconds:.6} s over {}: {}",
            format_grouped(seen.received_bytes),
            super::number_format::count_of(u64::from(seen.streams), "stream"),
            format_rate(found.goodput_bps),
        ),
    ));
    if let (Some(mm), Some(sphere)) = (found.distance_mm, found.distance_sphere_mm) {
        let legs = super::number_format::count_of(found.legs.len() as u64, "leg");
        let text = format!(
            "{} in {legs} on WGS84, by the legs file; {} on the sphere",
            format_kilometres(mm),
            format_kilometres(sphere)
        );
        figures.push(("Distance", text));
    }
    figures.extend(describe_light(seen, found).map(|text| ("Light in fibre", text)));
    if let Some(beside) = &found.beside {
        let text = format!(
            "{:+.1} % compared with {} of {} ({}, {})",
            100.0 * beside.gain_ratio,
            format_mark(beside.mark_bit_m_per_s),
            beside.name,
            beside.source,
            replace_underscores(&beside.confidence),
        );
        figures.push(("Best known", text));
    }
    figures
}

/// Replaces underscores in words of the data.
fn replace_underscores(of_data: &str) -> String {
    of_data.replace('_', " ")
}

fn describe_light(seen: &RecordObservation, found: &RecordAnalysis) -> Option<String> {
    let (light, rtt_ns) = (found.light?, seen.rtt_min_ns?);
    let (least, rtt) = (light.least_rtt_ns as f64 / 1e6, rtt_ns as f64 / 1e6);
    let by = seen.rtt_by.as_deref().unwrap_or("measured");
    Some(if light.possible {
        format!(
            "round trip {least:.3} ms; the RTT is {rtt:.3} ms, {:.2} times that ({by})",
            light.stretch_ratio
        )
    } else {
        format!("impossible: a round trip takes {least:.3} ms, but the RTT is {rtt:.3} ms ({by})")
    })
}

pub fn build_record_document(record: &SpeedRecord, place: &Path, files: usize) -> ReportDocument {
    let mut page = ReportDocument { title: record_title(record), ..ReportDocument::default() };
    for (label, value) in list_figures(record) {
        let style = match label {
            "Score" => STRONG,
            "Light in fibre" if value.starts_with("impossible") => ERROR,
            _ => anstyle::Style::new(),
        };
        page.styled_fact(label, &value, style);
    }
    page.gap();
    page.heading(3, format!("Rules of {}", record.analysis.rules));
    page.styled_item("  ", &record.analysis.standing, FAINT);
    for check in &record.analysis.checks {
        write_rule(check, &mut page);
    }
    page.caveats(&record.caveats);
    page.gap();
    page.fact("Bundle", format!("{}, {files} files", place.display()));
    page
}

pub fn write_rule(check: &RuleCheck, page: &mut ReportDocument) {
    let style = match check.verdict {
        RuleVerdict::Holds => anstyle::Style::new(),
        RuleVerdict::Fails => ERROR,
        RuleVerdict::CannotTell | RuleVerdict::Declare => CAVEAT,
    };
    let first = format!("  {:<12} ", check.verdict.label());
    let clause = check.clause.as_ref();
    let clause = clause.map_or_else(String::new, |it| format!(" (clause {it})"));
    let text = format!("{}{clause}: {}", check.rule, check.text);
    page.styled_item(&first, &text, style);
    let source = format!("{}: {}", replace_underscores(&check.confidence), check.source);
    page.styled_item(" ".repeat(15), &source, FAINT);
}

/// Renders the result of `record verify`.
pub fn build_verification_document(folder: &Path, found: &BundleVerification) -> ReportDocument {
    let mut page = ReportDocument::default();
    let sound = found.differs.is_empty();
    let verdict = if sound { "unchanged" } else { "CHANGED" };
    page.heading(3, format!("{}: {verdict}", folder.display()));
    for (what, why) in &found.differs {
        let what: String = what.chars().take(100).collect();
        page.styled_item("  differs   ", format!("{what}: {why}"), ERROR);
    }
    for text in &found.agrees {
        page.item("  agrees    ", text);
    }
    if sound {
        let files = super::number_format::count_of(found.files as u64, "file");
        let text =
            format!("{files} with the lengths and SHA-256 sums of the manifest; no file was added");
        page.item("  agrees    ", &text);
    }
    match &found.signed_by {
        Some(key) => {
            page.item("  signed    ", format!("by {key}"));
            let text =
                "this identifies the author only if you trust the key; check it with `--key`";
            page.styled_item("            ", text, FAINT);
        }
        None => {
            page.styled_item("  unsigned  ", "the author is not authenticated", FAINT);
        }
    }
    page
}

/// The content of the page.
pub struct RecordPageParts<'a> {
    pub record: &'a SpeedRecord,
    /// The transfer, and the measurement of its path.
    pub runs: (&'a RunInfo, Option<&'a PathReport>),
    /// The subject of each text, and the text.
    pub chapters: Vec<(String, String)>,
    /// An SVG drawing of this program, with its caption.
    pub drawing: Option<(String, String)>,
    pub files: &'a [ManifestEntry],
}

pub fn build_record_page(parts: &RecordPageParts) -> ReportDocument {
    let record = parts.record;
    let sub = match record.analysis.mark_bit_m_per_s {
        Some(made) => format!("{}, {}", format_mark(made), describe_class(&record.analysis)),
        None => "no score: the distance is unknown".to_owned(),
    };
    let mut body =
        ReportDocument { title: record_title(record), subtitle: sub, ..ReportDocument::default() };
    // What limits the score is read before it.
    body.caveats(&record.caveats);
    write_about(record, &mut body);
    for (label, value) in list_figures(record) {
        body.fact(label, value);
    }
    body.drawings(parts.drawing.clone());
    write_distance(record, &mut body);
    write_rules(record, &mut body);
    for (about, text) in &parts.chapters {
        body.heading(2, capitalize_first(about));
        body.verbatim(text);
    }
    write_files(parts.files, &mut body);
    let runs = match parts.runs {
        (run, Some(path)) => format!("runs {} and {}", run.id, path.run.id),
        (run, None) => format!("run {}", run.id),
    };
    body.foot = format!(
        "Made {} by longhaul {} from {runs}. Run `longhaul record verify` on the folder of this page to \
         check that nothing in it was changed.",
        record.made_at, record.longhaul
    );
    body
}

fn write_about(record: &SpeedRecord, body: &mut ReportDocument) {
    let about = &record.about;
    let facts = [("Team", &about.team), ("Contact", &about.contact), ("Note", &about.note)];
    for (label, value) in facts {
        body.facts(label, value);
    }
}

fn write_distance(record: &SpeedRecord, body: &mut ReportDocument) {
    let (seen, found) = (&record.observation, &record.analysis);
    if found.legs.is_empty() {
        return;
    }
    body.heading(2, "Distance");
    let number = |mm: u64| format!("{:.3}", mm as f64 / 1e6);
    let legs: Vec<_> = found.legs.iter().zip(seen.stops.windows(2)).collect();
    let mut table = DocumentTable::from_rows(&legs)
        .text("from", |(leg, _): &(&RecordLeg, _)| leg.from.clone())
        .text("point", |(_, ends): &(_, &[RecordStop])| ends[0].point.clone())
        .text("to", |(leg, _)| leg.to.clone())
        .text("point", |(_, ends)| ends[1].point.clone())
        .number("WGS84, km", |(leg, _)| number(leg.length_mm))
        .number("sphere, km", |(leg, _)| number(leg.sphere_mm))
        .finish();
    let totals = [found.distance_mm, found.distance_sphere_mm];
    let totals = totals.map(|it| it.map_or_else(String::new, number));
    let blanks = ["total", "", "", ""].map(str::to_owned);
    table.marked.push(table.rows.len());
    table.row(blanks.into_iter().chain(totals));
    body.table(table);
    let text = "Each leg is the geodesic between the points that represent its cities; the sphere has \
                the earth's mean radius, 6371.0088 km. The score is calculated from the distance on WGS84.";
    body.faint(text);
}

fn write_rules(record: &SpeedRecord, body: &mut ReportDocument) {
    body.heading(2, format!("Rules: {}", record.analysis.rules));
    body.note(&record.analysis.standing);
    for check in &record.analysis.checks {
        write_rule(check, body);
    }
}

fn write_files(files: &[ManifestEntry], body: &mut ReportDocument) {
    body.heading(2, "Files");
    body.table(
        DocumentTable::from_rows(files)
            .text("file", |file| file.name.clone())
            .number("bytes", |file| file.bytes.to_string())
            .text("contents", |file| file.about.clone())
            .finish(),
    );
    body.faint("manifest.json has the SHA-256 sums of all files and of this page.");
}

/// Renders the command lines of both ends with their versions.
pub fn render_commands(run: &ThroughputReport) -> String {
    let mut text = String::new();
    let (near, far) = (&run.run.initiator, &run.run.responder);
    let parties =
        [("client", near, Some(&run.run.longhaul)), ("server", far, far.longhaul.as_ref())];
    for ((role, party, version), end) in
        parties.into_iter().zip(run.observation.initiator_and_responder())
    {
        let told = end.program.as_ref();
        let version = told.map(|it| &it.longhaul).or(version);
        let version = version.map_or("unknown", String::as_str);
        let _ = writeln!(text, "{role} {}, longhaul {version}", party.host);
        let command = told.and_then(|it| it.command.as_deref());
        let _ = writeln!(text, "  {}", command.unwrap_or("command line not reported"));
    }
    let _ = writeln!(text, "requested of both: {}", describe_plan(&run.plan));
    text
}

/// Renders the responder's log of this run and its counters.
pub fn render_responder_output(run: &ThroughputReport) -> String {
    let seen = &run.observation;
    let [_, far] = seen.initiator_and_responder();
    let mut text = String::new();
    match &far.program {
        Some(told) if !told.log.is_empty() => {
            text.push_str(
                "log of this run until its results were sent, times since the session started:\n",
            );
            for line in &told.log {
                let _ = writeln!(text, "  {line}");
            }
        }
        _ => text.push_str("no log reported (add one with --attach)\n"),
    }
    let _ =
        writeln!(text, "\ncounted by the server, {} bytes in total:", format_grouped(far.bytes));
    for stream in &seen.streams {
        let (end, calls) =
            if seen.forward { (&stream.receiver, "reads") } else { (&stream.sender, "writes") };
        let _ = writeln!(
            text,
            "  stream {}: {} bytes in {:.6} s, starting at {:.6} s{}",
            stream.index,
            format_grouped(end.bytes),
            to_seconds(end.duration_us),
            to_seconds(end.started_us),
            describe_calls(end, calls),
        );
        if let Some(error) = &end.error {
            let _ = writeln!(text, "    ended early: {error}");
        }
    }
    let counters = far.protocol.iter().chain(&far.interface);
    for (number, (name, grown)) in counters.enumerate() {
        if number == 0 {
            text.push_str("\nkernel counters that increased during the run:\n");
        }
        let _ = writeln!(text, "  {name} {}", format_grouped(*grown));
    }
    text
}

/// Describes the calls and their time, if the end reports them.
fn describe_calls(end: &StreamEnd, calls: &str) -> String {
    let counted = end.calls.map(|n| format!("; {} {calls}", format_grouped(n)));
    let within = end.blocked_us.map(|us| format!(", {:.6} s blocked in them", to_seconds(us)));
    [counted, within].into_iter().flatten().collect()
}

fn to_seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Renders an end's report of its configuration.
pub fn render_configuration(end: &EndObservation) -> String {
    let host = &end.host;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {value}");
    };
    let triple = |it: [u64; 3]| format!("{} {} {}", it[0], it[1], it[2]);
    line("host.name", &host.name);
    line("host.kernel", &host.kernel);
    line("host.cores", &host.cores.to_string());
    for (name, value) in [
        ("net.ipv4.tcp_rmem", host.tcp_rmem_bytes.map(triple)),
        ("net.ipv4.tcp_wmem", host.tcp_wmem_bytes.map(triple)),
        ("net.core.rmem_max", host.rmem_max_bytes.map(|it| it.to_string())),
        ("net.core.wmem_max", host.wmem_max_bytes.map(|it| it.to_string())),
        ("net.ipv4.tcp_congestion_control", host.congestion_control.clone()),
    ] {
        line(name, value.as_deref().unwrap_or("could not be read"));
    }
    for (name, value) in &host.sysctl {
        line(name, value);
    }
    if let Some(interface) = &host.interface {
        line("interface.name", &interface.name);
        if let Some(mtu) = interface.mtu_bytes {
            line("interface.mtu", &mtu.to_string());
        }
        if let Some(speed) = interface.speed_bps {
            line("interface.speed_bps", &speed.to_string());
        }
    }
    text
}
