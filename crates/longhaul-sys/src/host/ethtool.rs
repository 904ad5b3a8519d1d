//! Device settings reported by drivers: offloads, rings, coalescing, queues, pause frames.
//!
//! Source: SIOCETHTOOL, `linux/ethtool.h`; of the calling thread's network namespace.
//! Errors: `Unsupported` (EOPNOTSUPP) if the driver does not report the setting, as loopback has no
//! rings; `NotFound` (ENODEV) if there is no such interface.

use super::network_interface::{build_ifreq, open_ioctl_socket};
use crate::syscall::check_status;
use std::io;
use std::os::fd::AsRawFd;

const GET_DRIVER: u32 = 0x03;
const GET_COALESCING: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const SET_RINGS: u32 = 0x11;
const GET_PAUSE: u32 = 0x12;
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;
const FLAG_LRO: u32 = 1 << 15;

/// Sends a command; all commands used here are structures of 32-bit words that start with the
/// command's number. `N` must be the total length of the command's structure.
fn exchange_words<const N: usize>(name: &str, mut words: [u32; N]) -> io::Result<[u32; N]> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    let mut request = build_ifreq(name).ok_or(io::ErrorKind::InvalidInput)?;
    let socket = open_ioctl_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request and the words that it points to live for the call, and the words are
    // as many as the command's structure has; any bits make valid words.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    check_status(answer)?;
    Ok(words)
}

fn query_words<const N: usize>(name: &str, command: u32) -> io::Result<[u32; N]> {
    let mut words = [0; N];
    words[0] = command;
    exchange_words(name, words)
}

/// Driver of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriverInfo {
    pub name: String,
    /// Firmware version; empty if none.
    pub firmware: String,
    /// Bus address, such as `0000:3b:00.0`; empty for a virtual device.
    pub bus: String,
}

/// Reads the driver of an interface.
pub fn query_driver(name: &str) -> io::Result<DriverInfo> {
    // struct ethtool_drvinfo: 49 words; the texts start at the second.
    let words: [u32; 49] = query_words(name, GET_DRIVER)?;
    let bytes: Vec<u8> = words[1..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    Ok(DriverInfo {
        name: parse_padded_text(&bytes[..32]),
        firmware: parse_padded_text(&bytes[64..96]),
        bus: parse_padded_text(&bytes[96..128]),
    })
}

/// Parses a zero-terminated text; the drivers' "N/A" becomes empty.
fn parse_padded_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).trim().to_owned();
    if text == "N/A" { String::new() } else { text }
}

/// Work that the device or the stack takes off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadFeature {
    /// The device splits packets into segments.
    Tso,
    /// The stack splits packets as late as possible.
    Gso,
    /// The stack merges received segments.
    Gro,
    /// The device merges received segments.
    Lro,
    TxChecksum,
    RxChecksum,
    ScatterGather,
}

/// Returns whether a feature is on.
pub fn query_feature(name: &str, feature: OffloadFeature) -> io::Result<bool> {
    let (command, bit) = match feature {
        OffloadFeature::Tso => (0x1e, u32::MAX),
        OffloadFeature::Gso => (0x23, u32::MAX),
        OffloadFeature::Gro => (0x2b, u32::MAX),
        OffloadFeature::Lro => (GET_FLAGS, FLAG_LRO),
        OffloadFeature::TxChecksum => (0x16, u32::MAX),
        OffloadFeature::RxChecksum => (0x14, u32::MAX),
        OffloadFeature::ScatterGather => (0x18, u32::MAX),
    };
    // struct ethtool_value.
    let [_, value] = query_words::<2>(name, command)?;
    Ok(value & bit != 0)
}

/// Numbers of descriptors in the rings between host and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingSizes {
    pub rx: u32,
    pub rx_max: u32,
    pub tx: u32,
    pub tx_max: u32,
}

/// Reads the ring sizes of an interface.
pub fn query_rings(name: &str) -> io::Result<RingSizes> {
    // struct ethtool_ringparam: four limits, then four values; mini and jumbo between rx and tx.
    let [_, rx_max, _, _, tx_max, rx, _, _, tx] = query_words::<9>(name, GET_RINGS)?;
    Ok(RingSizes { rx, rx_max, tx, tx_max })
}

