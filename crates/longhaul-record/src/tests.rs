//! Checks the claims of fixtures/records: the known errors are found, and no others.

use crate::RecordErrorKind;
use crate::airport_table::AirportTable;
use crate::claim_check::check_claim;
use crate::claims_file::read_claims;
use crate::published_claim::{CheckedClaim, ClaimVerdict};
use std::path::Path;

/// Returns everything that is not `agrees`, by claim.
const EXPECTED: &[(&str, &[(&str, ClaimVerdict)])] = &[
    (
        "caltech-2004.toml",
        &[
            ("volume", ClaimVerdict::Differs),
            ("routers", ClaimVerdict::Differs),
            ("points", ClaimVerdict::Loose),
            ("mark", ClaimVerdict::Differs),
        ],
    ),
    ("geant-2006.toml", &[("volume", ClaimVerdict::Differs)]),
    ("sc2002.toml", &[("mark", ClaimVerdict::Differs)]),
    ("slac-caltech-2003.toml", &[("volume", ClaimVerdict::Differs)]),
    (
        "sunet-2004.toml",
        &[
            ("volume", ClaimVerdict::Differs),
            ("distance_units", ClaimVerdict::Differs),
            ("mark", ClaimVerdict::Loose),
        ],
    ),
];

fn checked(file: &str) -> Vec<CheckedClaim> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/records"));
    let claims = read_claims(&folder.join(file)).expect("a claim");
    let airports = AirportTable::read();
    let checked = |claim| check_claim(&claim, &airports).expect("figures");
    claims.into_iter().map(checked).collect()
}

#[test]
fn every_slip_of_the_published_claims_is_found_and_no_other_one() {
    for (file, expected) in EXPECTED {
        let all = checked(file);
        let checks = all.iter().flat_map(|it| &it.checks);
        let found: Vec<(&str, ClaimVerdict)> = checks
            .filter(|it| it.verdict != ClaimVerdict::Agrees)
            .map(|it| (it.check.as_str(), it.verdict))
            .collect();
        assert_eq!(found, *expected, "{file}: {all:?}");
    }
}

#[test]
fn the_history_of_records_is_sound() {
    let all = checked("history.toml");
    assert_eq!(all.len(), 13);
    assert!(!all.iter().any(CheckedClaim::has_wrong_figure), "{all:?}");
    assert!(all.iter().all(|it| !it.checks.is_empty()));
}

#[test]
fn what_is_no_claim_is_refused_with_a_reason() {
    let folder = std::env::temp_dir().join(format!("longhaul-claims-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let refused = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("written");
        let fail = read_claims(&file).expect_err("refused");
        assert_eq!(fail.kind, RecordErrorKind::Input);
        fail.causes.join(" ")
    };
    assert!(refused("a.toml", "name = 3").contains("line 1"));
    assert!(refused("b.toml", "name = \"x\"\nspeed = \"1 bit/s\"").contains("speed"));
    assert!(refused("c.json", "{\"name\": \"x\", \"rtt\": 3}").contains("line 1"));
    assert!(refused("d.toml", "name = \"\\u001b[2J\"").contains("control characters"));
    assert!(refused("e.json", "[").contains("EOF"));
    assert!(read_claims(&folder).is_err());
    std::fs::remove_dir_all(&folder).expect("removed");
}
