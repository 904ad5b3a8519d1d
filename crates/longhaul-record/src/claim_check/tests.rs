use super::*;
use crate::published_claim::{
    ClaimedBuffers, ClaimedDistance, ClaimedLeg, ClaimedMark, ClaimedTransfer,
};
use proptest::prelude::*;

fn checked(claim: &PublishedClaim) -> Vec<ClaimCheck> {
    check_claim(claim, &AirportTable::read()).unwrap().checks
}

fn of_transfer(transfer: ClaimedTransfer) -> Vec<ClaimCheck> {
    checked(&PublishedClaim { transfers: vec![transfer], ..PublishedClaim::default() })
}

fn verdicts(checks: &[ClaimCheck]) -> Vec<(&str, ClaimVerdict)> {
    checks.iter().map(|it| (it.check.as_str(), it.verdict)).collect()
}

#[test]
fn a_volume_that_differs_is_told_with_the_rate_and_the_time_that_it_needs() {
    let found = of_transfer(ClaimedTransfer {
        volume: Some("4.92 GB".into()),
        duration: Some("1001 s".into()),
        rate: Some("4222 Mbit/s".into()),
        ..ClaimedTransfer::default()
    });
    assert_eq!(verdicts(&found), [("volume", ClaimVerdict::Differs)]);
    let text = "the volume is 4.92 GB, but rate by duration is 528.278 GB: 523.358 GB \
                (-99.069 %) apart";
    assert_eq!(found[0].text, text);
    let remedy = found[0].remedy.as_deref().unwrap();
    assert!(remedy.starts_with("4.92 GB at 4222 Mbit/s take 9.323 s"), "{remedy}");
}

#[test]
fn of_three_counts_the_odd_one_is_named() {
    let found = of_transfer(ClaimedTransfer {
        volume: Some("498587.545600 MB".into()),
        duration: Some("638.740 s".into()),
        rate: Some("6244.876 Mbit/s".into()),
        buffers: Some(ClaimedBuffers {
            count: "113237.302".to_owned(),
            size: "4300 KiB".to_owned(),
        }),
        ..ClaimedTransfer::default()
    });
    let expected = [("volume", ClaimVerdict::Differs), ("volume", ClaimVerdict::Agrees)];
    assert_eq!(verdicts(&found), expected);
    assert!(found[0].text.contains("the volume is 498587.546 MB"), "{}", found[0].text);
    assert!(found[1].text.starts_with("buffers by their size and rate by duration agree"));
}

#[test]
fn a_volume_is_told_with_the_time_that_it_takes() {
    let time = of_transfer(ClaimedTransfer {
        volume: Some("585 GB".into()),
        duration: Some("30 min".into()),
        rate: Some("6.96 Gbit/s".into()),
        ..ClaimedTransfer::default()
    });
    let remedy = time[0].remedy.as_deref().unwrap();
    assert!(remedy.contains("take 11.207 min"), "{remedy}");
}

#[test]
fn streams_that_add_up_within_their_digits_agree() {
    let with = |rate: &str| {
        let found = of_transfer(ClaimedTransfer {
            rate: Some(rate.into()),
            streams: ["700.817 Mbit/s", "715.950 Mbit/s"].map(str::to_owned).to_vec(),
            ..ClaimedTransfer::default()
        });
        found[0].verdict
    };
    assert_eq!(with("1416.767 Mbit/s"), ClaimVerdict::Agrees);
    assert_eq!(with("1416.769 Mbit/s"), ClaimVerdict::Differs);
}

fn way(legs: &[(&str, &str, &str)], routers: &[&str], total: &str) -> PublishedClaim {
    let leg = |(from, to, length): &(&str, &str, &str)| ClaimedLeg {
        from: (*from).to_owned(),
        to: (*to).to_owned(),
        length: Some((*length).into()),
    };
    let distance = ClaimedDistance {
        totals: vec![total.to_owned()],
        legs: legs.iter().map(leg).collect(),
        routers: routers.iter().map(|it| (*it).to_owned()).collect(),
        points: None,
    };
    PublishedClaim { distance: Some(distance), ..PublishedClaim::default() }
}

#[test]
fn a_city_that_is_left_out_is_named() {
    let legs = [("Los Angeles", "Chicago", "2810 km"), ("Chicago", "Geneva", "7067 km")];
    let routers = ["Los Angeles", "Denver", "Chicago (ORD)", "Geneva"];
    let found = checked(&way(&legs, &routers, "9877 km"));
    let expected = [
        ("legs", ClaimVerdict::Agrees),
        ("routers", ClaimVerdict::Differs),
        ("points", ClaimVerdict::Agrees),
    ];
    assert_eq!(verdicts(&found), expected);
    assert_eq!(found[1].text, "a router is in Denver, and no leg begins or ends there");
}

