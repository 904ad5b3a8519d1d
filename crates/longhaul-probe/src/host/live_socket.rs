//! Effective settings, read from a live loopback connection.
//!
//! Wrong when: a limit belongs to the path's interface and not to the socket (a pacing queueing
//! discipline), which loopback does not have.

use super::error_text;
use longhaul_model::report::v1::host::EffectiveSetting;
use longhaul_model::units::Rate;
use longhaul_sys::sockopt::SockRef;
use longhaul_sys::tcp_transfer::UnconnectedTcp;
use longhaul_sys::{host, sockopt, tcp_info};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// The time limit for a growing window; larger windows are not measured.
const WINDOW_DEADLINE: Duration = Duration::from_millis(500);
/// The time without growth after which a window has reached its maximum.
const WINDOW_SETTLED_AFTER: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 256 << 10;
const MAX_CONTROLS: usize = 32;
/// The tested pacing ceiling: it exceeds 32 bits in bytes per second.
const PACING_BPS: u64 = 40_000_000_000;

/// A connection from this host to itself.
pub(super) struct LoopbackPair {
    near: TcpStream,
    far: TcpStream,
}

impl LoopbackPair {
    /// Connects, with the buffers that `prepare` sets before the handshake.
    pub fn connect(
        prepare: impl FnOnce(&UnconnectedTcp) -> io::Result<()>,
    ) -> io::Result<LoopbackPair> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let to = listener.local_addr()?;
        let socket = UnconnectedTcp::new(to)?;
        prepare(&socket)?;
        let near = socket.connect(CONNECT_DEADLINE)?;
        // The connection is already in the listener's queue, unless another one was faster.
        let (far, from) = listener.accept()?;
        if from != near.local_addr()? {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        Ok(LoopbackPair { near, far })
    }
}

/// Tests `pair`, whose buffers are the defaults, and another connection with the wanted buffers.
pub(super) fn test_settings(pair: &LoopbackPair, wanted_bytes: u64) -> Vec<EffectiveSetting> {
    let mut entries = test_buffers(wanted_bytes);
    entries.push(test_window_scale(pair, wanted_bytes));
    entries.extend(test_congestion_controls(pair));
    entries.push(test_pacing(pair));
    entries
}

fn compare_size(what: &str, asked: u64, got: io::Result<u64>) -> EffectiveSetting {
    EffectiveSetting {
        what: what.to_owned(),
        asked: asked.to_string(),
        granted: got.as_ref().is_ok_and(|&got| got >= asked),
        got: got.map_or_else(|error| error_text(&error), |got| got.to_string()),
    }
}

/// The kernel takes an int and doubles it.
fn test_buffers(wanted_bytes: u64) -> Vec<EffectiveSetting> {
    let asked = wanted_bytes.min(i32::MAX as u64 / 2);
    let pair = LoopbackPair::connect(|socket| {
        SockRef::from(socket).set_send_buffer_size(asked as usize)?;
        SockRef::from(socket).set_recv_buffer_size(asked as usize)
    });
    let pair = match pair {
        Ok(pair) => pair,
        Err(error) => return vec![compare_size("receive_buffer", asked, Err(error))],
    };
    let half = |stored: io::Result<usize>| stored.map(|stored| stored as u64 / 2);
    let send = half(SockRef::from(&pair.near).send_buffer_size());
    let receive = half(SockRef::from(&pair.near).recv_buffer_size());
    let mut entries = vec![
        compare_size("send_buffer", asked, send),
        compare_size("receive_buffer", asked, receive),
    ];
    if let Some(window) = measure_window(&pair, asked).transpose() {
        entries.push(compare_size("receive_window", asked, window));
    }
    entries
}

/// Returns the largest window up to `enough` that the near end advertises while everything is read
/// at once; `None` if it was still growing at the deadline, so that its maximum is unknown.
fn measure_window(pair: &LoopbackPair, enough: u64) -> io::Result<Option<u64>> {
    let begun = Instant::now();
    let mut grown = begun;
    let mut largest = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    while begun.elapsed() < WINDOW_DEADLINE {
        ignore_would_block((&pair.far).write(&chunk))?;
        while ignore_would_block((&pair.near).read(&mut chunk))? > 0 {}
        let info = tcp_info::read_tcp_info(&pair.far)?;
        let window = info.reading.peer_window_bytes;
        let window = window.ok_or(io::ErrorKind::Unsupported)?;
        if window > largest {
            largest = window;
            grown = Instant::now();
        }
        if largest >= enough || grown.elapsed() > WINDOW_SETTLED_AFTER {
            return Ok(Some(largest));
        }
    }
    Ok(None)
}

