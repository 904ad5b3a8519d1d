//! The speed of a copy against its disks alone, its network alone, and rclone, interleaved.

use super::copy_resume::STREAMS;
use super::copy_testbed::{CopyRunResult, CopyTestbed, LIMIT};
use super::rclone_copy;
use super::scratch_store::ScratchStore;
use crate::BenchOutcome;
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::turn_ratio::TurnRatio;
use std::path::Path;

/// The minimum share of the slowest of both disks and the network alone.
const MIN_RATIO: f64 = 0.95;
/// The number of rounds of each row: the minimum for an interval.
const ROUNDS: usize = 6;
/// As long as `la-geneva`, and so slow that two cores suffice.
const GIGABIT_PATH_FILE: &str = "name = \"one gigabit over 172 ms\"\nmtu = 9000\n\
    [machine]\nrequired = false\n[machine.sysctl]\n\
    \"net.core.rmem_max\" = 268435456\n\"net.core.wmem_max\" = 268435456\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"86 ms\"\nrate = \"1 Gbit/s\"\nqueue = \"16 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"16 MB\"\n";

/// The network between the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyNetwork {
    Loopback,
    Shipped(&'static str),
    /// The text of a path file.
    Described(&'static str),
}

/// One row of the table.
struct CopySpeedCase {
    name: &'static str,
    way: CopyNetwork,
    disk: bool,
    direct: bool,
    megabytes: u64,
}

const fn make_case(name: &'static str, way: CopyNetwork, disk: bool) -> CopySpeedCase {
    CopySpeedCase { name, way, disk, direct: false, megabytes: 1000 }
}

const CASES: &[CopySpeedCase] = &[
    make_case("loopback, tmpfs", CopyNetwork::Loopback, false),
    make_case("loopback, disk", CopyNetwork::Loopback, true),
    CopySpeedCase {
        direct: true,
        ..make_case("loopback, disk, --direct", CopyNetwork::Loopback, true)
    },
    make_case("1 Gbit/s over 172 ms, tmpfs", CopyNetwork::Described(GIGABIT_PATH_FILE), false),
    make_case("1 Gbit/s over 172 ms, disk", CopyNetwork::Described(GIGABIT_PATH_FILE), true),
    CopySpeedCase {
        megabytes: 2000,
        ..make_case("la-geneva, tmpfs", CopyNetwork::Shipped("la-geneva"), false)
    },
    make_case("la-geneva, disk", CopyNetwork::Shipped("la-geneva"), true),
];

/// The rates of a round in bytes per second, and costs in core seconds per GB.
#[derive(Debug, Default)]
struct CopyRound {
    source: Option<f64>,
    target: Option<f64>,
    network: Option<f64>,
    copy: Option<f64>,
    rclone: Option<f64>,
    disk_cost: Option<f64>,
    network_cost: Option<f64>,
    copy_cost: Option<f64>,
}

pub fn measure_speed(
    longhaul: &Path,
    only: &str,
    megabytes: Option<u64>,
) -> Result<BenchOutcome, String> {
    let mut table = MarkdownTable::new(
        "Copies beside their parts alone, GB/s; medians of rounds that take turns",
        "path, files | source disk | target disk | network | copy | copy / slowest of the same round | \
         core s per GB: disks / network / copy | copy / what is possible on these cores | rclone",
    );
    let mut missed = Vec::new();
    for case in CASES.iter().filter(|case| case.name.contains(only) || "speed".contains(only)) {
        let rounds = case.measure(longhaul, megabytes.unwrap_or(case.megabytes))?;
        let (row, miss) = judge_rounds(case, &rounds);
        eprintln!("| {} |", row.join(" | "));
        table.row(row);
        missed.extend(miss);
    }
    Ok(BenchOutcome::new(&[table], missed))
}

impl CopySpeedCase {
    fn measure(&self, longhaul: &Path, megabytes: u64) -> Result<Vec<CopyRound>, String> {
        let store = if self.disk { ScratchStore::disk()? } else { ScratchStore::memory()? };
        let ground = match self.way {
            CopyNetwork::Loopback => CopyTestbed::loopback(longhaul)?,
            CopyNetwork::Shipped(path) => CopyTestbed::path(longhaul, path)?,
            CopyNetwork::Described(text) => CopyTestbed::from_text(longhaul, &store, text)?,
        };
        let source = store.file("file", megabytes * 1_000_000)?;
        (0..ROUNDS).map(|_| self.measure_round(&ground, &store, &source)).collect()
    }

    fn measure_round(
        &self,
        ground: &CopyTestbed,
        store: &ScratchStore,
        source: &Path,
    ) -> Result<CopyRound, String> {
        let target = format!("{}:", ground.address);
        let name = source.display().to_string();
        let run = |dry| -> Result<CopyRunResult, String> {
            let _far = ground.serve(&store.empty("there")?, &[])?;
            store.forget(source)?;
            ground.run_copy(&[], &self.words(&name, &target, dry))
        };
        let disk = run(Some("--dry-disk"))?;
        let network = run(Some("--dry-net"))?;
        let copy = run(None)?;
        let gigabytes = copy.count("bytes") as f64 / 1e9;
        let cost = |run: &CopyRunResult| Some(run.cpu_seconds()? / gigabytes);
        store.empty("there")?;
        store.forget(source)?;
        let rclone = rclone_copy::time_rclone(ground, (store, source), LIMIT)?;
        store.empty("there")?;
        Ok(CopyRound {
            source: disk.rate("source_disk_bps"),
            target: disk.rate("target_disk_bps"),
            network: network.rate("goodput_bps"),
            copy: copy.rate("goodput_bps"),
            rclone: rclone.map(|time| gigabytes * 1e9 / time.as_secs_f64()),
            disk_cost: cost(&disk),
            network_cost: cost(&network),
            copy_cost: cost(&copy),
        })
    }

    fn words<'a>(&self, source: &'a str, target: &'a str, dry: Option<&'a str>) -> Vec<&'a str> {
        let mut words = vec![source, target];
        if self.way != CopyNetwork::Loopback {
            words.extend(STREAMS);
        }
        if self.direct {
            words.push("--direct");
        }
        words.extend(dry);
        words
    }
}