/// Sets the size of one or both rings; most drivers take the link down for a moment.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`, `InvalidInput` beyond the limit.
pub fn set_rings(name: &str, rx: Option<u32>, tx: Option<u32>) -> io::Result<()> {
    let mut words = query_words::<9>(name, GET_RINGS)?;
    words[0] = SET_RINGS;
    words[5] = rx.unwrap_or(words[5]);
    words[8] = tx.unwrap_or(words[8]);
    exchange_words(name, words).map(|_| ())
}

/// Interrupt coalescing: limits of time and packets before an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterruptCoalescing {
    pub rx_usecs: u32,
    pub rx_frames: u32,
    pub tx_usecs: u32,
    pub tx_frames: u32,
    pub adaptive_rx: bool,
    pub adaptive_tx: bool,
}

/// Reads the interrupt coalescing of an interface.
pub fn query_coalescing(name: &str) -> io::Result<InterruptCoalescing> {
    // struct ethtool_coalesce: 23 words.
    let words: [u32; 23] = query_words(name, GET_COALESCING)?;
    Ok(InterruptCoalescing {
        rx_usecs: words[1],
        rx_frames: words[2],
        tx_usecs: words[5],
        tx_frames: words[6],
        adaptive_rx: words[10] != 0,
        adaptive_tx: words[11] != 0,
    })
}

/// Numbers of a device's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounts {
    pub rx: u32,
    pub rx_max: u32,
    pub tx: u32,
    pub tx_max: u32,
    /// Queues that serve both directions.
    pub combined: u32,
    pub combined_max: u32,
}

/// Reads the queue numbers of an interface.
pub fn query_channels(name: &str) -> io::Result<QueueCounts> {
    // struct ethtool_channels: four limits, then four values, in the same order.
    let [_, rx_max, tx_max, _, combined_max, rx, tx, _, combined] =
        query_words::<9>(name, GET_CHANNELS)?;
    Ok(QueueCounts { rx, rx_max, tx, tx_max, combined, combined_max })
}

/// Ethernet flow control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PauseFrames {
    pub autoneg: bool,
    pub rx: bool,
    pub tx: bool,
}

/// Reads the pause frame settings of an interface.
pub fn query_pause_frames(name: &str) -> io::Result<PauseFrames> {
    // struct ethtool_pauseparam.
    let [_, autoneg, rx, tx] = query_words::<4>(name, GET_PAUSE)?;
    Ok(PauseFrames { autoneg: autoneg != 0, rx: rx != 0, tx: tx != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_features_but_no_driver_rings_or_queues() {
        assert!(query_feature("lo", OffloadFeature::Gso).expect("GSO of lo"));
        let unsupported = Some(libc::EOPNOTSUPP);
        assert_eq!(query_rings("lo").expect_err("no rings").raw_os_error(), unsupported);
        let queues = query_channels("lo").expect_err("no queues");
        assert_eq!(queues.raw_os_error(), unsupported);
        let pause = query_pause_frames("lo").expect_err("no pause frames");
        assert_eq!(pause.raw_os_error(), unsupported);
        assert!(query_coalescing("lo").is_err());
        assert!(set_rings("lo", Some(64), None).is_err());
    }

    #[test]
    fn an_interface_that_does_not_exist_is_told_as_that() {
        for name in ["no-such", "a-name-that-is-much-too-long-for-linux", ""] {
            assert!(query_driver(name).is_err());
            assert!(query_feature(name, OffloadFeature::Tso).is_err());
        }
        let missing = query_rings("no-such").expect_err("no interface");
        assert_eq!(missing.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn a_text_of_a_driver_ends_at_its_zero() {
        assert_eq!(parse_padded_text(b"ixgbe\0\xff\xff"), "ixgbe");
        assert_eq!(parse_padded_text(b"N/A\0"), "");
        assert_eq!(parse_padded_text(b"whole"), "whole");
        assert_eq!(parse_padded_text(b""), "");
    }
}
