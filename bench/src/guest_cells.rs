//! Scripts that run in guests with a virtual clock, the reports they print, and cells drawn from a seed.
//!
//! With a folder for kept reports, a cell whose report is there is read instead of run.

use longhaul_model::splitmix::{SplitMix64, mix_bits};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::program_runner::{capture_output, run_in_parallel};
use xtask::virtual_time;

/// Of wall time, for one cell on a busy machine.
const CELL_LIMIT: Duration = Duration::from_secs(900);
/// The guests that run at once.
pub const PARALLEL_GUESTS: usize = 2;

/// A kind, the number of its cells for each seed, and the function that draws one.
pub type CellKind<T> = (&'static str, usize, fn(&mut SplitMix64) -> T);

/// A cell of one kind and seed.
#[derive(Debug, Clone)]
pub struct DrawnCell<T> {
    pub kind: &'static str,
    pub seed: u64,
    pub number: usize,
    pub cell: T,
}

impl<T> DrawnCell<T> {
    pub fn name(&self) -> String {
        format!("{}-{}-{}", format_file_name(self.kind), self.seed, self.number)
    }

    /// Finds the output of this cell's script.
    pub fn find_output<R>(
        &self,
        script: &str,
        keep: Option<&Path>,
        parse: impl Fn(&str) -> Result<R, String>,
    ) -> Result<R, String> {
        find_guest_output(&self.name(), script, keep, CELL_LIMIT, parse)
    }
}

/// Reads the kept output of this name, or runs the script in a guest within `limit` of wall time and keeps
/// its output if `parse` accepts it.
pub fn find_guest_output<R>(
    name: &str,
    script: &str,
    keep: Option<&Path>,
    limit: Duration,
    parse: impl Fn(&str) -> Result<R, String>,
) -> Result<R, String> {
    let file: Option<PathBuf> = keep.map(|folder| folder.join(format!("{name}.json")));
    if let Some(text) = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()) {
        return parse(&text);
    }
    let output = virtual_time::run_in_guest(&format!("cell-{name}"), script, limit)?.output;
    let text = output.find('{').map_or("", |at| &output[at..]);
    let found = parse(text).map_err(|e| format!("{e}: {}", shorten(&output)))?;
    if let Some(file) = file {
        std::fs::write(&file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    Ok(found)
}

/// Returns a title as part of the name of a file.
pub fn format_file_name(title: &str) -> String {
    title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Makes the folder for kept reports, if one is given.
pub fn make_kept_folder(keep: Option<&Path>) -> Result<(), String> {
    keep.map_or(Ok(()), |folder| {
        std::fs::create_dir_all(folder)
            .map_err(|e| format!("cannot make the folder {}: {e}", folder.display()))
    })
}

fn shorten(output: &str) -> String {
    output.chars().take(300).collect::<String>().replace('\n', " ")
}

/// Runs a cell's script on this host, which is a guest, and returns its output.
pub fn run_here(script: &str) -> Result<String, String> {
    let mut shell = Command::new("sh");
    let output = capture_output(shell.arg("-c").arg(script), CELL_LIMIT)?;
    let report = output.stdout.find('{').map(|at| output.stdout[at..].to_owned());
    report.ok_or_else(|| format!("no report: {}", output.stderr))
}

/// Draws one cell.
pub fn draw_cell<T>(
    kinds: &[CellKind<T>],
    kind: &str,
    seed: u64,
    number: usize,
) -> Result<DrawnCell<T>, String> {
    let is_wanted =
        |cell: &DrawnCell<T>| (cell.kind, cell.seed, cell.number) == (kind, seed, number);
    let drawn = draw_cells(kinds, kind, seed).into_iter().find(is_wanted);
    drawn.ok_or_else(|| format!("there is no cell {number} of \"{kind}\""))
}

/// Draws the cells of these seeds whose kind contains `only`.
pub fn draw_cells<T>(kinds: &[CellKind<T>], only: &str, seeds: u64) -> Vec<DrawnCell<T>> {
    let mut cells = Vec::new();
    for seed in 1..=seeds {
        for (index, (kind, count, draw)) in kinds.iter().enumerate() {
            let mut random = SplitMix64::new(mix_bits(seed << 16 | index as u64));
            let drawn = (0..*count).map(|number| (number, draw(&mut random)));
            cells.extend(drawn.map(|(number, cell)| DrawnCell { kind, seed, number, cell }));
        }
    }
    cells.retain(|drawn| drawn.kind.contains(only));
    cells
}

/// Draws the cells of these seeds whose kind contains `only`, judges them in parallel, and prints a row
/// for each as it is done. Makes the folder for kept reports, if one is given.
pub fn judge_cells<T: Sync, J: Send>(
    kinds: &[CellKind<T>],
    only: &str,
    seeds: u64,
    keep: Option<&Path>,
    judge: impl Fn(&DrawnCell<T>) -> J + Sync,
    format_row: impl Fn(&J) -> Vec<String> + Sync,
) -> Result<Vec<J>, String> {
    make_kept_folder(keep)?;
    let cells = draw_cells(kinds, only, seeds);
    Ok(run_in_parallel(&cells, PARALLEL_GUESTS, |drawn| {
        let judged = judge(drawn);
        eprintln!("| {} |", format_row(&judged).join(" | "));
        judged
    }))
}

/// Parses the report at the start of this text; returns it with the text behind it.
pub fn parse_report<R: DeserializeOwned>(text: &str) -> Result<(R, &str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().ok_or("no report")?.map_err(|e| format!("no report: {e}"))?;
    let report = serde_json::from_value(value).map_err(|e| format!("not a report: {e}"))?;
    Ok((report, &text[values.byte_offset()..]))
}
