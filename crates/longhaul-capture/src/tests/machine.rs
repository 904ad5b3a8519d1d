//! The capture's filter, run in a small machine for classic BPF.

use super::packets::{address, packet};
use crate::bpf_filter::FlowFilter;
use longhaul_sys::packet_ring::BpfInstruction;
use proptest::prelude::*;

/// What the kernel does with a packet: how many bytes it keeps. Source: the kernel's document of
/// networking filters. Reading beyond the packet rejects it.
fn answer(program: &[BpfInstruction], packet: &[u8]) -> u32 {
    run(program, packet).unwrap_or(0)
}

fn run(program: &[BpfInstruction], packet: &[u8]) -> Option<u32> {
    let (mut a, mut x, mut at) = (0_u32, 0_u32, 0_usize);
    let load = |from: u32, bytes: usize| {
        let field = packet.get(from as usize..from as usize + bytes)?;
        Some(field.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte)))
    };
    loop {
        let step = program.get(at).expect("a program ends with an answer");
        at += 1;
        let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        match step.code {
            0x20 => a = load(step.k, 4)?,
            0x28 => a = load(step.k, 2)?,
            0x30 => a = load(step.k, 1)?,
            0x48 => a = load(x + step.k, 2)?,
            0xb1 => x = 4 * (load(step.k, 1)? & 15),
            0x54 => a &= step.k,
            0x15 => at += jump(a == step.k),
            0x45 => at += jump(a & step.k != 0),
            0x06 => return Some(step.k),
            other => panic!("no such instruction here: {other:#x}"),
        }
    }
}

fn filter(udp: bool, v6: bool) -> FlowFilter {
    let (opener, listener) =
        if v6 { ("2001:db8::1", "[2001:db8::2]:5201") } else { ("192.0.2.1", "192.0.2.2:5201") };
    FlowFilter {
        udp,
        opener: opener.parse().expect("an address"),
        listener: address(listener),
        control_port: 40_000,
    }
}

#[test]
fn own_streams_pass_both_ways_and_nothing_else_does() {
    for v6 in [false, true] {
        for udp in [false, true] {
            let at = |v4: &str, v6_text: &str| address(if v6 { v6_text } else { v4 });
            let opener = at("192.0.2.1:40001", "[2001:db8::1]:40001");
            let listener = at("192.0.2.2:5201", "[2001:db8::2]:5201");
            let control = at("192.0.2.1:40000", "[2001:db8::1]:40000");
            let other_port = at("192.0.2.2:5202", "[2001:db8::2]:5202");
            let other_host = at("192.0.2.3:5201", "[2001:db8::3]:5201");
            let filter = filter(udp, v6);
            let program = filter.program(128);
            let passes = |from, to| answer(&program, &packet(from, to, udp, &[], b"x"));
            for (from, to, expected) in [
                (opener, listener, 128),
                (listener, opener, 128),
                (control, listener, 0),
                (listener, control, 0),
                (opener, other_port, 0),
                (other_port, opener, 0),
                (opener, other_host, 0),
                (other_host, opener, 0),
            ] {
                assert_eq!(passes(from, to), expected, "{filter}: {from} > {to}");
            }
            let other_protocol = packet(opener, listener, !udp, &[], b"");
            assert_eq!(answer(&program, &other_protocol), 0);
        }
    }
}

#[test]
fn fragments_without_ports_do_not_pass_and_options_of_ip_do_not_confuse() {
    let program = filter(false, false).program(96);
    let (opener, listener) = (address("192.0.2.1:7"), address("192.0.2.2:5201"));
    let mut fragment = packet(opener, listener, false, &[], b"");
    fragment[7] = 3;
    assert_eq!(answer(&program, &fragment), 0);
    let plain = packet(opener, listener, false, &[], b"");
    let mut with_options = plain.clone();
    with_options[0] = 0x46;
    with_options.splice(20..20, [1, 1, 1, 0]);
    assert_eq!(answer(&program, &with_options), 96);
}

proptest! {
    #[test]
    fn the_program_ends_on_any_packet(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        udp in any::<bool>(), v6 in any::<bool>(),
    ) {
        let program = filter(udp, v6).program(64);
        prop_assert!(program.len() < 100);
        prop_assert!([0, 64].contains(&answer(&program, &bytes)));
    }
}
