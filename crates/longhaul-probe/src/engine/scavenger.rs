//! A sender that yields: its streams are paced so that others on the path hardly feel them.
//!
//! The kernel's congestion control stays below and still answers loss; a thread beside the streams
//! reads their TCP_INFO and sets the pacing ceiling (SO_MAX_PACING_RATE) that [`control`] decides.
//! The packets also carry the lower-effort code point (RFC 8622), so that a network that knows it
//! can yield for us.

mod control;

use super::run::Shared;
use super::sockets::DataSocket;
use control::{Control, Reading};
use longhaul_model::units::Rate;
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_sys::{sockopt, tcp_info};
use std::time::{Duration, Instant};

/// Spacing of the readings: well below a round trip, and no closer than the least.
const TICKS_PER_RTT: u32 = 4;
const TICK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// The ceiling moves only when it would by more than this share: a call costs the socket's lock.
const LEAST_CHANGE: f64 = 0.01;
/// The kernel takes no less.
const LEAST_BPS: u64 = 1000;

/// Paces the streams until the run ends; `go` has been given when this is called.
pub(super) fn run(shared: &Shared) {
    let began = Instant::now();
    let mut control: Option<Control> = None;
    let mut ceiling = Rate::bits_per_second(0);
    let mut due = began;
    loop {
        let infos = infos(shared);
        if let Some(reading) = reading(&infos, began.elapsed()) {
            let control = control.get_or_insert_with(|| first(shared, &infos));
            let each = control.step(&reading).as_bps() / infos.len().max(1) as u64;
            let each = Rate::bits_per_second(each.max(LEAST_BPS));
            if moved(ceiling, each) {
                ceiling = each;
                set(shared, each);
            }
        }
        let rtt = infos.first().map_or(TICK.0, |info| info.rtt);
        due = Instant::now().max(due) + (rtt / TICKS_PER_RTT).clamp(TICK.0, TICK.1);
        if shared.wait_finished_until(due) {
            return;
        }
    }
}

fn infos(shared: &Shared) -> Vec<TcpInfo> {
    let sockets = shared.streams.iter().filter_map(|s| match &s.socket {
        DataSocket::Tcp(socket) => Some(socket),
        DataSocket::Udp(_) => None,
    });
    sockets.filter_map(|s| tcp_info::read(s).ok()).collect()
}

fn first(shared: &Shared, infos: &[TcpInfo]) -> Control {
    let segment = infos.iter().map(|info| info.send_mss_bytes).max();
    Control::new(segment.unwrap_or(0), infos.len(), shared.spec.idle_rtt)
}

/// All streams together; `None` before any of them has timed a round trip.
fn reading(infos: &[TcpInfo], now: Duration) -> Option<Reading> {
    let timed = infos.iter().filter(|info| !info.rtt.is_zero());
    let (mut sum, mut count) = (Duration::ZERO, 0u32);
    let mut least: Option<Duration> = None;
    for info in timed {
        sum += info.rtt;
        count += 1;
        let own = info
            .rtt_min
            .filter(|min| !min.is_zero())
            .unwrap_or(info.rtt);
        least = Some(least.map_or(own, |l| l.min(own)));
    }
    let bytes = infos.iter().filter_map(|info| info.bytes_acked);
    let retransmits = infos
        .iter()
        .map(|info| u64::from(info.retransmitted_segments));
    Some(Reading {
        now,
        rtt: sum / Some(count).filter(|&count| count > 0)?,
        rtt_min: least?,
        acked_bytes: bytes.sum(),
        retransmits: retransmits.sum(),
    })
}

fn moved(from: Rate, to: Rate) -> bool {
    let (from, to) = (from.as_bps() as f64, to.as_bps() as f64);
    (to - from).abs() > LEAST_CHANGE * from
}

/// A socket that refuses is one that is gone, and its own thread says so.
fn set(shared: &Shared, ceiling: Rate) {
    for stream in &shared.streams {
        let _ = sockopt::set_pacing_ceiling(&stream.socket, ceiling);
    }
}
