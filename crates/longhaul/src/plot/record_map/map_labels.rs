//! Place names that neither overlap each other nor cross the edge.

use super::map_view::MapView;
use super::{figure_frame, sanitize_name};
use crate::plot::figure_sheet::{FigureSheet, InkColour, TextAnchor};

const SIZE: f64 = 13.0;
/// The average width of a letter.
const LETTER: f64 = 6.6;
const HIGH: f64 = 15.0;

pub struct MapLabels {
    edge: ((f64, f64), (f64, f64)),
    /// Left, top, right and bottom of the occupied areas.
    taken: Vec<[f64; 4]>,
    /// Points of the route, which names avoid if possible.
    route: Vec<(f64, f64)>,
    names: Vec<String>,
}

impl MapLabels {
    pub fn new(view: &MapView, way: Vec<(f64, f64)>) -> MapLabels {
        MapLabels {
            edge: view.corners(),
            taken: Vec::new(),
            route: way,
            names: Vec::new(),
        }
    }

    /// Draws the name if there is room. A city on the route twice is named once.
    pub fn place_label(
        &mut self,
        sheet: &mut FigureSheet,
        (x, y): (f64, f64),
        name: &str,
        ink: InkColour,
    ) {
        let name = figure_frame::shorten_name(&sanitize_name(name));
        if self.names.contains(&name) {
            return;
        }
        let wide = name.chars().count() as f64 * LETTER;
        let places = [
            (TextAnchor::Left, (x + 8.0, y)),
            (TextAnchor::Right, (x - 8.0, y)),
            (TextAnchor::Middle, (x, y - 14.0)),
            (TextAnchor::Middle, (x, y + 14.0)),
            (TextAnchor::Left, (x + 6.0, y - 13.0)),
            (TextAnchor::Left, (x + 6.0, y + 13.0)),
            (TextAnchor::Right, (x - 6.0, y - 13.0)),
            (TextAnchor::Right, (x - 6.0, y + 13.0)),
        ];
        self.taken.push([x - 4.0, y - 4.0, x + 4.0, y + 4.0]);
        let own = self.taken.len() - 1;
        let off_the_way = places.map(|place| (place, true));
        let anywhere = places.map(|place| (place, false));
        for ((anchor, at), off) in off_the_way.into_iter().chain(anywhere) {
            let left = match anchor {
                TextAnchor::Left => at.0,
                TextAnchor::Right => at.0 - wide,
                TextAnchor::Middle | TextAnchor::Rotated => at.0 - wide / 2.0,
            };
            let field = [left, at.1 - HIGH / 2.0, left + wide, at.1 + HIGH / 2.0];
            if self.is_free(field, own) && !(off && self.overlaps_route(field)) {
                self.taken.push(field);
                sheet.text(at, name.as_str(), SIZE, ink, anchor);
                self.names.push(name);
                return;
            }
        }
    }

    fn overlaps_route(&self, field: [f64; 4]) -> bool {
        let inside = |(x, y): &(f64, f64)| {
            (field[0]..field[2]).contains(x) && (field[1]..field[3]).contains(y)
        };
        self.route.iter().any(inside)
    }

    fn is_free(&self, field: [f64; 4], own: usize) -> bool {
        let (from, to) = self.edge;
        let inside =
            field[0] >= from.0 && field[1] >= from.1 && field[2] <= to.0 && field[3] <= to.1;
        let touches = |other: &[f64; 4]| {
            field[0] < other[2] && other[0] < field[2] && field[1] < other[3] && other[1] < field[3]
        };
        let others = self.taken.iter().enumerate();
        inside
            && !others
                .filter(|(place, _)| *place != own)
                .any(|(_, it)| touches(it))
    }
}
