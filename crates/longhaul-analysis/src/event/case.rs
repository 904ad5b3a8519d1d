//! What do the reports around an event say of routes, rates, limiters and token buckets?
//!
//! Every cause looks at the event through this: states before and after, each with its own times.

use super::evidence::{Evidence, Place, Seen};
use super::turn::{self, Reading, Step, Turn};
use super::words;
use crate::diagnose::advice;
use crate::path::compare;
use crate::stats::quantile::median;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::{Bucket, BucketKind};
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::path::{ChangeKind, Route, RouteChange};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::{Path, Throughput};

/// A round trip that differs by less than both is the same: 2 ms and 5 %.
const RTT_STEP_US: f64 = 2_000.0;
const RTT_STEP_RATIO: f64 = 1.05;

/// An event and what is known around it.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub event: &'a Event,
    pub evidence: &'a Evidence<'a>,
}

/// A route became another.
pub struct Reroute<'a> {
    pub between_us: [i64; 2],
    pub before: &'a Route,
    pub after: &'a Route,
    pub change: RouteChange,
    pub lasted: bool,
    /// True: from the receiver to the sender.
    pub back: bool,
}

impl<'a> Case<'a> {
    pub fn tau_us(&self) -> f64 {
        turn::tau_us(self.evidence.period_us, self.evidence.quicker)
    }

    /// How near in time, 0 to 1.
    pub fn timing(&self, between_us: [i64; 2]) -> f64 {
        turn::timing(between_us, self.event.between_us, self.tau_us())
    }

    /// Turns of a row of readings, with those judged that lie near each.
    pub fn turns<T: Clone>(
        &self,
        readings: Vec<Reading<T>>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Vec<Turn<T>> {
        turn::turns(readings, (self.tau_us() * 2.0) as i64, same)
    }

    /// Level after by level before; of nothing, a great number.
    pub fn ratio(&self) -> f64 {
        let (before, after) = (self.event.before.median, self.event.after.median);
        let ratio = self.event.change_ratio.unwrap_or(after / before);
        if ratio.is_finite() { ratio } else { f64::MAX }
    }

    pub fn fell(&self) -> bool {
        self.event.after.median < self.event.before.median
    }

    /// Whether the change is to the worse; absent: neither way is.
    pub fn worse(&self) -> Option<bool> {
        self.event
            .quantity
            .more_is_better()
            .map(|more| more == self.fell())
    }

    pub fn is(&self, quantity: Quantity) -> bool {
        self.event.quantity == quantity
    }

    /// What bulk runs say: hosts and their settings bear on it.
    pub fn of_transfer(&self) -> bool {
        matches!(
            self.event.quantity,
            Quantity::Goodput | Quantity::Loss | Quantity::Retransmits
        )
    }

    /// Rates and losses: whatever a link does bears on them.
    pub fn of_link(&self) -> bool {
        self.of_transfer()
            || matches!(
                self.event.quantity,
                Quantity::Available | Quantity::Capacity
            )
    }

    /// The host at that end, by the name it has in the agent's file.
    pub fn host(&self, place: Place) -> String {
        words::quoted(match place {
            Place::Sender => &self.event.pair.from,
            Place::Receiver => &self.event.pair.to,
        })
    }

    /// The change of route that is nearest in time; one that lasted goes before one that did not.
    pub fn reroute(&self, back: bool) -> Option<Reroute<'a>> {
        let found = self.turns(self.routes(back), |a, b| same_route(b, a));
        let best = found
            .into_iter()
            .max_by(|a, b| self.rank(a).total_cmp(&self.rank(b)))?;
        let change = compare(best.to, best.from);
        Some(Reroute {
            between_us: best.between_us,
            before: best.from,
            after: best.to,
            change,
            lasted: best.lasted,
            back,
        })
    }

    /// Another route there near the event, for good: links on it are others.
    pub fn rerouted(&self) -> bool {
        let near = |turn: Reroute| turn.lasted && self.timing(turn.between_us) > 0.5;
        self.reroute(false).is_some_and(near)
    }

