//! A cell of the matrix: a drawn path, what is done to it, and what must be said of a run across it.

use longhaul_model::splitmix::SplitMix64;
use std::fmt::Write as _;

/// The script that makes the network of a cell.
pub const NETWORK: &str = include_str!("guest_network.sh");
/// The packets of a path that is faster are larger, so that a cell does not take minutes.
const FAST_BPS: u64 = 150_000_000;
const LARGE_MTU: u64 = 9000;
const USUAL_MTU: u64 = 1500;
/// The maximum product of rate and RTT: more takes a sender minutes to fill.
const MAX_BDP_BYTES: f64 = 12e6;
/// The minimum queue in packets; a shorter one loses packets of a single window.
const MIN_QUEUE_PACKETS: u64 = 8;
/// The duration of most runs: ten seconds, or this many round trips.
const USUAL_SECONDS: f64 = 10.0;
const ROUND_TRIPS: f64 = 80.0;
/// The maximum time in which a window grows back after a loss.
const MAX_RECOVERY_SECONDS: f64 = 20.0;

/// Draws from a logarithmic distribution.
pub fn log_between(random: &mut SplitMix64, low: f64, high: f64) -> f64 {
    random.between(low.ln(), high.ln()).exp()
}

/// The limiters and findings that are right for a cell.
#[derive(Debug, Clone, Copy)]
pub struct CellTruth {
    /// The limiters that are right.
    pub limiters: &'static [&'static str],
    /// One of these findings must be reported; empty if none is needed.
    pub findings: &'static [&'static str],
}

impl CellTruth {
    pub const fn limited_by(limiters: &'static [&'static str]) -> CellTruth {
        CellTruth { limiters, findings: &[] }
    }

    pub const fn with_finding(self, findings: &'static [&'static str]) -> CellTruth {
        CellTruth { findings, ..self }
    }
}

/// The numbers of a path, and the arguments of netem at both of its delays.
#[derive(Debug, Clone)]
pub struct DrawnPath {
    pub rate_bps: u64,
    pub rtt_ms: f64,
    pub mtu: u64,
    /// The rate of the hosts' own links.
    pub first_bps: u64,
    pub congestion: &'static str,
    pub streams: u64,
    pub is_ipv6: bool,
    pub is_reverse: bool,
    pub jitter_ms: f64,
    /// The delay of late packets, if most packets have none.
    pub late_ms: Option<f64>,
    pub delay_out: String,
    pub delay_back: String,
    pub limits: Vec<&'static str>,
}

impl DrawnPath {
    pub fn draw(random: &mut SplitMix64) -> DrawnPath {
        DrawnPath::draw_within(random, [2e6, 2e9], [1.0, 400.0])
    }

    /// Draws a path with a rate in bit/s and an RTT in ms within these limits.
    pub fn draw_within(random: &mut SplitMix64, rates: [f64; 2], trips: [f64; 2]) -> DrawnPath {
        let (rate, rtt_ms) = loop {
            let rate = log_between(random, rates[0], rates[1]);
            let rtt_ms = log_between(random, trips[0], trips[1]);
            if rate / 8.0 * rtt_ms / 1e3 <= MAX_BDP_BYTES {
                break (rate, (rtt_ms * 10.0).round() / 10.0);
            }
        };
        let rate_bps = rate as u64 / 1000 * 1000;
        DrawnPath {
            rate_bps,
            rtt_ms,
            mtu: if rate_bps > FAST_BPS { LARGE_MTU } else { USUAL_MTU },
            first_bps: (rate * log_between(random, 3.0, 20.0)).max(100e6) as u64,
            congestion: ["cubic", "cubic", "reno", "bbr", "htcp"][random.below(5)],
            streams: [1, 1, 1, 1, 2, 4][random.below(6)],
            is_ipv6: random.below(3) == 0,
            is_reverse: random.below(3) == 0,
            jitter_ms: 0.0,
            late_ms: None,
            delay_out: String::new(),
            delay_back: String::new(),
            limits: Vec::new(),
        }
    }

