//! Arbitrary text as a claim, a legs file or a manifest: no reader panics, claims can be checked,
//! and no name of a manifest leads out of its folder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_analysis::claim_check::check_claim;
use longhaul_analysis::claim_check::city_distance::{CityDistance, CityLocator};
use longhaul_import::{claims_text, legs_text, manifest_text};
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
            if let Ok(legs) = legs_text::parse_legs(&text) {
                assert!((2..=500).contains(&legs.stops.len()));
            }
        }
        _ => listed(rest),
    }
});

fn claimed(text: &str, is_json: bool) {
    let Ok(claims) = claims_text::parse_claims(text, is_json) else {
        return;
    };
    for claim in &claims {
        if let Ok(checked) = check_claim(claim, &Everywhere) {
            assert!(checked.checks.iter().all(|it| !it.text.is_empty()));
        }
    }
}

/// Knows every city that has a letter, so that distances are always compared.
struct Everywhere;

impl CityLocator for Everywhere {
    fn between(&self, from: &str, to: &str) -> Option<CityDistance> {
        let first = from.chars().next()?;
        let second = to.chars().next()?;
        Some(CityDistance {
            metres: f64::from(u32::from(first).abs_diff(u32::from(second))) * 1e4,
            points: "A-B".to_owned(),
        })
    }
}

fn listed(bytes: &[u8]) {
    let Ok(manifest) = manifest_text::parse_manifest(bytes) else {
        return;
    };
    for file in &manifest.files {
        let parts: Vec<Component> = Path::new(&file.name).components().collect();
        assert!(
            matches!(parts.as_slice(), [Component::Normal(_)]),
            "{}",
            file.name
        );
    }
}
