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

use crate::capture_reader::CaptureReader;
use crate::decode::{self, IpLayout};
use crate::pcapng_writer::PcapngWriter;
use crate::{CaptureRecord, LINK_RAW};
use etherparse::{IpNumber, Ipv4HeaderSlice};
use longhaul_model::report::v1::capture::CaptureInterface;
use longhaul_sys::netlink::address_octets;
use ring::hmac;
use ring::rand::SystemRandom;
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum number of cached addresses. Others are computed again, with the same result.
const MAX_CACHED_ADDRESSES: usize = 1 << 16;
/// The approximate size of the pieces in which the copy is written.
const PIECE_BYTES: u64 = 1 << 20;

/// The numbers of packets that were copied and left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnonymisedCounts {
    pub packets: u64,
    /// Packets that are not plain TCP or UDP over IP.
    pub omitted: u64,
}

/// Copies the readable packets of `from`.
///
/// # Errors
/// The kernel provides no random bytes, or `to` cannot be written.
pub fn copy_anonymised(
    from: &mut CaptureReader<'_>,
    to: &mut dyn Write,
) -> io::Result<AnonymisedCounts> {
    let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
        .map_err(|_| io::Error::other("the kernel provides no random bytes"))?;
    let mut mask = AddressMask::new(key);
    let comments = ["anonymised: addresses replaced, payload cut".to_owned()];
    let mut writer = PcapngWriter::new(Some(crate::APPLICATION), &comments);
    writer
        .interface(&CaptureInterface { link_type_number: LINK_RAW, ..CaptureInterface::default() });
    let mut done = AnonymisedCounts::default();
    while let Some(record) = from.next_packet() {
        match mask_headers(record.link_type, record.bytes, &mut mask) {
            Some((ip, link_bytes)) => {
                writer.packet(&CaptureRecord {
                    interface: 0,
                    link_type: LINK_RAW,
                    original_bytes: record.original_bytes.saturating_sub(link_bytes),
                    bytes: &ip,
                    ..record
                });
                done.packets += 1;
            }
            None => done.omitted += 1,
        }
        if writer.length() >= PIECE_BYTES {
            to.write_all(&writer.take())?;
        }
    }
    to.write_all(&writer.finish())?;
    Ok(done)
}

/// Returns the headers of a packet with replaced addresses, and the length of its link header.
fn mask_headers(link: u16, bytes: &[u8], mask: &mut AddressMask) -> Option<(Vec<u8>, u32)> {
    let ip = decode::find_ip_packet(link, bytes)?;
    let layout = decode::parse_ip_layout(ip).filter(|layout| !layout.has_extensions)?;
    // Accepts only complete headers: anything else is not understood well enough to be shared.
    decode::decode_packet(0, LINK_RAW, ip.len() as u32, ip)?;
    let mut copy = ip.get(..decode::count_header_bytes(ip))?.to_vec();
    replace_addresses(&mut copy, &layout, mask);
    zero_checksum(&mut copy, &layout);
    clean_options(&mut copy, &layout);
    let link_bytes = (bytes.len() - ip.len()) as u32;
    Some((copy, link_bytes))
}

fn replace_addresses(copy: &mut [u8], layout: &IpLayout, mask: &mut AddressMask) {
    let at = if layout.source.is_ipv4() { 12 } else { 8 };
    let mut both = address_octets(mask.map_address(layout.source));
    both.extend(address_octets(mask.map_address(layout.destination)));
    if let Some(place) = copy.get_mut(at..at + both.len()) {
        place.copy_from_slice(&both);
    }
    if let Ok(header) = Ipv4HeaderSlice::from_slice(copy) {
        let sum = header.to_header().calc_header_checksum();
        copy[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn zero_checksum(copy: &mut [u8], layout: &IpLayout) {
    let at = layout.header_bytes + if layout.protocol == IpNumber::TCP { 16 } else { 6 };
    if let Some(place) = copy.get_mut(at..at + 2) {
        place.fill(0);
    }
}

/// Replaces unknown TCP options by padding, because they may contain anything.
fn clean_options(copy: &mut [u8], layout: &IpLayout) {
    const KNOWN: [u8; 5] = [2, 3, 4, 5, 8];
    if layout.protocol != IpNumber::TCP {
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
pub struct AddressMask {
    key: hmac::Key,
    known: HashMap<IpAddr, IpAddr>,
}

impl AddressMask {
    pub fn new(key: hmac::Key) -> AddressMask {
        AddressMask { key, known: HashMap::new() }
    }

    pub fn map_address(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        let other = match address {
            IpAddr::V4(v4) => {
                let bits = self.map_bits(4, u128::from(v4.to_bits()) << 96, 32);
                IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32))
            }
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(self.map_bits(6, v6.to_bits(), 128))),
        };
        if self.known.len() < MAX_CACHED_ADDRESSES {
            self.known.insert(address, other);
        }
        other
    }

    /// Flips each bit or not, depending on a keyed hash of the bits before it.
    fn map_bits(&self, family: u8, bits: u128, length: u32) -> u128 {
        let mut other = bits;
        for place in 0..length {
            let before = if place == 0 { 0 } else { bits & (u128::MAX << (128 - place)) };
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
