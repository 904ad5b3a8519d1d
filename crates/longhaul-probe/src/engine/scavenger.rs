//! A scavenger sender: its streams are paced so that they hardly affect other traffic on the path.
//!
//! The kernel's congestion control stays active and still reacts to loss. A separate thread reads
//! the streams' TCP_INFO and sets the pacing ceiling (SO_MAX_PACING_RATE) that [`rate_control`]
//! computes. The packets also carry the lower-effort code point (RFC 8622), so that a network that
//! supports it can deprioritise them.

mod rate_control;

use super::end_run::EngineShared;
use super::sockets::DataSocket;
use longhaul_model::units::Rate;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::{self, TcpInfo};
use rate_control::{ScavengerControl, ScavengerReading};
use std::time::{Duration, Instant};

/// The readings per round trip, and the minimum and maximum interval between them.
const TICKS_PER_RTT: u32 = 4;
const TICK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// The minimum relative change of the ceiling: setting it takes the socket's lock.
const MIN_CHANGE: f64 = 0.01;
/// The minimum ceiling that the kernel accepts.
const MIN_BPS: u64 = 1000;

/// Paces the streams until the run ends; must be called after `go`.
pub(super) fn run(shared: &EngineShared) {
    let began = Instant::now();
    let mut control: Option<ScavengerControl> = None;
    let mut ceiling = Rate::bits_per_second(0);
    let mut due = began;
    loop {
        let infos = read_tcp_infos(shared);
        if let Some(reading) = combine_readings(&infos, began.elapsed()) {
            let control = control.get_or_insert_with(|| new_control(shared, &infos));
            let each = control.step(&reading).as_bps() / infos.len().max(1) as u64;
            let each = Rate::bits_per_second(each.max(MIN_BPS));
            if is_significant_change(ceiling, each) {
                ceiling = each;
                set_ceiling(shared, each);
            }
        }
        let rtt = infos.first().map_or(TICK.0, TcpInfo::rtt);
        due = Instant::now().max(due) + (rtt / TICKS_PER_RTT).clamp(TICK.0, TICK.1);
        if shared.wait_finished_until(due) {
            return;
        }
    }
}

fn read_tcp_infos(shared: &EngineShared) -> Vec<TcpInfo> {
    let sockets = shared.streams.iter().filter_map(|s| match &s.socket {
        DataSocket::Tcp(socket) => Some(socket),
        DataSocket::Udp(_) => None,
    });
    sockets.filter_map(|s| tcp_info::read_tcp_info(s).ok()).collect()
}

fn new_control(shared: &EngineShared, infos: &[TcpInfo]) -> ScavengerControl {
    let segment = infos.iter().map(|info| info.reading.mss_bytes as u32).max();
    ScavengerControl::new(segment.unwrap_or(0), infos.len(), shared.spec.idle_rtt)
}

/// Returns the reading of all streams; `None` before any of them has measured an RTT.
fn combine_readings(infos: &[TcpInfo], now: Duration) -> Option<ScavengerReading> {
    let timed: Vec<&TcpInfo> = infos.iter().filter(|info| !info.rtt().is_zero()).collect();
    let least =
        |info: &&TcpInfo| info.rtt_min().filter(|min| !min.is_zero()).unwrap_or_else(|| info.rtt());
    let rtt_min = timed.iter().map(least).min()?;
    let rtt = timed.iter().map(|info| info.rtt()).sum::<Duration>() / timed.len() as u32;
    let bytes = infos.iter().filter_map(|info| info.reading.bytes_acked);
    let retransmits = infos.iter().map(|info| info.reading.retransmitted_segments);
    Some(ScavengerReading {
        now,
        rtt,
        rtt_min,
        acked_bytes: bytes.sum(),
        retransmits: retransmits.sum(),
    })
}

fn is_significant_change(from: Rate, to: Rate) -> bool {
    let (from, to) = (from.as_bps() as f64, to.as_bps() as f64);
    (to - from).abs() > MIN_CHANGE * from
}

/// Sets the ceiling. A socket that refuses it is closed, and its own thread reports that.
fn set_ceiling(shared: &EngineShared, ceiling: Rate) {
    for stream in &shared.streams {
        let _ = sockopt::set_pacing_ceiling(&stream.socket, ceiling);
    }
}
