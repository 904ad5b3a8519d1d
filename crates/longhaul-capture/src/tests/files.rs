//! Files there and back, cut off, and changed.

use super::packets::{SYN_OPTIONS, address, packet};
use crate::capture_reader::{CaptureDamage, CaptureReadError, CaptureReader, MAX_BLOCK_BYTES};
use crate::pcapng_writer::PcapngWriter;
use crate::{CaptureRecord, LINK_RAW};
use longhaul_model::report::v1::capture::CaptureInterface;
use proptest::prelude::*;

const AT_NS: u64 = 1_700_000_000_123_456_789;

fn interface() -> CaptureInterface {
    CaptureInterface {
        name: Some("wan0".to_owned()),
        link_type_number: LINK_RAW,
        snap_bytes: Some(128),
        filter: Some("tcp and port 5201".to_owned()),
        received_packets: None,
        dropped_packets: Some(3),
    }
}

fn file(packets: &[Vec<u8>]) -> Vec<u8> {
    let comments = ["run 7".to_owned(), "end: near".to_owned()];
    let mut writer = PcapngWriter::new(Some("longhaul 1"), &comments);
    writer.interface(&interface());
    for (number, bytes) in packets.iter().enumerate() {
        writer.packet(&CaptureRecord {
            interface: 0,
            link_type: LINK_RAW,
            at_ns: AT_NS + number as u64,
            original_bytes: 9000,
            outgoing: Some(number % 2 == 0),
            bytes,
        });
    }
    writer.statistics(0, AT_NS, &interface());
    writer.finish()
}

/// Packets with their times, and what ended the reading.
type Read = (Vec<(u64, Option<bool>, Vec<u8>)>, Option<CaptureDamage>);

fn read(file: &[u8]) -> Result<Read, CaptureReadError> {
    let mut reader = CaptureReader::open(file)?;
    let mut packets = Vec::new();
    while let Some(record) = reader.next_packet() {
        packets.push((record.at_ns, record.outgoing, record.bytes.to_vec()));
    }
    Ok((packets, reader.damage().cloned()))
}

fn syn() -> Vec<u8> {
    let (from, to) = (address("192.0.2.1:40001"), address("192.0.2.2:5201"));
    packet(from, to, false, &SYN_OPTIONS, &[])
}

#[test]
fn a_block_that_is_shorter_than_its_own_frame_is_damage() {
    for length in [0_u32, 7, 8, 11] {
        let mut section = vec![0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d];
        section.extend([0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 28]);
        // Information about a process, and a block of no known type.
        for kind in [0x8000_0001_u32, 0x7777] {
            let block = [kind.to_be_bytes(), length.to_be_bytes(), [0; 4], [0; 4]].concat();
            let (packets, damage) = read(&[&section[..], &block].concat()).expect("a section");
            assert!(packets.is_empty());
            assert_eq!(damage.map(|it| it.at_byte), Some(28), "{kind:#x} of {length} bytes");
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let written = file(&[syn(), vec![1, 2, 3], Vec::new()]);
    let mut reader = CaptureReader::open(&written[..]).expect("a capture");
    let mut found = Vec::new();
    while let Some(record) = reader.next_packet() {
        assert_eq!(record.original_bytes, 9000);
        found.push((record.at_ns, record.bytes.to_vec()));
    }
    let expected = [syn(), vec![1, 2, 3], Vec::new()];
    let expected: Vec<_> = (AT_NS..).zip(expected).collect();
    assert_eq!(found, expected);
    assert_eq!((reader.format(), reader.damage()), ("pcapng", None));
    assert_eq!(reader.file_info().interfaces, [interface()]);
    assert_eq!(reader.file_info().comments, ["run 7", "end: near"]);
    assert_eq!(reader.file_info().application.as_deref(), Some("longhaul 1"));
}

#[test]
fn a_classic_file_of_either_order_and_unit_is_read() {
    for (magic, part) in [(0xa1b2_c3d4_u32, 1000), (0xa1b2_3c4d, 1)] {
        for big in [false, true] {
            let word = |value: u32| {
                if big { value.to_be_bytes() } else { value.to_le_bytes() }
            };
            let words =
                |values: &[u32]| values.iter().flat_map(|it| word(*it)).collect::<Vec<u8>>();
            let mut file = words(&[magic, 0, 0, 0, 65_535, 1]);
            file.extend(words(&[10, 5, 3, 60]));
            file.extend([1, 2, 3]);
            let (packets, damage) = read(&file).expect("a capture");
            assert_eq!(packets, [(10_000_000_000 + 5 * part, None, vec![1, 2, 3])]);
            assert_eq!(damage, None);
            file.extend(words(&[11, 5, u32::MAX, 60]));
            let (packets, damage) = read(&file).expect("a capture");
            assert_eq!(packets.len(), 1);
            assert!(damage.expect("damage").why.contains("allowed"));
        }
    }
}

#[test]
fn what_is_no_capture_is_refused_and_says_why() {
    assert!(matches!(read(b""), Err(CaptureReadError::Empty)));
    for wrong in [&b"GIF"[..], b"GIF89a", &[0; 100]] {
        assert!(matches!(read(wrong), Err(CaptureReadError::NotACapture)), "{wrong:?}");
    }
}

#[test]
fn a_block_that_claims_much_is_not_believed() {
    let mut damaged = file(&[syn()]);
    let length = damaged.len();
    damaged.extend(6_u32.to_le_bytes());
    damaged.extend((MAX_BLOCK_BYTES as u32 + 4).to_le_bytes());
    damaged.extend([0; 24]);
    let (packets, damage) = read(&damaged).expect("a capture");
    let damage = damage.expect("damage");
    assert_eq!((packets.len(), damage.at_byte), (1, length as u64));
    assert!(damage.why.contains("allowed"), "{damage}");
}

proptest! {
    #[test]
    fn a_file_cut_anywhere_gives_what_is_before_the_cut(cut in 0_usize..400) {
        let whole = file(&[syn(), syn(), syn()]);
        let cut = cut.min(whole.len());
        println!("attack: tried 1");
        let Ok((packets, damage)) = read(&whole[..cut]) else {
            return Ok(());
        };
        let (all, _) = read(&whole).expect("a capture");
        prop_assert_eq!(&packets[..], &all[..packets.len()]);
        prop_assert!(damage.is_some() || cut == whole.len() || packets.len() <= 3);
    }

    #[test]
    fn changed_bytes_harm_nobody(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut changed = file(&[syn(), vec![0x45; 90], syn()]);
        for (place, byte) in changes {
            let place = place.index(changed.len());
            changed[place] = byte;
        }
        println!("attack: tried 1");
        if let Ok((packets, _)) = read(&changed) {
            prop_assert!(packets.iter().map(|it| it.2.len()).sum::<usize>() <= changed.len());
        }
    }
}
