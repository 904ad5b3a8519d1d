//! Finds what several paths share that changed at the same time: a hop, or a host.
//!
//! Changes for the worse, and those for the better, are grouped by a time that most of their
//! intervals contain. Of every element that traces or pairs contain, the share of changed paths is
//! compared with that of the paths that do not pass it. The most significant element is named,
//! together with all that explain the changes almost as well. Paths count once for both directions,
//! because a round trip covers both.
//!
//! Source: Fisher 1935 (exact test, one-sided); Tarone 1990 (correction for several tests, without
//! those that cannot be significant); the choice and its constants are our own. Units: paths; us; a
//! probability. Error: docs/benchmarks.md, from the test `shared_causes`.
//! Wrong when: fewer than three measured paths share the element, or all do; the traces are older
//! than a change of the route; a router answers with another address on each path.

use longhaul_analysis::stats::hypergeometric_tail::LogFactorials;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AffectedPath, ChangeEvent, EventState, HostPair, ScopeElement, ScopeElementKind, SharedScope,
};
use longhaul_model::sanitize::sanitize;
use longhaul_model::splitmix::mix_bits;
use longhaul_model::units::count_of;
use std::collections::{BTreeMap, BTreeSet};

/// The constants of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedCauseOptions {
    /// The minimum number of changed paths that share something.
    pub min_paths: usize,
    /// The minimum share of the paths of an element that changed, in the directions that pass it.
    pub min_share: f64,
    /// The maximum probability of a coincidence, corrected for the number of elements.
    pub max_chance: f64,
    /// An element whose probability is larger by less than this factor explains the changes as
    /// well: a path that did not change, or not yet, raises it about five-fold.
    pub tie_factor: f64,
    /// The interval of a change is widened on both sides by its own length, but at least by this:
    /// a change is located to one sample at best.
    pub min_slack_us: i64,
    /// Changes with longer intervals say too little about the time.
    pub max_interval_us: i64,
    /// The maximum number of causes at one time.
    pub max_causes: usize,
}

impl Default for SharedCauseOptions {
    fn default() -> Self {
        SharedCauseOptions {
            min_paths: 3,
            min_share: 0.5,
            max_chance: 0.05,
            tie_factor: 10.0,
            min_slack_us: 600_000_000,
            max_interval_us: 12 * 3_600_000_000,
            max_causes: 4,
        }
    }
}

impl SharedCauseOptions {
    /// `factor` speeds up time in tests.
    #[must_use]
    pub fn with_time_factor(self, factor: u64) -> SharedCauseOptions {
        let factor = i64::try_from(factor.max(1)).unwrap_or(i64::MAX);
        SharedCauseOptions {
            min_slack_us: self.min_slack_us / factor,
            max_interval_us: self.max_interval_us / factor,
            ..self
        }
    }

    /// Returns the widened interval of a change.
    pub fn widen_interval(&self, between_us: [i64; 2]) -> [i64; 2] {
        let [begin, end] = between_us;
        let slack = end.saturating_sub(begin).max(self.min_slack_us);
        [begin.saturating_sub(slack), end.saturating_add(slack)]
    }
}

/// A measured path at the time of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedPath {
    pub pair: HostPair,
    /// Addresses of the hops in its traces, in this direction.
    pub hops: BTreeSet<String>,
    /// It changed.
    pub is_affected: bool,
}

/// An explanation of changes of several paths; the counts are those of [`SharedScope`].
#[derive(Debug, Clone, PartialEq)]
pub struct SharedCause {
    pub elements: Vec<ScopeElement>,
    /// Indexes of the changed paths that pass one of the elements.
    pub affected: Vec<usize>,
    /// Indexes of the unchanged paths that pass the first element.
    pub unaffected: Vec<usize>,
    pub paths: usize,
    pub affected_paths: usize,
    pub other_paths: usize,
    pub affected_other_paths: usize,
    pub chance_ratio: f64,
}

