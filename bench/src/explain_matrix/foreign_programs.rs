//! Cells in which programs of others fetch files: the network limits them, or they limit themselves.

use super::{ExplainCell, LOSS, PATH, POLICER, SENDER_SIDE, TransferProgram, of_network};
use crate::verdict_matrix::matrix_cell::{CellTruth, DrawnPath, MatrixCell, log_between};
use longhaul_analysis::limit::loss_response::loss_bound_bps;
use longhaul_model::splitmix::SplitMix64;

/// The shell functions of the servers and clients.
pub const PROGRAM_FUNCTIONS: &str = include_str!("programs.sh");
const TRIPS_MS: [f64; 3] = [10.0, 50.0, 150.0];
const RATES_BPS: [f64; 2] = [10e6, 60e6];
const LOSS_RATIOS: [f64; 2] = [1e-4, 2e-2];
/// The minimum window of a flow, in packets.
const MIN_WINDOW_PACKETS: u64 = 6;
/// The RTT at which requests limit a program, so that its rate is low enough for a guest.
const REQUEST_TRIP_MS: f64 = 150.0;
const FAULTS: usize = 6;

/// A program that fetches files, and its server.
#[derive(Debug, Clone, Copy)]
pub struct ForeignProgram {
    pub client: &'static str,
    pub server: &'static str,
    /// The number of flows that share the path.
    flows: u64,
    /// The bytes that each flow has outstanding; without it, only its server can limit it.
    request_bytes: Option<u64>,
}

/// OpenSSH has 64 requests of 32 KiB outstanding, and as large a window of a channel (sftp(1), `-R` and
/// `-B`; CHAN_SES_WINDOW_DEFAULT). rclone requests as much (`--sftp-concurrency`, `--sftp-chunk-size`).
const SSH_BYTES: Option<u64> = Some(2 << 20);
/// As the script sets it.
const XROOTD_BYTES: Option<u64> = Some(1 << 20);

pub const SCP: ForeignProgram = over_ssh("scp");
pub const SFTP: ForeignProgram = over_ssh("sftp");
pub const RSYNC: ForeignProgram = over_ssh("rsync");
pub const RCLONE_SFTP: ForeignProgram = over_ssh("rclone_sftp");
pub const RCLONE_HTTP: ForeignProgram = over_http("rclone_http", 4);
pub const CURL: ForeignProgram = over_http("curl", 1);
pub const ARIA2: ForeignProgram = over_http("aria2c", 4);
pub const LFTP: ForeignProgram = over_http("lftp", 1);
pub const XRDCP: ForeignProgram =
    ForeignProgram { client: "xrdcp", server: "xrootd", flows: 1, request_bytes: XROOTD_BYTES };

const fn over_ssh(client: &'static str) -> ForeignProgram {
    ForeignProgram { client, server: "ssh", flows: 1, request_bytes: SSH_BYTES }
}

const fn over_http(client: &'static str, flows: u64) -> ForeignProgram {
    ForeignProgram { client, server: "http", flows, request_bytes: None }
}

/// The rate in bit/s that one end was told to keep.
#[derive(Debug, Clone, Copy)]
pub enum RateLimit {
    None,
    /// Of each flow.
    Server(u64),
    /// Of all flows together.
    Client(u64),
}

impl RateLimit {
    /// Returns the assignment that the functions of servers and clients read, in byte/s.
    pub fn shell_variable(self) -> String {
        match self {
            RateLimit::None => String::new(),
            RateLimit::Server(bps) => format!("SERVER_RATE={}", bps / 8),
            RateLimit::Client(bps) => format!("CLIENT_RATE={}", bps / 8),
        }
    }
}

/// Draws a program that was told to read less than its path carries.
pub fn draw_slow_reader(random: &mut SplitMix64) -> ExplainCell {
    let program = [CURL, ARIA2, LFTP, RCLONE_HTTP][random.below(4)];
    let path = program.draw_path(random);
    let rate = (path.rate_bps as f64 * random.between(0.2, 0.6)) as u64;
    // The path is the limit until the buffer of the reader is full.
    let memory = (4 * path.bdp_bytes() as u64).clamp(256 << 10, 6 << 20);
    let command = format!("ip netns exec far sysctl -qw net.ipv4.tcp_rmem='4096 131072 {memory}'");
    let truth = CellTruth::limited_by(&["application"]);
    let network = MatrixCell::on_plain_link(path, truth).before(command);
    ExplainCell {
        program: TransferProgram::Foreign { program, rate_limit: RateLimit::Client(rate) },
        ..of_network(network, &["application"])
    }
}

impl ForeignProgram {
    /// Draws a path at one of three RTTs and a limit.
    pub fn draw_cell(self, random: &mut SplitMix64) -> ExplainCell {
        let (network, receiver_limiters) = match random.below(FAULTS) {
            0 => (self.draw_full_path(random), PATH),
            1 => (self.draw_loss(random), LOSS),
            2 => (self.draw_policer(random), POLICER),
            3 => (self.draw_receive_window(random), &["receive_window"][..]),
            4 => (self.draw_send_buffer(random), SENDER_SIDE),
            _ => return self.draw_own_limit(random),
        };
        let program = TransferProgram::Foreign { program: self, rate_limit: RateLimit::None };
        ExplainCell { program, ..of_network(network, receiver_limiters) }
    }

