//! A record as one HTML page: the claim, its basis, and all evidence.

use super::{describe_class, list_figures, record_title, replace_underscores};
use crate::document::{DocumentTable, ReportDocument};
use longhaul_model::report::v1::{PathReport, RunInfo};
use longhaul_record::speed_record::{
    ManifestEntry, RecordLeg, RecordStop, RuleCheck, RuleVerdict, SpeedRecord, format_mark,
};

/// The content of the page.
pub struct RecordPageParts<'a> {
    pub record: &'a SpeedRecord,
    /// The transfer, and the measurement of its path.
    pub runs: (&'a RunInfo, Option<&'a PathReport>),
    /// Absent: no end reported its command line.
    pub commands: Option<String>,
    /// Headings and texts.
    pub settings: Vec<(String, String)>,
    pub texts: Vec<(String, String)>,
    /// SVG drawings of this program, with captions.
    pub drawings: Vec<(String, String)>,
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
    write_about(record, &mut body);
    for (label, value) in list_figures(record) {
        body.fact(label, value);
    }
    body.caveats(&record.caveats);
    for drawing in &parts.drawings {
        body.drawing(drawing.clone());
    }
    write_distance(record, &mut body);
    write_rules(record, &mut body);
    if let Some(commands) = &parts.commands {
        body.heading(2, "Command lines");
        body.verbatim(commands);
    }
    for (heading, text) in parts.texts.iter().chain(&parts.settings) {
        body.heading(2, heading);
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
    let rule = |check: &RuleCheck| {
        let clause = check.clause.as_ref();
        let clause = clause.map_or_else(String::new, |it| format!(" (clause {it})"));
        format!("{}{clause}", check.rule)
    };
    let checks = &record.analysis.checks;
    let table = DocumentTable::from_rows(checks)
        .text("rule", rule)
        .text("verdict", |check| check.verdict.label().to_owned())
        .text("evidence", |check| check.text.clone())
        .text("source", |check| {
            format!("{}: {}", replace_underscores(&check.confidence), check.source)
        })
        .mark_rows(|check| check.verdict == RuleVerdict::Fails)
        .finish();
    body.table(table);
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
