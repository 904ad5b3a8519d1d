//! Effective settings, read from a live loopback connection.
//!
//! Wrong when: a limit belongs to the path's interface and not to the socket (a pacing queueing
//! discipline), which loopback does not have.

use super::notes::reason;
use longhaul_model::report::v1::host::Effective;
use longhaul_model::units::Rate;
use longhaul_sys::host::sysctl;
use longhaul_sys::tcp::Unconnected;
use longhaul_sys::{poll, sockopt, tcp_info};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// The maximum number of other connections that may reach the listener first.
const STRANGERS_MAX: usize = 16;
/// The time limit for a growing window; larger windows are not measured.
const GROWING_DEADLINE: Duration = Duration::from_millis(500);
/// The time without growth after which a window has reached its maximum.
const GROWN_AFTER: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 256 << 10;
const MOST_CONTROLS: usize = 32;
/// The tested pacing ceiling: it exceeds 32 bits in bytes per second.
const PACING_BPS: u64 = 40_000_000_000;

/// A connection from this host to itself.
pub(super) struct Pair {
    near: TcpStream,
    far: TcpStream,
}

impl Pair {
    /// Connects, with the buffers that `prepare` sets before the handshake.
    pub fn connect(prepare: impl FnOnce(&Unconnected) -> io::Result<()>) -> io::Result<Pair> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let to = listener.local_addr()?;
        let socket = Unconnected::new(to)?;
        prepare(&socket)?;
        let near = socket.connect(to, CONNECT_DEADLINE)?;
        let far = accept(&listener, near.local_addr()?)?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        Ok(Pair { near, far })
    }
}

