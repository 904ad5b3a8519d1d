//! Malformed and forged ICMP errors, for testing programs that parse them.
//!
//! The IP header and the ICMP checksum stay valid, so that kernels deliver the message; what it
//! says about the quoted packet is wrong, in a different way each time.

use super::router_icmp;
use super::seeded_random::SeededRandom;
use crate::path_spec::IcmpValidity;
use std::net::IpAddr;

/// The value that forged bytes are XORed with.
const FORGED: u8 = 0x5a;
/// The length of an IPv4 header without options, as quoted.
const V4: usize = 20;
const V6: usize = 40;

/// Turns the valid message in `out` into what a router with these `manners` sends.
pub(super) fn falsify_message(
    out: &mut Vec<u8>,
    manners: IcmpValidity,
    from: IpAddr,
    random: &mut SeededRandom,
) {
    let message = if from.is_ipv4() { V4 } else { V6 };
    match manners {
        IcmpValidity::Honest => return,
        IcmpValidity::Garbage => corrupt_message(out, message, random),
        IcmpValidity::Forged => forge_quote(&mut out[message + 8..], random),
    }
    router_icmp::finish_icmp_packet(out, message, from);
}

fn draw_below(random: &mut SeededRandom, count: u8) -> u8 {
    (random.uniform() * f64::from(count)) as u8
}

fn corrupt_message(out: &mut Vec<u8>, message: usize, random: &mut SeededRandom) {
    let quote = message + 8;
    match draw_below(random, 7) {
        0 => out.truncate(quote),
        1 => out.truncate(quote + V4 / 2),
        // A header of 60 bytes, mostly missing.
        2 => {
            out[quote] |= 0x0f;
            out.truncate(quote + V4 + 8);
        }
        // Neither IPv4 nor IPv6.
        3 => out[quote] = 0x95,
        // Extensions that begin after the end of the message.
        4 => out[message + 4..message + 6].fill(0xff),
        // Extensions with an object longer than the message.
        5 => {
            out.resize(quote + 128, 0);
            out[message + 5] = 32;
            out.extend_from_slice(&[0x20, 0, 0, 0, 0xff, 0xff, 1, 1, 0, 0]);
        }
        _ => out[quote..].fill_with(|| draw_below(random, 255)),
    }
}

/// Changes `quote`, an IP packet that was sent, into one that was not.
fn forge_quote(quote: &mut [u8], random: &mut SeededRandom) {
    let is_v4 = quote.first().is_some_and(|byte| byte >> 4 == 4);
    let (transport, destination) = if is_v4 { (V4, V4 - 1) } else { (V6, V6 - 1) };
    let words = match draw_below(random, 3) {
        // Another destination address.
        0 => destination..destination + 1,
        // Other ports; in ICMP another type.
        1 => transport..transport + 4,
        // Another sequence number; in ICMP another identifier.
        _ => transport + 4..transport + 8,
    };
    for byte in quote.iter_mut().take(words.end).skip(words.start) {
        *byte ^= FORGED;
    }
    if is_v4 && quote.len() >= V4 {
        super::write_ipv4_checksum(&mut quote[..V4]);
    }
}
