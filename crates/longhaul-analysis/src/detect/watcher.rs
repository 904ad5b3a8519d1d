//! Tracks the events of a series: reports new changes and updates earlier ones.
//!
//! A change is reported once. Later values may move its position slightly and refine its levels;
//! its id stays. A suspicion is confirmed, or withdrawn after [`PATIENCE`] samples (twice as many
//! while the values stay away). A change has recovered when a later one restores its level.
//!
//! Source: our own (docs/methods/detection.md). Units: samples, us. Error: none of its own.
//! Wrong when: earlier events of the series are not passed in: then they are reported again.

use super::{Change, Course, Options, alarm, course, ratio, scale};
use crate::stats::quantile::median;
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};

/// A change within this many samples of an earlier one in the same direction is the same change.
const NEAR: usize = 3;
/// The number of samples after which a suspicion is withdrawn, and its distance from its change.
pub const PATIENCE: usize = 12;

/// A tracked series.
#[derive(Debug, Clone, PartialEq)]
pub struct Watcher {
    pub pair: Pair,
    pub quantity: Quantity,
    pub options: Options,
}

/// The result of one update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Followed {
    /// New and changed events; each replaces the earlier one with its id.
    pub events: Vec<Event>,
    /// The ids of events to announce: new ones, and those whose state changed.
    pub news: Vec<String>,
}

impl Watcher {
    /// Updates the events with the current series. Ignores those of `earlier` of other series.
    pub fn follow(&self, points: &[Point], earlier: &[Event], now_us: i64) -> Followed {
        let mine = |event: &&Event| event.pair == self.pair && event.quantity == self.quantity;
        let earlier: Vec<&Event> = earlier.iter().filter(mine).collect();
        let mut round = Round {
            watcher: self,
            course: course(points, self.quantity, &self.options),
            events: earlier.iter().map(|&event| event.clone()).collect(),
            held: vec![false; earlier.len()],
            now_us,
        };
        round.confirm();
        round.suspect();
        round.withdraw();
        round.recover();
        let mut followed = Followed::default();
        for event in round.events {
            let before = earlier.iter().find(|old| old.id == event.id);
            if before.is_none_or(|old| old.state != event.state) {
                followed.news.push(event.id.clone());
            }
            if before.is_none_or(|old| **old != event) {
                followed.events.push(event);
            }
        }
        followed
    }

    /// Returns the id of a change, a function of the series and the time.
    fn id(&self, at_us: i64) -> String {
        let words = [&self.pair.from, &self.pair.to, self.quantity.word()];
        let text = words.iter().flat_map(|word| word.bytes().chain([0]));
        // FNV-1a, 64 bits.
        let hash = text
            .chain(at_us.to_be_bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        format!("{}-{hash:016x}", self.quantity.word())
    }

    fn event(&self, change: &Change, state: State, now_us: i64) -> Event {
        Event {
            id: self.id(change.between_us[1]),
            pair: self.pair.clone(),
            quantity: self.quantity,
            state,
            between_us: change.between_us,
            before: change.before,
            after: change.after,
            change_ratio: change.ratio(),
            score: change.score,
            autocorrelation: change.autocorrelation,
            announced_at_us: now_us,
            recovered_by: None,
            causes: Vec::new(),
            unchanged: Vec::new(),
            scope: None,
            follow_ups: Vec::new(),
        }
    }
}

struct Round<'a> {
    watcher: &'a Watcher,
    course: Course,
    events: Vec<Event>,
    /// For each event, true if a change of this update matches it.
    held: Vec<bool>,
    now_us: i64,
}

fn rises(event: &Event) -> bool {
    event.after.median > event.before.median
}

