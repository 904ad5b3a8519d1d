//! The outlines of land.

use super::great_circle::{LonLat, nearest_turn};

const OUTLINE: &str = include_str!("../../../places/land.txt");

/// Returns closed rings with continuous longitudes; a ring around a pole is closed over it.
pub fn land_rings() -> Vec<Vec<LonLat>> {
    OUTLINE.lines().map(parse_ring).collect()
}

fn parse_ring(line: &str) -> Vec<LonLat> {
    let mut points: Vec<LonLat> = Vec::new();
    for pair in line.split(' ') {
        let Some((x, y)) = pair.split_once(',') else {
            continue;
        };
        // Tenths of a degree; a test checks the table.
        let degrees = |text: &str| text.parse::<f64>().unwrap_or(0.0) / 10.0;
        let last = points.last().map(|it| it.0);
        let longitude = degrees(x);
        points.push((
            last.map_or(longitude, |it| nearest_turn(longitude, it)),
            degrees(y),
        ));
    }
    if let (Some(first), Some(last)) = (points.first().copied(), points.last().copied())
        && (last.0 - first.0).abs() > 180.0
    {
        points.extend([(last.0, -90.0), (first.0, -90.0)]);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outline_is_whole() {
        let rings = land_rings();
        assert!(rings.len() > 100);
        for ring in &rings {
            assert!(ring.len() > 3, "{ring:?}");
            assert!(
                ring.iter()
                    .all(|it| it.1.abs() <= 90.0 && it.0.abs() < 400.0)
            );
        }
        for line in OUTLINE.lines() {
            for pair in line.split(' ') {
                let (x, y) = pair.split_once(',').expect("a pair");
                assert!(
                    x.parse::<i32>().is_ok() && y.parse::<i32>().is_ok(),
                    "{pair}"
                );
            }
        }
        let around = rings
            .iter()
            .filter(|ring| ring.iter().any(|it| it.1 <= -90.0));
        assert_eq!(around.count(), 1, "only Antarctica goes around a pole");
    }
}