    pub fn bdp_bytes(&self) -> f64 {
        self.rate_bps as f64 / 8.0 * self.rtt_ms / 1e3
    }

    /// Returns the bytes of a queue of this many bandwidth-delay products.
    pub fn queue_bytes(&self, products: f64) -> u64 {
        ((self.bdp_bytes() * products) as u64).max(MIN_QUEUE_PACKETS * (self.mtu + 14))
    }

    /// Returns the duration of a run in seconds.
    pub fn seconds(&self) -> u64 {
        USUAL_SECONDS.max(ROUND_TRIPS * self.rtt_ms / 1e3).ceil() as u64
    }

    /// Makes a sender grow back after a loss within a run: it loses in slow start, before it filled the
    /// path, and Reno needs a round trip for each segment of half of its window.
    pub fn recovering_soon(mut self) -> DrawnPath {
        if self.recovery_seconds() > MAX_RECOVERY_SECONDS {
            self.congestion = "cubic";
        }
        self
    }

    /// Returns the time in which a window of the path's product grows back after a loss.
    fn recovery_seconds(&self) -> f64 {
        let segments = self.bdp_bytes() / self.mtu as f64;
        match self.congestion {
            "reno" => segments / 2.0 * self.rtt_ms / 1e3,
            // CUBIC's K (RFC 9438, section 4.2).
            _ => (segments * 0.75).cbrt(),
        }
    }

    /// Returns the duration of a run in which the window can grow back three times.
    pub fn recovering_run_seconds(&self) -> f64 {
        (self.seconds() as f64).max((3.0 * self.recovery_seconds()).ceil())
    }

    pub fn plain_link(&self) -> String {
        self.link_with_queue(self.queue_bytes(2.0))
    }

    /// Returns the command of a link at the rate with a queue of so many bytes.
    pub fn link_with_queue(&self, queue: u64) -> String {
        self.tbf(self.mtu * 2, queue)
    }

    /// Returns the command of a token bucket with a queue of so many bytes.
    pub fn tbf(&self, bucket: u64, queue: u64) -> String {
        let bucket = bucket + 100;
        format!("narrow tbf rate {}bit burst {bucket} limit {queue}", self.rate_bps)
    }

    pub fn htb(&self, queue: u64) -> String {
        self.managed(&format!("bfifo limit {queue}"))
    }

    pub fn netem_rate(&self, queue: u64) -> String {
        let packets = (queue / self.mtu).max(MIN_QUEUE_PACKETS);
        format!("narrow netem rate {}bit limit {packets}", self.rate_bps)
    }

    /// Returns the commands of a rate whose queue is managed by this discipline.
    pub fn managed(&self, discipline: &str) -> String {
        let class = format!("rate {0}bit burst {1} cburst {1}", self.rate_bps, self.mtu * 2);
        format!(
            "narrow htb default 1\n\
             ip netns exec edge tc class add dev core parent 1: classid 1:1 htb {class}\n\
             ip netns exec edge tc qdisc add dev core parent 1:1 {discipline}"
        )
    }

    /// Returns the assignments of the variables of the network's script.
    pub fn variables(&self) -> String {
        let half = self.rtt_ms / 2.0;
        let (out, back) = match self.late_ms {
            // The delay line of packets that are not late is the way back.
            Some(late) => (format!("{late:.1}ms"), format!("{:.3}ms", self.rtt_ms)),
            None if self.jitter_ms > 0.0 => {
                (format!("{half:.3}ms {:.2}ms", self.jitter_ms), format!("{half:.3}ms"))
            }
            None => (format!("{half:.3}ms"), format!("{half:.3}ms")),
        };
        format!(
            "FAMILY={} MTU={} FIRST={}bit REVERSE={} LIMITS='{}'\n\
             DELAY_OUT='delay {out} {}' DELAY_BACK='delay {back} {}'\n",
            if self.is_ipv6 { 6 } else { 4 },
            self.mtu,
            self.first_bps,
            u8::from(self.is_reverse),
            self.limits.join(" "),
            self.delay_out,
            self.delay_back,
        )
    }