impl Round<'_> {
    /// Returns the first sample after the event.
    fn sample_of(&self, event: &Event) -> usize {
        let samples = &self.course.samples;
        samples.partition_point(|it| it.last_us < event.between_us[1])
    }

    fn confirm(&mut self) {
        for change in self.course.changes.clone() {
            match self.known(&change) {
                Some(i) => self.renew(i, &change),
                None => self.add(&change, State::Confirmed),
            }
        }
    }

    /// Returns the nearest event that may be this change; an unconfirmed one may be farther away.
    fn known(&self, change: &Change) -> Option<usize> {
        let id = self.watcher.id(change.between_us[1]);
        let upwards = change.after.median > change.before.median;
        let near = |i: usize, event: &Event| {
            let away = self.sample_of(event).abs_diff(change.sample);
            let unsure = matches!(event.state, State::Suspected | State::Withdrawn);
            let reach = if unsure { PATIENCE } else { NEAR };
            let same = event.id == id || rises(event) == upwards && away <= reach;
            (same && !self.held[i]).then_some((unsure, away, i))
        };
        let all = self.events.iter().enumerate();
        all.filter_map(|(i, event)| near(i, event))
            .min()
            .map(|(_, _, i)| i)
    }

    fn renew(&mut self, i: usize, change: &Change) {
        self.held[i] = true;
        let event = &mut self.events[i];
        if matches!(event.state, State::Suspected | State::Withdrawn) {
            event.state = State::Confirmed;
        }
        event.between_us = change.between_us;
        event.before = change.before;
        event.after = change.after;
        event.change_ratio = ratio(&change.before, &change.after);
        event.score = change.score;
        event.autocorrelation = change.autocorrelation;
    }

    fn add(&mut self, change: &Change, state: State) {
        let event = self.watcher.event(change, state, self.now_us);
        self.events.push(event);
        self.held.push(true);
    }

    fn suspect(&mut self) {
        let Some(change) = alarm::sudden(&self.course, self.watcher.quantity) else {
            return;
        };
        let id = self.watcher.id(change.between_us[1]);
        let upwards = change.after.median > change.before.median;
        let told = self.events.iter().any(|event| {
            let away = self.sample_of(event).abs_diff(change.sample);
            event.id == id || rises(event) == upwards && away <= PATIENCE
        });
        if !told {
            self.add(&change, State::Suspected);
        }
    }

    fn withdraw(&mut self) {
        for i in 0..self.events.len() {
            let begin = self.sample_of(&self.events[i]);
            let since = self.course.samples.len() - begin;
            let event = &self.events[i];
            let over = since >= 2 * PATIENCE || since >= PATIENCE && self.came_back(event, begin);
            if event.state == State::Suspected && over {
                self.events[i].state = State::Withdrawn;
            }
        }
    }

    /// Returns whether most values since then are closer to the earlier level.
    fn came_back(&self, event: &Event, begin: usize) -> bool {
        let since = self.course.samples[begin..].iter().map(|it| it.value);
        let now = median(since).unwrap_or(event.before.median);
        let even = |value: f64| scale::even(value, self.watcher.quantity.scale());
        let half = f64::midpoint(even(event.before.median), even(event.after.median));
        (even(now) > half) != rises(event)
    }

    fn recover(&mut self) {
        self.events.sort_by_key(|event| event.between_us);
        for i in 0..self.events.len() {
            if self.events[i].state != State::Confirmed || self.brings_back(i) {
                continue;
            }
            let event = &self.events[i];
            let back = self.events[i + 1..].iter().find(|later| {
                matches!(later.state, State::Confirmed | State::Recovered)
                    && self.is_back(event, later)
            });
            if let Some(id) = back.map(|later| later.id.clone()) {
                self.events[i].state = State::Recovered;
                self.events[i].recovered_by = Some(id);
            }
        }
    }

    /// Returns whether the event is itself a recovery; a recovery cannot recover.
    fn brings_back(&self, i: usize) -> bool {
        let id = &self.events[i].id;
        let all = self.events.iter();
        all.filter_map(|event| event.recovered_by.as_ref())
            .any(|by| by == id)
    }

    /// Returns whether `later` restores the level before `event`, or exceeds it after a change for
    /// the worse.
    fn is_back(&self, event: &Event, later: &Event) -> bool {
        if rises(event) == rises(later) {
            return false;
        }
        let quantity = self.watcher.quantity;
        let even = |value: f64| scale::even(value, quantity.scale());
        let noise = scale::least(quantity).max(self.course.levels.sigma);
        let mut missing = even(event.before.median) - even(later.after.median);
        if rises(event) {
            missing = -missing;
        }
        let worse = quantity
            .more_is_better()
            .is_some_and(|more| more != rises(event));
        missing <= noise && (worse || missing >= -noise)
    }
}