/// Orders the hosts of a pair: the same for both directions.
fn order_hosts(pair: &HostPair) -> [&str; 2] {
    let mut hosts = [pair.from.as_str(), pair.to.as_str()];
    hosts.sort_unstable();
    hosts
}

/// Returns true unless the change is known to be for the better.
fn is_for_the_worse(event: &ChangeEvent) -> bool {
    let rose = event.after.median > event.before.median;
    event.quantity.more_is_better() != Some(rose)
}

/// Groups changes that may have happened at the same time, the largest group first. Groups of fewer
/// than [`SharedCauseOptions::min_paths`] paths are left out.
pub fn group_simultaneous_changes<'a>(
    events: &[&'a ChangeEvent],
    options: &SharedCauseOptions,
) -> Vec<Vec<&'a ChangeEvent>> {
    let is_located = |event: &&ChangeEvent| {
        let [begin, end] = event.between_us;
        event.state != EventState::Withdrawn
            && event.shared.is_none()
            && end.saturating_sub(begin) <= options.max_interval_us
    };
    let mut left: Vec<&ChangeEvent> = events.iter().copied().filter(is_located).collect();
    let mut groups = Vec::new();
    while let Some(group) = find_largest_group(&left, options) {
        left.retain(|event| !group.iter().any(|it| it.id == event.id));
        groups.push(group);
    }
    groups
}

fn find_largest_group<'a>(
    events: &[&'a ChangeEvent],
    options: &SharedCauseOptions,
) -> Option<Vec<&'a ChangeEvent>> {
    let count_paths = |group: &[&ChangeEvent]| {
        group.iter().map(|event| order_hosts(&event.pair)).collect::<BTreeSet<_>>().len()
    };
    let groups = events.iter().map(|first| {
        let [begin_us, _] = options.widen_interval(first.between_us);
        let contains = |event: &&&ChangeEvent| {
            let [from, to] = options.widen_interval(event.between_us);
            from <= begin_us && begin_us <= to && is_for_the_worse(event) == is_for_the_worse(first)
        };
        events.iter().filter(contains).copied().collect::<Vec<_>>()
    });
    let counted = groups.map(|group| (count_paths(&group), group));
    let (paths, group) = counted.max_by_key(|(paths, _)| *paths)?;
    (paths >= options.min_paths).then_some(group)
}

/// Finds the elements whose paths changed more often than other paths, the most significant first.
/// Each changed path belongs to one cause at most.
pub fn find_shared_causes(
    paths: &[ComparedPath],
    options: &SharedCauseOptions,
) -> Vec<SharedCause> {
    let logs = LogFactorials::up_to(paths.len());
    let mut causes = Vec::new();
    let mut left: Vec<usize> = (0..paths.len()).collect();
    while causes.len() < options.max_causes {
        let Some(cause) = CauseSearch::new(paths, &left).find_cause(options, &logs) else {
            break;
        };
        let explained: BTreeSet<[&str; 2]> =
            cause.affected.iter().map(|path| order_hosts(&paths[*path].pair)).collect();
        left.retain(|path| !explained.contains(&order_hosts(&paths[*path].pair)));
        causes.push(cause);
    }
    causes
}

/// The paths of one element.
struct ElementPaths {
    element: ScopeElement,
    /// Indexes of the paths that pass it in their direction.
    directed: Vec<usize>,
    /// The paths that pass it, both directions counted once.
    units: BTreeSet<usize>,
    /// Those that changed.
    changed: BTreeSet<usize>,
}

/// The paths that are compared, by element.
struct CauseSearch<'a> {
    paths: &'a [ComparedPath],
    /// For each path, its number with both directions counted once; `None`: it is left out.
    unit_of: Vec<Option<usize>>,
    units: usize,
    changed: BTreeSet<usize>,
    elements: Vec<ElementPaths>,
}

