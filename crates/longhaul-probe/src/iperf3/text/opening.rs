//! What is printed before the first interval.

use std::fmt::Display;
use std::net::SocketAddr;

/// A server's rule, above and below its greeting.
const RULE: &str = "-----------------------------------------------------------\n";

/// A client's first line.
pub fn connecting(host: &str, port: u16) -> String {
    format!("Connecting to host {host}, port {port}\n")
}

/// A client's word on `-R`.
pub fn reverse(host: &str) -> String {
    format!("Reverse mode, remote host {host} is sending\n")
}

/// One data stream.
pub fn connected(id: i64, local: SocketAddr, peer: SocketAddr) -> String {
    format!(
        "[{id:>3}] local {} port {} connected to {} port {}\n",
        local.ip().to_canonical(),
        local.port(),
        peer.ip().to_canonical(),
        peer.port()
    )
}

/// A server that waits for its test number `count`, from 1.
pub fn listening(port: u16, count: u64) -> String {
    format!("{RULE}Server listening on {port} (test #{count})\n{RULE}")
}

/// A server's word on a client.
pub fn accepted(peer: SocketAddr) -> String {
    format!(
        "Accepted connection from {}, port {}\n",
        peer.ip().to_canonical(),
        peer.port()
    )
}

/// With `-V`.
pub fn time(time: &str) -> String {
    format!("Time: {time}\n")
}

/// With `-V`: a zero byte at its end is left out.
pub fn cookie(cookie: &[u8]) -> String {
    let text: String = cookie
        .iter()
        .take_while(|byte| **byte != 0)
        .flat_map(|byte| (*byte as char).escape_debug())
        .collect();
    format!("      Cookie: {text}\n")
}

/// With `-V`, of TCP; `asked`: by `-M`.
pub fn mss(bytes: u32, asked: bool) -> String {
    let whose = if asked { "" } else { " (default)" };
    format!("      TCP MSS: {bytes}{whose}\n")
}

/// With `-V`, where a rate is asked for.
pub fn target_bitrate(bps: u64) -> String {
    format!("      Target Bitrate: {bps}\n")
}

/// With `-V`, of a client.
pub fn control_mss(bytes: u32) -> String {
    format!("Control connection MSS {bytes}\n")
}

/// When a test is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Seconds(u64),
    Bytes(u64),
    Blocks(u64),
}

/// With `-V`, before the first interval. `protocol` is `TCP` or `UDP`.
pub fn starting(
    protocol: &str,
    streams: u32,
    block_bytes: u64,
    (omit_s, limit): (u64, Limit),
    tos: u8,
) -> String {
    let (count, what): (&dyn Display, _) = match &limit {
        Limit::Seconds(seconds) => (seconds, "second test"),
        Limit::Bytes(bytes) => (bytes, "bytes to send"),
        Limit::Blocks(blocks) => (blocks, "blocks to send"),
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
            connected(5, near, far),
            "[  5] local 127.0.0.1 port 46316 connected to 127.0.0.1 port 5501\n"
        );
        assert_eq!(
            listening(5501, 1),
            "-----------------------------------------------------------\n\
             Server listening on 5501 (test #1)\n\
             -----------------------------------------------------------\n"
        );
        assert_eq!(
            accepted(far),
            "Accepted connection from 127.0.0.1, port 5501\n"
        );
        assert_eq!(cookie(b"abc\0"), "      Cookie: abc\n");
        assert_eq!(mss(32_768, false), "      TCP MSS: 32768 (default)\n");
        assert_eq!(
            starting("TCP", 2, 131_072, (1, Limit::Seconds(10)), 0),
            "Starting Test: protocol: TCP, 2 streams, 131072 byte blocks, omitting 1 seconds, \
             10 second test, tos 0\n"
        );
    }
}
