//! Tests of the headers of segmented packets.

use super::bench::*;
use super::packet_builder::{DraftTransport, PacketDraft};
use super::wire::{Segment, segments};
use crate::emulation_engine::{EmulationEngine, LabHost};
use crate::path_spec::LinkSpec;
use proptest::prelude::*;
use std::net::IpAddr;

fn ends(is_v6: bool) -> (IpAddr, IpAddr) {
    if is_v6 {
        (IpAddr::V6(LabHost::Near.address().v6), IpAddr::V6(LabHost::Far.address().v6))
    } else {
        near_to_far()
    }
}

/// Sends one super-packet over `path_spec` and returns the segments that arrive.
fn across(spec: LinkSpec, draft: &PacketDraft, payload: &[u8]) -> Vec<Segment> {
    let mut engine = EmulationEngine::new(&one_link(spec), 0);
    send(&mut engine, LabHost::Near, draft, payload, 0);
    let arrivals = collect(&mut engine, 100 * SECOND);
    assert_eq!(engine.packets_held(), 0);
    arrivals.iter().flat_map(segments).collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|k| (k * 7 + k / 251) as u8).collect()
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn however_a_packet_is_divided_its_bytes_arrive_once_and_in_order(
        len in 1usize..60_000,
        size in 200u16..9000,
        mbps in 1u64..10_000,
        is_v6: bool,
        is_tcp: bool,
        sequence: u32,
    ) {
        let (near, far) = ends(is_v6);
        let transport =
            if is_tcp { DraftTransport::Tcp { sequence, flags: 0x99 } } else { DraftTransport::Udp };
        let draft = PacketDraft { transport, segment_bytes: Some(size), ..PacketDraft::udp(near, far) };
        let payload = pattern(len);
        let whole = across(LinkSpec::default(), &draft, &payload);
        let divided = across(rate(mbps), &draft, &payload);
        prop_assert!(whole == divided);
        let bytes: Vec<u8> = divided.iter().flat_map(|it| it.payload.clone()).collect();
        prop_assert!(bytes == payload);
        if is_tcp {
            let last = divided.len() - 1;
            for (index, segment) in divided.iter().enumerate() {
                prop_assert_eq!(segment.flags & 0x09 == 0x09, index == last);
                prop_assert_eq!(segment.flags & 0x80 == 0x80, index == 0);
                let offset = (index * usize::from(size)) as u32;
                prop_assert_eq!(segment.sequence, sequence.wrapping_add(offset));
            }
        }
    }

    #[test]
    fn loss_takes_segments_out_and_leaves_the_others_whole(
        count in 1usize..44,
        loss in 0.0f64..1.0,
        seed: u64,
    ) {
        let mut spec = one_link(LinkSpec { loss, ..rate(5000) });
        spec.seed = seed;
        let mut engine = EmulationEngine::new(&spec, 0);
        send(&mut engine, LabHost::Near, &tcp(0), &pattern(count * 1448), 0);
        let arrivals = collect(&mut engine, SECOND);
        let got: Vec<Segment> = arrivals.iter().flat_map(segments).collect();
        let lost = engine.truth(SECOND).routes[0].hops[0].forward.drops.loss;
        prop_assert_eq!(got.len() as u64 + lost, count as u64);
        prop_assert_eq!(engine.packets_held(), 0);
        for segment in got {
            let at = segment.sequence as usize;
            prop_assert!(segment.payload[..] == pattern(count * 1448)[at..at + 1448]);
        }
    }
}

#[test]
fn hosts_on_ethernet_get_frames_for_their_own_address() {
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let mut engine = EmulationEngine::new(&one_link(delay(1)), 0).with_ethernet(macs);
    let mut packet = vec![0; 200];
    let len = udp().write(&mut packet, &[5; 40]);
    let space = engine.reserve();
    space[..10].copy_from_slice(&packet[..10]);
    space[6] += 14;
    space[10..22].fill(9);
    space[22..24].copy_from_slice(&[8, 0]);
    space[24..len + 14].copy_from_slice(&packet[10..len]);
    engine.accept(LabHost::Near, len + 14, 0);
    let frame = collect(&mut engine, SECOND).remove(0).frame;
    assert_eq!(frame[6], 34, "checksum start counts the Ethernet header");
    assert_eq!(frame[10..24], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0xfe, 8, 0]);
    assert_eq!(frame[24..], packet[10..len]);
}