    fn draw_path(self, random: &mut SplitMix64) -> DrawnPath {
        let rtt_ms = TRIPS_MS[random.below(TRIPS_MS.len())];
        let path = DrawnPath::draw_within(random, RATES_BPS, [rtt_ms, rtt_ms]);
        let congestion = ["cubic", "bbr"][random.below(2)];
        DrawnPath { congestion, streams: self.flows, is_reverse: true, ..path }
    }

    fn draw_full_path(self, random: &mut SplitMix64) -> MatrixCell {
        loop {
            let path = self.draw_path(random);
            let held = path.bdp_bytes() as u64 + path.queue_bytes(2.0);
            // Fewer bytes than the program has outstanding, or its requests would limit the queue.
            if self.request_bytes.is_none_or(|bytes| bytes > 2 * held) {
                return MatrixCell::on_plain_link(path, CellTruth::limited_by(&["path_capacity"]));
            }
        }
    }

    /// Draws a loss ratio that limits all flows to half of the path or less.
    fn draw_loss(self, random: &mut SplitMix64) -> MatrixCell {
        loop {
            let mut path = DrawnPath { congestion: "cubic", ..self.draw_path(random) };
            let ratio = log_between(random, LOSS_RATIOS[0], LOSS_RATIOS[1]);
            let mss = path.mtu as f64 - 60.0;
            let bound = loss_bound_bps(mss, path.rtt_ms / 1e3, ratio).unwrap_or(f64::INFINITY);
            let all = bound * self.flows as f64;
            let lost = all * path.seconds() as f64 / 8.0 / mss * ratio;
            if all < 0.5 * path.rate_bps as f64 && lost > 20.0 {
                path.delay_out = format!("loss {:.4}%", ratio * 100.0);
                return MatrixCell::on_plain_link(path, CellTruth::limited_by(&["loss"]));
            }
        }
    }

    fn draw_policer(self, random: &mut SplitMix64) -> MatrixCell {
        let mut path = self.draw_path(random);
        let second = path.rate_bps as f64 / 8.0;
        let bucket = log_between(random, second * 0.01, second * 0.5) as u64;
        path.first_bps = (path.rate_bps as f64 * random.between(3.0, 6.0)) as u64;
        let narrow = format!("police leave {}bit {bucket}", path.rate_bps);
        MatrixCell::new(path, narrow, CellTruth::limited_by(&["policer"]))
            .titled(format!("bucket {} kB", bucket / 1000))
    }

    /// Draws a path and a window of each flow that allows a part of its rate.
    fn draw_window(self, random: &mut SplitMix64) -> (DrawnPath, u64) {
        loop {
            let path = self.draw_path(random);
            let share = random.between(0.1, 0.6);
            let bytes = (path.bdp_bytes() * share) as u64 / self.flows;
            if bytes >= MIN_WINDOW_PACKETS * path.mtu {
                return (path, bytes);
            }
        }
    }

    fn draw_receive_window(self, random: &mut SplitMix64) -> MatrixCell {
        let (path, window) = self.draw_window(random);
        let max = window * 3 / 2;
        let command = format!(
            "ip netns exec far sysctl -qw net.ipv4.tcp_rmem='4096 {} {max}'",
            max.min(16_384)
        );
        MatrixCell::on_plain_link(path, CellTruth::limited_by(&["receive_window"])).before(command)
    }

    fn draw_send_buffer(self, random: &mut SplitMix64) -> MatrixCell {
        let (path, window) = self.draw_window(random);
        let memory = window * 2;
        let command =
            format!("ip netns exec near sysctl -qw net.ipv4.tcp_wmem='4096 16384 {memory}'");
        MatrixCell::on_plain_link(path, CellTruth::limited_by(&["send_buffer"])).before(command)
    }

    /// Draws a path that is wider than the requests of the program, or than the rate of its server.
    fn draw_own_limit(self, random: &mut SplitMix64) -> ExplainCell {
        let share = random.between(0.2, 0.6);
        let mut path = self.draw_path(random);
        if let Some(bytes) = self.request_bytes {
            path.rtt_ms = REQUEST_TRIP_MS;
            path.rate_bps = (bytes as f64 * 8e3 / path.rtt_ms / share) as u64;
            path.first_bps = path.first_bps.max(4 * path.rate_bps);
        }
        let rate_limit = match self.request_bytes {
            Some(_) => RateLimit::None,
            None => RateLimit::Server((path.rate_bps as f64 * share) as u64 / self.flows),
        };
        let receiver_limiters =
            if self.request_bytes.is_some() { &["application"][..] } else { SENDER_SIDE };
        let network = MatrixCell::on_plain_link(path, CellTruth::limited_by(&["application"]));
        ExplainCell {
            program: TransferProgram::Foreign { program: self, rate_limit },
            request_bytes: self.request_bytes,
            ..of_network(network, receiver_limiters)
        }
    }
}
