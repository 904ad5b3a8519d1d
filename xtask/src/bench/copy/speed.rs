//! How fast is a copy beside its disks alone, its network alone, and rclone? The four take turns.

use super::ground::{Copied, Ground, LIMIT};
use super::resume::STREAMS;
use super::rival;
use super::store::Store;
use crate::bench::table::{Table, median, number};
use std::path::Path;

/// Of the slower of disk and network alone.
const LEAST_RATIO: f64 = 0.95;

/// One row.
pub struct Case {
    pub name: &'static str,
    pub path: Option<&'static str>,
    pub disk: bool,
    pub direct: bool,
    pub megabytes: u64,
    pub rounds: usize,
}

pub const CASES: &[Case] = &[
    Case {
        name: "loopback, tmpfs",
        path: None,
        disk: false,
        direct: false,
        megabytes: 2000,
        rounds: 5,
    },
    Case {
        name: "loopback, disk",
        path: None,
        disk: true,
        direct: false,
        megabytes: 1000,
        rounds: 3,
    },
    Case {
        name: "loopback, disk, --direct",
        path: None,
        disk: true,
        direct: true,
        megabytes: 1000,
        rounds: 3,
    },
    Case {
        name: "la-geneva, tmpfs",
        path: Some("la-geneva"),
        disk: false,
        direct: false,
        megabytes: 2000,
        rounds: 3,
    },
    Case {
        name: "la-geneva, disk",
        path: Some("la-geneva"),
        disk: true,
        direct: false,
        megabytes: 1000,
        rounds: 3,
    },
];

/// Bytes per second of each round, and core seconds per GB.
#[derive(Default)]
struct Rounds {
    source: Vec<f64>,
    target: Vec<f64>,
    network: Vec<f64>,
    copy: Vec<f64>,
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
            "copy / slowest",
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
        let ground = match self.path {
            None => Ground::loopback(longhaul)?,
            Some(path) => Ground::path(longhaul, path)?,
        };
        let store = if self.disk {
            Store::disk()?
        } else {
            Store::memory()?
        };
        let source = store.file("file", megabytes * 1_000_000)?;
        let mut rounds = Rounds::default();
        for _ in 0..self.rounds {
            rounds.add(self, &ground, (&store, &source))?;
        }
        Ok(rounds)
    }

    fn words<'a>(&self, source: &'a str, target: &'a str, dry: Option<&'a str>) -> Vec<&'a str> {
        let mut words = vec![source, target];
        if self.path.is_some() {
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
        self.source.extend(disk.rate("source_disk_bps"));
        self.target.extend(disk.rate("target_disk_bps"));
        let network = run(Some("--dry-net"))?;
        self.network.extend(network.rate("goodput_bps"));
        let copy = run(None)?;
        self.copy.extend(copy.rate("goodput_bps"));
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
        let ratio = copy.zip(slowest).map(|(copy, slowest)| copy / slowest);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let alone = median(&self.disk_cost).zip(median(&self.network_cost));
        // Both ends share these cores: what the parts cost alone is what a copy costs at least.
        let possible = alone.and_then(|(disk, net)| Some(slowest?.min(cores / (disk + net))));
        let fair = copy.zip(possible).map(|(copy, possible)| copy / possible);
        let cost = |costs: &[f64]| number(median(costs), 2);
        let row = vec![
            case.name.to_owned(),
            number(source, 2),
            number(target, 2),
            number(network, 2),
            number(copy, 2),
            number(ratio, 2),
            format!(
                "{} / {} / {}",
                cost(&self.disk_cost),
                cost(&self.network_cost),
                cost(&self.copy_cost)
            ),
            number(fair, 2),
            number(gigabytes(&self.rclone), 2),
        ];
        let held = ratio.is_some_and(|ratio| ratio >= LEAST_RATIO);
        let miss = (!held).then(|| {
            let (name, ratio) = (case.name, number(ratio, 2));
            format!("speed: {name}: {ratio} of the slower of disk and network alone")
        });
        (row, miss)
    }
}
