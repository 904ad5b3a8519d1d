//! Kernel settings that the recommended setting needs, or that would make one stream sufficient.
//!
//! A requested window needs a limit (rmem_max, wmem_max) at least as high. If many streams only
//! compensate for a window that a host clips, one stream needs twice the path's bandwidth-delay
//! product: in tcp_rmem and tcp_wmem if the window is autotuned (half of it is for bookkeeping), in
//! rmem_max and wmem_max if it is requested.
//!
//! Source: tcp(7), socket(7); SLAC to Daresbury, July 2001. Units: bytes. Error: a factor of two,
//! by rounding to powers of two.
//! Wrong when: the best of the scan is far below the path's capacity; then one stream needs more.
//!
//! # The hosts of a direction
//!
//! The two hosts of one direction, from the probes' reports.

use super::scan_cells::{cell_goodput, find_idle_rtt_us};
use crate::limit::window_range;
use crate::throughput::to_rate;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::HostFacts;
use longhaul_model::report::v1::scan::{NeededSysctl, ScanCell, ScanConclusion};
use longhaul_model::units::{Bytes, count_of, format_duration};
use std::time::Duration;

/// The kernel's minimum and default buffers, if those of the host are unknown.
const USUAL_SIZES: [[u64; 2]; 2] = [[4096, 16_384], [4096, 131_072]];

/// A host that clips the window, so that several streams have to compensate.
#[derive(Debug, Clone, PartialEq)]
pub struct ClippedWindow {
    pub end: ScanEnd,
    pub host: String,
    /// Requested and granted window; `None` if it was autotuned and too small.
    pub clip: Option<(u64, u64)>,
    /// Twice what one stream would have to hold in flight.
    pub wanted_bytes: u64,
    pub idle_rtt_us: u64,
    /// The maximum rate of one such window.
    pub one_stream_bps: Option<u64>,
}

/// Returns the clipped window that the streams of the recommended setting compensate for, if any.
pub fn find_clipped_window(
    found: &ScanConclusion,
    cells: &[&ScanCell],
    hosts: DirectionHosts,
) -> Option<ClippedWindow> {
    let (best, recommended) = (found.best.as_ref()?, found.recommended.as_ref()?);
    let fewer = cells
        .iter()
        .filter(|c| c.forward == found.forward && c.setting.streams < recommended.setting.streams);
    // If fewer streams are limited by loss, a wider window would not replace the others.
    if fewer.clone().any(|c| c.limited_by == Some(Limiter::Loss)) {
        return None;
    }
    let by_window = |c: &&&ScanCell| c.limited_by.is_some_and(Limiter::is_window);
    let held =
        fewer.filter(by_window).max_by(|a, b| cell_goodput(a).total_cmp(&cell_goodput(b)))?;
    let end = match held.limited_by? {
        Limiter::ReceiveWindow => ScanEnd::Receiver,
        Limiter::SendBuffer => ScanEnd::Sender,
        _ => return None,
    };
    let idle_rtt_us = find_idle_rtt_us(cells).filter(|us| *us > 0)?;
    let path = to_rate(best.goodput_bps).bytes_in(Duration::from_micros(idle_rtt_us));
    let wanted_bytes = window_range::round_window(path.saturating_mul(2));
    let clip = end.clipped_window(cells, found.forward).filter(|(_, granted)| *granted < path);
    let sized = hosts.end(end).and_then(|h| end.autotuning_bytes(h));
    let sizes_small = sized.is_some_and(|s| s[2] < wanted_bytes.min(path.saturating_mul(2)));
    // If a requested window is granted, the autotuning limits do not matter.
    let automatic =
        held.setting.window_bytes.is_none() && recommended.setting.window_bytes.is_none();
    (clip.is_some() || (automatic && sizes_small)).then(|| ClippedWindow {
        end,
        host: hosts.name(end),
        clip,
        wanted_bytes,
        idle_rtt_us,
        one_stream_bps: clip.map(|(_, granted)| (granted as f64 * 8e6 / idle_rtt_us as f64) as u64),
    })
}

/// Returns the needs of the recommended setting, then those of a single stream.
pub fn list_needs(
    found: &ScanConclusion,
    cells: &[&ScanCell],
    hosts: DirectionHosts,
    gap: Option<&ClippedWindow>,
) -> Vec<NeededSysctl> {
    let mut needs = Vec::new();
    for end in [ScanEnd::Receiver, ScanEnd::Sender] {
        let one_stream = gap.filter(|g| g.end == end).map(|g| list_one_stream_needs(g, hosts));
        let asked = find_window_need(found, cells, hosts, end);
        let wider = one_stream.iter().flatten().any(|n| n.name == end.max_sysctl());
        needs.extend(asked.filter(|_| !wider));
        needs.extend(one_stream.into_iter().flatten());
    }
    needs
}

