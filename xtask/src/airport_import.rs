//! `cargo xtask airports FILE`: makes the program's table of airports from that of the package
//! airportsdata (MIT licence; its notice is beside the table).

use crate::{TaskResult, checkout};

const TABLE: &str = "crates/longhaul/places/airports.csv";
/// The columns that are used, and whether they are in degrees.
const COLUMNS: [(&str, bool); 5] = [
    ("iata", false),
    ("lat", true),
    ("lon", true),
    ("country", false),
    ("city", false),
];

pub fn run(file: &str) -> TaskResult {
    let other = |why: &dyn std::fmt::Display| format!("{file} has another form: {why}");
    let mut rows = csv::Reader::from_path(file).map_err(|e| format!("cannot read {file}: {e}"))?;
    let heads = rows.headers().map_err(|e| other(&e))?.clone();
    let places: Option<Vec<usize>> = COLUMNS
        .iter()
        .map(|(name, _)| heads.iter().position(|head| head == *name))
        .collect();
    let places = places.ok_or_else(|| other(&"a column is missing"))?;
    let mut lines = Vec::new();
    for row in rows.records() {
        let row = row.map_err(|e| other(&e))?;
        let fields = places.iter().map(|place| row.get(*place).unwrap_or(""));
        let fields: Vec<String> = fields
            .zip(COLUMNS)
            .map(|(text, (_, degrees))| match text.parse::<f64>() {
                // A precision of a hundred metres is enough for a city.
                Ok(degrees_of) if degrees => format!("{degrees_of:.4}"),
                _ => text.replace(';', ","),
            })
            .collect();
        if fields[0].len() == 3 {
            lines.push(fields.join(";"));
        }
    }
    lines.sort_unstable();
    let table = format!(
        "code;latitude;longitude;country;city\n{}\n",
        lines.join("\n")
    );
    let path = checkout::find_root().join(TABLE);
    std::fs::write(&path, table).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    println!("{} airports in {TABLE}", lines.len());
    Ok(())
}
