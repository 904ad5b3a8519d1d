//! Kernel filters of raw sockets, which drop irrelevant packets before they are queued.

use super::IpFamily;
use crate::sockopt::set_option;
use socket2::{SockFilter, Socket};
use std::io;
use std::ops::RangeInclusive;

/// `linux/icmp.h`.
const ICMP_FILTER: i32 = 1;
/// `linux/icmpv6.h`.
const ICMPV6_FILTER: i32 = 1;
/// Echo reply, destination unreachable, time exceeded, parameter problem.
const ANSWERS_V4: [u8; 4] = [0, 3, 11, 12];
/// Destination unreachable, packet too big, time exceeded, parameter problem, echo reply.
const ANSWERS_V6: [u8; 5] = [1, 2, 3, 4, 129];

/// Passes only ICMP messages that answer a probe.
pub(super) fn filter_icmp_answers(socket: &Socket, family: IpFamily) -> io::Result<()> {
    // A set bit blocks the type.
    match family {
        IpFamily::V4 => {
            let passed = ANSWERS_V4.iter().fold(0_u32, |bits, kind| bits | 1 << kind);
            set_option(socket, libc::SOL_RAW, ICMP_FILTER, !passed)
        }
        IpFamily::V6 => {
            let mut blocked = [u32::MAX; 8];
            for kind in ANSWERS_V6 {
                blocked[usize::from(kind / 32)] &= !(1 << (kind % 32));
            }
            set_option(socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, blocked)
        }
    }
}

/// Passes only TCP segments to these ports, with a classic BPF program: a raw IPv4 socket gets
/// packets from the IP header on, an IPv6 one from the TCP header on.
pub(super) fn filter_tcp_ports(
    socket: &Socket,
    family: IpFamily,
    ports: &RangeInclusive<u16>,
) -> io::Result<()> {
    // BPF_LDX|BPF_B|BPF_MSH: X = 4 * (packet[0] & 15); BPF_LD|BPF_H|BPF_IND and |BPF_ABS;
    // BPF_JMP|BPF_JGE|BPF_K and |BPF_JGT; BPF_RET|BPF_K (linux/filter.h).
    let mut program = match family {
        IpFamily::V4 => vec![bpf_step(0xb1, 0, 0, 0), bpf_step(0x48, 0, 0, 2)],
        IpFamily::V6 => vec![bpf_step(0x28, 0, 0, 2)],
    };
    program.extend([
        bpf_step(0x35, 0, 2, u32::from(*ports.start())),
        bpf_step(0x25, 1, 0, u32::from(*ports.end())),
        bpf_step(0x06, 0, 0, u32::MAX),
        bpf_step(0x06, 0, 0, 0),
    ]);
    socket.attach_filter(&program)
}

const fn bpf_step(code: u16, jt: u8, jf: u8, k: u32) -> SockFilter {
    SockFilter::new(code, jt, jf, k)
}
