//! The route of a record on a map: great circles between its stops over outlines of land.
//!
//! Longitudes continue across the 180th meridian, and the map is cut to the route. All legs are
//! drawn in order in one colour; cities that were left out are rings.
//!
//! - [`view`]: from degrees to the sheet; [`arc`]: great circles; [`labels`]: non-overlapping names

mod arc;
mod labels;
mod land;
mod view;

use super::frame::{self, FOOT, HEAD, MARGIN};
use super::sheet::{Anchor, FAINT, GREY, Ink, Sheet, WHITE};
use crate::render::record::{kilometres, mark, title};
use labels::Labels;
use longhaul_model::report::v1::record::Record;
use view::View;

const WIDTH: f64 = 900.0;
/// Blue of Okabe and Ito (2008) for the route, vermilion for cities that were left out.
const WAY: Ink = Ink(0x00, 0x72, 0xb2);
const OUT: Ink = Ink(0xd5, 0x5e, 0x00);
const LAND: Ink = Ink(0xe9, 0xe9, 0xe4);
const SEA: Ink = Ink(0xf7, 0xfa, 0xfc);

pub fn sheet(record: &Record) -> Sheet {
    let stops = &record.observation.stops;
    let points: Vec<(f64, f64)> = stops.iter().map(|it| (it.longitude, it.latitude)).collect();
    let arcs = arc::along(&points);
    let view = View::around(&arcs, (MARGIN, HEAD), WIDTH - 2.0 * MARGIN);
    let mut sheet = Sheet::new(WIDTH, HEAD + view.height() + FOOT);
    ground(&mut sheet, &view);
    for leg in &arcs {
        let line: Vec<(f64, f64)> = leg.iter().map(|it| view.at(*it)).collect();
        sheet.line(&line, WAY, 2.0);
    }
    let way = arcs.iter().flatten().map(|it| view.at(*it)).collect();
    let mut labels = Labels::new(&view, way);
    for out in &record.observation.routers {
        let is_out = record.analysis.left_out.iter().any(|it| it.ttl == out.ttl);
        if is_out {
            let at = view.at(view.near((out.longitude, out.latitude)));
            sheet.dot(at, 4.0, OUT, false);
            labels.put(&mut sheet, at, &out.city, OUT);
        }
    }
    let at_stops = arcs.iter().filter_map(|leg| leg.first());
    let at_stops = at_stops.chain(arcs.last().and_then(|leg| leg.last()));
    for (at, stop) in at_stops.zip(stops) {
        let at = view.at(*at);
        sheet.dot(at, 4.0, WAY, true);
        labels.put(&mut sheet, at, &stop.city, super::sheet::BLACK);
    }
    words(&mut sheet, record);
    sheet
}

/// Draws sea, land and meridians, and covers what extends beyond the edge.
fn ground(sheet: &mut Sheet, view: &View) {
    let (from, to) = view.corners();
    sheet.fill(from, to, SEA);
    for ring in land::rings() {
        for shape in view.copies(&ring) {
            sheet.area(&shape, LAND);
        }
    }
    for line in view.graticule() {
        sheet.line(&line, FAINT, 1.0);
    }
    let (right, bottom) = (f64::from(sheet.width), f64::from(sheet.height));
    sheet.fill((0.0, 0.0), (right, from.1), WHITE);
    sheet.fill((0.0, to.1), (right, bottom), WHITE);
    sheet.fill((0.0, 0.0), (from.0, bottom), WHITE);
    sheet.fill((to.0, 0.0), (right, bottom), WHITE);
    sheet.frame(from, to, GREY, 1.0);
}

fn words(sheet: &mut Sheet, record: &Record) {
    let heading = frame::short(&inert(&title(record)));
    let black = super::sheet::BLACK;
    sheet.text((MARGIN, 24.0), heading, 22.0, black, Anchor::Left);
    let found = &record.analysis;
    let distance = found.distance_mm.map(kilometres).unwrap_or_default();
    let made = found.mark_bit_m_per_s.map(mark).unwrap_or_default();
    let under = format!("{distance}, {made}");
    sheet.text((MARGIN, 48.0), under, 14.0, GREY, Anchor::Left);
    let text = "great circles between the points that stand for the cities; land: Natural Earth";
    let foot = f64::from(sheet.height) - 16.0;
    sheet.text((MARGIN, foot), text, 13.0, GREY, Anchor::Left);
}

/// Sanitizes a name by removing characters that change the text direction.
fn inert(name: &str) -> String {
    name.chars()
        .map(|c| crate::render::html::still(c, '?'))
        .collect()
}
