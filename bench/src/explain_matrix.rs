//! Tests what `longhaul explain` says of the transfers of other programs, on networks with known faults.
//!
//! iperf3, a small program that waits for answers, and programs that fetch files from OpenSSH, nginx or
//! xrootd send across the networks of the matrix of verdicts, in a guest with a virtual clock. Both ends
//! are watched, and their packets are captured by dumpcap for `longhaul capture explain`. Right:
//! `limited_by` is one of the cell's limiters, for the receiver one of those that a receiver can see. A
//! false blame names the application although it always had data. Where the network or a host's memory
//! is the limit, `longhaul test` then runs across the same network.

mod foreign_programs;

use crate::guest_cells::{
    self, CellKind, GuestCell, JudgedCell, group_by_kind, judge_cells, parse_report, tabulate_wrong,
};
use crate::markdown_table::MarkdownTable;
use crate::verdict_matrix::cell_kinds;
use crate::verdict_matrix::matrix_cell::{CellTruth, DrawnPath, MatrixCell, NETWORK};
use crate::{BenchArguments, BenchOutcome};
use foreign_programs::{
    ARIA2, CURL, ForeignProgram, LFTP, PROGRAM_FUNCTIONS, RCLONE_HTTP, RCLONE_SFTP, RSYNC,
    RateLimit, SCP, SFTP, XRDCP,
};
use longhaul_analysis::flow_analysis::conclude_flows;
use longhaul_analysis::throughput::conclude_throughput;
use longhaul_model::report::v1::analysis::ThroughputAnalysis;
use longhaul_model::report::v1::{FlowsReport, ReportFinding, ThroughputReport};
use longhaul_model::splitmix::SplitMix64;
use std::fmt::{self, Write as _};
use std::path::Path;

/// A program that answers requests for bytes, and one that keeps so many of them outstanding.
const REQUESTS: &str = include_str!("explain_matrix/requests.py");
/// The views of a transfer, and the gates of the shares of right cells.
const VIEWS: [(&str, f64); 4] = [
    ("at the sender", 0.95),
    ("at the receiver", 0.85),
    ("in the sender's capture", 0.95),
    ("in the receiver's capture", 0.85),
];
/// The longest watch of `longhaul explain` without `--for`, in seconds.
const MAX_WATCH_S: f64 = 40.0;
/// The maximum error of the bytes per round trip of requests.
const REQUEST_ERROR_MAX: f64 = 0.1;

/// A program that moves data, and what is true of it.
#[derive(Debug, Clone)]
struct ExplainCell {
    network: MatrixCell,
    program: TransferProgram,
    /// Bytes per round trip, if requests limit the transfer.
    request_bytes: Option<u64>,
    receiver_limiters: &'static [&'static str],
}

/// A program that sends, or that makes another send.
#[derive(Debug, Clone)]
enum TransferProgram {
    /// With these options.
    Iperf3(String),
    /// The program of [`REQUESTS`].
    Requests {
        bytes: u64,
        outstanding: u64,
    },
    Foreign {
        program: ForeignProgram,
        rate_limit: RateLimit,
    },
}

impl fmt::Display for TransferProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferProgram::Iperf3(options) => f.write_str(options),
            TransferProgram::Requests { bytes, outstanding } => {
                write!(f, "{outstanding} requests of {bytes} bytes")
            }
            TransferProgram::Foreign { rate_limit: RateLimit::None, .. } => Ok(()),
            TransferProgram::Foreign { rate_limit: RateLimit::Server(bps), .. } => {
                write!(f, "server sends at {:.1} Mbit/s", *bps as f64 / 1e6)
            }
            TransferProgram::Foreign { rate_limit: RateLimit::Client(bps), .. } => {
                write!(f, "client reads at {:.1} Mbit/s", *bps as f64 / 1e6)
            }
        }
    }
}

