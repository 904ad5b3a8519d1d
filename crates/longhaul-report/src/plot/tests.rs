//! Figures of scans with known cells: their content, and that files are written completely.

use super::*;
use longhaul_analysis::scan::{conclude_scan, order_cells};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::{self, RunDirection};
use longhaul_model::report::v1::scan::{
    ScanAnalysis, ScanBudget, ScanCell, ScanObservation, ScanPlan, SearchMode, TransferSetting,
};
use longhaul_model::report::v1::{
    LoadReport, PredictionReport, ReportKind, RunInfo, RunParty, SCHEMA, ScanReport, predict,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The path of the drawn scans: 622 Mbit/s, 160 ms.
const CAPACITY_BPS: f64 = 622e6;
const RTT_S: f64 = 0.16;

fn run(initiator: &str, responder: &str) -> RunInfo {
    let party = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    RunInfo {
        id: String::from("01jd5r3x8k9m2"),
        started_at: String::from("2026-11-22T02:00:00Z"),
        duration_us: 1,
        longhaul: String::from("0.1.0"),
        initiator: party(initiator),
        responder: party(responder),
        part_of: None,
        environment: None,
    }
}

fn grid(windows: u32, streams: &[u32], direction: RunDirection) -> ScanPlan {
    ScanPlan {
        search: SearchMode::Grid,
        direction,
        windows_bytes: (0..windows).map(|i| (i > 0).then(|| 32_768 << i)).collect(),
        streams: streams.to_vec(),
        congestion_controls: vec![None],
        repeats: 2,
        seed: 7,
        present: None,
        budget: ScanBudget { probes: 1000, time_us: 1, bytes: None },
        probe: plan::ThroughputPlan::default(),
    }
}

/// Limited by the window, then by the path; reverse is slower; every tenth probe is higher.
fn goodput_bps(setting: &TransferSetting, forward: bool, index: u32) -> u64 {
    let streams = f64::from(setting.streams);
    let window = setting.window_bytes.unwrap_or(6 << 20) as f64;
    let path = CAPACITY_BPS * (1.0 - 1.0 / (1.0 + 3.0 * streams));
    let wobble = 1.0 + 0.03 * f64::from(index % 5) / 5.0;
    let way = if forward { 1.0 } else { 0.72 };
    ((streams * window * 8.0 / RTT_S).min(path) * wobble * way) as u64
}

fn scan(
    plan: ScanPlan,
    hosts: (&str, &str),
    keep: impl Fn(&TransferSetting) -> bool,
) -> ScanReport {
    let cells = order_cells(&plan).into_iter().filter(|s| keep(&s.setting)).map(|slot| {
        let goodput = goodput_bps(&slot.setting, slot.forward, slot.index);
        let at_us = u64::from(slot.index) * 10_000_000;
        let blank = ScanCell {
            index: slot.index,
            setting: slot.setting,
            forward: slot.forward,
            sentinel: slot.sentinel,
            at_us,
            duration_us: 1,
            ..ScanCell::default()
        };
        ScanCell {
            goodput_bps: Some(goodput),
            limited_by: Some(Limiter::PathCapacity),
            idle_rtt_us: Some(160_000),
            ..blank
        }
    });
    let observation = ScanObservation { cells: cells.collect() };
    let concluded = conclude_scan(&plan, &observation, &[], "grid_done");
    ScanReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Scan,
        run: run(hosts.0, hosts.1),
        plan,
        observation,
        analysis: concluded.analysis,
        findings: concluded.findings,
        caveats: concluded.caveats,
    }
}

fn six_by_six(direction: RunDirection) -> ScanReport {
    scan(grid(6, &[1, 2, 4, 8, 16, 32], direction), ("near", "far"), |_| true)
}

