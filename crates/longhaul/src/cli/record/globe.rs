//! Distances on WGS84 (Karney 2013).

use geographiclib_rs::{Geodesic, InverseGeodesic};
use longhaul_analysis::record::distance::{Globe, Point};

pub struct Wgs84(Geodesic);

impl Wgs84 {
    pub fn new() -> Wgs84 {
        Wgs84(Geodesic::wgs84())
    }
}

impl Globe for Wgs84 {
    fn metres(&self, from: Point, to: Point) -> f64 {
        self.0.inverse(from.0, from.1, to.0, to.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_analysis::record::distance::on_sphere;

    #[test]
    fn a_quarter_of_a_meridian_is_a_ten_millionth_by_design() {
        let quarter = Wgs84::new().metres((0.0, 0.0), (90.0, 0.0));
        assert!((quarter - 10_001_965.729).abs() < 0.001, "{quarter}");
        let sphere = on_sphere((0.0, 0.0), (90.0, 0.0));
        assert!((sphere / quarter - 1.0).abs() < 0.006, "{sphere}");
    }
}