const KINDS: [CellKind<ExplainCell>; 37] = [
    ("full path", 4, |random| of_network(cell_kinds::draw_full_path(random), PATH)),
    ("parallel streams", 3, |random| of_network(cell_kinds::draw_parallel_streams(random), PATH)),
    ("queue management", 4, |random| of_network(cell_kinds::draw_managed_queue(random), PATH)),
    ("random loss", 4, |random| of_network(cell_kinds::draw_random_loss(random), LOSS)),
    ("bursts of loss", 3, |random| of_network(cell_kinds::draw_burst_loss(random), LOSS)),
    ("policer", 4, |random| of_network(cell_kinds::draw_egress_policer(random), POLICER)),
    ("tcp_rmem", 4, |random| of_network(cell_kinds::draw_tcp_rmem(random), &["receive_window"])),
    ("tcp_wmem", 4, draw_send_memory),
    ("slow writer", 4, draw_slow_writer),
    ("pacing", 4, draw_pacing),
    ("requests in lockstep", 5, |random| draw_requests(random, 1)),
    ("pipelined requests", 5, |random| draw_requests(random, 2)),
    ("slow reader", 6, foreign_programs::draw_slow_reader),
    ("scp", 6, |random| SCP.draw_cell(random)),
    ("sftp", 6, |random| SFTP.draw_cell(random)),
    ("rsync over ssh", 6, |random| RSYNC.draw_cell(random)),
    ("rclone, SFTP", 6, |random| RCLONE_SFTP.draw_cell(random)),
    ("rclone, HTTP", 6, |random| RCLONE_HTTP.draw_cell(random)),
    ("curl from nginx", 6, |random| CURL.draw_cell(random)),
    ("aria2 from nginx", 6, |random| ARIA2.draw_cell(random)),
    ("lftp from nginx", 6, |random| LFTP.draw_cell(random)),
    ("xrdcp from xrootd", 6, |random| XRDCP.draw_cell(random)),
    ("shallow queue", 2, |random| of_network(cell_kinds::draw_shallow_queue(random), PATH)),
    ("deep queue", 2, |random| of_network(cell_kinds::draw_deep_queue(random), PATH)),
    ("ECN", 2, |random| of_network(cell_kinds::draw_ecn(random), PATH)),
    ("bucket of a usual size", 2, |random| of_network(cell_kinds::draw_usual_bucket(random), PATH)),
    ("corruption", 2, |random| of_network(cell_kinds::draw_corruption(random), LOSS)),
    ("bbr under loss", 2, |random| of_network(cell_kinds::draw_bbr_under_loss(random), PATH)),
    ("policer, ingress", 2, |random| of_network(cell_kinds::draw_ingress_policer(random), POLICER)),
    ("shaper", 2, draw_shaper),
    ("reordering", 2, |random| of_network(cell_kinds::draw_reordering(random), PATH)),
    ("duplicates", 2, |random| of_network(cell_kinds::draw_duplicates(random), PATH)),
    ("jitter", 2, |random| of_network(cell_kinds::draw_jitter(random), PATH)),
    ("lost acknowledgements", 2, |random| {
        of_network(cell_kinds::draw_lost_acknowledgements(random), PATH)
    }),
    ("return path full", 2, |random| of_network(cell_kinds::draw_full_return_path(random), PATH)),
    ("other datagrams", 2, |random| of_network(cell_kinds::draw_other_datagrams(random), PATH)),
    ("other streams", 2, |random| of_network(cell_kinds::draw_other_streams(random), PATH)),
];

/// The words that are right at a receiver.
const PATH: &[&str] = &["path_capacity", "loss", "unknown"];
const LOSS: &[&str] = &["loss", "unknown"];
const POLICER: &[&str] = &["policer", "loss", "unknown"];
const SENDER_SIDE: &[&str] = &["unknown"];

fn of_network(network: MatrixCell, receiver_limiters: &'static [&'static str]) -> ExplainCell {
    let program = TransferProgram::Iperf3(String::new());
    ExplainCell { network, program, request_bytes: None, receiver_limiters }
}

