//! Arbitrary text as a claim, a legs file or a manifest: no reader panics, claims can be checked,
//! and no name of a manifest leads out of its folder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_record::airport_table::AirportTable;
use longhaul_record::claim_check::check_claim;
use longhaul_record::{bundle_manifest, claims_file, legs_file};
use std::path::{Component, Path};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match first % 4 {
        0 => claimed(&text, false),
        1 => claimed(&text, true),
        2 => {
            if let Ok(legs) = legs_file::resolve_legs(&text) {
                assert!((2..=500).contains(&legs.stops.len()));
            }
        }
        _ => listed(rest),
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
