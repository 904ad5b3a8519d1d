//! A bed: a drawn path, the traffic of others on it, and what the settings and the kernel's counters
//! say was free.

use crate::verdict_matrix::matrix_cell::{DrawnPath, NETWORK};

/// The parts that a bed adds to the network of a cell.
const BED_NETWORK: &str = include_str!("bed_network.sh");
/// The part of a packet on the link that is not IP.
pub const ETHERNET_BYTES: u64 = 14;
/// The minimum rate of bytes towards the far host that belongs to probes, not to the session.
const PROBE_BYTES_PER_READING: u64 = 400;

/// The way in which the narrow link shares its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkSharing {
    /// First come, first served: what others leave is free.
    Fifo,
    /// Fair queueing: a new flow gets at least the share of one of two.
    Fair,
}

/// The true rates of a bed: one, or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateTruth {
    /// The link has one rate, and others leave a part of it.
    Link(LinkSharing),
    /// A token bucket lets short trains pass faster.
    Bucket,
}

/// A bed that can be run.
#[derive(Debug, Clone)]
pub struct TestBed {
    pub path: DrawnPath,
    pub truth: RateTruth,
    /// The rate of the second hop, if it is loaded.
    pub second_bps: Option<u64>,
    note: String,
    narrow: String,
    before: Vec<String>,
    options: &'static str,
}

/// Readings of the kernel's counters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkCounterReading {
    pub at_s: f64,
    /// Bytes of others that left the narrow link.
    pub narrow_bytes: u64,
    /// Bytes of others that entered the second hop.
    pub second_bytes: u64,
    /// All bytes towards the far host.
    pub far_bytes: u64,
}

impl TestBed {
    pub fn new(path: DrawnPath, narrow: String) -> TestBed {
        TestBed {
            path,
            truth: RateTruth::Link(LinkSharing::Fifo),
            second_bps: None,
            note: String::new(),
            narrow,
            before: Vec::new(),
            options: "",
        }
    }

    pub fn titled(self, note: String) -> TestBed {
        TestBed { note, ..self }
    }

    pub fn note(&self) -> &str {
        &self.note
    }

    pub fn truly(self, truth: RateTruth) -> TestBed {
        TestBed { truth, ..self }
    }

    pub fn with_second_hop(self, bps: u64) -> TestBed {
        TestBed { second_bps: Some(bps), ..self }
    }

    pub fn option(self, options: &'static str) -> TestBed {
        TestBed { options, ..self }
    }

    /// Adds a command that runs before the measurement and ends at once.
    pub fn before(mut self, command: String) -> TestBed {
        self.before.push(command);
        self
    }

    /// Adds a command that runs beside the measurement.
    pub fn beside(self, command: &str) -> TestBed {
        self.before(format!("{command} >&2 &"))
    }

    pub fn title(&self) -> String {
        let path = &self.path;
        let rate = path.rate_bps as f64 / 1e6;
        format!("{rate:.1} Mbit/s, {} ms; {}", path.rtt_ms, self.note)
    }

    /// Returns the script that prints the report of the measurement and the counters.
    pub fn measure_script(&self, longhaul: &str) -> String {
        let path = &self.path;
        format!(
            "LONGHAUL='{longhaul}'\n{}{NETWORK}{BED_NETWORK}{}\n{}\nmeasure {}\n",
            path.variables(),
            self.narrow,
            self.before.join("\n"),
            self.options,
        )
    }

    /// Returns the IP rate of full packets on a link with this rate of frames.
    pub fn ip_bps(&self, frame_bps: u64) -> f64 {
        let mtu = self.path.mtu;
        frame_bps as f64 * mtu as f64 / (mtu + ETHERNET_BYTES) as f64
    }

    /// Returns the true capacity, unless a bucket makes it one of two.
    pub fn capacity_bps(&self) -> f64 {
        let narrow = self.ip_bps(self.path.rate_bps);
        self.second_bps.map_or(narrow, |bps| narrow.min(self.ip_bps(bps)))
    }

    /// Returns what was free between the first and the last probe.
    pub fn available_bps(&self, readings: &[LinkCounterReading]) -> Option<f64> {
        let [first, last] = find_probing(readings)?;
        let seconds = last.at_s - first.at_s;
        let left = |link_bps: u64, bytes: u64| {
            let busy_ratio = bytes as f64 * 8.0 / seconds / link_bps as f64;
            self.ip_bps(link_bps) * (1.0 - busy_ratio).max(0.0)
        };
        let narrow = left(self.path.rate_bps, last.narrow_bytes - first.narrow_bytes);
        let narrow = match self.truth {
            RateTruth::Link(LinkSharing::Fair) => narrow.max(self.capacity_bps() / 2.0),
            _ => narrow,
        };
        let second = self.second_bps.map(|bps| left(bps, last.second_bytes - first.second_bytes));
        Some(second.map_or(narrow, |bps| bps.min(narrow)))
    }
}

/// Returns the readings before the first and after the last probe. The session's own messages come
/// first and last, and are far fewer bytes.
fn find_probing(readings: &[LinkCounterReading]) -> Option<[LinkCounterReading; 2]> {
    let probes = |pair: &[LinkCounterReading]| {
        let others = pair[1].second_bytes - pair[0].second_bytes;
        (pair[1].far_bytes - pair[0].far_bytes).saturating_sub(others) > PROBE_BYTES_PER_READING
    };
    let first = readings.windows(2).position(probes)?;
    let last = readings.windows(2).rposition(probes)? + 1;
    (readings[last].at_s > readings[first].at_s).then_some([readings[first], readings[last]])
}

/// Parses the counters that follow the report.
pub fn parse_counters(text: &str) -> Vec<LinkCounterReading> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [at, narrow, second, far] = words[..] else {
                return None;
            };
            Some(LinkCounterReading {
                at_s: at.parse().ok()?,
                narrow_bytes: narrow.parse().ok()?,
                second_bytes: second.parse().ok()?,
                far_bytes: far.parse().ok()?,
            })
        })
        .collect()
}