/// Draws a path, and a window that allows a part of its rate.
fn draw_send_memory(random: &mut SplitMix64) -> ExplainCell {
    let (path, window) = cell_kinds::draw_window(random);
    // The kernel counts its own overhead for each segment.
    let memory = window * 2;
    let command = format!("ip netns exec near sysctl -qw net.ipv4.tcp_wmem='4096 16384 {memory}'");
    let truth = CellTruth::limited_by(&["send_buffer"]);
    of_network(MatrixCell::on_plain_link(path, truth).before(command), SENDER_SIDE)
}

/// Draws a shaper, whose bucket is empty when the watch begins.
fn draw_shaper(random: &mut SplitMix64) -> ExplainCell {
    let mut network = cell_kinds::draw_shaper(random);
    network.truth = CellTruth::limited_by(&["path_capacity", "shaper"]);
    of_network(network, &["path_capacity", "shaper", "loss", "unknown"])
}

fn draw_slow_writer(random: &mut SplitMix64) -> ExplainCell {
    let (path, rate) = cell_kinds::draw_requested_rate(random);
    let program = TransferProgram::Iperf3(format!("-b {}", rate / path.streams));
    let truth = CellTruth::limited_by(&["application"]);
    ExplainCell { program, ..of_network(MatrixCell::on_plain_link(path, truth), SENDER_SIDE) }
}

fn draw_pacing(random: &mut SplitMix64) -> ExplainCell {
    let (mut path, rate) = cell_kinds::draw_requested_rate(random);
    // iperf3 does not pace in the other direction.
    path.is_reverse = false;
    let program = TransferProgram::Iperf3(format!("--fq-rate {}", rate / path.streams));
    let truth = CellTruth::limited_by(&["pacing"]);
    ExplainCell { program, ..of_network(MatrixCell::on_plain_link(path, truth), SENDER_SIDE) }
}

/// Draws requests of so many bytes that the path stays idle for a part of the time.
fn draw_requests(random: &mut SplitMix64, least_outstanding: u64) -> ExplainCell {
    let (mut path, outstanding, bytes) = loop {
        let path = DrawnPath::draw_within(random, [10e6, 1e9], [10.0, 200.0]);
        let outstanding =
            least_outstanding * (1 + random.below(32) as u64 * (least_outstanding - 1));
        let share = random.between(0.05, 0.5);
        let bytes = (path.bdp_bytes() * share) as u64 / outstanding;
        if bytes >= 16 * 1024 {
            break (path, outstanding, bytes);
        }
    };
    (path.streams, path.congestion) = (1, "cubic");
    let truth = CellTruth::limited_by(&["application"]);
    let network = MatrixCell::on_plain_link(path, truth);
    ExplainCell {
        program: TransferProgram::Requests { bytes, outstanding },
        request_bytes: Some(bytes * outstanding),
        ..of_network(network, &["application"])
    }
}

impl GuestCell for ExplainCell {
    type Verdict = TransferVerdicts;
    const KINDS: &'static [CellKind<ExplainCell>] = &KINDS;

