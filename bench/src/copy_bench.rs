//! The speed of a copy against its disks alone and its network alone, in turns.
//!
//! Both ends are on one machine: a part that runs alone has the resources that the parts of a copy
//! share. So the table also shows what each costs in core seconds. Wrong when: the machine has
//! other work.

use crate::BenchOutcome;
use crate::copy_testbed::{CopyRunResult, CopyTestbed};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::scratch_folder::{ScratchFolder, drop_from_cache};
use crate::turn_ratio::TurnRatio;
use std::path::Path;

/// The minimum share of the slowest of both disks and the network alone.
const MIN_RATIO: f64 = 0.95;
/// The number of rounds of each row: the minimum for an interval.
const ROUNDS: usize = 6;
const FILE_BYTES: u64 = 1_000_000_000;
/// As long as `la-geneva`, and so slow that two cores suffice.
const GIGABIT_PATH_FILE: &str = "name = \"one gigabit over 172 ms\"\nmtu = 9000\n\
    [machine]\nrequired = false\n[machine.sysctl]\n\
    \"net.core.rmem_max\" = 268435456\n\"net.core.wmem_max\" = 268435456\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"86 ms\"\nrate = \"1 Gbit/s\"\nqueue = \"16 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"16 MB\"\n";

/// The networks, with the options of a copy over each: sockets request the path's BDP.
const NETWORKS: [(&str, &[&str]); 3] = [
    ("loopback", &[]),
    ("1 Gbit/s over 172 ms", &["-P", "8", "-w", "32M"]),
    ("la-geneva", &["-P", "8", "-w", "32M"]),
];

/// A copy, and dry runs of its parts.
struct CopyRound {
    disk: CopyRunResult,
    network: CopyRunResult,
    copy: CopyRunResult,
}

impl CopyRound {
    /// Returns the rates of both disks and of the network, each alone.
    fn parts(&self) -> [Option<f64>; 3] {
        [
            self.disk.rate("source_disk_bps"),
            self.disk.rate("target_disk_bps"),
            self.network.rate("goodput_bps"),
        ]
    }
}

/// Runs the rows whose name contains `only`.
pub fn run_all(longhaul: &Path, only: &str) -> Result<BenchOutcome, String> {
    let mut table = MarkdownTable::new(
        "Copies beside their parts alone, GB/s; medians of rounds that take turns",
        "path, files | source disk | target disk | network | copy | \
         copy / slowest of the same round | core s per GB: disks / network / copy",
    );
    let mut missed = Vec::new();
    for (network, options) in NETWORKS {
        for (files, on_disk) in [("tmpfs", false), ("disk", true)] {
            let name = format!("{network}, {files}");
            if !name.contains(only) {
                continue;
            }
            let store =
                if on_disk { ScratchFolder::on_disk()? } else { ScratchFolder::in_memory()? };
            let rounds = measure_rounds(longhaul, network, options, &store)?;
            missed.extend(judge_rounds(&name, &rounds, &mut table));
        }
    }
    Ok(BenchOutcome::new(&[table], missed))
}

fn measure_rounds(
    longhaul: &Path,
    network: &str,
    options: &[&str],
    store: &ScratchFolder,
) -> Result<Vec<CopyRound>, String> {
    let ground = match network {
        "loopback" => CopyTestbed::loopback(longhaul)?,
        "la-geneva" => CopyTestbed::path(longhaul, network)?,
        _ => {
            let file = store.write("path.toml", GIGABIT_PATH_FILE)?;
            CopyTestbed::path(longhaul, &file.to_string_lossy())?
        }
    };
    let source = store.fill_file("file", FILE_BYTES)?;
    let target = format!("{}:", ground.address);
    let run = |dry: &[&str]| -> Result<CopyRunResult, String> {
        let _far = ground.serve(&store.empty("there")?)?;
        drop_from_cache(&source)?;
        let ends = [&*source.to_string_lossy(), &target];
        ground.run_copy(&[&ends[..], options, dry].concat())
    };
    let round = |_| {
        Ok(CopyRound {
            disk: run(&["--dry-disk"])?,
            network: run(&["--dry-net"])?,
            copy: run(&[])?,
        })
    };
    (0..ROUNDS).map(round).collect()
}

/// Adds a row, and returns a sentence if it misses the gate.
fn judge_rounds(name: &str, rounds: &[CopyRound], table: &mut MarkdownTable) -> Option<String> {
    let middle = |pick: &dyn Fn(&CopyRound) -> Option<f64>| {
        median(&rounds.iter().filter_map(pick).collect::<Vec<_>>())
    };
    let copy_rate = |round: &CopyRound| round.copy.rate("goodput_bps");
    let ratios = rounds.iter().filter_map(|round| {
        let slowest = round.parts().into_iter().flatten().reduce(f64::min);
        copy_rate(round).zip(slowest)
    });
    let beside = TurnRatio::of(&ratios.collect::<Vec<_>>());
    let ratio = beside.map_or_else(|| "–".to_owned(), |beside| beside.to_string());
    let rates = [
        middle(&|it| it.parts()[0]),
        middle(&|it| it.parts()[1]),
        middle(&|it| it.parts()[2]),
        middle(&copy_rate),
    ];
    let runs: [fn(&CopyRound) -> &CopyRunResult; 3] =
        [|it| &it.disk, |it| &it.network, |it| &it.copy];
    let gigabytes = FILE_BYTES as f64 / 1e9;
    let costs =
        runs.map(|run| format_number(middle(&|it| Some(run(it).core_seconds()? / gigabytes)), 2));
    let mut row = vec![name.to_owned()];
    row.extend(rates.map(|rate| format_number(rate.map(|rate| rate / 1e9), 2)));
    row.extend([ratio.clone(), costs.join(" / ")]);
    eprintln!("| {} |", row.join(" | "));
    table.row(row);
    let held = beside.is_some_and(|beside| beside.ratio() >= MIN_RATIO);
    (!held).then(|| format!("{name}: {ratio} of the slowest part alone"))
}