    /// Of several turns of one state: the nearest that lasted.
    pub fn rank<T>(&self, turn: &Turn<T>) -> f64 {
        self.timing(turn.between_us) + if turn.lasted { 1e-3 } else { 0.0 }
    }

    pub fn routes(&self, back: bool) -> Vec<Reading<&'a Route>> {
        let route = |seen: &Seen<'a, Path>| {
            let value = if back {
                seen.route_back()
            } else {
                seen.route()
            }?;
            Some(Reading {
                at_us: seen.at_us,
                value,
            })
        };
        let mut routes: Vec<_> = self.evidence.paths.iter().filter_map(route).collect();
        routes.sort_by_key(|reading| reading.at_us);
        let all = routes.clone();
        let mut place = 0..;
        routes.retain(|_| place.next().is_none_or(|i| !traced_in_mid_change(&all, i)));
        routes
    }

    /// The last route before the event and the first one after it.
    pub fn routes_beside(
        &self,
        back: bool,
    ) -> (Option<Reading<&'a Route>>, Option<Reading<&'a Route>>) {
        let routes = self.routes(back);
        let [begin, end] = self.event.between_us;
        let before = routes
            .iter()
            .filter(|r| r.at_us <= begin)
            .max_by_key(|r| r.at_us)
            .copied();
        let after = routes
            .iter()
            .filter(|r| r.at_us >= end)
            .min_by_key(|r| r.at_us)
            .copied();
        (before, after)
    }

    /// Least round trips of whatever measured them, in us.
    pub fn rtt(&self) -> Option<Step> {
        let evidence = self.evidence;
        let mut all: Vec<Reading<f64>> = Vec::new();
        let mut add = |at_us, us: Option<f64>| all.extend(us.map(|value| Reading { at_us, value }));
        // One source at a time: a connection's round trip is not an echo's.
        for point in &evidence.rtt {
            add(point.at_us, Some(point.value));
        }
        for seen in evidence.paths.iter().filter(|_| evidence.rtt.is_empty()) {
            add(seen.at_us, seen.rtt_us());
        }
        turn::step(all, self.event.between_us).or_else(|| self.rtt_of_runs())
    }

    fn rtt_of_runs(&self) -> Option<Step> {
        let idle = |seen: &Seen<'a, Throughput>| {
            let value = seen.direction()?.0.idle_rtt_us? as f64;
            Some(Reading {
                at_us: seen.at_us,
                value,
            })
        };
        turn::step(
            self.evidence.throughput.iter().filter_map(idle).collect(),
            self.event.between_us,
        )
    }

    /// The same, where it is more than noise.
    pub fn rtt_step(&self) -> Option<Step> {
        self.rtt().filter(|step| {
            (step.after - step.before).abs() >= RTT_STEP_US && step.beyond(RTT_STEP_RATIO)
        })
    }

    pub fn capacity(&self) -> Option<Step> {
        self.estimates(|estimate| estimate.capacity_bps)
    }

    pub fn available(&self) -> Option<Step> {
        self.estimates(|estimate| estimate.available_bps)
    }

    /// A step of the capacity is at least half of what available bandwidth lost or won with it; or,
    /// where that is known only since, half of what others use.
    ///
    /// Bursts on a link full of other traffic are held apart, so that it seems slower than it is.
    pub fn is_by_capacity(&self, capacity: Step) -> bool {
        let of_link = capacity.after - capacity.before;
        if let Some(available) = self.available() {
            let of_rest = available.after - available.before;
            return of_link * of_rest > 0.0 && of_link.abs() >= 0.5 * of_rest.abs();
        }
        self.available_since()
            .is_none_or(|left| of_link.abs() >= 0.5 * (capacity.after - left))
    }

    /// What looks since the event found available, their middle.
    pub fn available_since(&self) -> Option<f64> {
        let end = self.event.between_us[1];
        let seen = self.evidence.available.iter();
        let since = seen.filter(|seen| seen.at_us >= end);
        median(since.filter_map(|seen| Some(seen.estimate()?.available_bps? as f64)))
    }

    fn estimates(
        &self,
        figure: impl Fn(&longhaul_model::report::v1::available::Estimate) -> Option<u64>,
    ) -> Option<Step> {
        let reading = |seen: &Seen<'a, longhaul_model::report::v1::Available>| {
            let value = figure(seen.estimate()?)? as f64;
            Some(Reading {
                at_us: seen.at_us,
                value,
            })
        };
        turn::step(
            self.evidence.available.iter().filter_map(reading).collect(),
            self.event.between_us,
        )
    }

    /// Token buckets of this kind as looks at the path found them, or not; looks that cannot tell
    /// are left out.
    ///
    /// A short look passes within the burst. That it finds none counts where the path gave more than
    /// on the other side of the event.
    pub fn buckets(&self, kind: BucketKind) -> Vec<Reading<Option<&'a Bucket>>> {
        let [begin, end] = self.event.between_us;
        let better = |at_us| match self.worse() {
            Some(true) => at_us <= begin,
            Some(false) => at_us >= end,
            None => true,
        };
        let reading = |seen: &Seen<'a, longhaul_model::report::v1::Available>| {
            let estimate = seen.estimate()?;
            let found = estimate
                .bucket
                .as_ref()
                .filter(|bucket| bucket.kind == kind);
            let long = seen.report.plan.shaper_time_us.is_some();
            let short = estimate.capacity_bps.is_some() && better(seen.at_us);
            (found.is_some() || long || short).then_some(Reading {
                at_us: seen.at_us,
                value: found,
            })
        };
        self.evidence.available.iter().filter_map(reading).collect()
    }

    /// What bulk runs were limited by.
    pub fn limiters(&self) -> Vec<Reading<Limiter>> {
        let reading = |seen: &Seen<'a, Throughput>| {
            let value = seen.direction()?.1.limited_by;
            Some(Reading {
                at_us: seen.at_us,
                value,
            })
        };
        let known = |r: &Reading<Limiter>| r.value != Limiter::Unknown;
        self.evidence
            .throughput
            .iter()
            .filter_map(reading)
            .filter(known)
            .collect()
    }

    /// What limited most of the runs on that side of the event.
    pub fn limiter(&self, after: bool) -> Option<Limiter> {
        const RUNS: usize = 5;
        let mut readings = self.limiters();
        readings.retain(|r| {
            if after {
                r.at_us >= self.event.between_us[1]
            } else {
                r.at_us <= self.event.between_us[0]
            }
        });
        readings.sort_by_key(|r| if after { r.at_us } else { -r.at_us });
        readings.truncate(RUNS);
        let times = |of: Limiter| readings.iter().filter(|r| r.value == of).count();
        let nearest_first = readings.iter().rev().map(|r| r.value);
        nearest_first.max_by_key(|limiter| times(*limiter))
    }

    /// The first bulk run after the event that speaks of its direction.
    pub fn run(&self, after: bool) -> Option<&'a Seen<'a, Throughput>> {
        let [begin, end] = self.event.between_us;
        let runs = self
            .evidence
            .throughput
            .iter()
            .filter(|seen| seen.direction().is_some());
        if after {
            runs.filter(|seen| seen.at_us >= end)
                .min_by_key(|seen| seen.at_us)
        } else {
            runs.filter(|seen| seen.at_us <= begin)
                .max_by_key(|seen| seen.at_us)
        }
    }
}

/// Windows of either end.
pub fn is_window(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::ReceiveWindow | Limiter::SendBuffer)
}

/// A trace takes seconds: one during a change has the first hops of one route and the last ones of
/// another, and is like neither of its neighbours.
fn traced_in_mid_change(routes: &[Reading<&Route>], i: usize) -> bool {
    let neighbours = i
        .checked_sub(1)
        .and_then(|before| Some((routes.get(before)?, routes.get(i + 1)?)));
    neighbours.is_some_and(|(before, after)| {
        let own = routes[i].value;
        !same_route(before.value, after.value)
            && !same_route(own, before.value)
            && !same_route(after.value, own)
    })
}

/// One route as far as answers tell.
pub fn same_route(here: &Route, other: &Route) -> bool {
    compare(here, other).kind <= ChangeKind::SilentHop
}

/// What to ask of those who run the path.
pub fn ask_operator(text: impl Into<String>) -> longhaul_model::report::v1::Advice {
    advice("path", text.into())
}
