//! The cost of samples, and the memory of a stream.
//!
//! Runs on the loopback of a private namespace, sampled every 100 ms. The cost of sampling is the
//! CPU time of the sampling threads divided by that of all threads of both ends, as the scheduler
//! counts them, so no two noisy runs are subtracted. Memory per stream is the peak memory of each
//! process, minus that with one stream, divided by the further streams.
//!
//! Source: /proc/PID/task/*/schedstat and VmHWM of /proc/PID/status (proc(5)).
//! Wrong when: the kernel keeps no scheduler statistics; the bench then reports that.

use super::markdown_table::{MarkdownTable, format_number};
use super::testbed::{AllowedControl, TestNetwork};
use crate::{BenchOutcome, TOKEN, bench_lab};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;
use xtask::program_runner;

const STREAMS: [u32; 4] = [1, 8, 32, 128];
const SECONDS: u32 = 6;
/// The time into the run at which readings are taken, while all threads still live.
const READ_AT: Duration = Duration::from_secs(5);
const SAMPLER: &str = "sampler";

/// The CPU time of the samplers and of all threads in nanoseconds, and the peak memory.
#[derive(Debug, Clone, Copy)]
struct CostReading {
    sampling_ns: u64,
    all_ns: u64,
    peak_kib: u64,
}

/// Returns a table with one row for each number of streams.
pub fn measure_sampling_cost(longhaul: &Path) -> Result<BenchOutcome, String> {
    let _allowed = AllowedControl::new()?;
    let mut table = MarkdownTable::new(
        "Cost of sampling every 100 ms, and memory",
        "streams | sampling, share of CPU | sender, MiB at most | \
         receiver, MiB at most | each further stream, KiB: sender / receiver",
    );
    let mut first: Option<(CostReading, CostReading)> = None;
    for streams in STREAMS {
        let (near, far) = run_streams(longhaul, streams)?;
        let (near_one, far_one) = *first.get_or_insert((near, far));
        let sampling = (near.sampling_ns + far.sampling_ns) as f64;
        let all = (near.all_ns + far.all_ns) as f64;
        let each = |now: CostReading, one: CostReading| {
            (streams > 1)
                .then(|| now.peak_kib.saturating_sub(one.peak_kib) as f64 / f64::from(streams - 1))
        };
        let mib = |reading: CostReading| format_number(Some(reading.peak_kib as f64 / 1024.0), 1);
        table.row(vec![
            streams.to_string(),
            format!("{} %", format_number(Some(100.0 * sampling / all), 2)),
            mib(near),
            mib(far),
            format!(
                "{} / {}",
                format_number(each(near, near_one), 0),
                format_number(each(far, far_one), 0)
            ),
        ]);
    }
    Ok(BenchOutcome::ungated(&[table]))
}

fn run_streams(longhaul: &Path, streams: u32) -> Result<(CostReading, CostReading), String> {
    let bed = TestNetwork::loopback()?;
    let mut far = start_program(&bed, longhaul, "serve")?;
    let listens = bench_lab::wait_until_listening(bed.near().pid(), 5201);
    let words = format!("test {} -P {streams} -t {SECONDS} --no-save", bed.address);
    let near = listens.and_then(|()| start_program(&bed, longhaul, &words));
    let readings = near.and_then(|mut near| {
        sleep(READ_AT);
        let both = read_costs(near.id()).zip(read_costs(far.id()));
        program_runner::kill_child(&mut near);
        both.ok_or_else(|| "the scheduler's statistics in /proc cannot be read".to_owned())
    });
    program_runner::kill_child(&mut far);
    readings
}

fn start_program(bed: &TestNetwork, longhaul: &Path, words: &str) -> Result<Child, String> {
    let enter = bed.near().enter();
    let mut command = Command::new(&enter[0]);
    command.args(&enter[1..]).arg(longhaul).args(words.split(' ')).env("LONGHAUL_TOKEN", TOKEN);
    program_runner::spawn_silent(&mut command)
}

fn read_costs(pid: u32) -> Option<CostReading> {
    let mut reading = CostReading { sampling_ns: 0, all_ns: 0, peak_kib: read_peak_kib(pid)? };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let field = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let spent: u64 = field("schedstat").split(' ').next()?.parse().ok()?;
        reading.all_ns += spent;
        if field("comm").trim() == SAMPLER {
            reading.sampling_ns += spent;
        }
    }
    (reading.all_ns > 0).then_some(reading)
}

fn read_peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
