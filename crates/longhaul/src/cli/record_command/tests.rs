//! Checks the claims of fixtures/records: the known errors are found, and no others.

use super::*;

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
    (
        "slac-caltech-2003.toml",
        &[("volume", ClaimVerdict::Differs)],
    ),
    (
        "slac-daresbury-2000.toml",
        &[("link", ClaimVerdict::Differs)],
    ),
    ("slac-sdsc-2001.toml", &[("window", ClaimVerdict::Differs)]),
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
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/records"
    ));
    let claims = claim_file::read_claims(&folder.join(file)).expect("a claim");
    let airports = AirportTable::read();
    let checked = |claim| claim_check::check_claim(&claim, &airports).expect("figures");
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
        assert_eq!(
            found,
            *expected,
            "{file}: {}",
            render::claim_text::render_claims(&all)
        );
    }
}

#[test]
fn the_history_of_records_is_sound() {
    let all = checked("history.toml");
    assert_eq!(all.len(), 13);
    assert!(
        !all.iter().any(has_wrong_figure),
        "{}",
        render::claim_text::render_claims(&all)
    );
    assert!(all.iter().all(|it| !it.checks.is_empty()));
}

#[test]
fn what_is_told_of_the_published_claims() {
    let told = |file: &str| {
        let text = anstream::adapter::strip_str(&render::claim_text::render_claims(&checked(file)))
            .to_string();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let sunet = told("sunet-2004.toml");
    for part in [
        "528.278 GB",
        "18009.2 miles",
        "122.367 Pb·m/s is +17.1 % beside 104.5 Pb·m/s, as printed: 17 %",
        "the round trip of 436.622 ms is 1.54 times that",
    ] {
        assert!(sunet.contains(part), "{part}: {sunet}");
    }
    let caltech = told("caltech-2004.toml");
    for part in [
        "18.966 MB",
        "Denver",
        "6244.877 Mbit/s",
        "IND-ORD",
        "1.60 times",
    ] {
        assert!(caltech.contains(part), "{part}: {caltech}");
    }
}

#[test]
fn what_is_no_claim_is_refused_with_a_reason() {
    let folder = std::env::temp_dir().join(format!("longhaul-claims-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let refused = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("written");
        let fail = claim_file::read_claims(&file).expect_err("refused");
        assert_eq!(fail.code, USAGE);
        fail.causes.join(" ")
    };
    assert!(refused("a.toml", "name = 3").contains("line 1"));
    assert!(refused("b.toml", "name = \"x\"\nspeed = \"1 bit/s\"").contains("speed"));
    assert!(refused("c.json", "{\"name\": \"x\", \"rtt\": 3}").contains("line 1"));
    assert!(refused("d.toml", "name = \"\\u001b[2J\"").contains("control characters"));
    assert!(refused("e.json", "[").contains("EOF"));
    assert!(claim_file::read_claims(&folder).is_err());
    std::fs::remove_dir_all(&folder).expect("removed");
}
