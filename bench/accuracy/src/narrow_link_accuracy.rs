//! Accuracy of the narrow link's location: the rates of right answers and of wrong ones.
//!
//! Paths with one queue at a known place, drawn with silent, rate-limited and late hops; the bench
//! draws 400 for each place. The error of an answer is its width: the number of links beyond the
//! right one, as a share of the links of the path.
//! Units: ratios. Wrong when: real queues vary faster or more slowly than the model's sawtooth.

pub mod hop_case;

use super::{AccuracyRow, ErrorTally};
use hop_case::{HopCase, QueueLocation};
use longhaul_analysis::path::conclude_path;
use longhaul_model::report::v1::path::{NarrowLink, PathPlan, ProbeProtocol};
use longhaul_model::splitmix::SplitMix64;

/// Places of the narrow link, by the hop before it.
const PLACES: std::ops::Range<u8> = 0..8;
/// The number of cases for each place.
const CASES: usize = 50;
/// The number of cases without a queue, and of those with a queue on the return path.
const OTHERS: usize = 200;

/// The outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NarrowLinkAnswer {
    /// The right link, or a span with it: the share of the path's links that is wrongly included.
    Right(f64),
    WrongLink,
    /// No answer, or a span without the right link.
    Other,
}

pub fn evaluate_narrow_link(seed: u64) -> Vec<AccuracyRow> {
    let mut rng = SplitMix64::new(seed);
    let placed: Vec<NarrowLinkAnswer> = PLACES
        .flat_map(|after| std::iter::repeat_n(QueueLocation::Forward(after), CASES))
        .map(|queue| classify_answer(&mut rng, queue))
        .collect();
    let width = placed.iter().map(|answer| match answer {
        NarrowLinkAnswer::Right(width) => Some(*width),
        _ => None,
    });
    let wrong = placed.iter().map(|a| (*a == NarrowLinkAnswer::WrongLink).then_some(1.0));
    // The cases with the expected verdict count as answered, without an error.
    let mut expected = |method: &str, says: &dyn Fn(&mut SplitMix64) -> bool| {
        ErrorTally::of((0..OTHERS).map(|_| says(&mut rng).then_some(0.0))).row(method)
    };
    vec![
        ErrorTally::of(width).row("narrow link, right or in the span"),
        ErrorTally::of(wrong).row("narrow link, a wrong one named"),
        expected("narrow link, a policer: no queue", &|rng| {
            has_verdict(rng, QueueLocation::Policer, "none")
        }),
        expected("narrow link, no limit: no queue", &|rng| {
            has_verdict(rng, QueueLocation::None, "none")
        }),
        expected("narrow link, queue on the way back", &|rng| {
            let after = rng.below(8) as u8;
            has_verdict(rng, QueueLocation::Return(after), "return_path")
        }),
    ]
}

fn has_verdict(rng: &mut SplitMix64, queue: QueueLocation, verdict: &str) -> bool {
    let case = HopCase::draw(rng, queue);
    locate_narrow_link(rng, &case).is_some_and(|link| link.verdict == verdict)
}

fn locate_narrow_link(rng: &mut SplitMix64, case: &HopCase) -> Option<NarrowLink> {
    let observation = case.observation(rng.below(usize::MAX) as u64);
    conclude_path(&PathPlan::without_probes(ProbeProtocol::Udp), &observation, &[], None)
        .analysis
        .narrow_link
}

fn classify_answer(rng: &mut SplitMix64, queue: QueueLocation) -> NarrowLinkAnswer {
    let case = HopCase::draw(rng, queue);
    let found = locate_narrow_link(rng, &case);
    let ends = |link: &NarrowLink| link.after_ttl.zip(link.before_ttl);
    let Some(((after, before), (low, high))) = found.as_ref().and_then(ends).zip(case.truth())
    else {
        return NarrowLinkAnswer::Other;
    };
    if after <= low && high <= before {
        return NarrowLinkAnswer::Right(f64::from(before - after - 1) / f64::from(case.hops));
    }
    if before - after == 1 { NarrowLinkAnswer::WrongLink } else { NarrowLinkAnswer::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrow_link_is_found_and_no_other_is_named() {
        let rows = evaluate_narrow_link(8);
        let share = |at: usize| rows[at].answered as f64 / rows[at].cases as f64;
        for row in &rows {
            println!("{row:?}");
        }
        assert!(share(0) >= 0.95, "right: {:?}", rows[0]);
        assert!(rows[0].median_error_ratio < 0.01, "{:?}", rows[0]);
        assert!(share(1) <= 0.01, "wrong: {:?}", rows[1]);
        // A policer may drop most of the far end's few probes: then it is "cannot tell".
        assert!(share(2) >= 0.98, "{:?}", rows[2]);
        assert_eq!(rows[3].answered, rows[3].cases, "{:?}", rows[3]);
        assert!(share(4) >= 0.95, "{:?}", rows[4]);
    }
}
