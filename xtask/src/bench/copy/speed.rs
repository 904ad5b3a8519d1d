//! The speed of a copy against its disks alone, its network alone, and rclone, interleaved.

use super::ground::{Copied, Ground, LIMIT};
use super::resume::STREAMS;
use super::rival;
use super::store::Store;
use crate::bench::beside::Beside;
use crate::bench::table::{Table, median, number};
use std::path::Path;

/// The minimum share of the slowest of both disks and the network alone.
const LEAST_RATIO: f64 = 0.95;
/// The number of rounds of each row: the minimum for an interval.
const ROUNDS: usize = 6;
/// As long as `la-geneva`, and so slow that two cores suffice.
const GIGABIT: &str = "name = \"one gigabit over 172 ms\"\nmtu = 9000\n\
    [machine]\nrequired = false\n[machine.sysctl]\n\
    \"net.core.rmem_max\" = 268435456\n\"net.core.wmem_max\" = 268435456\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"86 ms\"\nrate = \"1 Gbit/s\"\nqueue = \"16 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"16 MB\"\n";

/// The network between the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Loopback,
    Shipped(&'static str),
    /// The text of a path file.
    Written(&'static str),
}

/// One row of the table.
struct Case {
    name: &'static str,
    way: Way,
    disk: bool,
    direct: bool,
    megabytes: u64,
}

const fn case(name: &'static str, way: Way, disk: bool) -> Case {
    Case {
        name,
        way,
        disk,
        direct: false,
        megabytes: 1000,
    }
}

const CASES: &[Case] = &[
    case("loopback, tmpfs", Way::Loopback, false),
    case("loopback, disk", Way::Loopback, true),
    Case {
        direct: true,
        ..case("loopback, disk, --direct", Way::Loopback, true)
    },
    case("1 Gbit/s over 172 ms, tmpfs", Way::Written(GIGABIT), false),
    case("1 Gbit/s over 172 ms, disk", Way::Written(GIGABIT), true),
    Case {
        megabytes: 2000,
        ..case("la-geneva, tmpfs", Way::Shipped("la-geneva"), false)
    },
    case("la-geneva, disk", Way::Shipped("la-geneva"), true),
];

/// Bytes per second of each round, and core seconds per GB.
#[derive(Default)]
struct Rounds {
    source: Vec<f64>,
    target: Vec<f64>,
    network: Vec<f64>,
    copy: Vec<f64>,
    /// The rates of the copy and of the slowest part of the same round.
    beside: Vec<(f64, f64)>,
    rclone: Vec<f64>,
    disk_cost: Vec<f64>,
    network_cost: Vec<f64>,
    copy_cost: Vec<f64>,
}

pub fn table(
    longhaul: &Path,
    only: &str,
    megabytes: Option<u64>,
) -> Result<(Table, Vec<String>), String> {
    let mut table = Table::new(
        "Copies beside their parts alone, GB/s; medians of rounds that take turns",
        &[
            "path, files",
            "source disk",
            "target disk",
            "network",
            "copy",
            "copy / slowest of the same round",
            "core s per GB: disks / network / copy",
            "copy / what is possible on these cores",
            "rclone",
        ],
    );
    let mut missed = Vec::new();
    for case in CASES
        .iter()
        .filter(|case| case.name.contains(only) || "speed".contains(only))
    {
        let rounds = case.measure(longhaul, megabytes.unwrap_or(case.megabytes))?;
        let (row, miss) = rounds.judged(case);
        eprintln!("| {} |", row.join(" | "));
        table.row(row);
        missed.extend(miss);
    }
    Ok((table, missed))
}

impl Case {
    fn measure(&self, longhaul: &Path, megabytes: u64) -> Result<Rounds, String> {
        let store = if self.disk {
            Store::disk()?
        } else {
            Store::memory()?
        };
        let ground = match self.way {
            Way::Loopback => Ground::loopback(longhaul)?,
            Way::Shipped(path) => Ground::path(longhaul, path)?,
            Way::Written(text) => Ground::written(longhaul, &store, text)?,
        };
        let source = store.file("file", megabytes * 1_000_000)?;
        let mut rounds = Rounds::default();
        for _ in 0..ROUNDS {
            rounds.add(self, &ground, (&store, &source))?;
        }
        Ok(rounds)
    }

    fn words<'a>(&self, source: &'a str, target: &'a str, dry: Option<&'a str>) -> Vec<&'a str> {
        let mut words = vec![source, target];
        if self.way != Way::Loopback {
            words.extend(STREAMS);
        }
        if self.direct {
            words.push("--direct");
        }
        words.extend(dry);
        words
    }
}

impl Rounds {
    fn add(
        &mut self,
        case: &Case,
        ground: &Ground,
        (store, source): (&Store, &Path),
    ) -> Result<(), String> {
        let target = format!("{}:", ground.address);
        let name = source.display().to_string();
        let run = |dry| -> Result<Copied, String> {
            let _far = ground.serve(&store.empty("there")?, &[])?;
            store.forget(source)?;
            ground.copied(&[], &case.words(&name, &target, dry))
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
        self.beside.extend(rate.zip(slowest));
        let gigabytes = copy.count("bytes") as f64 / 1e9;
        let cost = |run: &Copied| Some(run.cpu_seconds()? / gigabytes);
        self.disk_cost.extend(cost(&disk));
        self.network_cost.extend(cost(&network));
        self.copy_cost.extend(cost(&copy));
        store.empty("there")?;
        store.forget(source)?;
        let rclone = rival::rclone(ground, (store, source), LIMIT)?;
        self.rclone
            .extend(rclone.map(|time| gigabytes * 1e9 / time.as_secs_f64()));
        store.empty("there").map(drop)
    }

    fn judged(&self, case: &Case) -> (Vec<String>, Option<String>) {
        let gigabytes = |rates: &[f64]| median(rates).map(|rate| rate / 1e9);
        let (source, target) = (gigabytes(&self.source), gigabytes(&self.target));
        let (network, copy) = (gigabytes(&self.network), gigabytes(&self.copy));
        let slowest = [source, target, network]
            .into_iter()
            .flatten()
            .reduce(f64::min);
        let beside = Beside::of(&self.beside);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let alone = median(&self.disk_cost).zip(median(&self.network_cost));
        // Both ends share these cores: the costs of the parts alone are a lower bound for a copy.
        let possible = alone.and_then(|(disk, net)| Some(slowest?.min(cores / (disk + net))));
        let fair = copy.zip(possible).map(|(copy, possible)| copy / possible);
        let cost = |costs: &[f64]| number(median(costs), 2);
        let row = vec![
            case.name.to_owned(),
            number(source, 2),
            number(target, 2),
            number(network, 2),
            number(copy, 2),
            beside.map_or_else(|| "–".to_owned(), |beside| beside.to_string()),
            format!(
                "{} / {} / {}",
                cost(&self.disk_cost),
                cost(&self.network_cost),
                cost(&self.copy_cost)
            ),
            number(fair, 2),
            number(gigabytes(&self.rclone), 2),
        ];
        let held = beside.is_some_and(|beside| beside.ratio() >= LEAST_RATIO);
        let miss = (!held).then(|| {
            let ratio = &row[5];
            format!("speed: {}: {ratio} of the slowest part alone", case.name)
        });
        (row, miss)
    }
}
