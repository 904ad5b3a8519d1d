//! Have the newest values just left the level, all to one side?
//!
//! Three values in a row beyond the usual, long before `levels` can be sure: a suspicion, which
//! [`super::watcher`] has confirmed or withdrawn.
//! Source: our own (docs/methods/detection.md). Units: of the quantity.
//! Error: up to 0.4 false ones in 1000 values of made series with busy hours and low values.
//! Wrong when: low values come in clumps, as with a busy host.

use super::{Change, Course, level, scale};
use crate::stats::quantile::median;
use longhaul_model::report::v1::quantity::Quantity;

/// Values in a row that raise it.
const RAISED_BY: usize = 3;
/// A level of fewer values than this before them is none to leave.
const LEAST_BEFORE: usize = 8;
/// Values of a level that are compared with.
const MOST_BEFORE: usize = 120;
/// Beyond so many standard deviations.
const BEYOND: f64 = 3.0;

/// The sudden change at the end of the series, where there is one.
///
/// Its place is the first of the run of values beyond; its score is how far beyond the least of the
/// last three lies.
pub fn sudden(course: &Course, quantity: Quantity) -> Option<Change> {
    let values = &course.scaled;
    let level_begin = course.levels.shifts.last().map_or(0, |shift| shift.at);
    let last = values.len().checked_sub(RAISED_BY)?;
    let begin = level_begin.max(last.saturating_sub(MOST_BEFORE));
    if last < begin + LEAST_BEFORE {
        return None;
    }
    let usual = median(values[begin..last].iter().copied())?;
    let reach = (BEYOND * course.levels.sigma).max(scale::sudden(quantity));
    let downwards = values[last] < usual;
    let distance = |value: &f64| {
        if downwards {
            usual - value
        } else {
            value - usual
        }
    };
    let least = values[last..].iter().map(distance).fold(f64::MAX, f64::min);
    if least <= reach {
        return None;
    }
    let run = values[begin..]
        .iter()
        .rev()
        .take_while(|v| distance(v) > reach);
    let at = values.len() - run.count();
    if at < begin + LEAST_BEFORE {
        return None;
    }
    let samples = &course.samples;
    Some(Change {
        sample: at,
        between_us: [samples[at - 1].last_us, samples[at].first_us],
        before: level(samples, begin..at),
        after: level(samples, at..samples.len()),
        score: least / reach,
        autocorrelation: course.levels.autocorrelation,
    })
}
