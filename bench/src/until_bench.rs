//! Runs that end when their goodput is known, against whole runs and against another rule.
//!
//! The paths are random ones, those on which the search is judged (fixtures/tuning.toml), and those of
//! the lab, which the experts of 2000 to 2004 measured. Each carries one run of TCP in a guest with a
//! virtual clock for ten seconds or 80 round trips, and each rule is replayed on its readings.
//!
//! Wrong when: a path changes after the end of its run; two paths of the lab change after a minute.

use crate::guest_cells::{
    CELL_LIMIT, PARALLEL_GUESTS, find_guest_output, format_file_name, make_kept_folder,
    parse_report,
};
use crate::markdown_table::MarkdownTable;
use crate::stop_replay::{ReplayRule, STOP_COLUMNS, StopReplay, replay_stop, summarize_stops};
use crate::tune_bench::read_tune_paths;
use crate::verdict_matrix::STOP_PRECISION_RATIO;
use crate::verdict_matrix::matrix_cell::{CellTruth, DrawnPath, MatrixCell, log_between};
use crate::{BenchArguments, BenchOutcome};
use longhaul_lab::path_catalogue::list_shipped_paths;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::splitmix::{SplitMix64, mix_bits};
use std::fmt::Write as _;
use std::path::Path;
use xtask::program_runner::run_in_parallel;

/// The random paths of each seed.
const RANDOM_PATHS: usize = 100;
/// One random path in so many loses packets at random, with a probability in these limits.
const LOSSY_SHARE: usize = 4;
const LOSS_RATIOS: [f64; 2] = [1e-6, 1e-3];
/// One random path in so many carries datagrams of others, at a share of its rate in these limits.
const SHARED_SHARE: usize = 6;
const OTHERS_RATIOS: [f64; 2] = [0.1, 0.4];
/// The rules that are compared, with their names.
const RULES: [(&str, ReplayRule); 3] = [
    ("known to 3 %", ReplayRule::KnownGoodput(STOP_PRECISION_RATIO)),
    ("BBR's pipe is full", ReplayRule::FullPipe),
    ("fixed time", ReplayRule::WholeRun),
];
/// The gates of the rule that ends runs, for all paths together.
const HELD_RATIO_MIN: f64 = 0.95;
const SAME_LIMITER_RATIO_MIN: f64 = 0.97;
const ERROR_RATIO_MAX: f64 = 0.03;
const SAVED_RATIO_MIN: f64 = 0.6;
/// Most runs over clean paths with at most this RTT end so long after their ramp.
const CLEAN_RTT_MS: f64 = 200.0;
const CLEAN_END_US: u64 = 5_000_000;
const CLEAN_RATIO_MIN: f64 = 0.95;

/// The origin of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathOrigin {
    /// A random path without random loss and others' traffic, and with a usual RTT.
    Clean,
    Random,
    Tuning,
    Lab,
}

/// The groups of rows, each with the origins of its paths.
const GROUPS: [(&str, &[PathOrigin]); 5] = [
    ("random paths", &[PathOrigin::Clean, PathOrigin::Random]),
    ("the clean ones of these", &[PathOrigin::Clean]),
    ("paths of the search", &[PathOrigin::Tuning]),
    ("paths of the lab", &[PathOrigin::Lab]),
    ("**all**", &[PathOrigin::Clean, PathOrigin::Random, PathOrigin::Tuning, PathOrigin::Lab]),
];

/// A path with the script that prints the report of a run across it.
struct UntilRun {
    origin: PathOrigin,
    name: String,
    script: String,
}

/// The replays of a run, one for each of [`RULES`].
struct JudgedRun {
    origin: PathOrigin,
    stops: Vec<StopReplay>,
}

/// Runs and replays the runs of these seeds, and tabulates them. With a folder for reports, kept ones
/// are read instead of run.
pub fn run_all(longhaul: &Path, arguments: &BenchArguments) -> Result<BenchOutcome, String> {
    let keep = arguments.keep.as_deref();
    make_kept_folder(keep)?;
    let mut runs = list_runs(&longhaul.display().to_string(), arguments.seeds)?;
    runs.retain(|run| run.name.contains(&arguments.only));
    let judged = run_in_parallel(&runs, PARALLEL_GUESTS, |run| {
        let stops = find_guest_output(&run.name, &run.script, keep, CELL_LIMIT, replay_rules);
        let rows = stops.as_ref().map(|stops| {
            stops.first().map(|stop| summarize_stops(&[stop]).join(" | ")).unwrap_or_default()
        });
        eprintln!("{}: {}", run.name, rows.unwrap_or_else(Clone::clone));
        Some(JudgedRun { origin: run.origin, stops: stops.ok()? })
    });
    let failed = judged.iter().filter(|it| it.is_none()).count();
    let judged: Vec<JudgedRun> = judged.into_iter().flatten().collect();
    let mut table = MarkdownTable::new(
        "Runs and the rules that end them",
        &format!("paths | rule | {STOP_COLUMNS}"),
    );
    for (title, origins) in GROUPS {
        for (index, (rule, _)) in RULES.iter().enumerate() {
            let stops = list_stops(&judged, origins, index);
            if !stops.is_empty() {
                let words = vec![title.to_owned(), (*rule).to_owned()];
                table.row([words, summarize_stops(&stops)].concat());
            }
        }
    }
    let mut missed = check_gates(&judged);
    if failed > 0 {
        missed.push(format!("{failed} runs have no result"));
    }
    Ok(BenchOutcome::new(&[table], missed))
}

