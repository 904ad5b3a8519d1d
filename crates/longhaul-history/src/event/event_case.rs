//! An event and the routes, rates, limiters and token buckets in the reports around it.
//!
//! Every cause uses this view: states before and after the event, each with its own times.

use super::change_evidence::{ChangeEvidence, EvidenceReport, HostRole};
use super::event_format;
use super::state_change::{self, LevelStep, StateChange, StateReading};
use longhaul_analysis::path::compare_routes;
use longhaul_analysis::stats::{find_mode, median};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::available::{
    AvailableEstimate, AvailableMode, TokenBucketEstimate, TokenBucketKind,
};
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::path::{ObservedRoute, RouteChangeKind, RouteDifference};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AvailableReport, ChangeEvent, PathReport, ReportFinding, ThroughputReport,
};

/// RTTs are equal if they differ by less than either limit: 2 ms or 5 %.
const RTT_STEP_US: f64 = 2_000.0;
const RTT_STEP_RATIO: f64 = 1.05;
/// An available bandwidth whose interval spans more than this factor says nothing about a step.
const MAX_INTERVAL_RATIO: f64 = 2.0;

/// The quantities that bulk runs measure, which hosts and their settings affect.
pub const TRANSFER_QUANTITIES: [PathQuantity; 3] =
    [PathQuantity::Goodput, PathQuantity::Loss, PathQuantity::Retransmits];
/// Rates and losses, which any change of a link affects.
pub const LINK_QUANTITIES: [PathQuantity; 5] = [
    PathQuantity::Goodput,
    PathQuantity::Loss,
    PathQuantity::Retransmits,
    PathQuantity::Available,
    PathQuantity::Capacity,
];

/// An event and its evidence.
#[derive(Clone, Copy)]
pub struct EventCase<'a> {
    pub event: &'a ChangeEvent,
    pub evidence: &'a ChangeEvidence<'a>,
}

/// A change from one route to another.
pub struct RouteTransition<'a> {
    pub between_us: [i64; 2],
    pub before: &'a ObservedRoute,
    pub after: &'a ObservedRoute,
    pub change: RouteDifference,
    pub lasted: bool,
    /// True for the route from the receiver to the sender.
    pub is_return: bool,
}

impl<'a> EventCase<'a> {
    pub fn tau_us(&self) -> f64 {
        state_change::compute_tau_us(self.evidence.period_us, self.evidence.time_factor)
    }

    /// Returns how near in time a change is, 0 to 1.
    pub fn timing(&self, between_us: [i64; 2]) -> f64 {
        state_change::rate_timing(between_us, self.event.between_us, self.tau_us())
    }

    /// Creates a candidate with the weight of its kind times its nearness in time as confidence. The
    /// cause multiplies that by its consistency: 1 fits, 0.5 unknown, 0 contradicts.
    pub fn candidate(
        &self,
        cause: &str,
        weight: f64,
        between_us: [i64; 2],
        summary: String,
    ) -> ReportFinding {
        ReportFinding::new(cause, weight * self.timing(between_us), summary)
    }

    /// Finds the changes of a series; the readings near each determine if it lasted.
    pub fn find_state_changes<T: Clone>(
        &self,
        readings: Vec<StateReading<T>>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Vec<StateChange<T>> {
        state_change::find_state_changes(readings, (self.tau_us() * 2.0) as i64, same)
    }

    /// Returns the change of state that is nearest to the event.
    pub fn nearest_state_change<T: Clone>(
        &self,
        readings: Vec<StateReading<T>>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Option<StateChange<T>> {
        let found = self.find_state_changes(readings, same);
        found.into_iter().max_by(|a, b| self.rank_change(a).total_cmp(&self.rank_change(b)))
    }

    /// Returns the level after divided by the level before; `f64::MAX` if that is not finite.
    pub fn ratio(&self) -> f64 {
        let (before, after) = (self.event.before.median, self.event.after.median);
        let ratio = self.event.change_ratio.unwrap_or(after / before);
        if ratio.is_finite() { ratio } else { f64::MAX }
    }

    pub fn has_fallen(&self) -> bool {
        self.event.after.median < self.event.before.median
    }

    /// Returns true if the change is for the worse; `None` if neither direction is.
    pub fn is_worse(&self) -> Option<bool> {
        self.event.quantity.more_is_better().map(|more| more == self.has_fallen())
    }

    /// Returns the transfer of another program that the event is about, if it is about one.
    pub fn transfer(&self) -> Option<TransferIdentity<'a>> {
        TransferIdentity::of_pair(&self.event.pair)
    }

    /// Returns the name of one of the runs that the goodput is from.
    pub fn run_noun(&self) -> &'static str {
        if self.transfer().is_some() { "watched transfer" } else { "bulk run" }
    }

