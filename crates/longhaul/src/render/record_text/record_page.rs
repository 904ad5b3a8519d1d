//! A record as one HTML page: the claim, its basis, and all evidence.

use super::{describe_class, list_figures, record_title, replace_underscores};
use crate::render::html_page::{ColumnAlign, HtmlBody};
use longhaul_model::report::v1::{PathReport, RunInfo};
use longhaul_record::speed_record::{ManifestEntry, RuleVerdict, SpeedRecord, format_mark};

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

pub fn render_record_page(parts: &RecordPageParts) -> String {
    let record = parts.record;
    let mut body = HtmlBody::default();
    body.heading(1, &record_title(record));
    let sub = match record.analysis.mark_bit_m_per_s {
        Some(made) => format!(
            "{}, {}",
            format_mark(made),
            describe_class(&record.analysis)
        ),
        None => "no score: the distance is unknown".to_owned(),
    };
    body.paragraph(&sub);
    write_about(record, &mut body);
    body.facts(&list_figures(record));
    for caveat in &record.caveats {
        body.note(&caveat.text);
    }
    for (svg, caption) in &parts.drawings {
        body.drawing(svg, caption);
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
    let foot = format!(
        "Made {} by longhaul {} from {runs}. Run `longhaul record verify` on the folder of this page to \
         check that nothing in it was changed.",
        record.made_at, record.longhaul
    );
    body.page(&record_title(record), &foot)
}

fn write_about(record: &SpeedRecord, body: &mut HtmlBody) {
    let about = &record.about;
    let facts = [
        ("Team", &about.team),
        ("Contact", &about.contact),
        ("Note", &about.note),
    ];
    let given = facts
        .into_iter()
        .filter_map(|(label, value)| Some((label, value.as_ref()?)));
    let given: Vec<_> = given.collect();
    if !given.is_empty() {
        body.facts(&given);
    }
}

fn write_distance(record: &SpeedRecord, body: &mut HtmlBody) {
    let (seen, found) = (&record.observation, &record.analysis);
    if found.legs.is_empty() {
        return;
    }
    body.heading(2, "Distance");
    let columns = [
        ("from", ColumnAlign::Left),
        ("point", ColumnAlign::Left),
        ("to", ColumnAlign::Left),
        ("point", ColumnAlign::Left),
        ("WGS84, km", ColumnAlign::Right),
        ("sphere, km", ColumnAlign::Right),
    ];
    let number = |mm: u64| format!("{:.3}", mm as f64 / 1e6);
    let ends = seen.stops.windows(2);
    let mut rows: Vec<Vec<String>> = found
        .legs
        .iter()
        .zip(ends)
        .map(|(leg, ends)| {
            vec![
                leg.from.clone(),
                ends[0].point.clone(),
                leg.to.clone(),
                ends[1].point.clone(),
                number(leg.length_mm),
                number(leg.sphere_mm),
            ]
        })
        .collect();
    let mut sum = vec![
        "total".to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ];
    let totals = [found.distance_mm, found.distance_sphere_mm];
    sum.extend(totals.map(|it| it.map_or_else(String::new, number)));
    rows.push(sum);
    let last = rows.len() - 1;
    body.table(&columns, &rows, &[last]);
    let text = "Each leg is the geodesic between the points that represent its cities; the sphere has \
                the earth's mean radius, 6371.0088 km. The score is calculated from the distance on WGS84.";
    body.faint(text);
}

fn write_rules(record: &SpeedRecord, body: &mut HtmlBody) {
    body.heading(2, &format!("Rules: {}", record.analysis.rules));
    body.note(&record.analysis.standing);
    let columns = [
        ("rule", ColumnAlign::Left),
        ("verdict", ColumnAlign::Left),
        ("evidence", ColumnAlign::Left),
        ("source", ColumnAlign::Left),
    ];
    let checks = &record.analysis.checks;
    let rows = checks.iter().map(|check| {
        let clause = check.clause.as_ref();
        let clause = clause.map_or_else(String::new, |it| format!(" (clause {it})"));
        vec![
            format!("{}{clause}", check.rule),
            check.verdict.label().to_owned(),
            check.text.clone(),
            format!(
                "{}: {}",
                replace_underscores(&check.confidence),
                check.source
            ),
        ]
    });
    let failed = checks.iter().zip(0..);
    let failed: Vec<usize> = failed
        .filter(|(check, _)| check.verdict == RuleVerdict::Fails)
        .map(|(_, place)| place)
        .collect();
    body.table(&columns, &rows.collect::<Vec<_>>(), &failed);
}

fn write_files(files: &[ManifestEntry], body: &mut HtmlBody) {
    body.heading(2, "Files");
    let columns = [
        ("file", ColumnAlign::Left),
        ("bytes", ColumnAlign::Right),
        ("contents", ColumnAlign::Left),
    ];
    let rows = files
        .iter()
        .map(|it| vec![it.name.clone(), it.bytes.to_string(), it.about.clone()]);
    body.table(&columns, &rows.collect::<Vec<_>>(), &[]);
    body.faint("manifest.json has the SHA-256 sums of all files and of this page.");
}
