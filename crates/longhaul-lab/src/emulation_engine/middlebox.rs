//! Middleboxes that rewrite the options of a TCP handshake.
//!
//! Source: RFC 9293, 7323, 2018; RFC 3449 and the practice of firewalls: a removed option becomes
//! as many NOPs, so that no length changes, and the checksum is corrected. Packets without SYN pass
//! unchanged: options that the handshake did not negotiate are not used.

use super::pooled_packet::{PooledPacket, TCP};
use crate::path_spec::OptionRewrite;

const SYN: u8 = 2;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;
/// The offsets of flags and checksum in the TCP header.
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const FIXED: usize = 20;

/// Combines the rewrites of two consecutive middleboxes.
pub(super) fn combine_rewrites(first: OptionRewrite, second: OptionRewrite) -> OptionRewrite {
    OptionRewrite {
        sack: first.sack || second.sack,
        window_scale: first.window_scale || second.window_scale,
        timestamps: first.timestamps || second.timestamps,
        clamp_mss: first.clamp_mss.into_iter().chain(second.clamp_mss).min(),
    }
}

/// Reports whether the packet's options are subject to rewriting.
pub(super) fn is_rewritable(packet: &PooledPacket, ip: &[u8]) -> bool {
    let flags = usize::from(packet.ip_header_bytes) + FLAGS;
    packet.protocol == TCP
        && !packet.fragment
        && packet.shape.segments == 1
        && ip.get(flags).is_some_and(|flags| flags & SYN != 0)
        && ip.len() >= usize::from(packet.ip_header_bytes) + FIXED
}

/// Rewrites a packet that [`is_rewritable`] it. With `is_summed` its checksum is complete; otherwise it
/// is the pseudo-header sum that a sender leaves to its device.
pub(super) fn rewrite_options(
    ip: &mut [u8],
    packet: &PooledPacket,
    rewrite: OptionRewrite,
    is_summed: bool,
) {
    let network = usize::from(packet.ip_header_bytes);
    let tcp = &mut ip[network..];
    let end = (usize::from(tcp[12] >> 4) * 4).min(tcp.len());
    if end < FIXED {
        return;
    }
    edit_options(&mut tcp[FIXED..end], rewrite);
    if !is_summed {
        return;
    }
    tcp[CHECKSUM..CHECKSUM + 2].fill(0);
    let length = tcp.len();
    let addresses = if packet.source.is_ipv4() { 12..20 } else { 8..40 };
    let pseudo = super::sum_pseudo_header(&ip[addresses], TCP, length);
    let value = !super::fold_sum(super::add_words(pseudo, &ip[network..]));
    ip[network + CHECKSUM..network + CHECKSUM + 2].copy_from_slice(&value.to_be_bytes());
}

fn edit_options(options: &mut [u8], rewrite: OptionRewrite) {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        if kind == 0 {
            return;
        }
        let length = match options.get(at + 1) {
            _ if kind == NOP => 1,
            Some(length) => usize::from(*length),
            None => return,
        };
        let least = if kind == NOP { 1 } else { 2 };
        if length < least || at + length > options.len() {
            return;
        }
        edit_option(&mut options[at..at + length], rewrite);
        at += length;
    }
}

fn edit_option(option: &mut [u8], rewrite: OptionRewrite) {
    let taken = match option[0] {
        SACK_PERMITTED => rewrite.sack,
        WINDOW_SCALE => rewrite.window_scale,
        TIMESTAMPS => rewrite.timestamps,
        _ => false,
    };
    if taken {
        return option.fill(NOP);
    }
    if let (MSS, Some(most), [_, _, high, low]) = (option[0], rewrite.clamp_mss, &mut *option) {
        let size = u16::from_be_bytes([*high, *low]).min(most);
        [*high, *low] = size.to_be_bytes();
    }
}