    fn script(&self, longhaul: &str) -> String {
        let path = &self.network.path;
        let settle_s = 3.0 + 30.0 * path.rtt_ms / 1e3;
        let all_s = (2.0 * settle_s + MAX_WATCH_S).ceil();
        let mut script = format!("LONGHAUL='{longhaul}'\n{}{NETWORK}", path.variables());
        let _ = writeln!(script, "{}\n{}", self.network.narrow(), self.network.before_commands());
        let _ = writeln!(
            script,
            "for host in near far; do\n\
             [ $host = near ] && router=edge || router=core\n\
             ip netns exec $host dumpcap -q -i $router -s 134 -B 64 -f 'tcp port 5301' \
             -w /run/$host.pcapng >/dev/null 2>&1 & CAPTURES=\"$CAPTURES $!\"\n\
             done\n\
             sleep 1"
        );
        script.push_str(&self.transfer_commands(all_s));
        let explain = "$LONGHAUL explain :5301 --no-save --json --quiet";
        let _ = writeln!(
            script,
            "sleep {settle_s}\n\
             ip netns exec far {explain} >/run/far.json &\n\
             WATCH=$!\n\
             ip netns exec near {explain} || true\n\
             wait $WATCH || true\n\
             cat /run/far.json\n\
             kill -INT $CAPTURES\n\
             wait $CAPTURES || true\n\
             for host in near far; do\n\
             $LONGHAUL capture explain /run/$host.pcapng --only :5301 --no-save --json --quiet\n\
             done"
        );
        script.push_str("for host in near far; do kill -9 $(ip netns pids $host) || true; done\n");
        if self.limits_every_program() {
            // A server has the buffers that were set when it started.
            let run = self.network.run_command();
            let _ = writeln!(script, "wait $SERVE || true\nserve\n{run}");
        }
        script
    }

    fn judge(&self, mut text: &str) -> Result<TransferVerdicts, String> {
        let mut views = Vec::new();
        for _ in VIEWS {
            let (report, rest) = parse_report::<FlowsReport>(text)?;
            views.push(conclude_end(&report));
            text = rest;
        }
        // Output that was kept before there was a run ends here.
        if !self.limits_every_program() || text.trim().is_empty() {
            return Ok(TransferVerdicts { views, run: None });
        }
        // The shell tells that the programs were killed.
        let at = text.find('{').ok_or("no report of a run")?;
        let (report, _) = parse_report::<ThroughputReport>(&text[at..])?;
        Ok(TransferVerdicts { views, run: Some(conclude_run(&report)) })
    }

    fn format_row(judged: &JudgedCell<ExplainCell>) -> Vec<String> {
        let drawn = &judged.drawn;
        let errors = judged.request_errors();
        let errors = errors.iter().map(|error| format!("{:.0} %", error * 100.0));
        let mut row = vec![
            drawn.name(),
            format!("{}; {}", drawn.cell.network.title(), drawn.cell.program),
            drawn.cell.network.truth.limiters.join(", "),
        ];
        for view in 0..VIEWS.len() {
            row.push(match &judged.verdict {
                Ok(_) if judged.is_right(view) => "right".to_owned(),
                Ok(verdicts) => verdicts.views[view].to_string(),
                Err(why) => format!("no answer: {why}"),
            });
        }
        row.push(match judged.run() {
            Some(_) if judged.is_run_right() => "right".to_owned(),
            Some(run) => run.to_string(),
            None => String::new(),
        });
        row.push(errors.collect::<Vec<_>>().join(", "));
        row
    }

    fn is_wrong(judged: &JudgedCell<ExplainCell>) -> bool {
        let is_exact = judged.request_errors().iter().all(|error| *error <= REQUEST_ERROR_MAX);
        !(is_exact && judged.is_run_right() && (0..VIEWS.len()).all(|view| judged.is_right(view)))
    }
}

impl ExplainCell {
    /// Returns true if the limit is in the network or in a host's memory, and not in the program.
    fn limits_every_program(&self) -> bool {
        !["application", "pacing"].iter().any(|own| self.network.truth.limiters.contains(own))
    }

