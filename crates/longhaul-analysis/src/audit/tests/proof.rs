use super::super::{affects_direction, evaluate_trials, has_helped};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::host::ProofTrial;
use proptest::prelude::*;

fn trial(changed: bool, forward: bool, bps: u64, limiter: Limiter) -> ProofTrial {
    ProofTrial {
        changed,
        forward,
        run_id: None,
        goodput_bps: Some(bps),
        limited_by: Some(limiter),
        error: None,
    }
}

fn abba(forward: bool, rates: [u64; 4], limiters: [Limiter; 2]) -> Vec<ProofTrial> {
    let states = [false, true, true, false];
    let trials = states.into_iter().zip(rates);
    trials
        .map(|(changed, bps)| trial(changed, forward, bps, limiters[usize::from(changed)]))
        .collect()
}

#[test]
fn a_window_that_was_lifted_is_kept() {
    let limiters = [Limiter::ReceiveWindow, Limiter::PathCapacity];
    let trials = abba(false, [3_200_000, 9_400_000, 9_300_000, 3_250_000], limiters);
    let proof = evaluate_trials(&trials).expect("trials");
    assert!(proof.kept, "{}", proof.text);
    let effect = &proof.directions[0];
    assert!(!effect.forward);
    let [low, high] = effect.gain_interval_ratio.expect("two runs of each kind");
    assert!(low < 2.9 && 2.9 < high && low > 2.5, "{low} {high}");
    assert_eq!(effect.limited_by_after, Limiter::PathCapacity);
}

#[test]
fn a_gain_within_the_scatter_is_not_kept() {
    let limiters = [Limiter::Loss; 2];
    let trials = abba(true, [100_000_000, 108_000_000, 103_000_000, 98_000_000], limiters);
    let proof = evaluate_trials(&trials).expect("trials");
    assert!(!proof.kept, "{}", proof.text);
    assert!(proof.text.contains("did not help"), "{}", proof.text);
}

#[test]
fn a_small_gain_far_beyond_the_scatter_is_kept() {
    let limiters = [Limiter::CpuReceiver; 2];
    let trials = abba(true, [1_000_000, 1_100_000, 1_101_000, 1_001_000], limiters);
    assert!(evaluate_trials(&trials).is_some_and(|proof| proof.kept));
    let less = abba(true, [1_000_000, 1_020_000, 1_020_100, 1_000_100], limiters);
    assert!(evaluate_trials(&less).is_some_and(|proof| !proof.kept), "2 % is too little");
}

#[test]
fn a_limiter_that_went_away_with_a_loss_of_goodput_is_no_gain() {
    let limiters = [Limiter::SendBuffer, Limiter::Loss];
    let trials = abba(true, [10_000_000, 7_000_000, 7_100_000, 10_000_000], limiters);
    assert!(evaluate_trials(&trials).is_some_and(|proof| !proof.kept));
}

#[test]
fn failed_runs_are_counted_and_a_direction_without_both_kinds_is_left_out() {
    assert_eq!(evaluate_trials(&[]), None);
    let mut trials = abba(true, [5, 6, 6, 5], [Limiter::Unknown; 2]);
    trials.truncate(1);
    trials.push(ProofTrial {
        error: Some(String::from("gone")),
        goodput_bps: None,
        limited_by: None,
        ..trial(true, true, 1, Limiter::Unknown)
    });
    let proof = evaluate_trials(&trials).expect("trials");
    assert!(proof.directions.is_empty() && !proof.kept);
    assert!(proof.text.contains("1 of 2 runs failed"), "{}", proof.text);
}

#[test]
fn settings_bear_on_the_side_that_uses_them() {
    let affected = |name| [true, false].map(|forward| affects_direction(name, forward));
    assert_eq!(affected("net.ipv4.tcp_rmem"), [false, true]);
    assert_eq!(affected("net.ipv4.tcp_wmem"), [true, false]);
    assert_eq!(affected("net.ipv4.tcp_sack"), [true, true]);
}

proptest! {
    #[test]
    fn no_rates_make_a_number_that_is_none(
        rates in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<u64>()), 0..12)
    ) {
        let trials: Vec<ProofTrial> = rates
            .into_iter()
            .map(|(changed, forward, bps)| trial(changed, forward, bps, Limiter::Unknown))
            .collect();
        for effect in evaluate_trials(&trials).into_iter().flat_map(|proof| proof.directions) {
            has_helped(&effect);
            if let Some([low, high]) = effect.gain_interval_ratio {
                prop_assert!(low.is_finite() && high.is_finite() && low <= high);
            }
        }
    }
}
