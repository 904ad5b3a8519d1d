//! The route of a record on a map: great circles between its stops over outlines of land.
//!
//! Longitudes continue across the 180th meridian, and the map is cut to the route. All legs are
//! drawn in order in one colour; cities that were left out are rings.
//!
//! - [`map_view`]: from degrees to the sheet; [`great_circle`]: great circles; [`map_labels`]: non-overlapping names

mod great_circle;
mod land_outline;
mod map_labels;
mod map_view;

use super::figure_frame::{self, FOOT, HEAD, MARGIN};
use super::figure_sheet::{FAINT, FigureSheet, GREY, InkColour, TextAnchor, WHITE};
use crate::render::record_text::{format_kilometres, format_mark, record_title};
use longhaul_model::report::v1::record::SpeedRecord;
use map_labels::MapLabels;
use map_view::MapView;

const WIDTH: f64 = 900.0;
/// Blue of Okabe and Ito (2008) for the route, vermilion for cities that were left out.
const ROUTE_COLOUR: InkColour = InkColour(0x00, 0x72, 0xb2);
const LEFT_OUT_COLOUR: InkColour = InkColour(0xd5, 0x5e, 0x00);
const LAND: InkColour = InkColour(0xe9, 0xe9, 0xe4);
const SEA: InkColour = InkColour(0xf7, 0xfa, 0xfc);

pub fn draw_record_map(record: &SpeedRecord) -> FigureSheet {
    let stops = &record.observation.stops;
    let points: Vec<(f64, f64)> = stops.iter().map(|it| (it.longitude, it.latitude)).collect();
    let arcs = great_circle::arcs_between_stops(&points);
    let view = MapView::around(&arcs, (MARGIN, HEAD), WIDTH - 2.0 * MARGIN);
    let mut sheet = FigureSheet::new(WIDTH, HEAD + view.height() + FOOT);
    draw_background(&mut sheet, &view);
    for leg in &arcs {
        let line: Vec<(f64, f64)> = leg.iter().map(|it| view.at(*it)).collect();
        sheet.line(&line, ROUTE_COLOUR, 2.0);
    }
    let way = arcs.iter().flatten().map(|it| view.at(*it)).collect();
    let mut labels = MapLabels::new(&view, way);
    for out in &record.observation.routers {
        let is_out = record.analysis.left_out.iter().any(|it| it.ttl == out.ttl);
        if is_out {
            let at = view.at(view.nearest_turn((out.longitude, out.latitude)));
            sheet.dot(at, 4.0, LEFT_OUT_COLOUR, false);
            labels.place_label(&mut sheet, at, &out.city, LEFT_OUT_COLOUR);
        }
    }
    let at_stops = arcs.iter().filter_map(|leg| leg.first());
    let at_stops = at_stops.chain(arcs.last().and_then(|leg| leg.last()));
    for (at, stop) in at_stops.zip(stops) {
        let at = view.at(*at);
        sheet.dot(at, 4.0, ROUTE_COLOUR, true);
        labels.place_label(&mut sheet, at, &stop.city, super::figure_sheet::BLACK);
    }
    draw_captions(&mut sheet, record);
    sheet
}

/// Draws sea, land and meridians, and covers what extends beyond the edge.
fn draw_background(sheet: &mut FigureSheet, view: &MapView) {
    let (from, to) = view.corners();
    sheet.fill(from, to, SEA);
    for ring in land_outline::land_rings() {
        for shape in view.visible_copies(&ring) {
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

fn draw_captions(sheet: &mut FigureSheet, record: &SpeedRecord) {
    let heading = figure_frame::shorten_name(&sanitize_name(&record_title(record)));
    let black = super::figure_sheet::BLACK;
    sheet.text((MARGIN, 24.0), heading, 22.0, black, TextAnchor::Left);
    let found = &record.analysis;
    let distance = found.distance_mm.map(format_kilometres).unwrap_or_default();
    let made = found.mark_bit_m_per_s.map(format_mark).unwrap_or_default();
    let under = format!("{distance}, {made}");
    sheet.text((MARGIN, 48.0), under, 14.0, GREY, TextAnchor::Left);
    let text = "great circles between the points that represent the cities; land: Natural Earth";
    let foot = f64::from(sheet.height) - 16.0;
    sheet.text((MARGIN, foot), text, 13.0, GREY, TextAnchor::Left);
}

/// Sanitizes a name by removing characters that change the text direction.
fn sanitize_name(name: &str) -> String {
    name.chars()
        .map(|c| crate::render::html_page::replace_control_char(c, '?'))
        .collect()
}
