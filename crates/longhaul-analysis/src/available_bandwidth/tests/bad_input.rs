//! Clock steps, lost trains, held-up senders, times that are no times: a reason, never a number.

use super::*;
use longhaul_model::report::v1::available::{EstimateVerdict, ProbeTrain};

fn spoilt(change: fn(&mut ProbeTrain)) -> AvailableEstimate {
    let (plan, probing) = run();
    let mut probing = probing.clone();
    probing.trains.iter_mut().for_each(change);
    forward(plan, probing)
}

fn is_refused(found: &AvailableEstimate, verdict: EstimateVerdict) {
    assert_eq!(found.verdict, verdict, "{found:?}");
    let figures = (found.capacity_bps, found.available_bps, found.available_interval_bps);
    assert_eq!(figures, (None, None, None));
}

#[test]
fn nothing_sent_and_nothing_received_are_no_answer() {
    let (plan, _) = run();
    is_refused(&forward(plan, DirectionProbing::default()), EstimateVerdict::NoAnswer);
    is_refused(&spoilt(|t| t.received_ns.fill(None)), EstimateVerdict::NoAnswer);
}

#[test]
fn on_loopback_nothing_is_said_to_be_free() {
    let (plan, probing) = run();
    let observation = AvailableObservation {
        loopback: true,
        forward: Some(probing.clone()),
        ..AvailableObservation::default()
    };
    let conclusion = conclude_available(plan, &observation);
    let found = conclusion.analysis.forward.unwrap();
    assert_eq!(found.verdict, EstimateVerdict::SenderLimited, "{found:?}");
    assert_eq!((found.available_bps, found.bucket), (None, None));
    assert!(conclusion.caveats.iter().any(|it| it.code == "loopback"));
}

#[test]
fn clocks_that_step_in_every_train_are_not_believed() {
    is_refused(&spoilt(|t| t.clock_step_ns = Some(-3_000_000)), EstimateVerdict::Disturbed);
}

#[test]
fn times_that_stand_still_or_run_backwards_are_not_believed() {
    is_refused(
        &spoilt(|t| t.received_ns.iter_mut().for_each(|r| *r = Some(7))),
        EstimateVerdict::Disturbed,
    );
    is_refused(&spoilt(|t| t.received_ns.reverse()), EstimateVerdict::Disturbed);
}

#[test]
fn a_clock_that_runs_at_another_speed_is_not_believed() {
    let found = spoilt(|t| {
        t.received_at_ns = t.received_at_ns / 10 * 12;
        t.received_ns.iter_mut().flatten().for_each(|ns| *ns = *ns / 10 * 12);
    });
    is_refused(&found, EstimateVerdict::Disturbed);
}

#[test]
fn lists_of_different_length_are_left_out() {
    is_refused(&spoilt(|t| t.received_ns.clear()), EstimateVerdict::Disturbed);
}

#[test]
fn heavy_loss_is_a_disturbance() {
    let found = spoilt(|t| {
        for (i, received) in t.received_ns.iter_mut().enumerate() {
            if i % 3 == 1 {
                *received = None;
            }
        }
    });
    is_refused(&found, EstimateVerdict::Disturbed);
}

#[test]
fn some_spoilt_trains_cost_only_their_weight() {
    let (plan, probing) = run();
    let mut some = probing.clone();
    for train in some.trains.iter_mut().step_by(7) {
        train.spoilt = Some(String::from("the session was interrupted"));
    }
    let (found, whole) = (forward(plan, some), forward(plan, probing.clone()));
    assert_eq!(found.verdict, EstimateVerdict::Estimated);
    let moved = found.available_bps.unwrap().abs_diff(whole.available_bps.unwrap());
    assert!(moved < 6_000_000, "{found:?} {whole:?}");
}

#[test]
fn extreme_numbers_are_survived() {
    let found = spoilt(|t| {
        t.sent_at_ns = u64::MAX / 2;
        t.received_at_ns = u64::MAX;
        t.packet_bytes = u32::MAX;
        t.micro_burst_packets = 0;
    });
    assert_eq!(found.available_bps, None);
}
