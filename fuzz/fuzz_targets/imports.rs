//! Arbitrary text as the output of another program, and as a firefly: no reader panics, what comes out keeps its
//! limits and steers no terminal, and conclusions can be drawn from it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_analysis::flow_analysis::conclude_flows;
use longhaul_analysis::imported::conclude_imported;
use longhaul_import::firefly::parse_firefly;
use longhaul_import::ss_snapshots::parse_ss_snapshots;
use longhaul_import::{FORMATS, ImportedResult, MAX_RESULTS, parse_output};
use longhaul_model::report::v1::flows::flow_grouping::group_flows;
use longhaul_model::report::v1::flows::{FlowsObservation, FlowsPlan};
use longhaul_model::report::v1::imported::ImportedObservation;
use longhaul_model::report::v1::observation::HostFacts;
use longhaul_model::sanitize::is_unsafe_char;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    // Beyond the last one the format is found by itself.
    let format = FORMATS.get(usize::from(first) % (FORMATS.len() + 1));
    take_firefly(rest);
    let text = String::from_utf8_lossy(rest);
    explain_snapshots(&text);
    let Ok(found) = parse_output(&text, format.copied()) else {
        return;
    };
    assert!((1..=MAX_RESULTS).contains(&found.len()));
    found.iter().for_each(check);
});

/// Takes the bytes as a datagram.
fn take_firefly(bytes: &[u8]) {
    let Ok(firefly) = parse_firefly(bytes) else {
        return;
    };
    let texts = [firefly.application, firefly.congestion_control, Some(firefly.scitag.name())];
    for text in texts.into_iter().flatten() {
        assert!(!text.contains(is_unsafe_char), "{text:?}");
    }
}

/// Explains the text as snapshots of connections.
fn explain_snapshots(text: &str) {
    let Ok(parsed) = parse_ss_snapshots(text, 1_000_000) else {
        return;
    };
    let transfers = group_flows(parsed.flows, &FlowsPlan::default(), &HostFacts::default());
    let observation = FlowsObservation { transfers, ..FlowsObservation::default() };
    for found in conclude_flows(&observation).findings {
        assert!(!found.summary.contains(is_unsafe_char), "{found:?}");
    }
}

fn check(one: &ImportedResult) {
    for found in conclude_imported(&one.observation).findings {
        assert!(!found.summary.contains(is_unsafe_char), "{found:?}");
    }
    assert!(one.observation.hops.len() <= 255);
    let texts = texts(&one.observation).into_iter().chain(&one.import_caveats);
    for text in texts {
        assert!(!text.contains(is_unsafe_char), "{text:?}");
    }
}

fn texts(seen: &ImportedObservation) -> Vec<&String> {
    let ends = [
        &seen.tool_version,
        &seen.command,
        &seen.near,
        &seen.far,
        &seen.far_address,
        &seen.protocol,
    ];
    let mut texts: Vec<&String> = ends.into_iter().flatten().collect();
    texts.extend(seen.streams.iter().map(|it| &it.name));
    texts.extend(seen.intervals.iter().filter_map(|it| it.stream.as_ref()));
    for hop in &seen.hops {
        texts.extend(hop.host.iter().chain(&hop.addresses));
    }
    for printed in &seen.printed {
        texts.extend([&printed.name, &printed.text]);
    }
    texts.extend(&seen.missing);
    texts
}