/// Treats `WouldBlock` as zero bytes.
fn ignore_would_block(count: io::Result<usize>) -> io::Result<usize> {
    match count {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

fn test_window_scale(pair: &LoopbackPair, wanted_bytes: u64) -> EffectiveSetting {
    let most = tcp_info::read_tcp_info(&pair.near).map(|info| {
        let shift = info.options.receive_window_shift.unwrap_or(0);
        u64::from(u16::MAX) << shift.min(14)
    });
    // The option counts 65535 units, so a window of 64 MiB lacks one; this is not a refusal.
    let enough = most.as_ref().is_ok_and(|most| most + (most >> 15) >= wanted_bytes);
    EffectiveSetting { granted: enough, ..compare_size("window_scale", wanted_bytes, most) }
}

fn test_congestion_controls(pair: &LoopbackPair) -> Vec<EffectiveSetting> {
    let all = host::read_setting("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    all.split_ascii_whitespace()
        .take(MAX_CONTROLS)
        .map(|name| test_congestion_control(pair, name))
        .collect()
}

fn test_congestion_control(pair: &LoopbackPair, name: &str) -> EffectiveSetting {
    let set = SockRef::from(&pair.near).set_tcp_congestion(name.as_bytes());
    let got = set.and_then(|()| sockopt::congestion_control(&pair.near));
    EffectiveSetting {
        what: "congestion_control".to_owned(),
        asked: name.to_owned(),
        granted: got.as_ref().is_ok_and(|got| got == name),
        got: got.unwrap_or_else(|error| error_text(&error)),
    }
}

fn test_pacing(pair: &LoopbackPair) -> EffectiveSetting {
    let ceiling = Rate::bits_per_second(PACING_BPS);
    let set = sockopt::set_pacing_ceiling(&pair.near, ceiling);
    let got = set.and_then(|()| sockopt::pacing_ceiling(&pair.near));
    EffectiveSetting {
        what: "pacing".to_owned(),
        asked: PACING_BPS.to_string(),
        granted: got.as_ref().is_ok_and(|got| *got == Some(ceiling)),
        got: match got {
            Ok(Some(rate)) => rate.as_bps().to_string(),
            Ok(None) => "no ceiling".to_owned(),
            Err(error) => error_text(&error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(entries: &'a [EffectiveSetting], what: &str) -> &'a EffectiveSetting {
        let found = entries.iter().find(|entry| entry.what == what);
        found.unwrap_or_else(|| panic!("{what} is among {entries:?}"))
    }

    fn number(entry: &EffectiveSetting) -> u64 {
        entry.got.parse().unwrap_or_else(|_| panic!("{entry:?}"))
    }

    #[test]
    fn a_small_buffer_is_granted_and_one_beyond_the_ceiling_is_not() {
        let pair = LoopbackPair::connect(|_| Ok(())).expect("loopback");
        let small = test_settings(&pair, 64 << 10);
        for what in ["send_buffer", "receive_buffer", "window_scale"] {
            let entry = entry(&small, what);
            assert!(entry.granted && number(entry) >= 64 << 10, "{entry:?}");
        }
        let ceiling = host::read_number("net.core.rmem_max").expect("rmem_max");
        let large = test_settings(&pair, ceiling + 4096);
        let receive = entry(&large, "receive_buffer");
        assert!(!receive.granted, "{receive:?}");
        assert_eq!(number(receive), ceiling);
    }

    #[test]
    fn the_congestion_control_in_force_can_be_asked_for() {
        let pair = LoopbackPair::connect(|_| Ok(())).expect("loopback");
        let entries = test_settings(&pair, 4096);
        let default = host::read_setting("net.ipv4.tcp_congestion_control").expect("default");
        let found = entries.iter().any(|entry| {
            entry.what == "congestion_control" && entry.asked == default && entry.granted
        });
        assert!(found, "{entries:?}");
        assert!(entry(&entries, "pacing").granted);
    }
}