    pub fn is_quantity(&self, quantity: PathQuantity) -> bool {
        self.event.quantity == quantity
    }

    /// Returns true if the series is of bit rates.
    pub fn is_rate_quantity(&self) -> bool {
        matches!(
            self.event.quantity,
            PathQuantity::Goodput | PathQuantity::Available | PathQuantity::Capacity
        )
    }

    /// Returns the lower and the higher of the two levels.
    pub fn ordered_levels(&self) -> (f64, f64) {
        let (before, after) = (self.event.before.median, self.event.after.median);
        if self.has_fallen() { (after, before) } else { (before, after) }
    }

    /// Returns true for rates and losses, which any change of a link affects.
    pub fn is_link_quantity(&self) -> bool {
        LINK_QUANTITIES.contains(&self.event.quantity)
    }

    /// Returns the name of that host in the agent's file.
    pub fn host(&self, place: HostRole) -> String {
        event_format::sanitize_name(match place {
            HostRole::Sender => &self.event.pair.from,
            HostRole::Receiver => &self.event.pair.to,
        })
    }

    /// Returns the route change nearest in time; a lasting one precedes one that did not last.
    pub fn nearest_route_change(&self, back: bool) -> Option<RouteTransition<'a>> {
        let best = self.nearest_state_change(self.routes(back), |a, b| is_same_route(b, a))?;
        let change = compare_routes(best.to, best.from);
        Some(RouteTransition {
            between_us: best.between_us,
            before: best.from,
            after: best.to,
            change,
            lasted: best.lasted,
            is_return: back,
        })
    }

    /// Returns true if the forward route changed for good near the event, so that its links differ.
    pub fn has_route_changed(&self) -> bool {
        let near = |turn: RouteTransition| turn.lasted && self.timing(turn.between_us) > 0.5;
        self.nearest_route_change(false).is_some_and(near)
    }

    /// Ranks the changes of one state: the nearest lasting one ranks highest.
    pub fn rank_change<T>(&self, turn: &StateChange<T>) -> f64 {
        self.timing(turn.between_us) + if turn.lasted { 1e-3 } else { 0.0 }
    }

    pub fn routes(&self, back: bool) -> Vec<StateReading<&'a ObservedRoute>> {
        let route = |seen: &EvidenceReport<'a, PathReport>| {
            let value = if back { seen.return_route() } else { seen.route() }?;
            Some(StateReading { at_us: seen.at_us, value })
        };
        let mut routes: Vec<_> = self.evidence.paths.iter().filter_map(route).collect();
        routes.sort_by_key(|reading| reading.at_us);
        let places = (0..routes.len()).filter(|i| !is_traced_during_change(&routes, *i));
        places.map(|i| routes[i]).collect()
    }

    /// Returns the last route before the event and the first one after it.
    pub fn routes_around_event(
        &self,
        back: bool,
    ) -> (Option<StateReading<&'a ObservedRoute>>, Option<StateReading<&'a ObservedRoute>>) {
        let routes = self.routes(back);
        let on_side =
            |after| routes.iter().copied().filter(move |r| self.is_on_side(r.at_us, after));
        (on_side(false).max_by_key(|r| r.at_us), on_side(true).min_by_key(|r| r.at_us))
    }

    /// Returns the step of the minimum RTT, in us, from any source.
    pub fn rtt(&self) -> Option<LevelStep> {
        let evidence = self.evidence;
        // Use one source at a time: the RTT of a connection differs from that of an echo.
        let series = evidence.rtt.iter().map(|point| (point.at_us, Some(point.value)));
        let paths = evidence.paths.iter().map(|seen| (seen.at_us, seen.rtt_us()));
        let paths = paths.filter(|_| evidence.rtt.is_empty());
        let runs = evidence.throughput.iter().map(|seen| {
            (seen.at_us, seen.direction().and_then(|(run, _)| run.idle_rtt_us).map(|us| us as f64))
        });
        self.find_level_step(series.chain(paths)).or_else(|| self.find_level_step(runs))
    }

    fn find_level_step(
        &self,
        values: impl Iterator<Item = (i64, Option<f64>)>,
    ) -> Option<LevelStep> {
        let known = values.filter_map(|(at_us, value)| Some(StateReading { at_us, value: value? }));
        state_change::find_level_step(known.collect(), self.event.between_us)
    }

    /// Returns the RTT step if it exceeds the noise.
    pub fn rtt_step(&self) -> Option<LevelStep> {
        self.rtt().filter(|step| {
            (step.after - step.before).abs() >= RTT_STEP_US && step.differs_by(RTT_STEP_RATIO)
        })
    }

    pub fn capacity(&self) -> Option<LevelStep> {
        self.estimates(|estimate| estimate.capacity_bps)
    }

    pub fn available(&self) -> Option<LevelStep> {
        state_change::find_level_step(self.list_known_available(), self.event.between_us)
    }

    /// Returns the available bandwidth of all runs but guesses. If most light runs of one side of the event
    /// are guesses, the others are mistaken, too.
    fn list_known_available(&self) -> Vec<StateReading<f64>> {
        let end = self.event.between_us[1];
        let is_light =
            |seen: &EvidenceReport<AvailableReport>| seen.report.plan.mode == AvailableMode::Light;
        let is_light_trusted = [false, true].map(|after| {
            let all = self.evidence.available.iter().filter(|it| is_light(it));
            let estimates =
                all.filter(|it| (it.at_us >= end) == after).filter_map(EvidenceReport::estimate);
            let (known, guesses): (Vec<_>, Vec<_>) =
                estimates.map(known_available_bps).partition(Option::is_some);
            known.len() >= guesses.len()
        });
        let seen = self.evidence.available.iter();
        let trusted =
            seen.filter(|it| !is_light(it) || is_light_trusted[usize::from(it.at_us >= end)]);
        let known = trusted.filter_map(|it| {
            let value = known_available_bps(it.estimate()?)? as f64;
            Some(StateReading { at_us: it.at_us, value })
        });
        known.collect()
    }

    /// Returns true if the step of the capacity is at least half of the step of the available
    /// bandwidth or, if that is known only after the event, half of the traffic of others.
    ///
    /// Cross traffic spreads bursts on a busy link, so that the link appears slower than it is.
    pub fn is_explained_by_capacity(&self, capacity: LevelStep) -> bool {
        let of_link = capacity.after - capacity.before;
        if let Some(available) = self.available() {
            let of_rest = available.after - available.before;
            return of_link * of_rest > 0.0 && of_link.abs() >= 0.5 * of_rest.abs();
        }
        self.median_available_since()
            .is_none_or(|left| of_link.abs() >= 0.5 * (capacity.after - left))
    }

    /// Returns the median available bandwidth of the runs since the event.
    pub fn median_available_since(&self) -> Option<f64> {
        let end = self.event.between_us[1];
        let known = self.list_known_available().into_iter();
        median(known.filter(|known| known.at_us >= end).map(|known| known.value))
    }

    fn estimates(&self, figure: fn(&AvailableEstimate) -> Option<u64>) -> Option<LevelStep> {
        self.find_level_step(
            self.evidence
                .available
                .iter()
                .map(|seen| (seen.at_us, seen.estimate().and_then(figure).map(|bps| bps as f64))),
        )
    }

    /// Returns for each available-bandwidth run the token bucket of this kind that it found, if
    /// any; runs that cannot find one are left out.
    ///
    /// A short run fits into the burst. If it finds no bucket, that counts only on the side of the
    /// event where the path was better.
    pub fn buckets(
        &self,
        kind: TokenBucketKind,
    ) -> Vec<StateReading<Option<&'a TokenBucketEstimate>>> {
        let [begin, end] = self.event.between_us;
        let better = |at_us| match self.is_worse() {
            Some(true) => at_us <= begin,
            Some(false) => at_us >= end,
            None => true,
        };
        let reading = |seen: &EvidenceReport<'a, AvailableReport>| {
            let estimate = seen.estimate()?;
            let found = estimate.bucket.as_ref().filter(|bucket| bucket.kind == kind);
            let long = seen.report.plan.shaper_time_us.is_some();
            let short = estimate.capacity_bps.is_some() && better(seen.at_us);
            (found.is_some() || long || short)
                .then_some(StateReading { at_us: seen.at_us, value: found })
        };
        self.evidence.available.iter().filter_map(reading).collect()
    }

    /// Returns the limiters of the bulk runs.
    pub fn limiters(&self) -> Vec<StateReading<Limiter>> {
        let reading = |seen: &EvidenceReport<'a, ThroughputReport>| {
            let value = seen.direction()?.1.limited_by;
            Some(StateReading { at_us: seen.at_us, value })
        };
        let known = |r: &StateReading<Limiter>| r.value != Limiter::Unknown;
        self.evidence.throughput.iter().filter_map(reading).filter(known).collect()
    }

    /// Returns the most frequent limiter of the runs on that side of the event.
    pub fn frequent_limiter(&self, after: bool) -> Option<Limiter> {
        const RUNS: usize = 5;
        let mut readings = self.limiters();
        readings.retain(|r| self.is_on_side(r.at_us, after));
        readings.sort_by_key(|r| if after { r.at_us } else { -r.at_us });
        readings.truncate(RUNS);
        let nearest_last: Vec<Limiter> = readings.iter().rev().map(|r| r.value).collect();
        find_mode(&nearest_last)
    }

    pub fn is_on_side(&self, at_us: i64, after: bool) -> bool {
        let [begin, end] = self.event.between_us;
        if after { at_us >= end } else { at_us <= begin }
    }

    /// Returns true if goodput changed, and the runs of the lower level fill the path.
    pub fn is_path_filled(&self) -> bool {
        self.is_quantity(PathQuantity::Goodput)
            && self.frequent_limiter(self.has_fallen()) == Some(Limiter::PathCapacity)
    }

    /// Describes the rates of both levels: `18 Mbit/s, and reached 40 Mbit/s before`.
    pub fn describe_filled_path(&self) -> String {
        let (low, high) = self.ordered_levels();
        let (low, high) = (event_format::format_rate(low), event_format::format_rate(high));
        format!("{low}, and reached {high} {}", if self.has_fallen() { "before" } else { "since" })
    }

    /// Returns the bulk run nearest to the event, on the given side, that measured its direction.
    pub fn nearest_run(&self, after: bool) -> Option<&'a EvidenceReport<'a, ThroughputReport>> {
        let runs = self.evidence.throughput.iter().filter(|seen| seen.direction().is_some());
        let runs = runs.filter(|seen| self.is_on_side(seen.at_us, after));
        runs.min_by_key(|seen| seen.at_us.abs_diff(self.event.between_us[usize::from(after)]))
    }
}

/// Returns the available bandwidth unless it is only a guess: few light probes on a slow path give
/// the same figure whatever others send.
fn known_available_bps(estimate: &AvailableEstimate) -> Option<u64> {
    let is_guess = estimate
        .available_interval_bps
        .is_some_and(|[low, high]| high as f64 > MAX_INTERVAL_RATIO * low as f64);
    estimate.available_bps.filter(|_| !is_guess)
}

/// A trace takes seconds. One made during a change shows the first hops of one route and the last
/// hops of another, and resembles neither neighbour.
fn is_traced_during_change(routes: &[StateReading<&ObservedRoute>], i: usize) -> bool {
    let neighbours =
        i.checked_sub(1).and_then(|before| Some((routes.get(before)?, routes.get(i + 1)?)));
    neighbours.is_some_and(|(before, after)| {
        let own = routes[i].value;
        !is_same_route(before.value, after.value)
            && !is_same_route(own, before.value)
            && !is_same_route(after.value, own)
    })
}

/// Returns true if the answers show no difference between the two routes.
pub fn is_same_route(here: &ObservedRoute, other: &ObservedRoute) -> bool {
    compare_routes(here, other).kind <= RouteChangeKind::SilentHop
}
