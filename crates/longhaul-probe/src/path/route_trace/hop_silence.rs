//! Interpretation of silent hops and repeated addresses.

use std::net::IpAddr;
use std::time::Duration;

/// Interval within which a router that answers once a second ignores further probes.
const LIMIT_PERIOD: Duration = Duration::from_millis(1000);
/// Maximum length of a detected router cycle.
const MAX_CYCLE: usize = 8;
/// Number of passes through a cycle that count as a loop.
const ROUNDS: usize = 3;

/// Outcome of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProbeFate {
    pub at: Duration,
    pub answered: bool,
}

/// Returns for each hop whether its silence looks like rate limiting, not like loss.
///
/// A hop is rate limited if it left a probe unanswered that was sent within a second of an answered
/// one, and some later hop answered all of its probes: those passed this hop.
///
/// Wrong when: only the return path from this hop loses packets; a few probes cannot reveal that.
pub(super) fn find_rate_limited_hops(hops: &[&[ProbeFate]]) -> Vec<bool> {
    let mut passed_behind = false;
    let mut limited = vec![false; hops.len()];
    for (fates, limited) in hops.iter().zip(&mut limited).rev() {
        *limited = passed_behind && skips_probes(fates);
        passed_behind |= fates.len() > 1 && fates.iter().all(|fate| fate.answered);
    }
    limited
}

fn skips_probes(fates: &[ProbeFate]) -> bool {
    let refused = fates.iter().filter(|fate| !fate.answered);
    refused.into_iter().any(|refused| {
        fates.iter().any(|fate| fate.answered && fate.at.abs_diff(refused.at) <= LIMIT_PERIOD)
    })
}

/// Returns whether the route ends in the third pass of a cycle of two to eight routers. One router
/// at several consecutive hops is no cycle: balancers and NATs cause that.
///
/// Ignores trailing hops that have not answered yet.
pub(super) fn is_loop(path: &[Option<IpAddr>]) -> bool {
    let answered = path.iter().rposition(Option::is_some);
    let path = &path[..answered.map_or(0, |last| last + 1)];
    (2..=MAX_CYCLE).any(|cycle| {
        let Some(from) = path.len().checked_sub(cycle * ROUNDS) else {
            return false;
        };
        let tail = &path[from..];
        let first = &tail[..cycle];
        first.iter().all(Option::is_some)
            && first.iter().any(|address| *address != first[0])
            && tail.chunks(cycle).all(|round| round == first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(letters: &str) -> Vec<Option<IpAddr>> {
        let address = |letter: u8| (letter != b'*').then(|| IpAddr::from([10, 0, 0, letter]));
        letters.bytes().map(address).collect()
    }

    #[test]
    fn a_cycle_is_a_loop_and_a_stutter_is_none() {
        for looping in ["abcbcbc", "abcdbcdbcd", "abcbcbc****"] {
            assert!(is_loop(&path(looping)), "{looping}");
        }
        for fine in ["", "abcdef", "aabbcc", "abbbbbbbbb", "abcbc", "ab*b*b*", "abcbcbcd"] {
            assert!(!is_loop(&path(fine)), "{fine}");
        }
    }

    fn fates(answers: &[(u64, bool)]) -> Vec<ProbeFate> {
        let fate = |(ms, answered): &(u64, bool)| ProbeFate {
            at: Duration::from_millis(*ms),
            answered: *answered,
        };
        answers.iter().map(fate).collect()
    }

    #[test]
    fn a_limit_is_told_from_loss_by_what_passed_the_hop() {
        let limited = fates(&[(0, true), (500, false), (1000, false)]);
        let whole = fates(&[(0, true), (500, true), (1000, true)]);
        let late = fates(&[(0, true), (1500, false), (3000, true)]);
        let refilled = fates(&[(0, false), (500, false), (1000, true)]);
        let silent = fates(&[(0, false), (500, false), (1000, false)]);
        assert_eq!(
            find_rate_limited_hops(&[&limited, &late, &silent, &refilled, &whole]),
            [true, false, false, true, false]
        );
        // No later hop answered all probes: it may be loss.
        assert_eq!(find_rate_limited_hops(&[&whole, &limited, &limited]), [false; 3]);
    }
}
