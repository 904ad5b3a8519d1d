//! Arbitrary text as the output of another program: no reader panics, what comes out keeps its
//! limits and steers no terminal, and conclusions can be drawn from it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_analysis::imported::conclude_imported;
use longhaul_import::{FORMATS, ImportedResult, MAX_RESULTS, parse_output};
use longhaul_model::report::v1::imported::ImportedObservation;
use longhaul_model::sanitize::is_unsafe_char;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    // Beyond the last one the format is found by itself.
    let format = FORMATS.get(usize::from(first) % (FORMATS.len() + 1));
    let text = String::from_utf8_lossy(rest);
    let Ok(found) = parse_output(&text, format.copied()) else {
        return;
    };
    assert!((1..=MAX_RESULTS).contains(&found.len()));
    found.iter().for_each(check);
});

fn check(one: &ImportedResult) {
    conclude_imported(&one.observation);
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
