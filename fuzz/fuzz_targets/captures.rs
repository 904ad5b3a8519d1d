//! Arbitrary bytes as a capture: no reader, decoder or analysis panics, and a copy is always a
//! sound file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_analysis::capture_analysis::CaptureAnalyser;
use longhaul_analysis::flow_analysis::conclude_flows;
use longhaul_capture::capture_reader::CaptureReader;
use longhaul_capture::rewrite_capture;
use longhaul_model::report::v1::flows::flow_grouping::group_flows;
use longhaul_model::report::v1::flows::{FlowsObservation, FlowsPlan};
use longhaul_model::report::v1::observation::HostFacts;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = CaptureReader::open(bytes) else {
        return;
    };
    let mut analyser = CaptureAnalyser::default();
    let mut packets = 0_u64;
    while let Some(record) = reader.next_packet() {
        assert!(record.bytes.len() <= bytes.len());
        packets += 1;
        if let Some(packet) = record.decode() {
            analyser.add_packet(&packet);
        }
    }
    let found = analyser.finish();
    assert!(found.flows.len() as u64 <= packets);
    let host = HostFacts::default();
    let transfers = group_flows(found.series, &FlowsPlan::default(), &host);
    conclude_flows(&FlowsObservation { transfers, ..FlowsObservation::default() });
    let (anew, _) = rewrite_capture(bytes, &[]).expect("it opened before");
    let mut reader = CaptureReader::open(&anew[..]).expect("our own file");
    while reader.next_packet().is_some() {}
    assert_eq!(reader.damage(), None);
});
