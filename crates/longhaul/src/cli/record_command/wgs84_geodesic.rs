//! Distances on WGS84 (Karney 2013).

use geographiclib_rs::{Geodesic, InverseGeodesic};
use longhaul_analysis::record::record_distance::{GeoPoint, GeodesicModel};

pub struct Wgs84Globe(Geodesic);

impl Wgs84Globe {
    pub fn new() -> Wgs84Globe {
        Wgs84Globe(Geodesic::wgs84())
    }
}

impl GeodesicModel for Wgs84Globe {
    fn metres(&self, from: GeoPoint, to: GeoPoint) -> f64 {
        self.0.inverse(from.0, from.1, to.0, to.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_analysis::record::record_distance::compute_sphere_distance;

    #[test]
    fn a_quarter_of_a_meridian_is_a_ten_millionth_by_design() {
        let quarter = Wgs84Globe::new().metres((0.0, 0.0), (90.0, 0.0));
        assert!((quarter - 10_001_965.729).abs() < 0.001, "{quarter}");
        let sphere = compute_sphere_distance((0.0, 0.0), (90.0, 0.0));
        assert!((sphere / quarter - 1.0).abs() < 0.006, "{sphere}");
    }
}
