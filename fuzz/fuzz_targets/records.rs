//! Arbitrary text as a claim, a legs file or a manifest, and records of any transfer: no reader
//! panics, claims can be checked, no name of a manifest leads out of its folder, and what is
//! concluded from a transfer can be stored and read again.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use longhaul_fuzz::json_edits::edit_value;
use longhaul_record::airport_table::AirportTable;
use longhaul_record::claim_check::check_claim;
use longhaul_record::record_conclusion::conclude_record;
use longhaul_record::rule_sets::{find_rule_set, load_mark_history};
use longhaul_record::speed_record::{RecordAnalysis, RecordObservation, RecordStop};
use longhaul_record::{bundle_manifest, claims_file, legs_file};
use std::path::{Component, Path};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match first % 5 {
        0 => claimed(&text, false),
        1 => claimed(&text, true),
        2 => {
            if let Ok(legs) = legs_file::resolve_legs(&text) {
                assert!((2..=500).contains(&legs.stops.len()));
            }
        }
        3 => listed(rest),
        _ => concluded(rest),
    }
});

fn claimed(text: &str, is_json: bool) {
    let Ok(claims) = claims_file::parse_claims(text, is_json) else {
        return;
    };
    let airports = AirportTable::read();
    for claim in &claims {
        if let Ok(checked) = check_claim(claim, &airports) {
            assert!(checked.checks.iter().all(|it| !it.text.is_empty()));
        }
    }
}

fn listed(bytes: &[u8]) {
    let Ok(manifest) = bundle_manifest::parse_manifest(bytes) else {
        return;
    };
    for file in &manifest.files {
        let parts: Vec<Component> = Path::new(&file.name).components().collect();
        assert!(matches!(parts.as_slice(), [Component::Normal(_)]), "{}", file.name);
    }
}

/// A transfer over three cities, changed.
fn concluded(bytes: &[u8]) {
    let stop = |latitude, longitude| RecordStop {
        city: "a city".to_owned(),
        latitude,
        longitude,
        point: "as given".to_owned(),
    };
    let seen = RecordObservation {
        forward: true,
        transport: "tcp".to_owned(),
        ip_version: Some(4),
        streams: 1,
        received_bytes: 1 << 40,
        elapsed_us: 1 << 31,
        stops: vec![stop(34.0, -118.0), stop(46.2, 6.1), stop(-33.9, 151.2)],
        ..RecordObservation::default()
    };
    let mut value = serde_json::to_value(seen).expect("JSON");
    // At the end of the input, the transfer stays as it is by then.
    let _ = edit_value(&mut value, &mut Unstructured::new(bytes));
    let Ok(seen) = serde_json::from_value::<RecordObservation>(value) else {
        return;
    };
    let rules = find_rule_set(None).expect("the usual rules");
    let analysis = conclude_record(&seen, &rules, &load_mark_history());
    let stored = serde_json::to_string(&analysis).expect("JSON");
    serde_json::from_str::<RecordAnalysis>(&stored).unwrap_or_else(|e| panic!("{e}: {stored}"));
}