fn prediction() -> PredictionReport {
    let plan = grid(4, &[1, 2, 4, 8, 16], RunDirection::Forward);
    let mut cells = Vec::new();
    for slot in order_cells(&ScanPlan { repeats: 1, ..plan }).into_iter().filter(|s| !s.sentinel) {
        let predicted = goodput_bps(&slot.setting, true, 0);
        cells.push(predict::PredictionCell {
            loss_ratio: 0.0,
            buffer_bytes: 1 << 20,
            bounds: Vec::new(),
            goodput_bps: predicted,
            limited_by: Limiter::PathCapacity,
            queue_bytes: 0,
            made_loss_ratio: 0.0,
            measured_bps: (slot.setting.streams != 4).then(|| predicted * 9 / 10),
            disagreement_ratio: None,
            meaning: None,
            setting: slot.setting,
        });
    }
    PredictionReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Predict,
        run: run("near", "far"),
        plan: predict::PredictionPlan {
            path: predict::PredictionPath {
                capacity_bps: CAPACITY_BPS as u64,
                rtt_us: 160_000,
                mss_bytes: 1448,
                header_bytes: 52,
                origin: String::from("asked"),
            },
            hosts: predict::PredictionHosts::default(),
            windows_bytes: Vec::new(),
            streams: Vec::new(),
            congestion_controls: Vec::new(),
            loss_ratios: Vec::new(),
            buffers_bytes: Vec::new(),
            time_us: 1,
            scan_id: Some(String::from("01jd5r3x8k9m2")),
        },
        observation: predict::PredictionObservation::default(),
        analysis: predict::PredictionAnalysis { cells, ..predict::PredictionAnalysis::default() },
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}

/// Returns every figure of every form that a scan may have.
fn gallery() -> Vec<(&'static str, FigureSheet)> {
    let both = six_by_six(RunDirection::Both);
    let streams = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48];
    let wide = scan(grid(8, &streams, RunDirection::Forward), ("near", "far"), |_| true);
    let holes = scan(grid(6, &[1, 2, 4, 8, 16, 32], RunDirection::Forward), ("near", "far"), |s| {
        s.streams * 3 % 7 != 5 || s.window_bytes > Some(1 << 19)
    });
    let window = scan(grid(1, &[1, 2, 4, 8, 16], RunDirection::Forward), ("near", "far"), |_| true);
    let one = scan(grid(1, &[1], RunDirection::Forward), ("near", "far"), |_| true);
    let none = scan(grid(2, &[1, 2], RunDirection::Both), ("near", "far"), |_| false);
    vec![
        ("heat-both", heat_map::draw_heat_map(&both)),
        ("heat-wide", heat_map::draw_heat_map(&wide)),
        ("heat-holes", heat_map::draw_heat_map(&holes)),
        ("heat-one-window", heat_map::draw_heat_map(&window)),
        ("heat-one", heat_map::draw_heat_map(&one)),
        ("heat-none", heat_map::draw_heat_map(&none)),
        ("predicted", prediction_curves::draw_prediction(&prediction())),
    ]
}

fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("an SVG is XML");
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    texts.filter_map(|n| n.text()).map(|t| t.trim().to_owned()).collect()
}

#[test]
fn every_figure_is_an_svg_with_title_and_source() {
    for (name, sheet) in gallery() {
        assert!(texts(&sheet.svg()).len() >= 3, "{name} has title, explanation and source");
    }
}

/// Returns the corners of all marks of an SVG.
fn corners(svg: &str) -> Vec<(f64, f64)> {
    let document = roxmltree::Document::parse(svg).expect("an SVG is XML");
    let pair = |text: &str, mark: char| {
        let (x, y) = text.split_once(mark).expect("two numbers");
        (x.parse().expect("x"), y.parse().expect("y"))
    };
    let mut corners = Vec::new();
    for mark in document.descendants().filter(roxmltree::Node::is_element) {
        let number = |name: &str| -> f64 {
            mark.attribute(name).map_or(0.0, |text| text.parse().expect("a number"))
        };
        match mark.tag_name().name() {
            "rect" => {
                let (x, y) = (number("x"), number("y"));
                corners.extend([(x, y), (x + number("width"), y + number("height"))]);
            }
            "circle" => corners.push((number("cx"), number("cy"))),
            "polyline" => {
                let points = mark.attribute("points").expect("points").split(' ');
                corners.extend(points.map(|point| pair(point, ',')));
            }
            "text" => {
                let place = mark.attribute("transform").expect("a place");
                let place = place.trim_start_matches("translate(").split(')').next();
                corners.push(pair(place.expect("two numbers"), ' '));
            }
            _ => {}
        }
    }
    corners
}

