//! Accuracy of the narrow link's location: the rates of right answers and of wrong ones.
//!
//! Paths with one queue at a known place, drawn with silent, rate-limited and late hops; the bench
//! draws 400 for each place. The error of an answer is its width: the number of links beyond the
//! right one, as a share of the links of the path.
//! Units: ratios. Wrong when: real queues vary faster or more slowly than the model's sawtooth.

pub(crate) mod hop_case;

use super::{Row, row};
use crate::accuracy::rng::Rng;
use crate::path::conclude;
use hop_case::{HopCase, Queue};
use longhaul_model::report::v1::path::{NarrowLink, Plan, Protocol};

/// Places of the narrow link, by the hop before it.
const PLACES: std::ops::Range<u8> = 0..8;
/// The number of cases for each place.
const CASES: usize = 50;
/// The number of cases without a queue, and of those with a queue on the return path.
const OTHERS: usize = 200;

/// The outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    /// The right link, or a span with it: the share of the path's links that is wrongly included.
    Right(f64),
    WrongLink,
    WrongSpan,
    NotTold,
}

pub fn rows(seed: u64) -> Vec<Row> {
    let mut rng = Rng::new(seed);
    let placed: Vec<Answer> = PLACES
        .flat_map(|after| std::iter::repeat_n(Queue::Forward(after), CASES))
        .map(|queue| answer(&mut rng, queue))
        .collect();
    let width = placed.iter().filter_map(|answer| match answer {
        Answer::Right(width) => Some(*width),
        _ => None,
    });
    let wrong = placed.iter().filter(|a| **a == Answer::WrongLink);
    let quiet = |queue| move |rng: &mut Rng| said(rng, queue, "none");
    let back = |rng: &mut Rng| {
        let after = rng.below(8) as u8;
        said(rng, Queue::Return(after), "return_path")
    };
    vec![
        counted("narrow link, right or in the span", placed.len(), width),
        counted(
            "narrow link, a wrong one named",
            placed.len(),
            wrong.map(|_| 1.0),
        ),
        repeated(
            "narrow link, a policer: no queue",
            &mut rng,
            quiet(Queue::Policer),
        ),
        repeated(
            "narrow link, no limit: no queue",
            &mut rng,
            quiet(Queue::None),
        ),
        repeated("narrow link, queue on the way back", &mut rng, back),
    ]
}

fn counted(method: &'static str, cases: usize, errors: impl Iterator<Item = f64>) -> Row {
    Row {
        cases,
        ..row(method, errors.collect())
    }
}

/// Counts the cases with the expected verdict as answered, without an error.
fn repeated(method: &'static str, rng: &mut Rng, said: impl Fn(&mut Rng) -> bool) -> Row {
    let right = (0..OTHERS).filter(|_| said(rng)).map(|_| 0.0);
    counted(method, OTHERS, right.collect::<Vec<_>>().into_iter())
}

fn said(rng: &mut Rng, queue: Queue, verdict: &str) -> bool {
    let case = HopCase::draw(rng, queue);
    judged(rng, &case).is_some_and(|link| link.verdict == verdict)
}

fn judged(rng: &mut Rng, case: &HopCase) -> Option<NarrowLink> {
    let observation = case.observation(rng.below(usize::MAX) as u64);
    conclude(&Plan::of_nothing(Protocol::Udp), &observation, &[], None)
        .analysis
        .narrow_link
}

fn answer(rng: &mut Rng, queue: Queue) -> Answer {
    let case = HopCase::draw(rng, queue);
    let found = judged(rng, &case);
    let ends = |link: &NarrowLink| link.after_ttl.zip(link.before_ttl);
    let Some(((after, before), (low, high))) = found.as_ref().and_then(ends).zip(case.truth())
    else {
        return Answer::NotTold;
    };
    if after <= low && high <= before {
        return Answer::Right(f64::from(before - after - 1) / f64::from(case.hops));
    }
    if before - after == 1 {
        Answer::WrongLink
    } else {
        Answer::WrongSpan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrow_link_is_found_and_no_other_is_named() {
        let rows = rows(8);
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
