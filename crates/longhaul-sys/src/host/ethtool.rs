//! Device settings reported by drivers: speed, offloads, rings, coalescing, queues, pause frames.
//!
//! Source: SIOCETHTOOL, `linux/ethtool.h`; of the calling thread's network namespace.
//! Errors: `Unsupported` (EOPNOTSUPP) if the driver does not report the setting, as loopback has no
//! rings; `NotFound` (ENODEV) if there is no such interface.
//! Wrong when: the speed is that of a virtual device; veth reports 10 Gbit/s regardless of its real
//! speed.

use super::network_interface::{build_ifreq, open_any_socket};
use crate::syscall::check_status;
use longhaul_model::units::Rate;
use std::io;
use std::os::fd::AsRawFd;

const GET_SPEED: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_COALESCING: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const SET_RINGS: u32 = 0x11;
const GET_PAUSE: u32 = 0x12;
const GET_CHANNELS: u32 = 0x3c;
/// Length of the longest structure used here, struct ethtool_drvinfo.
const WORDS: usize = 49;

/// A number or a switch that drivers report: one word of the structure of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthtoolReading {
    pub name: &'static str,
    command: u32,
    word: usize,
    /// The bits of which one is set if a switch is on; a number has none.
    switch: Option<u32>,
}

/// Size of the receive ring in descriptors.
pub const RX_RING: EthtoolReading = number("ring.rx", GET_RINGS, 5);
/// Size of the transmit ring in descriptors.
pub const TX_RING: EthtoolReading = number("ring.tx", GET_RINGS, 8);

/// Offloads, rings, interrupt coalescing, queues and Ethernet flow control. Rings and queues have
/// their limits first and then, in the same order, their values.
pub const READINGS: [EthtoolReading; 26] = [
    switch("feature.gro", 0x2b, 1),
    switch("feature.gso", 0x23, 1),
    EthtoolReading { switch: Some(1 << 15), ..switch("feature.lro", 0x25, 1) },
    switch("feature.rx_checksum", 0x14, 1),
    switch("feature.scatter_gather", 0x18, 1),
    switch("feature.tso", 0x1e, 1),
    switch("feature.tx_checksum", 0x16, 1),
    RX_RING,
    number("ring.rx_max", GET_RINGS, 1),
    TX_RING,
    number("ring.tx_max", GET_RINGS, 4),
    number("coalesce.rx_usecs", GET_COALESCING, 1),
    number("coalesce.rx_frames", GET_COALESCING, 2),
    number("coalesce.tx_usecs", GET_COALESCING, 5),
    number("coalesce.tx_frames", GET_COALESCING, 6),
    switch("coalesce.adaptive_rx", GET_COALESCING, 10),
    switch("coalesce.adaptive_tx", GET_COALESCING, 11),
    number("channels.rx_max", GET_CHANNELS, 1),
    number("channels.tx_max", GET_CHANNELS, 2),
    number("channels.combined_max", GET_CHANNELS, 4),
    number("channels.rx", GET_CHANNELS, 5),
    number("channels.tx", GET_CHANNELS, 6),
    number("channels.combined", GET_CHANNELS, 8),
    switch("pause.autoneg", GET_PAUSE, 1),
    switch("pause.rx", GET_PAUSE, 2),
    switch("pause.tx", GET_PAUSE, 3),
];

const fn number(name: &'static str, command: u32, word: usize) -> EthtoolReading {
    EthtoolReading { name, command, word, switch: None }
}

const fn switch(name: &'static str, command: u32, word: usize) -> EthtoolReading {
    EthtoolReading { name, command, word, switch: Some(u32::MAX) }
}

impl EthtoolReading {
    /// Returns the value at an interface: a number, `on` or `off`.
    pub fn query(self, interface: &str) -> io::Result<String> {
        let value = query_words(interface, self.command)?[self.word];
        Ok(match self.switch {
            None => value.to_string(),
            Some(bits) if value & bits != 0 => "on".to_owned(),
            Some(_) => "off".to_owned(),
        })
    }

    /// Sets the size of a ring; most drivers take the link down for a moment.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_ADMIN`, `InvalidInput` beyond the limit or for a reading
    /// that is not a ring.
    pub fn set_ring(self, interface: &str, size: u32) -> io::Result<()> {
        if self.command != GET_RINGS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut words = query_words(interface, GET_RINGS)?;
        words[0] = SET_RINGS;
        words[self.word] = size;
        exchange_words(interface, words).map(drop)
    }
}

/// Sends a command; all commands used here are structures of at most [`WORDS`] 32-bit words that
/// start with the command's number.
fn exchange_words(interface: &str, mut words: [u32; WORDS]) -> io::Result<[u32; WORDS]> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    let mut request = build_ifreq(interface).ok_or(io::ErrorKind::InvalidInput)?;
    let socket = open_any_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request and the words that it points to live for the call, and the words are
    // at least as many as the command's structure has; any bits make valid words.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    check_status(answer)?;
    Ok(words)
}

fn query_words(interface: &str, command: u32) -> io::Result<[u32; WORDS]> {
    let mut words = [0; WORDS];
    words[0] = command;
    exchange_words(interface, words)
}

/// Returns the speed of the link reported by the driver; absent for loopback and many virtual
/// interfaces.
pub fn link_speed(interface: &str) -> Option<Rate> {
    // struct ethtool_cmd: 16 bits of the speed at byte 12, the higher ones at byte 28.
    let words = query_words(interface, GET_SPEED).ok()?;
    let half = |word: u32| {
        let [a, b, _, _] = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([a, b]))
    };
    let megabits = half(words[7]) << 16 | half(words[3]);
    let unknown = matches!(megabits, 0 | 0xffff | u32::MAX);
    (!unknown).then(|| Rate::bits_per_second(u64::from(megabits) * 1_000_000))
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
    // The texts of struct ethtool_drvinfo start at its second word.
    let words = query_words(name, GET_DRIVER)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn find_reading(name: &str) -> EthtoolReading {
        READINGS.into_iter().find(|reading| reading.name == name).expect("it is listed")
    }

    #[test]
    fn loopback_has_features_but_no_driver_rings_or_queues() {
        assert_eq!(find_reading("feature.gso").query("lo").expect("GSO of lo"), "on");
        for name in ["ring.rx", "channels.rx", "pause.rx"] {
            let error = find_reading(name).query("lo").expect_err("not of lo");
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{name}");
        }
        assert!(find_reading("coalesce.rx_usecs").query("lo").is_err());
        assert!(RX_RING.set_ring("lo", 64).is_err());
    }

    #[test]
    fn an_interface_that_does_not_exist_is_told_as_that() {
        for name in ["no-such", "a-name-that-is-much-too-long-for-linux", ""] {
            assert!(query_driver(name).is_err());
            assert!(find_reading("feature.tso").query(name).is_err());
            assert_eq!(link_speed(name), None);
        }
        let missing = RX_RING.query("no-such").expect_err("no interface");
        assert_eq!(missing.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(link_speed("lo"), None);
    }

    #[test]
    fn a_text_of_a_driver_ends_at_its_zero() {
        assert_eq!(parse_padded_text(b"ixgbe\0\xff\xff"), "ixgbe");
        assert_eq!(parse_padded_text(b"N/A\0"), "");
        assert_eq!(parse_padded_text(b"whole"), "whole");
        assert_eq!(parse_padded_text(b""), "");
    }
}