#[test]
fn marks_lie_on_their_sheet() {
    for (name, sheet) in gallery() {
        let inside = |(x, y): (f64, f64)| {
            (0.0..=f64::from(sheet.width)).contains(&x)
                && (0.0..=f64::from(sheet.height)).contains(&y)
        };
        for corner in corners(&sheet.svg()) {
            assert!(inside(corner), "{name}: {corner:?}");
        }
    }
}

#[test]
fn a_heat_map_holds_every_cell_and_names_the_best_and_the_recommended() {
    let scan = six_by_six(RunDirection::Forward);
    let texts = texts(&heat_map::draw_heat_map(&scan).svg());
    let unit = crate::number_format::RateUnit::for_max(CAPACITY_BPS as u64);
    let mut wanted = BTreeSet::new();
    for curve in &scan.analysis.directions[0].curves {
        wanted.extend(curve.points.iter().map(|p| unit.short(p.goodput_bps)));
        assert!(
            texts.contains(&crate::scan_text::setting_format::format_window(curve.window_bytes))
        );
    }
    assert!(wanted.len() > 10);
    for value in wanted {
        let shown = texts.iter().any(|text| text.trim_start_matches('≈') == value);
        assert!(shown, "{value} is missing");
    }
    assert!(texts.iter().any(|t| t == "use"));
    assert!(texts.iter().any(|t| t.contains("01jd5r3x8k9m2") && t.contains("2026-11-22")));
}

#[test]
fn a_heat_map_is_titled_by_its_hosts_and_their_rtt() {
    let texts = texts(&draw_heat_map(&six_by_six(RunDirection::Forward)).svg());
    assert_eq!(texts[0], "Goodput between near and far, RTT 160 ms");
}

#[test]
fn cells_that_the_scan_cannot_tell_from_the_best_are_marked() {
    let mut scan = six_by_six(RunDirection::Forward);
    let best = scan.analysis.directions[0].best.as_mut().expect("a best setting");
    let unit = crate::number_format::RateUnit::for_max(best.goodput_bps);
    best.goodput_interval_bps = Some([580_000_000, 640_000_000]);
    let marked = |scan: &ScanReport| -> Vec<String> {
        let texts = texts(&draw_heat_map(scan).svg());
        texts.iter().filter_map(|text| text.strip_prefix('≈')).map(str::to_owned).collect()
    };
    let found = &scan.analysis.directions[0];
    let chosen = [&found.best, &found.recommended].map(|it| it.as_ref().map(|it| &it.setting));
    let mut wanted = Vec::new();
    for curve in found.curves.iter().rev() {
        for point in curve.points.iter().filter(|it| it.goodput_bps >= 580_000_000) {
            let setting = TransferSetting {
                window_bytes: curve.window_bytes,
                streams: point.streams,
                ..TransferSetting::default()
            };
            if !chosen.contains(&Some(&setting)) {
                wanted.push(unit.short(point.goodput_bps));
            }
        }
    }
    assert!(wanted.len() > 3);
    assert_eq!(marked(&scan), wanted);
    scan.analysis.directions[0].best = None;
    assert!(marked(&scan).is_empty());
}

#[test]
fn the_panels_of_a_prediction_have_one_scale() {
    let mut predict = prediction();
    let mut lossy = predict.analysis.cells.clone();
    for cell in &mut lossy {
        cell.loss_ratio = 0.01;
        (cell.goodput_bps, cell.measured_bps) = (cell.goodput_bps / 50, None);
    }
    predict.analysis.cells.extend(lossy);
    let texts = texts(&draw_prediction(&predict).svg());
    let count = |label: &str| texts.iter().filter(|text| *text == label).count();
    assert_eq!((count("goodput, Mbit/s"), count("600")), (2, 2), "{texts:?}");
}

