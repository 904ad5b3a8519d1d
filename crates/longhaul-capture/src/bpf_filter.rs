//! The capture filter: packets between two addresses and one port, as a classic BPF program for the
//! kernel and as text for users.
//!
//! A run's control connection uses the same port as its streams; it is recognised by its opener's
//! port and excluded. Fragments after the first have no ports and are not captured, nor are IPv6
//! packets with extension headers. Source: `linux/filter.h`, `linux/bpf_common.h`; RFC 791, 8200.

use longhaul_sys::netlink::address_octets;
use longhaul_sys::packet_ring::BpfInstruction;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The default snap length: enough for the IP and TCP headers with their options.
pub const HEADER_SNAP_BYTES: u32 = 128;

const TCP: u32 = 6;
const UDP: u32 = 17;

/// `BPF_LD` of a word, half-word or byte at a fixed offset; of a half-word at an offset from `X`.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_BEHIND_X: u16 = 0x48;
/// `X = 4 * (packet[k] & 15)`.
const X_IS_HEADER: u16 = 0xb1;
const AND: u16 = 0x54;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// The filter for the streams of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowFilter {
    pub udp: bool,
    /// Address of the peer that opens the streams.
    pub opener: IpAddr,
    /// Address and port that the streams connect to.
    pub listener: SocketAddr,
    /// The client port of the control connection, which is excluded.
    pub control_port: u16,
}

/// One condition on a packet: load a value and compare it.
struct FilterCondition {
    load: [Option<BpfInstruction>; 2],
    jump: u16,
    value: u32,
    /// The outcome of the comparison that lets the packet pass.
    wanted: bool,
}

impl FilterCondition {
    fn equal(load: BpfInstruction, value: u32) -> FilterCondition {
        FilterCondition { load: [Some(load), None], jump: IF_EQUAL, value, wanted: true }
    }

    fn not_equal(load: BpfInstruction, value: u32) -> FilterCondition {
        FilterCondition { wanted: false, ..FilterCondition::equal(load, value) }
    }

    fn length(&self) -> usize {
        self.load.iter().flatten().count() + 1
    }
}

const fn new_instruction(code: u16, k: u32) -> BpfInstruction {
    BpfInstruction { code, jt: 0, jf: 0, k }
}

impl FlowFilter {
    /// Returns the program. Packets begin at their IP header; the result is the bytes to keep.
    pub fn program(&self, snap_bytes: u32) -> Vec<BpfInstruction> {
        let ways = [self.direction_conditions(true), self.direction_conditions(false)];
        let header_length = self.load_header_length();
        let mut program = Vec::new();
        // When a common condition fails, the program jumps to its end, past both directions.
        let steps: usize = ways.iter().flatten().map(FilterCondition::length).sum();
        let behind = steps + ways.len() + header_length.iter().count();
        append_conditions(&mut program, &self.protocol_conditions(), behind);
        program.extend(header_length);
        for way in &ways {
            append_conditions(&mut program, way, 1);
            program.push(new_instruction(RETURN, snap_bytes));
        }
        program.push(new_instruction(RETURN, 0));
        program
    }

    /// Checks the IP version and protocol, and excludes fragments after the first.
    fn protocol_conditions(&self) -> Vec<FilterCondition> {
        let protocol = if self.udp { UDP } else { TCP };
        let version = |number: u32| FilterCondition {
            load: [Some(new_instruction(LOAD_BYTE, 0)), Some(new_instruction(AND, 0xf0))],
            jump: IF_EQUAL,
            value: number << 4,
            wanted: true,
        };
        match self.listener.ip() {
            IpAddr::V4(_) => vec![
                version(4),
                FilterCondition::equal(new_instruction(LOAD_BYTE, 9), protocol),
                FilterCondition {
                    load: [Some(new_instruction(LOAD_HALF, 6)), None],
                    jump: IF_ANY_BIT,
                    value: 0x1fff,
                    wanted: false,
                },
            ],
            IpAddr::V6(_) => {
                vec![version(6), FilterCondition::equal(new_instruction(LOAD_BYTE, 6), protocol)]
            }
        }
    }

    fn load_header_length(&self) -> Option<BpfInstruction> {
        self.listener.is_ipv4().then(|| new_instruction(X_IS_HEADER, 0))
    }

    /// Matches one direction: addresses and the listener's port, without the control connection.
    fn direction_conditions(&self, to_listener: bool) -> Vec<FilterCondition> {
        let (from, to) = if to_listener {
            (self.opener, self.listener.ip())
        } else {
            (self.listener.ip(), self.opener)
        };
        let source = if self.listener.is_ipv4() { 12 } else { 8 };
        let mut conditions = match_address(from, source);
        conditions.extend(match_address(to, source + address_length(from)));
        let port = |second: bool| {
            let at = if second { 2 } else { 0 };
            match self.listener {
                SocketAddr::V4(_) => new_instruction(LOAD_HALF_BEHIND_X, at),
                SocketAddr::V6(_) => new_instruction(LOAD_HALF, 40 + at),
            }
        };
        let listener_port = u32::from(self.listener.port());
        conditions.push(FilterCondition::equal(port(to_listener), listener_port));
        let control = u32::from(self.control_port);
        conditions.push(FilterCondition::not_equal(port(!to_listener), control));
        conditions
    }
}

fn address_length(address: IpAddr) -> u32 {
    if address.is_ipv4() { 4 } else { 16 }
}

fn match_address(address: IpAddr, at: u32) -> Vec<FilterCondition> {
    let bytes = address_octets(address);
    let words = bytes.as_chunks::<4>().0.iter().zip(0..);
    words
        .map(|(word, number)| {
            let load = new_instruction(LOAD_WORD, at + 4 * number);
            FilterCondition::equal(load, u32::from_be_bytes(*word))
        })
        .collect()
}

/// Appends the conditions in order. A failed one jumps over the rest and `behind` more steps.
fn append_conditions(
    program: &mut Vec<BpfInstruction>,
    conditions: &[FilterCondition],
    behind: usize,
) {
    let mut left: usize = conditions.iter().map(FilterCondition::length).sum();
    for condition in conditions {
        program.extend(condition.load.iter().flatten());
        left -= condition.length();
        // There are at most about sixty steps, so the offset fits.
        let over = u8::try_from(left + behind).unwrap_or(u8::MAX);
        let (jt, jf) = if condition.wanted { (0, over) } else { (over, 0) };
        program.push(BpfInstruction { jt, jf, ..new_instruction(condition.jump, condition.value) });
    }
}

impl fmt::Display for FlowFilter {
    /// Formats the filter in the syntax of pcap-filter(7).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.udp { "udp" } else { "tcp" };
        let (opener, listener) = (self.opener, self.listener.ip());
        let (port, control) = (self.listener.port(), self.control_port);
        write!(
            f,
            "{protocol} and ((src host {opener} and dst host {listener} and dst port {port} and not \
             src port {control}) or (src host {listener} and dst host {opener} and src port {port} \
             and not dst port {control}))"
        )
    }
}
