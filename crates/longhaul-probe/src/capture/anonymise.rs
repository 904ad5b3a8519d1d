//! Anonymised copies of captures, which can be shared.
//!
//! Addresses are replaced one to one. Two addresses that share a prefix still share a prefix of the
//! same length, and nothing else of them is kept (Xu et al. 2002, with HMAC-SHA-256 under a random
//! key that is not stored). Payload is cut. Link headers (with the MAC addresses), comments,
//! interface names and filters are left out, because they hold addresses. Checksums would allow
//! addresses to be guessed: that of IPv4 is recomputed, those of TCP and UDP are zeroed. Packets
//! that are not plain TCP or UDP over IP are left out and counted.
//!
//! Kept: times, sizes, ports, sequence numbers, TCP options.

use super::decode::{self, Layout};
use super::read::Reader;
use super::write::{Section, Writer};
use super::{LINK_RAW, Record};
use crate::secure::random;
use longhaul_model::report::v1::capture::CapturedOn;
use ring::hmac;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum number of cached addresses. Others are computed again, with the same result.
const MOST_REMEMBERED: usize = 1 << 16;
/// The approximate size of the pieces in which the copy is written.
const PIECE_BYTES: u64 = 1 << 20;

/// The numbers of packets that were copied and left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Anonymised {
    pub packets: u64,
    /// Packets that are not plain TCP or UDP over IP.
    pub left_out: u64,
}

/// Copies the readable packets of `from`.
///
/// # Errors
/// The kernel provides no random bytes, or `to` cannot be written.
pub fn copy<R: Read>(from: &mut Reader<R>, to: &mut dyn Write) -> io::Result<Anonymised> {
    let key = random::<32>().ok_or_else(|| io::Error::other("the kernel gives no random bytes"))?;
    let mut mask = Mask::new(&key);
    let section = Section {
        application: Some(format!("longhaul {}", env!("CARGO_PKG_VERSION"))),
        comments: vec!["anonymised: addresses replaced, payload cut".to_owned()],
    };
    let mut writer = Writer::new(Vec::new(), &section);
    writer.interface(&CapturedOn {
        link_type_number: LINK_RAW,
        ..CapturedOn::default()
    });
    let mut done = Anonymised::default();
    while let Some(record) = from.packet() {
        match masked(record.link_type, record.bytes, &mut mask) {
            Some((ip, link_bytes)) => {
                writer.packet(&Record {
                    interface: 0,
                    link_type: LINK_RAW,
                    original_bytes: record.original_bytes.saturating_sub(link_bytes),
                    bytes: &ip,
                    ..record
                });
                done.packets += 1;
            }
            None => done.left_out += 1,
        }
        if writer.length() >= PIECE_BYTES {
            to.write_all(&writer.take())?;
        }
    }
    to.write_all(&writer.finish())?;
    Ok(done)
}

/// Returns the headers of a packet with replaced addresses, and the length of its link header.
fn masked(link: u16, bytes: &[u8], mask: &mut Mask) -> Option<(Vec<u8>, u32)> {
    let ip = decode::network(link, bytes)?;
    let layout = decode::layout(ip).filter(|layout| !layout.extended)?;
    // Accepts only complete headers: anything else is not understood well enough to be shared.
    decode::packet(0, LINK_RAW, ip.len() as u32, ip)?;
    let mut copy = ip.get(..decode::header_bytes(ip))?.to_vec();
    replace_addresses(&mut copy, &layout, mask);
    hide_checksum(&mut copy, &layout);
    clean_options(&mut copy, &layout);
    let link_bytes = (bytes.len() - ip.len()) as u32;
    Some((copy, link_bytes))
}

fn replace_addresses(copy: &mut [u8], layout: &Layout, mask: &mut Mask) {
    let at = if layout.source.is_ipv4() { 12 } else { 8 };
    let octets = |address| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mut both = octets(mask.address(layout.source));
    both.extend(octets(mask.address(layout.destination)));
    if let Some(place) = copy.get_mut(at..at + both.len()) {
        place.copy_from_slice(&both);
    }
    if layout.source.is_ipv4() {
        copy[10..12].fill(0);
        let sum = checksum(&copy[..layout.header_bytes]);
        copy[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Returns the Internet checksum of `header` (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0.iter();
    let mut sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn hide_checksum(copy: &mut [u8], layout: &Layout) {
    let at = layout.header_bytes + if layout.protocol == 6 { 16 } else { 6 };
    if let Some(place) = copy.get_mut(at..at + 2) {
        place.fill(0);
    }
}

/// Replaces unknown TCP options by padding, because they may contain anything.
fn clean_options(copy: &mut [u8], layout: &Layout) {
    const KNOWN: [u8; 5] = [2, 3, 4, 5, 8];
    if layout.protocol != 6 {
        return;
    }
    let mut at = layout.header_bytes + 20;
    while let Some(&kind) = copy.get(at) {
        let length = match kind {
            0 => {
                copy[at..].fill(0);
                return;
            }
            1 => 1,
            _ => match copy.get(at + 1) {
                Some(&length) if length >= 2 => usize::from(length),
                _ => copy.len(),
            },
        };
        let end = at.saturating_add(length);
        if kind != 1 && (!KNOWN.contains(&kind) || end > copy.len()) {
            let until = end.min(copy.len());
            copy[at..until].fill(1);
        }
        at = end;
    }
}

/// A prefix-preserving mapping of addresses.
pub struct Mask {
    key: hmac::Key,
    known: HashMap<IpAddr, IpAddr>,
}

impl Mask {
    pub fn new(key: &[u8; 32]) -> Mask {
        Mask {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            known: HashMap::new(),
        }
    }

    pub fn address(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        let other = match address {
            IpAddr::V4(v4) => {
                let bits = self.bits(4, u128::from(v4.to_bits()) << 96, 32);
                IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32))
            }
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(self.bits(6, v6.to_bits(), 128))),
        };
        if self.known.len() < MOST_REMEMBERED {
            self.known.insert(address, other);
        }
        other
    }

    /// Flips each bit or not, depending on a keyed hash of the bits before it.
    fn bits(&self, family: u8, bits: u128, length: u32) -> u128 {
        let mut other = bits;
        for place in 0..length {
            let before = if place == 0 {
                0
            } else {
                bits & (u128::MAX << (128 - place))
            };
            let mut question = [0; 18];
            question[0] = family;
            question[1] = place as u8;
            question[2..].copy_from_slice(&before.to_be_bytes());
            let turn = hmac::sign(&self.key, &question).as_ref()[0] & 1;
            other ^= u128::from(turn) << (127 - place);
        }
        other
    }
}