#[test]
fn the_capacity_of_a_prediction_has_its_origin() {
    for (origin, name) in [
        ("asked", "capacity 622 Mbit/s"),
        ("01jd: capacity where the path was full", "capacity estimated by the scan: 622 Mbit/s"),
        (
            "01jd: capacity at least: no cell filled the path",
            "capacity at least 622 Mbit/s, by the scan",
        ),
        ("01jd: capacity where the path was full, and options", "capacity 622 Mbit/s"),
    ] {
        let mut predict = prediction();
        predict.plan.path.origin = origin.to_owned();
        let texts = texts(&draw_prediction(&predict).svg());
        assert!(texts.iter().any(|text| text == name), "{origin}: {texts:?}");
    }
}

#[test]
fn a_load_without_loss_has_no_key_to_lost_probes() {
    let fixture = include_str!("../../../../fixtures/reports/load-narrow.json");
    let mut load: LoadReport = serde_json::from_str(fixture).expect("a report");
    let explained = |load: &LoadReport, text: &str| {
        texts(&load_chart::draw_load_chart(load).svg())[1].contains(text)
    };
    for probe in &mut load.observation.probes {
        probe.echo.rtt_ns = probe.echo.rtt_ns.or(Some(1));
    }
    assert!(explained(&load, "none was lost"));
    load.observation.probes[0].echo.rtt_ns = None;
    assert!(explained(&load, "red: lost"));
}

#[test]
fn host_names_are_text_and_nothing_else() {
    let hostile = "<script>&\"'\u{1b}[31m]]>";
    let plan = grid(2, &[1, 2], RunDirection::Both);
    let scan = scan(plan, (hostile, "far"), |_| true);
    let svg = draw_heat_map(&scan).svg();
    assert!(texts(&svg).iter().any(|t| t.contains("<script>&\"'\u{fffd}[31m]]> to far")), "{svg}");
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}'));
}

#[test]
fn a_report_without_conclusions_still_gives_a_figure() {
    let mut scan = six_by_six(RunDirection::Both);
    scan.analysis = ScanAnalysis::default();
    let svg = draw_heat_map(&scan).svg();
    assert!(texts(&svg).iter().any(|t| t.starts_with("No ")));
}

/// A folder of the test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("longhaul-plot-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The test no longer needs it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_figure_replaces_a_file_whole_and_leaves_nothing_beside_it() {
    let folder = Folder::new("replace");
    let to = folder.0.join("heat.SVG");
    fs::write(&to, "an older figure").unwrap();
    write_figure(&to, &draw_heat_map(&six_by_six(RunDirection::Forward))).unwrap();
    assert!(fs::read_to_string(&to).unwrap().starts_with("<svg"));
    write_figure(&folder.0.join("p.svg"), &draw_prediction(&prediction())).unwrap();
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
}

#[test]
fn nothing_but_a_regular_file_is_replaced() {
    let folder = Folder::new("refuse");
    let taken = folder.0.join("folder.svg");
    fs::create_dir(&taken).unwrap();
    let link = folder.0.join("link.svg");
    std::os::unix::fs::symlink(folder.0.join("elsewhere.svg"), &link).unwrap();
    let figure = draw_heat_map(&six_by_six(RunDirection::Forward));
    for to in [&taken, &link] {
        let fail = write_figure(to, &figure).unwrap_err();
        assert!(!matches!(fail, FigureError::Write { .. }));
        assert!(fail.hint().contains("another file"));
    }
    assert!(!folder.0.join("elsewhere.svg").exists());
    let nowhere = folder.0.join("absent").join("heat.svg");
    let fail = write_figure(&nowhere, &figure).unwrap_err();
    assert!(std::error::Error::source(&fail).is_some());
}
