//! Great circles as lines of points.

/// Degrees of longitude, which continue across the 180th meridian, and of latitude.
pub type LonLat = (f64, f64);

/// The length of one line segment.
const STEP_DEGREES: f64 = 1.0;

/// Returns one line for each leg; each begins where the previous one ends.
pub fn arcs_between_stops(stops: &[LonLat]) -> Vec<Vec<LonLat>> {
    let mut begin = stops.first().map_or(0.0, |it| it.0);
    let mut arcs = Vec::new();
    for pair in stops.windows(2) {
        let mut line = trace_great_circle(pair[0], pair[1]);
        let mut last = begin;
        for place in &mut line {
            place.0 = nearest_turn(place.0, last);
            last = place.0;
        }
        begin = last;
        arcs.push(line);
    }
    arcs
}

/// Returns the same meridian, within half a turn of another one.
pub fn nearest_turn(longitude: f64, other: f64) -> f64 {
    longitude - ((longitude - other) / 360.0).round() * 360.0
}

fn trace_great_circle(from: LonLat, to: LonLat) -> Vec<LonLat> {
    let (a, b) = (to_unit_vector(from), to_unit_vector(to));
    let cosine: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let angle = cosine.clamp(-1.0, 1.0).acos();
    let steps = (angle.to_degrees() / STEP_DEGREES).ceil().max(1.0) as u32;
    // Antipodal points have no unique great circle; a straight line on the map replaces it.
    if angle.sin().abs() < 1e-9 {
        return vec![from, to];
    }
    let at = |step: u32| {
        let part = f64::from(step) / f64::from(steps);
        let weigh = |share: f64| (share * angle).sin() / angle.sin();
        let (near, far) = (weigh(1.0 - part), weigh(part));
        from_unit_vector([0, 1, 2].map(|axis| near * a[axis] + far * b[axis]))
    };
    (0..=steps).map(at).collect()
}

fn to_unit_vector((longitude, latitude): LonLat) -> [f64; 3] {
    let (turn, rise) = (longitude.to_radians(), latitude.to_radians());
    [rise.cos() * turn.cos(), rise.cos() * turn.sin(), rise.sin()]
}

fn from_unit_vector([x, y, z]: [f64; 3]) -> LonLat {
    (y.atan2(x).to_degrees(), z.atan2(x.hypot(y)).to_degrees())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_over_the_180th_meridian_runs_on() {
        let arcs = arcs_between_stops(&[(140.0, 35.0), (-122.0, 37.0), (140.0, 35.0)]);
        let all: Vec<LonLat> = arcs.concat();
        for pair in all.windows(2) {
            assert!((pair[0].0 - pair[1].0).abs() < 10.0, "{pair:?}");
        }
        assert!((arcs[0][0].0 - 140.0).abs() < 1e-9);
        let end = arcs[0].last().expect("points").0;
        assert!((end - 238.0).abs() < 1e-9, "{end}");
        assert!(arcs[0].iter().any(|it| it.1 > 45.0), "it bows to the pole");
    }

    #[test]
    fn no_points_can_break_it() {
        for pair in [
            [(0.0, 0.0), (180.0, 0.0)],
            [(5.0, 90.0), (7.0, 90.0)],
            [(5.0, 5.0), (5.0, 5.0)],
        ] {
            let all = arcs_between_stops(&pair).concat();
            assert!(all.iter().all(|it| it.0.is_finite() && it.1.is_finite()));
        }
    }
}
