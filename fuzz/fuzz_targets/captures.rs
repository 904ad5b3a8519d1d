//! Arbitrary bytes as a capture: no reader, decoder, analysis or anonymiser panics, and a copy is
//! always a sound file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_analysis::capture::Analyser;
use longhaul_probe::capture::anonymise;
use longhaul_probe::capture::decode;
use longhaul_probe::capture::read::Reader;
use longhaul_probe::capture::relabel;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::open(bytes) else {
        return;
    };
    let mut analyser = Analyser::default();
    let mut packets = 0_u64;
    while let Some(record) = reader.packet() {
        assert!(record.bytes.len() <= bytes.len());
        packets += 1;
        let (at_ns, link) = (record.at_ns, record.link_type);
        if let Some(packet) = decode::packet(at_ns, link, record.original_bytes, record.bytes) {
            analyser.take(&packet);
        }
    }
    let found = analyser.finish();
    assert!(found.flows.len() as u64 <= packets);
    let mut again = Reader::open(bytes).expect("it opened before");
    let mut copy = Vec::new();
    let done = anonymise::copy(&mut again, &mut copy).expect("memory");
    assert_eq!(done.packets + done.left_out, packets);
    let (anew, _) = relabel(bytes, Vec::new()).expect("it opened before");
    for written in [&copy, &anew] {
        let mut reader = Reader::open(&written[..]).expect("our own file");
        while reader.packet().is_some() {}
        assert_eq!(reader.damage(), None);
    }
});
