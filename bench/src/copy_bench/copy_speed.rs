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

/// Bytes per second of each round, and core seconds per GB.
#[derive(Default)]
struct CopyRounds {
    source: Vec<f64>,
    target: Vec<f64>,
    network: Vec<f64>,
    copy: Vec<f64>,
    /// The rates of the copy and of the slowest part of the same round.
    ratios: Vec<(f64, f64)>,
    rclone: Vec<f64>,
    disk_cost: Vec<f64>,
    network_cost: Vec<f64>,
    copy_cost: Vec<f64>,
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
        let (row, miss) = rounds.judge(case);
        eprintln!("| {} |", row.join(" | "));
        table.row(row);
        missed.extend(miss);
    }
    Ok(BenchOutcome::new(&[table], missed))
}

impl CopySpeedCase {
    fn measure(&self, longhaul: &Path, megabytes: u64) -> Result<CopyRounds, String> {
        let store = if self.disk { ScratchStore::disk()? } else { ScratchStore::memory()? };
        let ground = match self.way {
            CopyNetwork::Loopback => CopyTestbed::loopback(longhaul)?,
            CopyNetwork::Shipped(path) => CopyTestbed::path(longhaul, path)?,
            CopyNetwork::Described(text) => CopyTestbed::from_text(longhaul, &store, text)?,
        };
        let source = store.file("file", megabytes * 1_000_000)?;
        let mut rounds = CopyRounds::default();
        for _ in 0..ROUNDS {
            rounds.add(self, &ground, (&store, &source))?;
        }
        Ok(rounds)
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

impl CopyRounds {
    fn add(
        &mut self,
        case: &CopySpeedCase,
        ground: &CopyTestbed,
        (store, source): (&ScratchStore, &Path),
    ) -> Result<(), String> {
        let target = format!("{}:", ground.address);
        let name = source.display().to_string();
        let run = |dry| -> Result<CopyRunResult, String> {
            let _far = ground.serve(&store.empty("there")?, &[])?;
            store.forget(source)?;
            ground.run_copy(&[], &case.words(&name, &target, dry))
        };
        let disk = run(Some("--dry-disk"))?;
        let network = run(Some("--dry-net"))?;
        let copy = run(None)?;
        let parts = [
            disk.rate("source_disk_bps"),
            disk.rate("target_disk_bps"),
            network.rate("goodput_bps"),
        ];
        self.source.extend(parts[0]);
        self.target.extend(parts[1]);
        self.network.extend(parts[2]);
        let rate = copy.rate("goodput_bps");
        self.copy.extend(rate);
        let slowest = parts.into_iter().flatten().reduce(f64::min);
        self.ratios.extend(rate.zip(slowest));
        let gigabytes = copy.count("bytes") as f64 / 1e9;
        let cost = |run: &CopyRunResult| Some(run.cpu_seconds()? / gigabytes);
        self.disk_cost.extend(cost(&disk));
        self.network_cost.extend(cost(&network));
        self.copy_cost.extend(cost(&copy));
        store.empty("there")?;
        store.forget(source)?;
        let rclone = rclone_copy::time_rclone(ground, (store, source), LIMIT)?;
        self.rclone.extend(rclone.map(|time| gigabytes * 1e9 / time.as_secs_f64()));
        store.empty("there").map(drop)
    }

    fn judge(&self, case: &CopySpeedCase) -> (Vec<String>, Option<String>) {
        let gigabytes = |rates: &[f64]| median(rates).map(|rate| rate / 1e9);
        let (source, target) = (gigabytes(&self.source), gigabytes(&self.target));
        let (network, copy) = (gigabytes(&self.network), gigabytes(&self.copy));
        let slowest = [source, target, network].into_iter().flatten().reduce(f64::min);
        let beside = TurnRatio::of(&self.ratios);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let alone = median(&self.disk_cost).zip(median(&self.network_cost));
        // Both ends share these cores: the costs of the parts alone are a lower bound for a copy.
        let possible = alone.and_then(|(disk, net)| Some(slowest?.min(cores / (disk + net))));
        let fair = copy.zip(possible).map(|(copy, possible)| copy / possible);
        let cost = |costs: &[f64]| format_number(median(costs), 2);
        let row = vec![
            case.name.to_owned(),
            format_number(source, 2),
            format_number(target, 2),
            format_number(network, 2),
            format_number(copy, 2),
            beside.map_or_else(|| "–".to_owned(), |beside| beside.to_string()),
            format!(
                "{} / {} / {}",
                cost(&self.disk_cost),
                cost(&self.network_cost),
                cost(&self.copy_cost)
            ),
            format_number(fair, 2),
            format_number(gigabytes(&self.rclone), 2),
        ];
        let held = beside.is_some_and(|beside| beside.ratio() >= MIN_RATIO);
        let miss = (!held).then(|| {
            let ratio = &row[5];
            format!("speed: {}: {ratio} of the slowest part alone", case.name)
        });
        (row, miss)
    }
}
