//! The lines that are printed before the first interval.

use std::fmt::Display;
use std::net::SocketAddr;

/// The server's separator line, above and below its greeting.
const RULE: &str = "-----------------------------------------------------------\n";

/// The first line of a client.
pub fn format_connecting(host: &str, port: u16) -> String {
    format!("Connecting to host {host}, port {port}\n")
}

/// The client's line for `-R`.
pub fn format_reverse(host: &str) -> String {
    format!("Reverse mode, remote host {host} is sending\n")
}

/// The line for one data stream.
pub fn format_connected(id: i64, local: SocketAddr, peer: SocketAddr) -> String {
    format!(
        "[{id:>3}] local {} port {} connected to {} port {}\n",
        local.ip().to_canonical(),
        local.port(),
        peer.ip().to_canonical(),
        peer.port()
    )
}

/// The lines of a server that waits for test number `count`, from 1.
pub fn format_listening(port: u16, count: u64) -> String {
    format!("{RULE}Server listening on {port} (test #{count})\n{RULE}")
}

/// The server's line for a new client.
pub fn format_accepted(peer: SocketAddr) -> String {
    format!(
        "Accepted connection from {}, port {}\n",
        peer.ip().to_canonical(),
        peer.port()
    )
}

/// The line for the time, with `-V`.
pub fn format_time(time: &str) -> String {
    format!("Time: {time}\n")
}

/// The line for the cookie, with `-V`; a zero byte at its end is omitted.
pub fn format_cookie(cookie: &[u8]) -> String {
    let text: String = cookie
        .iter()
        .take_while(|byte| **byte != 0)
        .flat_map(|byte| (*byte as char).escape_debug())
        .collect();
    format!("      Cookie: {text}\n")
}

/// The line for the MSS, with `-V` for TCP; `asked`: set by `-M`.
pub fn format_mss(bytes: u32, asked: bool) -> String {
    let whose = if asked { "" } else { " (default)" };
    format!("      TCP MSS: {bytes}{whose}\n")
}

/// The line for the requested rate, with `-V`.
pub fn format_target_bitrate(bps: u64) -> String {
    format!("      Target Bitrate: {bps}\n")
}

/// The client's line for the control connection's MSS, with `-V`.
pub fn format_control_mss(bytes: u32) -> String {
    format!("Control connection MSS {bytes}\n")
}

/// The condition that ends a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintedLimit {
    Seconds(u64),
    Bytes(u64),
    Blocks(u64),
}

/// The line before the first interval, with `-V`. `protocol` is `TCP` or `UDP`.
pub fn format_starting(
    protocol: &str,
    streams: u32,
    block_bytes: u64,
    (omit_s, limit): (u64, PrintedLimit),
    tos: u8,
) -> String {
    let (count, what): (&dyn Display, _) = match &limit {
        PrintedLimit::Seconds(seconds) => (seconds, "second test"),
        PrintedLimit::Bytes(bytes) => (bytes, "bytes to send"),
        PrintedLimit::Blocks(blocks) => (blocks, "blocks to send"),
    };
    format!(
        "Starting Test: protocol: {protocol}, {streams} streams, {block_bytes} byte blocks, \
         omitting {omit_s} seconds, {count} {what}, tos {tos}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_3_12() {
        let near: SocketAddr = "127.0.0.1:46316".parse().expect("an address");
        let far: SocketAddr = "[::ffff:127.0.0.1]:5501".parse().expect("an address");
        assert_eq!(
            format_connected(5, near, far),
            "[  5] local 127.0.0.1 port 46316 connected to 127.0.0.1 port 5501\n"
        );
        assert_eq!(
            format_listening(5501, 1),
            "-----------------------------------------------------------\n\
             Server listening on 5501 (test #1)\n\
             -----------------------------------------------------------\n"
        );
        assert_eq!(
            format_accepted(far),
            "Accepted connection from 127.0.0.1, port 5501\n"
        );
        assert_eq!(format_cookie(b"abc\0"), "      Cookie: abc\n");
        assert_eq!(
            format_mss(32_768, false),
            "      TCP MSS: 32768 (default)\n"
        );
        assert_eq!(
            format_starting("TCP", 2, 131_072, (1, PrintedLimit::Seconds(10)), 0),
            "Starting Test: protocol: TCP, 2 streams, 131072 byte blocks, omitting 1 seconds, \
             10 second test, tos 0\n"
        );
    }
}
