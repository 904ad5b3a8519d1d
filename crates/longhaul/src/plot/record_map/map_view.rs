//! Maps degrees to the sheet: an equirectangular map, true to scale at its middle latitude.

use super::great_circle::{LonLat, nearest_turn};

/// The margin around the route, in degrees, and as a ratio of its size.
const ROOM_DEGREES: f64 = 4.0;
const ROOM_RATIO: f64 = 0.08;
/// The minimum and the maximum ratio of height to width.
const SHAPE: (f64, f64) = (0.36, 0.62);
/// The maximum width in degrees; routes more than once around the earth are cut.
const MAX_WIDTH_DEGREES: f64 = 540.0;

pub struct MapView {
    /// The western, eastern, southern and northern edge.
    west: f64,
    east: f64,
    south: f64,
    north: f64,
    corner: LonLat,
    width: f64,
    /// The width of a degree of longitude, in degrees of latitude.
    longitude_scale: f64,
}

impl MapView {
    /// Creates a view that contains all arcs with a margin, at this corner and of this width.
    pub fn around(arcs: &[Vec<LonLat>], corner: (f64, f64), width: f64) -> MapView {
        let all = || arcs.iter().flatten();
        let least = |of: fn(&LonLat) -> f64| all().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&LonLat) -> f64| all().map(of).fold(f64::NEG_INFINITY, f64::max);
        let (x, y) = (|it: &LonLat| it.0, |it: &LonLat| it.1);
        let (mut west, mut east) = (least(x), most(x));
        let (mut south, mut north) = (least(y), most(y));
        let room = |from: f64, to: f64| ROOM_DEGREES + ROOM_RATIO * (to - from);
        let (wide, high) = (room(west, east), room(south, north));
        (west, east, south, north) = (west - wide, east + wide, south - high, north + high);
        let narrow = f64::midpoint(south, north)
            .clamp(-60.0, 60.0)
            .to_radians()
            .cos();
        let shape = (north - south) / ((east - west) * narrow);
        if shape < SHAPE.0 {
            let more = ((east - west) * narrow * SHAPE.0 - (north - south)) / 2.0;
            (south, north) = (south - more, north + more);
        } else if shape > SHAPE.1 {
            let more = ((north - south) / SHAPE.1 / narrow - (east - west)) / 2.0;
            (west, east) = (west - more, east + more);
        }
        MapView {
            west,
            east: east.min(west + MAX_WIDTH_DEGREES),
            south: south.max(-90.0),
            north: north.min(90.0),
            corner,
            width,
            longitude_scale: narrow,
        }
    }

    /// Returns the pixels of a degree of latitude.
    fn scale(&self) -> f64 {
        self.width / ((self.east - self.west) * self.longitude_scale)
    }

    pub fn height(&self) -> f64 {
        (self.north - self.south) * self.scale()
    }

    pub fn at(&self, (longitude, latitude): LonLat) -> (f64, f64) {
        (
            self.corner.0 + (longitude - self.west) * self.longitude_scale * self.scale(),
            self.corner.1 + (self.north - latitude) * self.scale(),
        )
    }

    /// Returns the turn of a meridian that is nearest to the middle.
    pub fn nearest_turn(&self, (longitude, latitude): LonLat) -> LonLat {
        let middle = f64::midpoint(self.west, self.east);
        (nearest_turn(longitude, middle), latitude)
    }

    pub fn corners(&self) -> ((f64, f64), (f64, f64)) {
        let to = (self.corner.0 + self.width, self.corner.1 + self.height());
        (self.corner, to)
    }

    /// Returns a ring on the sheet, once for each turn of the earth that shows it.
    pub fn visible_copies(&self, ring: &[LonLat]) -> Vec<Vec<(f64, f64)>> {
        let shifts = (-3..=3).map(|turn| f64::from(turn) * 360.0);
        let shown = shifts.filter(|shift| {
            let inside = |it: &LonLat| it.0 + shift >= self.west;
            let east_of = ring.iter().any(inside);
            let west_of = ring.iter().any(|it| it.0 + shift <= self.east);
            let low = ring.iter().any(|it| it.1 <= self.north);
            let high = ring.iter().any(|it| it.1 >= self.south);
            east_of && west_of && low && high
        });
        shown
            .map(|shift| {
                let places = ring.iter();
                places.map(|it| self.at((it.0 + shift, it.1))).collect()
            })
            .collect()
    }

    /// Returns meridians and parallels.
    pub fn graticule(&self) -> Vec<[(f64, f64); 2]> {
        let step = match self.east - self.west {
            wide if wide > 100.0 => 30.0,
            wide if wide > 40.0 => 10.0,
            _ => 5.0,
        };
        let steps = |from: f64, to: f64| {
            let first = (from / step).ceil() as i32;
            let last = (to / step).floor() as i32;
            (first..=last).map(move |it| f64::from(it) * step)
        };
        let meridians = steps(self.west, self.east)
            .map(|it| [self.at((it, self.north)), self.at((it, self.south))]);
        let parallels = steps(self.south, self.north)
            .map(|it| [self.at((self.west, it)), self.at((self.east, it))]);
        meridians.chain(parallels).collect()
    }
}