/// The maximum numbers of listed changes and of listed unchanged paths.
pub const MAX_AFFECTED: usize = 500;
const MAX_UNAFFECTED: usize = 50;

impl SharedCause {
    /// Returns the extent of this explanation of `paths`; `changes` are the changes of the affected
    /// ones, and of those that belonged to the event before.
    pub fn build_scope(&self, paths: &[ComparedPath], changes: &[ChangeEvent]) -> SharedScope {
        let mut quantities: Vec<PathQuantity> = changes.iter().map(|it| it.quantity).collect();
        quantities.sort();
        quantities.dedup();
        let list_change = |event: &ChangeEvent| AffectedPath {
            pair: event.pair.clone(),
            quantity: event.quantity,
            event: event.id.clone(),
        };
        let steady = self.unaffected.iter().take(MAX_UNAFFECTED);
        SharedScope {
            elements: self.elements.clone(),
            quantities,
            affected: changes.iter().take(MAX_AFFECTED).map(list_change).collect(),
            unaffected: steady.map(|path| paths[*path].pair.clone()).collect(),
            paths: self.paths as u32,
            affected_paths: self.affected_paths as u32,
            other_paths: self.other_paths as u32,
            affected_other_paths: self.affected_other_paths as u32,
            chance_ratio: self.chance_ratio,
        }
    }
}