#[test]
fn a_leg_that_is_no_geodesic_of_its_airports_asks_which_point_is_meant() {
    let found = checked(&way(&[("Chicago", "Geneva", "6800 km")], &[], "6800 km"));
    assert_eq!(verdicts(&found)[1], ("points", ClaimVerdict::Differs));
    let slightly = checked(&way(
        &[("Chicago", "Geneva", "7067 km"), ("Los Angeles", "Denver", "1300 km")],
        &[],
        "8367 km",
    ));
    assert_eq!(verdicts(&slightly)[1], ("points", ClaimVerdict::Loose));
}

#[test]
fn no_distance_is_longer_than_light_in_fibre_allows() {
    let with = |rtt: &str| {
        let mut claim = way(&[], &[], "28983 km");
        claim.rtt = Some(rtt.into());
        checked(&claim)[0].verdict
    };
    assert_eq!(with("436.6 ms"), ClaimVerdict::Agrees);
    assert_eq!(with("283 ms"), ClaimVerdict::Impossible);
}

fn mark(rate: &str, mark: ClaimedMark, distance: &str) -> Vec<ClaimCheck> {
    checked(&PublishedClaim {
        transfers: vec![ClaimedTransfer { rate: Some(rate.into()), ..ClaimedTransfer::default() }],
        mark: Some(mark),
        ..way(&[], &[], distance)
    })
}

#[test]
fn a_mark_is_the_product_of_what_was_measured() {
    let value = |text: &str| ClaimedMark { value: text.to_owned(), ..ClaimedMark::default() };
    let same = mark("2.38 Gbit/s", value("23888 Tb·m/s"), "10037 km");
    assert_eq!(same[0].verdict, ClaimVerdict::Agrees);
    let digits = mark("4222 Mbit/s", value("122.367 Pb·m/s"), "28983 km");
    assert_eq!(digits[0].verdict, ClaimVerdict::Loose);
    let other = mark("923 Mbit/s", value("9891.60 Tb·m/s"), "10978 km");
    assert_eq!(other[0].verdict, ClaimVerdict::Differs);
    let remedy = other[0].remedy.as_deref().unwrap();
    assert!(remedy.contains("10716.8 km") && remedy.contains("901.038 Mbit/s"), "{remedy}");
    let rounded = ClaimedMark { rate: Some("6.25 Gbit/s".into()), ..value("68431.25 Tb·m/s") };
    let rounded = mark("6244.876 Mbit/s", rounded, "10949 km");
    assert_eq!(rounded[0].verdict, ClaimVerdict::Differs);
    assert!(rounded[0].text.contains("68375.15 Tb·m/s (-0.08 %)"), "{}", rounded[0].text);
}

#[test]
fn a_gain_is_that_of_the_two_marks() {
    let with = |gain: &str| ClaimedMark {
        value: "122.367 Pb·m/s".to_owned(),
        previous: Some("104.5 Pb·m/s".into()),
        gain: Some(gain.into()),
        ..ClaimedMark::default()
    };
    let found = mark("4222 Mbit/s", with("17 %"), "28983 km");
    assert_eq!(verdicts(&found)[1], ("gain", ClaimVerdict::Agrees));
    assert!(found[1].text.contains("+17.1 %"), "{}", found[1].text);
    let found = mark("4222 Mbit/s", with("20 %"), "28983 km");
    assert_eq!(verdicts(&found)[1], ("gain", ClaimVerdict::Differs));
}

#[test]
fn a_field_that_is_no_figure_is_named() {
    let claim = PublishedClaim {
        transfers: vec![
            ClaimedTransfer::default(),
            ClaimedTransfer { rate: Some("fast".into()), ..ClaimedTransfer::default() },
        ],
        ..PublishedClaim::default()
    };
    let problem = check_claim(&claim, &AirportTable::read()).unwrap_err();
    assert!(problem.message.starts_with("transfers.2.rate "), "{problem}");
}

proptest! {
    #[test]
    fn any_figures_are_compared_or_refused(
        texts in prop::collection::vec("[0-9]{1,12}([.][0-9]{1,3})? (GB|s|min|Gbit/s|km|miles)", 6),
    ) {
        let text = |at: usize| texts.get(at).cloned();
        let claim = PublishedClaim {
            transfers: vec![ClaimedTransfer {
                volume: text(0),
                duration: text(1),
                rate: text(2),
                ..ClaimedTransfer::default()
            }],
            rtt: text(3),
            distance: Some(ClaimedDistance { totals: vec![text(4).unwrap(), text(5).unwrap()], ..ClaimedDistance::default() }),
            ..PublishedClaim::default()
        };
        if let Ok(found) = check_claim(&claim, &AirportTable::read()) {
            prop_assert!(found.checks.iter().all(|it| !it.text.is_empty()));
        }
    }
}
