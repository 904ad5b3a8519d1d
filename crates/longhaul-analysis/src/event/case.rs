//! An event and the routes, rates, limiters and token buckets in the reports around it.
//!
//! Every cause uses this view: states before and after the event, each with its own times.

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

/// RTTs are equal if they differ by less than either limit: 2 ms or 5 %.
const RTT_STEP_US: f64 = 2_000.0;
const RTT_STEP_RATIO: f64 = 1.05;

/// An event and its evidence.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub event: &'a Event,
    pub evidence: &'a Evidence<'a>,
}

/// A change from one route to another.
pub struct Reroute<'a> {
    pub between_us: [i64; 2],
    pub before: &'a Route,
    pub after: &'a Route,
    pub change: RouteChange,
    pub lasted: bool,
    /// True for the route from the receiver to the sender.
    pub back: bool,
}

impl<'a> Case<'a> {
    pub fn tau_us(&self) -> f64 {
        turn::tau_us(self.evidence.period_us, self.evidence.quicker)
    }

    /// Returns how near in time a change is, 0 to 1.
    pub fn timing(&self, between_us: [i64; 2]) -> f64 {
        turn::timing(between_us, self.event.between_us, self.tau_us())
    }

    /// Finds the changes of a series; the readings near each determine if it lasted.
    pub fn turns<T: Clone>(
        &self,
        readings: Vec<Reading<T>>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Vec<Turn<T>> {
        turn::turns(readings, (self.tau_us() * 2.0) as i64, same)
    }

    /// Returns the level after divided by the level before; `f64::MAX` if that is not finite.
    pub fn ratio(&self) -> f64 {
        let (before, after) = (self.event.before.median, self.event.after.median);
        let ratio = self.event.change_ratio.unwrap_or(after / before);
        if ratio.is_finite() { ratio } else { f64::MAX }
    }

    pub fn fell(&self) -> bool {
        self.event.after.median < self.event.before.median
    }

    /// Returns true if the change is for the worse; `None` if neither direction is.
    pub fn worse(&self) -> Option<bool> {
        self.event
            .quantity
            .more_is_better()
            .map(|more| more == self.fell())
    }

    pub fn is(&self, quantity: Quantity) -> bool {
        self.event.quantity == quantity
    }

    /// Returns true for quantities that bulk runs measure, which hosts and their settings affect.
    pub fn of_transfer(&self) -> bool {
        matches!(
            self.event.quantity,
            Quantity::Goodput | Quantity::Loss | Quantity::Retransmits
        )
    }

    /// Returns true for rates and losses, which any change of a link affects.
    pub fn of_link(&self) -> bool {
        self.of_transfer()
            || matches!(
                self.event.quantity,
                Quantity::Available | Quantity::Capacity
            )
    }

    /// Returns the name of that host in the agent's file.
    pub fn host(&self, place: Place) -> String {
        words::quoted(match place {
            Place::Sender => &self.event.pair.from,
            Place::Receiver => &self.event.pair.to,
        })
    }

    /// Returns the route change nearest in time; a lasting one precedes one that did not last.
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

    /// Returns true if the forward route changed for good near the event, so that its links differ.
    pub fn rerouted(&self) -> bool {
        let near = |turn: Reroute| turn.lasted && self.timing(turn.between_us) > 0.5;
        self.reroute(false).is_some_and(near)
    }

    /// Ranks the changes of one state: the nearest lasting one ranks highest.
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

    /// Returns the last route before the event and the first one after it.
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

    /// Returns the step of the minimum RTT, in us, from any source.
    pub fn rtt(&self) -> Option<Step> {
        let evidence = self.evidence;
        let mut all: Vec<Reading<f64>> = Vec::new();
        let mut add = |at_us, us: Option<f64>| all.extend(us.map(|value| Reading { at_us, value }));
        // Use one source at a time: the RTT of a connection differs from that of an echo.
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

    /// Returns the RTT step if it exceeds the noise.
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

    /// Returns true if the step of the capacity is at least half of the step of the available
    /// bandwidth or, if that is known only after the event, half of the traffic of others.
    ///
    /// Cross traffic spreads bursts on a busy link, so that the link appears slower than it is.
    pub fn is_by_capacity(&self, capacity: Step) -> bool {
        let of_link = capacity.after - capacity.before;
        if let Some(available) = self.available() {
            let of_rest = available.after - available.before;
            return of_link * of_rest > 0.0 && of_link.abs() >= 0.5 * of_rest.abs();
        }
        self.available_since()
            .is_none_or(|left| of_link.abs() >= 0.5 * (capacity.after - left))
    }

    /// Returns the median available bandwidth of the runs since the event.
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

    /// Returns for each available-bandwidth run the token bucket of this kind that it found, if
    /// any; runs that cannot find one are left out.
    ///
    /// A short run fits into the burst. If it finds no bucket, that counts only on the side of the
    /// event where the path was better.
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

    /// Returns the limiters of the bulk runs.
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

    /// Returns the most frequent limiter of the runs on that side of the event.
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

    /// Returns the bulk run nearest to the event, on the given side, that measured its direction.
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

/// Returns true for the windows of either host.
pub fn is_window(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::ReceiveWindow | Limiter::SendBuffer)
}

/// A trace takes seconds. One made during a change shows the first hops of one route and the last
/// hops of another, and resembles neither neighbour.
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

/// Returns true if the answers show no difference between the two routes.
pub fn same_route(here: &Route, other: &Route) -> bool {
    compare(here, other).kind <= ChangeKind::SilentHop
}

/// Creates advice for the operators of the path.
pub fn ask_operator(text: impl Into<String>) -> longhaul_model::report::v1::Advice {
    advice("path", text.into())
}
