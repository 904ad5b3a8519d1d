//! A record as one HTML page: the claim, its basis, and all evidence.

use super::{describe_class, list_figures, record_title, write_rule};
use crate::document::{DocumentTable, ReportDocument};
use longhaul_model::report::v1::{PathReport, RunInfo};
use longhaul_model::units::capitalize_first;
use longhaul_record::speed_record::{
    ManifestEntry, RecordLeg, RecordStop, SpeedRecord, format_mark,
};

/// The content of the page.
pub struct RecordPageParts<'a> {
    pub record: &'a SpeedRecord,
    /// The transfer, and the measurement of its path.
    pub runs: (&'a RunInfo, Option<&'a PathReport>),
    /// What each text is about, and the text.
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
    write_about(record, &mut body);
    for (label, value) in list_figures(record) {
        body.fact(label, value);
    }
    body.caveats(&record.caveats);
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