    /// Returns the commands that start a transfer of this many seconds, or one without an end.
    fn transfer_commands(&self, seconds: f64) -> String {
        let path = &self.network.path;
        match &self.program {
            TransferProgram::Iperf3(options) => {
                let reverse = if path.is_reverse { "-R" } else { "" };
                format!(
                    "ip netns exec $SERVER iperf3 -s -p 5301 >/dev/null 2>&1 &\n\
                     sleep 1\n\
                     ip netns exec $CLIENT iperf3 -c $ADDRESS -p 5301 -t {seconds} -C {} -P {} \
                     {reverse} {options} >/dev/null 2>&1 &\n",
                    path.congestion, path.streams
                )
            }
            TransferProgram::Requests { bytes, outstanding } => format!(
                "cat >/run/requests.py <<'END'\n{REQUESTS}END\n\
                 FAR=10.0.1.2; [ $FAMILY = 4 ] || FAR=fd00:1::2\n\
                 ip netns exec near python3 /run/requests.py serve >/dev/null 2>&1 &\n\
                 sleep 1\n\
                 ip netns exec far python3 /run/requests.py ask $FAR {bytes} {outstanding} \
                 >/dev/null 2>&1 &\n",
            ),
            TransferProgram::Foreign { program, rate_limit } => format!(
                "{PROGRAM_FUNCTIONS}\n\
                 {}\n\
                 ip netns exec near sysctl -qw net.ipv4.tcp_congestion_control={}\n\
                 serve_{}\n\
                 sleep 1\n\
                 fetch_{} &\n",
                rate_limit.shell_variable(),
                path.congestion,
                program.server,
                program.client
            ),
        }
    }
}

/// The verdict at one end.
#[derive(Debug, Clone, Default)]
struct EndVerdict {
    limited_by: String,
    confidence_ratio: f64,
    causes: Vec<String>,
    round_trip_bytes: Option<u64>,
}

impl fmt::Display for EndVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = self.causes.join(", ");
        write!(f, "{} {:.2} ({causes})", self.limited_by, self.confidence_ratio)
    }
}

/// The verdicts of each view on a transfer, and of `longhaul test` on its path.
#[derive(Debug, Clone)]
struct TransferVerdicts {
    /// In the order of [`VIEWS`].
    views: Vec<EndVerdict>,
    run: Option<EndVerdict>,
}

impl JudgedCell<ExplainCell> {
    fn is_right(&self, view: usize) -> bool {
        let cell = &self.drawn.cell;
        let right = [cell.network.truth.limiters, cell.receiver_limiters][view % 2];
        let of_view = self.verdict.as_ref().map(|it| it.views[view].limited_by.as_str());
        of_view.is_ok_and(|word| right.contains(&word))
    }

    fn run(&self) -> Option<&EndVerdict> {
        self.verdict.as_ref().ok()?.run.as_ref()
    }

    /// Returns true also if there was no run.
    fn is_run_right(&self) -> bool {
        let right = self.drawn.cell.network.truth.limiters;
        self.run().is_none_or(|run| right.contains(&run.limited_by.as_str()))
    }

    fn is_application_blamed(&self) -> bool {
        let is_true = self.drawn.cell.network.truth.limiters.contains(&"application");
        let blames = |it: &EndVerdict| it.limited_by == "application";
        !is_true && self.verdict.as_ref().is_ok_and(|it| it.views.iter().any(blames))
    }

    /// Returns the relative error of the bytes per round trip at each end that found requests.
    fn request_errors(&self) -> Vec<f64> {
        let (Some(truth), Ok(verdicts)) = (self.drawn.cell.request_bytes, &self.verdict) else {
            return Vec::new();
        };
        let found = verdicts.views.iter().map(|end| end.round_trip_bytes.unwrap_or(0) as f64);
        found.map(|bytes| (bytes / truth as f64 - 1.0).abs()).collect()
    }
}

/// Runs the cells that the arguments select, or judges kept ones again, and tabulates them.
pub fn run_all(longhaul: &Path, arguments: &BenchArguments) -> Result<BenchOutcome, String> {
    let judged = judge_cells::<ExplainCell>(longhaul, arguments)?;
    let views = VIEWS.map(|(name, _)| name).join(" | ");
    let columns = format!("cell | path | truth | {views} | by `test` | request error");
    let wrong = tabulate_wrong("Wrongly explained transfers", &columns, &judged);
    Ok(BenchOutcome::new(&[tabulate_kinds(&judged), wrong], check_gates(&judged)))
}