/// Returns the limit that the recommended window exceeds.
fn find_window_need(
    found: &ScanConclusion,
    cells: &[&ScanCell],
    hosts: DirectionHosts,
    end: ScanEnd,
) -> Option<NeededSysctl> {
    let recommended = &found.recommended.as_ref()?.setting;
    let window = recommended.window_bytes?;
    let of_it = |c: &&&ScanCell| c.forward == found.forward && c.setting == *recommended;
    let granted = cells.iter().filter(of_it).filter_map(|c| end.granted(c)).min();
    let is = hosts.end(end).and_then(|h| end.max_bytes(h));
    let short = granted.map_or(is.is_some_and(|is| is < window), |granted| granted < window);
    short.then(|| NeededSysctl {
        place: end.place().to_owned(),
        host: hosts.name(end),
        name: end.max_sysctl().to_owned(),
        is: is.map(|bytes| bytes.to_string()),
        wanted: window.to_string(),
        why: format!("to grant the requested window of {}", Bytes(window)),
    })
}

fn list_one_stream_needs(gap: &ClippedWindow, hosts: DirectionHosts) -> Vec<NeededSysctl> {
    let end = gap.end;
    let host = hosts.end(end);
    let why = format!(
        "so that {} can fill the path: 2 × BDP ({})",
        count_of(1, "stream"),
        format_duration(Duration::from_micros(gap.idle_rtt_us))
    );
    let need = |name: &str, is: Option<String>, wanted: String| NeededSysctl {
        place: end.place().to_owned(),
        host: gap.host.clone(),
        name: name.to_owned(),
        is,
        wanted,
        why: why.clone(),
    };
    let mut needs = Vec::new();
    if gap.clip.is_some() {
        let is = host.and_then(|h| end.max_bytes(h));
        needs.push(need(end.max_sysctl(), is.map(|b| b.to_string()), gap.wanted_bytes.to_string()));
    }
    let sizes = host.and_then(|h| end.autotuning_bytes(h));
    if sizes.is_none_or(|s| s[2] < gap.wanted_bytes) {
        let usual = USUAL_SIZES[usize::from(end == ScanEnd::Receiver)];
        let [least, default] = sizes.map_or(usual, |s| [s[0], s[1]]);
        let text = |most: u64| format!("{least} {default} {most}");
        needs.push(need(
            end.autotuning_sysctl(),
            sizes.map(|s| text(s[2])),
            text(gap.wanted_bytes),
        ));
    }
    needs
}

/// Sender and receiver of one direction; `None` without a report.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectionHosts<'a> {
    pub sender: Option<&'a HostFacts>,
    pub receiver: Option<&'a HostFacts>,
}

impl<'a> DirectionHosts<'a> {
    pub fn of(runs: &'a [ThroughputReport], forward: bool) -> DirectionHosts<'a> {
        let latest = runs
            .iter()
            .filter(|r| r.observation.forward == forward)
            .max_by(|a, b| a.run.id.cmp(&b.run.id));
        let ends = latest.map(|run| &run.observation.ends);
        DirectionHosts {
            sender: ends.map(|e| &e.sender.host),
            receiver: ends.map(|e| &e.receiver.host),
        }
    }

    pub fn end(&self, end: ScanEnd) -> Option<&'a HostFacts> {
        end.pick(self.sender, self.receiver)
    }

    /// Returns the host's name, or its role.
    pub fn name(&self, end: ScanEnd) -> String {
        let named = self.end(end).filter(|h| !h.name.is_empty());
        named.map_or_else(|| format!("the {}", end.place()), |h| h.name.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanEnd {
    Sender,
    Receiver,
}

impl ScanEnd {
    fn pick<T>(self, sender: T, receiver: T) -> T {
        match self {
            ScanEnd::Sender => sender,
            ScanEnd::Receiver => receiver,
        }
    }

    pub fn place(self) -> &'static str {
        self.pick("sender", "receiver")
    }

    /// Returns the sysctl that clips requested windows.
    pub fn max_sysctl(self) -> &'static str {
        self.pick("net.core.wmem_max", "net.core.rmem_max")
    }

    /// Returns the sysctl whose third value is the maximum of autotuned windows.
    pub fn autotuning_sysctl(self) -> &'static str {
        self.pick("net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem")
    }

    pub fn max_bytes(self, host: &HostFacts) -> Option<u64> {
        self.pick(host.wmem_max_bytes, host.rmem_max_bytes)
    }

    pub fn autotuning_bytes(self, host: &HostFacts) -> Option<[u64; 3]> {
        self.pick(host.tcp_wmem_bytes, host.tcp_rmem_bytes)
    }

    pub fn granted(self, cell: &ScanCell) -> Option<u64> {
        self.pick(cell.granted_send_bytes, cell.granted_receive_bytes)
    }

    /// Returns (requested, granted) of the fastest cell in which this host granted less than
    /// requested.
    pub fn clipped_window(self, cells: &[&ScanCell], forward: bool) -> Option<(u64, u64)> {
        let clipped = cells.iter().filter(|c| c.forward == forward).filter_map(|c| {
            let (asked, granted) = (c.setting.window_bytes?, self.granted(c)?);
            (granted < asked).then_some((cell_goodput(c), asked, granted))
        });
        let fastest = clipped.max_by(|a, b| a.0.total_cmp(&b.0));
        fastest.map(|(_, asked, granted)| (asked, granted))
    }
}