/// Replays the rules on a report; none if it has no goodput.
fn replay_rules(text: &str) -> Result<Vec<StopReplay>, String> {
    let (report, _) = parse_report::<ThroughputReport>(text)?;
    Ok(RULES.iter().filter_map(|(_, rule)| replay_stop(&report, *rule)).collect())
}

fn list_stops<'a>(
    judged: &'a [JudgedRun],
    origins: &[PathOrigin],
    rule: usize,
) -> Vec<&'a StopReplay> {
    let of_origins = judged.iter().filter(|run| origins.contains(&run.origin));
    of_origins.filter_map(|run| run.stops.get(rule)).collect()
}

fn list_runs(longhaul: &str, seeds: u64) -> Result<Vec<UntilRun>, String> {
    let mut runs = Vec::new();
    for path in read_tune_paths()? {
        let script = path.network_script(Path::new(longhaul)) + "near test $ADDRESS -t 10s\n";
        runs.push(UntilRun {
            origin: PathOrigin::Tuning,
            name: format_file_name(&path.name),
            script,
        });
    }
    for (name, _) in list_shipped_paths() {
        let script = format!(
            "'{longhaul}' lab run {name} -- '{longhaul}' test far -t 10s --no-save --json --quiet\n"
        );
        runs.push(UntilRun { origin: PathOrigin::Lab, name: name.to_owned(), script });
    }
    for seed in 1..=seeds {
        let mut random = SplitMix64::new(mix_bits(seed));
        for number in 0..RANDOM_PATHS {
            let (origin, cell) = draw_random_path(&mut random);
            let script = cell.test_script(longhaul);
            runs.push(UntilRun { origin, name: format!("random-{seed}-{number}"), script });
        }
    }
    Ok(runs)
}

fn draw_random_path(random: &mut SplitMix64) -> (PathOrigin, MatrixCell) {
    let mut path = DrawnPath::draw(random);
    let is_far = path.rtt_ms > CLEAN_RTT_MS;
    let mut origin = if is_far { PathOrigin::Random } else { PathOrigin::Clean };
    if random.below(LOSSY_SHARE) == 0 {
        let percent = 100.0 * log_between(random, LOSS_RATIOS[0], LOSS_RATIOS[1]);
        path.delay_out = format!("loss {percent:.5}%");
        origin = PathOrigin::Random;
    }
    let queue = path.queue_bytes(log_between(random, 0.1, 10.0));
    let mut narrow = match random.below(5) {
        0 => path.link_with_queue(queue),
        1 => path.htb(queue),
        2 => path.netem_rate(queue),
        3 => path.managed("fq_codel"),
        _ => format!("narrow cake bandwidth {}bit besteffort", path.rate_bps),
    };
    if random.below(SHARED_SHARE) == 0 {
        let rate = path.rate_bps as f64 * random.between(OTHERS_RATIOS[0], OTHERS_RATIOS[1]);
        let (length, seconds) = (path.mtu - 100, path.seconds() + 20);
        let _ = write!(narrow, "\nothers -u -b {rate:.0} -l {length} -t {seconds} &\nsleep 1");
        origin = PathOrigin::Random;
    }
    (origin, MatrixCell::new(path, narrow, CellTruth::limited_by(&[])))
}

fn check_gates(judged: &[JudgedRun]) -> Vec<String> {
    let stops: Vec<&StopReplay> = judged.iter().filter_map(|run| run.stops.first()).collect();
    let share = |stops: &[&StopReplay], of: &dyn Fn(&StopReplay) -> bool| {
        stops.iter().filter(|it| of(it)).count() as f64 / stops.len().max(1) as f64
    };
    let median = |of: fn(&StopReplay) -> f64| {
        crate::markdown_table::median(&stops.iter().map(|it| of(it)).collect::<Vec<_>>())
    };
    let clean = list_stops(judged, &[PathOrigin::Clean], 0);
    let ends_soon = |it: &StopReplay| it.steady_us.is_some_and(|us| us <= CLEAN_END_US);
    let gates = [
        ("interval holds", share(&stops, &|it| it.is_held), HELD_RATIO_MIN),
        ("same limiter", share(&stops, &|it| it.has_same_limiter), SAME_LIMITER_RATIO_MIN),
        ("median of the bytes saved", median(|it| it.saved_ratio).unwrap_or(0.0), SAVED_RATIO_MIN),
        (
            "clean paths that end within 5 s after their ramp",
            share(&clean, &ends_soon),
            CLEAN_RATIO_MIN,
        ),
    ];
    let below = gates.iter().filter(|(_, value, min)| value < min).map(|(name, value, min)| {
        format!("{name}: {:.1} %; at least {:.0} % must be", 100.0 * value, 100.0 * min)
    });
    let error = median(|it| it.error_ratio).unwrap_or(0.0);
    let above = (error > ERROR_RATIO_MAX).then(|| format!("median error {:.1} %", 100.0 * error));
    below.chain(above).collect()
}
