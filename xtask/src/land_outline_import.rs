//! `cargo xtask land FILE`: makes the program's land outline from `land-110m.json` of the package
//! world-atlas, which contains Natural Earth data (public domain).

use crate::{TaskResult, checkout};
use serde_json::Value;

const OUTLINE: &str = "crates/longhaul/places/land.txt";

pub fn run(file: &str) -> TaskResult {
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {file}: {e}"))?;
    let map: Value = serde_json::from_str(&text).map_err(|e| format!("{file} is no JSON: {e}"))?;
    let rings = read_rings(&map).ok_or_else(|| format!("{file} has another form"))?;
    let lines: Vec<String> = rings
        .iter()
        .map(|ring| {
            let points = ring.iter().map(|(x, y)| format!("{x},{y}"));
            points.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let path = checkout::find_root().join(OUTLINE);
    std::fs::write(&path, lines.join("\n") + "\n")
        .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    println!("{} rings in {OUTLINE}", lines.len());
    Ok(())
}

/// Returns longitude and latitude in tenths of a degree, one list for each ring.
fn read_rings(map: &Value) -> Option<Vec<Vec<(i64, i64)>>> {
    let pair = |of: &Value| Some((of[0].as_f64()?, of[1].as_f64()?));
    let scale = pair(&map["transform"]["scale"])?;
    let zero = pair(&map["transform"]["translate"])?;
    let mut arcs = Vec::new();
    for steps in map["arcs"].as_array()? {
        let (mut x, mut y) = (0.0, 0.0);
        let mut arc = Vec::new();
        for step in steps.as_array()? {
            let (dx, dy) = pair(step)?;
            (x, y) = (x + dx, y + dy);
            let degrees = (x * scale.0 + zero.0, y * scale.1 + zero.1);
            arc.push((
                (degrees.0 * 10.0).round() as i64,
                (degrees.1 * 10.0).round() as i64,
            ));
        }
        arcs.push(arc);
    }
    let mut rings = Vec::new();
    for shape in map["objects"]["land"]["geometries"].as_array()? {
        for polygon in shape["arcs"].as_array()? {
            for ring in polygon.as_array()? {
                rings.push(join_arcs(ring, &arcs)?);
            }
        }
    }
    Some(rings)
}

/// Joins arcs end to end; a negative number is a reversed arc.
fn join_arcs(ring: &Value, arcs: &[Vec<(i64, i64)>]) -> Option<Vec<(i64, i64)>> {
    let mut points: Vec<(i64, i64)> = Vec::new();
    for number in ring.as_array()? {
        let number = number.as_i64()?;
        let index = if number < 0 { !number } else { number };
        let mut arc = arcs.get(usize::try_from(index).ok()?)?.clone();
        if number < 0 {
            arc.reverse();
        }
        points.extend(arc);
    }
    points.dedup();
    Some(points)
}