/// Runs one cell on this host, which is a guest, and returns its row of the table if it is wrong.
pub fn check_cell(longhaul: &Path, kind: &str, seed: u64, number: usize) -> Result<(), String> {
    guest_cells::check_cell::<ExplainCell>(longhaul, kind, seed, number)
}

fn conclude_end(report: &FlowsReport) -> EndVerdict {
    let concluded = conclude_flows(&report.observation);
    let Some(busiest) = concluded.analysis.transfers.first() else {
        return EndVerdict { limited_by: "nothing".to_owned(), ..EndVerdict::default() };
    };
    EndVerdict {
        round_trip_bytes: busiest.requests.map(|requests| requests.round_trip_bytes),
        ..summarize_verdict(&busiest.run, concluded.findings)
    }
}

fn conclude_run(report: &ThroughputReport) -> EndVerdict {
    let concluded = conclude_throughput(&report.plan, &report.observation);
    summarize_verdict(&concluded.analysis, concluded.findings)
}

fn summarize_verdict(analysis: &ThroughputAnalysis, findings: Vec<ReportFinding>) -> EndVerdict {
    EndVerdict {
        limited_by: analysis.limited_by.word().to_owned(),
        confidence_ratio: analysis.confidence_ratio,
        causes: findings.into_iter().map(|found| found.cause).collect(),
        round_trip_bytes: None,
    }
}

fn share(
    judged: &[&JudgedCell<ExplainCell>],
    is_right: impl Fn(&JudgedCell<ExplainCell>) -> bool,
) -> f64 {
    let right = judged.iter().filter(|it| is_right(it)).count();
    right as f64 / judged.len().max(1) as f64
}

fn tabulate_kinds(judged: &[JudgedCell<ExplainCell>]) -> MarkdownTable {
    let mut table = MarkdownTable::new(
        "Explained transfers by kind",
        "kind | cells | right at the sender, % | at the receiver, % | in the sender's capture, % | \
         in the receiver's capture, % | by `test` | application blamed falsely | \
         bytes per round trip within 10 %",
    );
    for (kind, cells) in group_by_kind(judged).chain([("**all**", judged.iter().collect())]) {
        let errors: Vec<f64> = cells.iter().flat_map(|it| it.request_errors()).collect();
        let exact = errors.iter().filter(|error| **error <= REQUEST_ERROR_MAX).count();
        let mut row = vec![kind.to_owned(), cells.len().to_string()];
        let rights = (0..VIEWS.len()).map(|view| share(&cells, |it| it.is_right(view)));
        row.extend(rights.map(|right| format!("{:.0}", 100.0 * right)));
        let runs: Vec<_> = cells.iter().filter(|it| it.run().is_some()).collect();
        let right = runs.iter().filter(|it| it.is_run_right()).count();
        row.push(if runs.is_empty() {
            "–".to_owned()
        } else {
            format!("{right} of {}", runs.len())
        });
        row.push(cells.iter().filter(|it| it.is_application_blamed()).count().to_string());
        row.push(match errors.len() {
            0 => "–".to_owned(),
            all => format!("{exact} of {all}"),
        });
        table.row(row);
    }
    table
}

fn check_gates(judged: &[JudgedCell<ExplainCell>]) -> Vec<String> {
    let all: Vec<&JudgedCell<ExplainCell>> = judged.iter().collect();
    let mut missed = Vec::new();
    for (view, (name, least)) in VIEWS.iter().enumerate() {
        let right = share(&all, |it| it.is_right(view));
        if right < *least {
            missed.push(format!("{:.1} % are right {name}", 100.0 * right));
        }
    }
    let blamed = judged.iter().filter(|it| it.is_application_blamed()).count();
    if blamed > 0 {
        missed.push(format!("the application is blamed falsely in {blamed} cells"));
    }
    missed
}