    fn describe(&self) -> String {
        let rate = self.rate_bps as f64 / 1e6;
        let mut text = format!("{rate:.1} Mbit/s, {} ms, {}", self.rtt_ms, self.congestion);
        if self.streams > 1 {
            let _ = write!(text, " x{}", self.streams);
        }
        text.push_str(if self.is_ipv6 { ", IPv6" } else { "" });
        text.push_str(if self.is_reverse { ", -R" } else { "" });
        text
    }
}

/// A cell that can be run.
#[derive(Debug, Clone)]
pub struct MatrixCell {
    pub path: DrawnPath,
    /// Empty, or what distinguishes the cell from others of its kind.
    note: String,
    narrow: String,
    before: String,
    during: String,
    options: String,
    seconds: f64,
    pub truth: CellTruth,
    /// The bytes of a policer's bucket, if there is one.
    pub policer_bucket: Option<u64>,
}

impl MatrixCell {
    pub fn new(path: DrawnPath, narrow: String, truth: CellTruth) -> MatrixCell {
        MatrixCell {
            seconds: path.seconds() as f64,
            path,
            note: String::new(),
            narrow,
            before: String::new(),
            during: String::new(),
            options: String::new(),
            truth,
            policer_bucket: None,
        }
    }

    /// Returns a cell with a queue of two bandwidth-delay products and nothing else on the narrow link.
    pub fn on_plain_link(path: DrawnPath, truth: CellTruth) -> MatrixCell {
        let narrow = path.plain_link();
        MatrixCell::new(path, narrow, truth)
    }

    pub fn titled(self, note: String) -> MatrixCell {
        MatrixCell { note, ..self }
    }

    /// Adds options of `longhaul test`.
    pub fn option(self, options: String) -> MatrixCell {
        MatrixCell { options, ..self }
    }

    /// Adds a command that runs before the run.
    pub fn before(self, before: String) -> MatrixCell {
        MatrixCell { before, ..self }
    }

    /// Adds a command that runs at this second of the run.
    pub fn at(self, second: f64, command: &str) -> MatrixCell {
        MatrixCell { during: format!("(sleep {second:.2}; {command}) >&2 &\n"), ..self }
    }

    pub fn policed_with(self, bucket: u64) -> MatrixCell {
        MatrixCell { policer_bucket: Some(bucket), ..self }
    }

    pub fn lasting(self, seconds: f64) -> MatrixCell {
        MatrixCell { seconds, ..self }
    }

    /// Returns the commands of the narrow link.
    pub fn narrow(&self) -> &str {
        &self.narrow
    }

    /// Returns the commands that run before the run.
    pub fn before_commands(&self) -> &str {
        &self.before
    }

    pub fn title(&self) -> String {
        let note = if self.note.is_empty() { "" } else { "; " };
        format!("{}{note}{}", self.path.describe(), self.note)
    }

    /// Returns the script that prints the report of the run.
    pub fn test_script(&self, longhaul: &str) -> String {
        format!(
            "LONGHAUL='{longhaul}'\n{}{NETWORK}{}\n{}\n{}{}\n",
            self.path.variables(),
            self.narrow,
            self.before,
            self.during,
            self.run_command(),
        )
    }

    /// Returns the command that prints the report of a run across the network.
    pub fn run_command(&self) -> String {
        let path = &self.path;
        let is_datagram = self.options.contains("-u ");
        let mut words = format!("-t {:.0}ms {}", self.seconds * 1e3, self.options);
        if !is_datagram {
            let _ = write!(words, " -C {} -P {}", path.congestion, path.streams);
        }
        format!("run {words}{}", if path.is_reverse { " -R" } else { "" })
    }
}
