//! A record as one HTML page: the claim, its basis, and all evidence.

use super::{class, figures, kilometres, mark, title, words};
use crate::render::html::{Align, Body};
use longhaul_model::report::v1::record::{Listed, Record, RuleVerdict};
use longhaul_model::report::v1::{Path, Run};

/// The content of the page.
pub struct Parts<'a> {
    pub record: &'a Record,
    /// The transfer, and the measurement of its path.
    pub runs: (&'a Run, Option<&'a Path>),
    /// Absent: no end reported its command line.
    pub commands: Option<String>,
    /// Headings and texts.
    pub settings: Vec<(String, String)>,
    pub texts: Vec<(String, String)>,
    /// SVG drawings of this program, with captions.
    pub drawings: Vec<(String, String)>,
    pub files: &'a [Listed],
}

pub fn html(parts: &Parts) -> String {
    let record = parts.record;
    let mut body = Body::default();
    body.heading(1, &title(record));
    let sub = match record.analysis.mark_bit_m_per_s {
        Some(made) => format!("{}, {}", mark(made), class(&record.analysis)),
        None => "no distance is known, so there is no mark".to_owned(),
    };
    body.paragraph(&sub);
    about(record, &mut body);
    body.facts(&figures(record));
    for caveat in &record.caveats {
        body.note(&caveat.text);
    }
    for (svg, caption) in &parts.drawings {
        body.drawing(svg, caption);
    }
    distance(record, &mut body);
    rules(record, &mut body);
    if let Some(commands) = &parts.commands {
        body.heading(2, "Command lines");
        body.verbatim(commands);
    }
    for (heading, text) in parts.texts.iter().chain(&parts.settings) {
        body.heading(2, heading);
        body.verbatim(text);
    }
    files(parts.files, &mut body);
    let runs = match parts.runs {
        (run, Some(path)) => format!("runs {} and {}", run.id, path.run.id),
        (run, None) => format!("run {}", run.id),
    };
    let foot = format!(
        "Made {} by longhaul {} of {runs}. `longhaul record verify` on the folder of this page shows \
         whether anything in it was changed.",
        record.made_at, record.longhaul
    );
    body.page(&title(record), &foot)
}

fn about(record: &Record, body: &mut Body) {
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

fn distance(record: &Record, body: &mut Body) {
    let (seen, found) = (&record.observation, &record.analysis);
    if found.legs.is_empty() {
        return;
    }
    body.heading(2, "Distance");
    let columns = [
        ("from", Align::Left),
        ("point", Align::Left),
        ("to", Align::Left),
        ("point", Align::Left),
        ("WGS84, km", Align::Right),
        ("sphere, km", Align::Right),
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
        "sum".to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ];
    let totals = [found.distance_mm, found.distance_sphere_mm];
    sum.extend(totals.map(|it| it.map_or_else(String::new, number)));
    rows.push(sum);
    let last = rows.len() - 1;
    body.table(&columns, &rows, &[last]);
    let text = "Each leg is the geodesic between the points that stand for its cities; the sphere has \
                the earth's mean radius, 6371.0088 km. The mark is made from the distance on WGS84.";
    body.faint(text);
    for out in &found.left_out {
        body.note(&format!(
            "Hop {} is in {} by {}, and no leg begins or ends there; by way of it the distance is {} \
             longer.",
            out.ttl,
            out.city,
            words(&out.known_by),
            kilometres(out.detour_mm)
        ));
    }
    routers(record, body);
}

fn routers(record: &Record, body: &mut Body) {
    let seen = &record.observation;
    if seen.routers.is_empty() {
        return;
    }
    body.heading(3, "Cities of the routers");
    let columns = [
        ("hop", Align::Right),
        ("address", Align::Left),
        ("name", Align::Left),
        ("city", Align::Left),
        ("known by", Align::Left),
    ];
    let rows = seen.routers.iter().map(|it| {
        vec![
            it.ttl.to_string(),
            it.address.clone(),
            it.name.clone().unwrap_or_default(),
            it.city.clone(),
            words(&it.known_by),
        ]
    });
    body.table(&columns, &rows.collect::<Vec<_>>(), &[]);
    if seen.unplaced_hops > 0 {
        body.faint(&format!(
            "{} routers answered whose city nothing says.",
            seen.unplaced_hops
        ));
    }
}

fn rules(record: &Record, body: &mut Body) {
    body.heading(2, &format!("Rules: {}", record.analysis.rules));
    body.note(&record.analysis.standing);
    let columns = [
        ("rule", Align::Left),
        ("verdict", Align::Left),
        ("shown by", Align::Left),
        ("known from", Align::Left),
    ];
    let checks = &record.analysis.checks;
    let rows = checks.iter().map(|check| {
        let clause = check.clause.as_ref();
        let clause = clause.map_or_else(String::new, |it| format!(" (clause {it})"));
        vec![
            format!("{}{clause}", check.rule),
            check.verdict.words().to_owned(),
            check.text.clone(),
            format!("{}: {}", words(&check.confidence), check.source),
        ]
    });
    let failed = checks.iter().zip(0..);
    let failed: Vec<usize> = failed
        .filter(|(check, _)| check.verdict == RuleVerdict::Fails)
        .map(|(_, place)| place)
        .collect();
    body.table(&columns, &rows.collect::<Vec<_>>(), &failed);
}

fn files(files: &[Listed], body: &mut Body) {
    body.heading(2, "Files");
    let columns = [
        ("file", Align::Left),
        ("bytes", Align::Right),
        ("what it holds", Align::Left),
    ];
    let rows = files
        .iter()
        .map(|it| vec![it.name.clone(), it.bytes.to_string(), it.about.clone()]);
    body.table(&columns, &rows.collect::<Vec<_>>(), &[]);
    body.faint("manifest.json has the SHA-256 of each, and of this page.");
}