/// Accepts the connection from `peer` and closes others.
fn accept(listener: &TcpListener, peer: SocketAddr) -> io::Result<TcpStream> {
    for _ in 0..STRANGERS_MAX {
        let [ready] = poll::readable([listener.as_fd()], Some(CONNECT_DEADLINE))?;
        if !ready {
            break;
        }
        let (stream, from) = listener.accept()?;
        if from == peer {
            return Ok(stream);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Tests `pair`, whose buffers are the defaults, and another connection with the wanted buffers.
pub(super) fn try_out(pair: &Pair, wanted_bytes: u64) -> Vec<Effective> {
    let mut entries = buffers(wanted_bytes);
    entries.push(window_scale(pair, wanted_bytes));
    entries.extend(congestion_controls(pair));
    entries.push(pacing(pair));
    entries
}

fn of_size(what: &str, asked: u64, got: io::Result<u64>) -> Effective {
    Effective {
        what: what.to_owned(),
        asked: asked.to_string(),
        granted: got.as_ref().is_ok_and(|&got| got >= asked),
        got: got.map_or_else(|error| reason(&error), |got| got.to_string()),
    }
}

/// The kernel takes an int and doubles it.
fn buffers(wanted_bytes: u64) -> Vec<Effective> {
    let asked = wanted_bytes.min(i32::MAX as u64 / 2);
    let pair = Pair::connect(|socket| {
        sockopt::set_send_buffer(socket, asked as usize)?;
        sockopt::set_receive_buffer(socket, asked as usize)
    });
    let pair = match pair {
        Ok(pair) => pair,
        Err(error) => return vec![of_size("receive_buffer", asked, Err(error))],
    };
    let half = |stored: io::Result<usize>| stored.map(|stored| stored as u64 / 2);
    let send = half(sockopt::stored_send_buffer(&pair.near));
    let receive = half(sockopt::stored_receive_buffer(&pair.near));
    let mut entries = vec![
        of_size("send_buffer", asked, send),
        of_size("receive_buffer", asked, receive),
    ];
    if let Some(window) = largest_window(&pair, asked).transpose() {
        entries.push(of_size("receive_window", asked, window));
    }
    entries
}

/// Returns the largest window up to `enough` that the near end advertises while everything is read
/// at once; `None` if it was still growing at the deadline, so that its maximum is unknown.
fn largest_window(pair: &Pair, enough: u64) -> io::Result<Option<u64>> {
    let begun = Instant::now();
    let mut grown = begun;
    let mut largest = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    while begun.elapsed() < GROWING_DEADLINE {
        moved((&pair.far).write(&chunk))?;
        while moved((&pair.near).read(&mut chunk))? > 0 {}
        let info = tcp_info::read(&pair.far)?;
        let window = info.peer_window_bytes.map(u64::from);
        let window = window.ok_or(io::ErrorKind::Unsupported)?;
        if window > largest {
            largest = window;
            grown = Instant::now();
        }
        if largest >= enough || grown.elapsed() > GROWN_AFTER {
            return Ok(Some(largest));
        }
    }
    Ok(None)
}

/// Treats `WouldBlock` as zero bytes.
fn moved(count: io::Result<usize>) -> io::Result<usize> {
    match count {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

fn window_scale(pair: &Pair, wanted_bytes: u64) -> Effective {
    let most = tcp_info::read(&pair.near).map(|info| {
        let shift = if info.window_scaling {
            info.receive_window_shift
        } else {
            0
        };
        u64::from(u16::MAX) << shift.min(14)
    });
    // The option counts 65535 units, so a window of 64 MiB lacks one; this is not a refusal.
    let enough = most
        .as_ref()
        .is_ok_and(|most| most + (most >> 15) >= wanted_bytes);
    Effective {
        granted: enough,
        ..of_size("window_scale", wanted_bytes, most)
    }
}

fn congestion_controls(pair: &Pair) -> Vec<Effective> {
    let all = sysctl::read("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    all.split_ascii_whitespace()
        .take(MOST_CONTROLS)
        .map(|name| congestion_control(pair, name))
        .collect()
}

fn congestion_control(pair: &Pair, name: &str) -> Effective {
    let set = sockopt::set_congestion_control(&pair.near, name);
    let got = set.and_then(|()| sockopt::congestion_control(&pair.near));
    Effective {
        what: "congestion_control".to_owned(),
        asked: name.to_owned(),
        granted: got.as_ref().is_ok_and(|got| got == name),
        got: got.unwrap_or_else(|error| reason(&error)),
    }
}

fn pacing(pair: &Pair) -> Effective {
    let ceiling = Rate::bits_per_second(PACING_BPS);
    let set = sockopt::set_pacing_ceiling(&pair.near, ceiling);
    let got = set.and_then(|()| sockopt::pacing_ceiling(&pair.near));
    Effective {
        what: "pacing".to_owned(),
        asked: PACING_BPS.to_string(),
        granted: got.as_ref().is_ok_and(|got| *got == Some(ceiling)),
        got: match got {
            Ok(Some(rate)) => rate.as_bps().to_string(),
            Ok(None) => "no ceiling".to_owned(),
            Err(error) => reason(&error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(entries: &'a [Effective], what: &str) -> &'a Effective {
        let found = entries.iter().find(|entry| entry.what == what);
        found.unwrap_or_else(|| panic!("{what} is among {entries:?}"))
    }

    fn number(entry: &Effective) -> u64 {
        entry.got.parse().unwrap_or_else(|_| panic!("{entry:?}"))
    }

    #[test]
    fn a_small_buffer_is_granted_and_one_beyond_the_ceiling_is_not() {
        let pair = Pair::connect(|_| Ok(())).expect("loopback");
        let small = try_out(&pair, 64 << 10);
        for what in ["send_buffer", "receive_buffer", "window_scale"] {
            let entry = entry(&small, what);
            assert!(entry.granted && number(entry) >= 64 << 10, "{entry:?}");
        }
        let ceiling = sysctl::number("net.core.rmem_max").expect("rmem_max");
        let large = try_out(&pair, ceiling + 4096);
        let receive = entry(&large, "receive_buffer");
        assert!(!receive.granted, "{receive:?}");
        assert_eq!(number(receive), ceiling);
    }

    #[test]
    fn the_congestion_control_in_force_can_be_asked_for() {
        let pair = Pair::connect(|_| Ok(())).expect("loopback");
        let entries = try_out(&pair, 4096);
        let default = sysctl::read("net.ipv4.tcp_congestion_control").expect("default");
        let found = entries.iter().any(|entry| {
            entry.what == "congestion_control" && entry.asked == default && entry.granted
        });
        assert!(found, "{entries:?}");
        assert!(entry(&entries, "pacing").granted);
    }
}
