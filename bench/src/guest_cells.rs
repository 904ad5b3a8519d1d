//! Scripts that run in guests with a virtual clock, the reports they print, and cells drawn from a seed.
//!
//! With a folder for kept reports, a cell whose report is there is read instead of run.

use crate::BenchArguments;
use crate::markdown_table::MarkdownTable;
use longhaul_model::splitmix::{SplitMix64, mix_bits};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::program_runner::{capture_output, run_in_parallel};
use xtask::virtual_time;

/// Of wall time, for one cell on a busy machine.
pub const CELL_LIMIT: Duration = Duration::from_secs(1800);
/// The guests that run at once.
pub const PARALLEL_GUESTS: usize = 2;

/// A kind, the number of its cells for each seed, and the function that draws one.
pub type CellKind<T> = (&'static str, usize, fn(&mut SplitMix64) -> T);

/// A cell whose script runs in a guest and whose output is judged. Its type is that of a matrix.
pub trait GuestCell: Clone + Send + Sync + 'static {
    type Verdict: Send;
    const KINDS: &'static [CellKind<Self>];

    /// Returns the script that prints the reports and all else that is judged.
    fn script(&self, longhaul: &str) -> String;

    /// Draws the conclusions of the present analysis from the output of the script.
    fn judge(&self, output: &str) -> Result<Self::Verdict, String>;

    /// Returns the row of a judged cell.
    fn format_row(judged: &JudgedCell<Self>) -> Vec<String>;

    /// Returns whether a judged cell is listed as wrong.
    fn is_wrong(judged: &JudgedCell<Self>) -> bool;
}

/// A cell and the verdict on it, or the reason why there is none.
#[derive(Debug, Clone)]
pub struct JudgedCell<C: GuestCell> {
    pub drawn: DrawnCell<C>,
    pub verdict: Result<C::Verdict, String>,
}

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

/// Runs one cell on this host, which is a guest, and returns its row of the table if it is wrong.
pub fn check_cell<C: GuestCell>(
    longhaul: &Path,
    kind: &str,
    seed: u64,
    number: usize,
) -> Result<(), String> {
    let is_wanted =
        |cell: &DrawnCell<C>| (cell.kind, cell.seed, cell.number) == (kind, seed, number);
    let drawn = draw_cells::<C>(kind, seed).into_iter().find(is_wanted);
    let drawn = drawn.ok_or_else(|| format!("there is no cell {number} of \"{kind}\""))?;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(drawn.cell.script(&longhaul.display().to_string()));
    let output = capture_output(&mut shell, CELL_LIMIT)?;
    let text = output.stdout.find('{').map(|at| &output.stdout[at..]);
    let text = text.ok_or_else(|| format!("no report: {}", output.stderr))?;
    let judged = JudgedCell { verdict: Ok(drawn.cell.judge(text)?), drawn };
    if C::is_wrong(&judged) { Err(C::format_row(&judged).join(" | ")) } else { Ok(()) }
}

/// Draws the cells of these seeds whose kind or name contains `only`.
fn draw_cells<C: GuestCell>(only: &str, seeds: u64) -> Vec<DrawnCell<C>> {
    let mut cells = Vec::new();
    for seed in 1..=seeds {
        for (index, (kind, count, draw)) in C::KINDS.iter().enumerate() {
            let mut random = SplitMix64::new(mix_bits(seed << 16 | index as u64));
            let drawn = (0..*count).map(|number| (number, draw(&mut random)));
            cells.extend(drawn.map(|(number, cell)| DrawnCell { kind, seed, number, cell }));
        }
    }
    cells.retain(|drawn| drawn.kind.contains(only) || drawn.name().contains(only));
    cells
}

/// Draws the cells of these seeds whose kind or name contains `only`, judges them in parallel, and prints a row
/// for each as it is done. With `keep`, reports are written to that folder, and a cell whose report is
/// there is judged again instead of run.
pub fn judge_cells<C: GuestCell>(
    longhaul: &Path,
    arguments: &BenchArguments,
) -> Result<Vec<JudgedCell<C>>, String> {
    let keep = arguments.keep.as_deref();
    make_kept_folder(keep)?;
    let cells = draw_cells::<C>(&arguments.only, arguments.seeds);
    Ok(run_in_parallel(&cells, PARALLEL_GUESTS, |drawn: &DrawnCell<C>| {
        let script = drawn.cell.script(&longhaul.display().to_string());
        let judge = |text: &str| drawn.cell.judge(text);
        let verdict = find_guest_output(&drawn.name(), &script, keep, CELL_LIMIT, judge);
        let judged = JudgedCell { drawn: drawn.clone(), verdict };
        eprintln!("| {} |", C::format_row(&judged).join(" | "));
        judged
    }))
}

/// Returns each kind with its judged cells, without the kinds that have none.
pub fn group_by_kind<C: GuestCell>(
    judged: &[JudgedCell<C>],
) -> impl Iterator<Item = (&'static str, Vec<&JudgedCell<C>>)> {
    C::KINDS.iter().filter_map(|(kind, ..)| {
        let cells: Vec<_> = judged.iter().filter(|it| it.drawn.kind == *kind).collect();
        (!cells.is_empty()).then_some((*kind, cells))
    })
}

/// Tabulates the cells that are wrong.
pub fn tabulate_wrong<C: GuestCell>(
    title: &str,
    columns: &str,
    judged: &[JudgedCell<C>],
) -> MarkdownTable {
    let mut table = MarkdownTable::new(title, columns);
    judged.iter().filter(|it| C::is_wrong(it)).for_each(|it| table.row(C::format_row(it)));
    table
}

/// Parses the report at the start of this text; returns it with the text behind it.
pub fn parse_report<R: DeserializeOwned>(text: &str) -> Result<(R, &str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().ok_or("no report")?.map_err(|e| format!("no report: {e}"))?;
    let report = serde_json::from_value(value).map_err(|e| format!("not a report: {e}"))?;
    Ok((report, &text[values.byte_offset()..]))
}