fn judge_rounds(case: &CopySpeedCase, rounds: &[CopyRound]) -> (Vec<String>, Option<String>) {
    let middle = |pick: fn(&CopyRound) -> Option<f64>| {
        median(&rounds.iter().filter_map(pick).collect::<Vec<_>>())
    };
    let parts = |round: &CopyRound| [round.source, round.target, round.network];
    let ratios = rounds.iter().filter_map(|round| {
        let slowest = parts(round).into_iter().flatten().reduce(f64::min);
        round.copy.zip(slowest)
    });
    let beside = TurnRatio::of(&ratios.collect::<Vec<_>>());
    let alone = [middle(|it| it.source), middle(|it| it.target), middle(|it| it.network)];
    let costs =
        [middle(|it| it.disk_cost), middle(|it| it.network_cost), middle(|it| it.copy_cost)];
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    // Both ends share these cores: the costs of the parts alone are a lower bound for a copy.
    let slowest = alone.into_iter().flatten().reduce(f64::min);
    let possible = costs[0].zip(costs[1]).map(|(disk, network)| 1e9 * cores / (disk + network));
    let possible = slowest.zip(possible).map(|(slowest, possible)| slowest.min(possible));
    let copy = middle(|it| it.copy);
    let fair = copy.zip(possible).map(|(copy, possible)| copy / possible);
    let gigabytes = |rate: Option<f64>| format_number(rate.map(|rate| rate / 1e9), 2);
    let ratio = beside.map_or_else(|| "–".to_owned(), |beside| beside.to_string());
    let held = beside.is_some_and(|beside| beside.ratio() >= MIN_RATIO);
    let miss = (!held).then(|| format!("speed: {}: {ratio} of the slowest part alone", case.name));
    let mut row = vec![case.name.to_owned()];
    row.extend(alone.into_iter().chain([copy]).map(gigabytes));
    let costs = costs.map(|cost| format_number(cost, 2)).join(" / ");
    row.extend([ratio, costs, format_number(fair, 2), gigabytes(middle(|it| it.rclone))]);
    (row, miss)
}