impl<'a> CauseSearch<'a> {
    fn new(paths: &'a [ComparedPath], left: &[usize]) -> CauseSearch<'a> {
        let mut numbers: BTreeMap<[&str; 2], usize> = BTreeMap::new();
        let mut unit_of = vec![None; paths.len()];
        let mut changed = BTreeSet::new();
        let mut directed: BTreeMap<ScopeElement, Vec<usize>> = BTreeMap::new();
        for &path in left {
            let compared = &paths[path];
            let next = numbers.len();
            let unit = *numbers.entry(order_hosts(&compared.pair)).or_insert(next);
            unit_of[path] = Some(unit);
            if compared.is_affected {
                changed.insert(unit);
            }
            for element in list_elements(compared) {
                directed.entry(element).or_default().push(path);
            }
        }
        let mut search =
            CauseSearch { paths, unit_of, units: numbers.len(), changed, elements: Vec::new() };
        search.elements = directed
            .into_iter()
            .map(|(element, directed)| search.count_units(element, directed))
            .collect();
        search
    }

    fn count_units(&self, element: ScopeElement, directed: Vec<usize>) -> ElementPaths {
        let units: BTreeSet<usize> =
            directed.iter().filter_map(|path| self.unit_of[*path]).collect();
        let is_one_way =
            matches!(element.kind, ScopeElementKind::Sender | ScopeElementKind::Receiver);
        let changed = if is_one_way {
            let affected = directed.iter().filter(|path| self.paths[**path].is_affected);
            affected.filter_map(|path| self.unit_of[*path]).collect()
        } else {
            units.intersection(&self.changed).copied().collect()
        };
        ElementPaths { element, directed, units, changed }
    }

    fn count_affected(&self, element: &ElementPaths) -> usize {
        element.directed.iter().filter(|path| self.paths[**path].is_affected).count()
    }

    /// Returns the paths that changed without those that did not, in the directions of the element.
    fn balance(&self, element: &ElementPaths) -> i64 {
        2 * self.count_affected(element) as i64 - element.directed.len() as i64
    }

    /// Returns the probability that `changed` or more of the paths of an element are among all
    /// changed ones by chance.
    fn chance(&self, logs: &LogFactorials, paths: usize, changed: usize) -> f64 {
        logs.hypergeometric_tail(self.units, self.changed.len(), paths, changed)
    }

    /// Returns the factor that corrects a probability for the number of elements (Tarone 1990):
    /// elements that no outcome makes significant at this level do not count.
    fn count_tests(&self, options: &SharedCauseOptions, logs: &LogFactorials) -> f64 {
        let distinct: BTreeSet<&BTreeSet<usize>> =
            self.elements.iter().map(|it| &it.units).collect();
        let most = |units: &BTreeSet<usize>| units.len().min(self.changed.len());
        let mut least: Vec<f64> = distinct
            .into_iter()
            .filter(|units| units.len() >= options.min_paths)
            .map(|units| self.chance(logs, units.len(), most(units)))
            .collect();
        least.sort_by(f64::total_cmp);
        let testable =
            |tests: usize| least.partition_point(|p| *p <= options.max_chance / tests as f64);
        (1..=least.len().max(1)).find(|tests| testable(*tests) <= *tests).unwrap_or(1) as f64
    }

    fn find_cause(
        &self,
        options: &SharedCauseOptions,
        logs: &LogFactorials,
    ) -> Option<SharedCause> {
        if self.changed.len() < options.min_paths {
            return None;
        }
        let tests = self.count_tests(options, logs);
        let is_candidate = |it: &&ElementPaths| {
            let directed = it.directed.len() as f64;
            it.changed.len() >= options.min_paths
                && it.changed.len() as f64 >= options.min_share * it.units.len() as f64
                && self.count_affected(it) as f64 >= options.min_share * directed
        };
        let mut candidates: Vec<(f64, &ElementPaths)> = self
            .elements
            .iter()
            .filter(is_candidate)
            .map(|it| (self.chance(logs, it.units.len(), it.changed.len()), it))
            .filter(|(chance, _)| chance * tests <= options.max_chance)
            .collect();
        candidates.sort_by(|(chance, one), (other_chance, other)| {
            let balances = self.balance(other).cmp(&self.balance(one));
            chance.total_cmp(other_chance).then(balances)
        });
        let (chance, first) = *candidates.first()?;
        let ties: Vec<&ElementPaths> = candidates
            .into_iter()
            .filter(|(other, _)| *other <= chance * options.tie_factor)
            .map(|(_, it)| it)
            .filter(|it| 2 * it.changed.intersection(&first.changed).count() >= first.changed.len())
            .collect();
        let named: Vec<&ElementPaths> = ties
            .iter()
            .copied()
            .filter(|it| !ties.iter().any(|better| self.is_better_view(better, it)))
            .collect();
        Some(self.build_cause(&named, (chance * tests).min(1.0)))
    }

    /// Returns true if both elements are the same host, and `better` is the role of it that explains
    /// which directions changed.
    fn is_better_view(&self, better: &ElementPaths, other: &ElementPaths) -> bool {
        let is_host = |it: &ElementPaths| it.element.kind != ScopeElementKind::Hop;
        let rank = |it: &ElementPaths| (-self.balance(it), it.element.kind);
        is_host(better)
            && is_host(other)
            && better.element.name == other.element.name
            && rank(better) < rank(other)
    }

    fn build_cause(&self, named: &[&ElementPaths], chance_ratio: f64) -> SharedCause {
        let first = named[0];
        let units: BTreeSet<usize> = named.iter().flat_map(|it| &it.changed).copied().collect();
        let belongs = |path: &usize| {
            self.paths[*path].is_affected
                && self.unit_of[*path].is_some_and(|unit| units.contains(&unit))
        };
        let is_steady = |path: &usize| {
            let unit = self.unit_of[*path];
            !self.paths[*path].is_affected && unit.is_some_and(|it| !units.contains(&it))
        };
        SharedCause {
            elements: named.iter().map(|it| it.element.clone()).collect(),
            affected: (0..self.paths.len()).filter(belongs).collect(),
            unaffected: first.directed.iter().copied().filter(is_steady).collect(),
            paths: first.units.len(),
            affected_paths: first.changed.len(),
            other_paths: self.units - first.units.len(),
            affected_other_paths: self.changed.difference(&first.units).count(),
            chance_ratio,
        }
    }
}

fn list_elements(path: &ComparedPath) -> impl Iterator<Item = ScopeElement> {
    use ScopeElementKind::{Hop, Host, Receiver, Sender};
    let HostPair { from, to } = &path.pair;
    let hosts = [(Sender, from), (Receiver, to), (Host, from), (Host, to)];
    let hops = path.hops.iter().map(|address| (Hop, address));
    hosts.into_iter().chain(hops).map(|(kind, name)| ScopeElement { kind, name: name.clone() })
}

/// Builds the event of several paths, or renews `earlier`. `members` are the events of the affected
/// paths in their current state, in any order; `None` if there are none.
pub fn build_shared_event(
    scope: SharedScope,
    members: &[ChangeEvent],
    earlier: Option<&ChangeEvent>,
) -> Option<ChangeEvent> {
    let lead = earlier.and_then(|old| {
        members.iter().find(|it| it.pair == old.pair && it.quantity == old.quantity)
    });
    let strongest = || members.iter().max_by(|a, b| a.score.total_cmp(&b.score));
    let lead = lead.or_else(strongest)?;
    let latest = members.iter().map(|it| it.announced_at_us).max()?;
    let first = members.iter().map(|it| &it.id).min()?;
    let digest = || first.bytes().fold(0, |hash, byte| mix_bits(hash ^ u64::from(byte)));
    Some(ChangeEvent {
        id: earlier.map_or_else(|| format!("shared-{:016x}", digest()), |old| old.id.clone()),
        state: join_states(members),
        between_us: find_common_interval(members),
        announced_at_us: earlier.map_or(latest, |old| old.announced_at_us),
        recovered_by: None,
        scope: Some(describe_scope(&scope)),
        follow_ups: Vec::new(),
        shared: Some(scope),
        part_of: None,
        ..lead.clone()
    })
}

/// Returns the state of an event of several paths: it is open as long as one of them is.
fn join_states(members: &[ChangeEvent]) -> EventState {
    let is = |state: &EventState| members.iter().any(|event| event.state == *state);
    let order = [EventState::Confirmed, EventState::Suspected, EventState::Recovered];
    order.into_iter().find(is).unwrap_or(EventState::Withdrawn)
}

/// Returns the interval that all changes contain, or their median interval if there is none.
fn find_common_interval(members: &[ChangeEvent]) -> [i64; 2] {
    let mut begins: Vec<i64> = members.iter().map(|it| it.between_us[0]).collect();
    let mut ends: Vec<i64> = members.iter().map(|it| it.between_us[1]).collect();
    begins.sort_unstable();
    ends.sort_unstable();
    match (begins.last(), ends.first()) {
        (Some(begin), Some(end)) if begin < end => [*begin, *end],
        _ => [&begins, &ends].map(|times| times[times.len() / 2]),
    }
}

/// Formats what the paths share: `hop 10.2.0.1, or hop 10.2.0.5`.
pub fn format_elements(scope: &SharedScope) -> String {
    let words: Vec<String> = scope.elements.iter().map(format_element).collect();
    sanitize(&words.join(", or ")).into_owned()
}

fn format_element(element: &ScopeElement) -> String {
    let name = &element.name;
    match element.kind {
        ScopeElementKind::Hop => format!("hop {name}"),
        ScopeElementKind::Sender => format!("{name} as sender"),
        ScopeElementKind::Receiver => format!("{name} as receiver"),
        ScopeElementKind::Host => format!("host {name}"),
    }
}

/// Formats the extent of a change of several paths in one sentence.
pub fn describe_scope(scope: &SharedScope) -> String {
    format!(
        "{} of {} through {} changed at the same time, and {} of {}",
        scope.affected_paths,
        count_of(u64::from(scope.paths), "path"),
        format_elements(scope),
        scope.affected_other_paths,
        count_of(u64::from(scope.other_paths), "other path"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns paths between the hosts, each `from to hops`, with `!` in front if it changed.
    fn paths(lines: &[&str]) -> Vec<ComparedPath> {
        let parse = |line: &&str| {
            let mut words = line.trim_start_matches('!').split(' ').map(str::to_owned);
            let pair = HostPair {
                from: words.next().expect("a sender"),
                to: words.next().expect("a receiver"),
            };
            ComparedPath { pair, hops: words.collect(), is_affected: line.starts_with('!') }
        };
        lines.iter().map(parse).collect()
    }

    fn name_elements(lines: &[&str]) -> Vec<Vec<String>> {
        let causes = find_shared_causes(&paths(lines), &SharedCauseOptions::default());
        causes.iter().map(|it| it.elements.iter().map(format_element).collect()).collect()
    }

    const CHANGED: [&str; 4] = ["!a b h1 h2", "!c d h1 h2", "!e f h1", "!g i h1"];
    const STEADY: [&str; 12] = [
        "a c h3", "a d h3", "b c h3", "b e h3", "e g h4", "f g h4", "f i h4", "c e h5", "d f h5",
        "d g h5", "a e h5", "b i",
    ];

    #[test]
    fn the_hop_of_all_changed_paths_is_named_and_no_part_of_it() {
        let lines = [&CHANGED[..], &STEADY].concat();
        assert_eq!(name_elements(&lines), [["hop h1"]]);
        let cause = &find_shared_causes(&paths(&lines), &SharedCauseOptions::default())[0];
        assert_eq!(cause.affected, [0, 1, 2, 3]);
        let counts =
            [cause.paths, cause.affected_paths, cause.other_paths, cause.affected_other_paths];
        assert_eq!(counts, [4, 4, 12, 0]);
        // 16 over 4 outcomes are equally likely; of h1, h3, h4 and h5 all can be significant.
        assert!((cause.chance_ratio - 5.0 / 1820.0).abs() < 0.003, "{}", cause.chance_ratio);
    }

    #[test]
    fn hops_that_only_the_same_paths_have_are_a_tie() {
        let twice = CHANGED.map(|line| format!("{line} h9"));
        let lines: Vec<&str> = twice.iter().map(String::as_str).chain(STEADY).collect();
        assert_eq!(name_elements(&lines), [["hop h1", "hop h9"]]);
    }

    #[test]
    fn a_sender_is_told_from_a_host_that_fails_in_both_directions() {
        let there = ["!s a", "!s b", "!s c", "!s d", "!s e"];
        let steady_back = ["a s", "b s", "c s", "d s", "e s"];
        let back = ["!a s", "!b s", "!c s", "!d s", "!e s"];
        let others = ["a b", "b c", "c d", "d e", "e a", "a c", "b d"];
        let lines = [&there[..], &steady_back, &others].concat();
        assert_eq!(name_elements(&lines), [["s as sender"]]);
        let lines = [&there[..], &back, &others].concat();
        assert_eq!(name_elements(&lines), [["host s"]]);
    }

    #[test]
    fn two_causes_at_one_time_are_two() {
        let far: Vec<String> = (0..28).map(|number| format!("p{number} q{number}")).collect();
        let second = ["!k l x", "!k m x", "!l n x", "!m n x"];
        let lines = CHANGED.into_iter().chain(second).chain(STEADY);
        let lines: Vec<&str> = lines.chain(far.iter().map(String::as_str)).collect();
        assert_eq!(name_elements(&lines), [["hop h1"], ["hop x"]]);
    }

    #[test]
    fn changes_that_share_nothing_and_changes_of_all_paths_name_nothing() {
        let apart = [&["!a b x1", "!c d x2", "!e f x3", "!g h x4"], &STEADY[..]].concat();
        assert_eq!(name_elements(&apart), [[""; 0]; 0]);
        assert_eq!(name_elements(&CHANGED), [[""; 0]; 0]);
    }
}
