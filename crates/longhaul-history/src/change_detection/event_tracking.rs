//! Tracks the events of a series: reports new changes and updates earlier ones.
//!
//! A change is reported once. Later values may move its position slightly and refine its levels;
//! its id stays. A suspicion is confirmed, or withdrawn after [`PATIENCE`] samples (twice as many
//! while the values stay away). A change has recovered when a later one restores its level.
//!
//! Source: our own (docs/methods/detection.md). Units: samples, us. Error: none of its own.
//! Wrong when: earlier events of the series are not passed in: then they are reported again.

use super::{DetectionOptions, LevelChange, SeriesLevels, analyse_series};
use longhaul_analysis::stats::median;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState, HostPair, SeriesPoint};

/// A change within this many samples of an earlier one in the same direction is the same change.
const MAX_SAME_CHANGE_SAMPLES: usize = 3;
/// The number of samples after which a suspicion is withdrawn, and its distance from its change.
pub const PATIENCE: usize = 12;
/// The part of a change that may remain after its recovery.
const MAX_REMAINING_RATIO: f64 = 0.1;

/// A tracked series.
#[derive(Debug, Clone, PartialEq)]
pub struct EventTracker {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    pub options: DetectionOptions,
}

/// The result of one update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventUpdate {
    /// New and changed events; each replaces the earlier one with its id.
    pub events: Vec<ChangeEvent>,
    /// The ids of events to announce: new ones, and those whose state changed.
    pub announced_ids: Vec<String>,
}

impl EventTracker {
    /// Updates the events with the current series. Ignores those of `earlier` of other series and of several paths.
    pub fn update(
        &self,
        points: &[SeriesPoint],
        earlier: &[ChangeEvent],
        now_us: i64,
    ) -> EventUpdate {
        let mine = |event: &&ChangeEvent| {
            event.pair == self.pair && event.quantity == self.quantity && event.shared.is_none()
        };
        let earlier: Vec<&ChangeEvent> = earlier.iter().filter(mine).collect();
        let mut round = EventRound {
            watcher: self,
            course: analyse_series(points, self.quantity, &self.options),
            events: earlier.iter().map(|&event| event.clone()).collect(),
            held: vec![false; earlier.len()],
            now_us,
        };
        round.confirm();
        round.suspect();
        round.withdraw();
        round.recover();
        let mut followed = EventUpdate::default();
        for event in round.events {
            let before = earlier.iter().find(|old| old.id == event.id);
            if before.is_none_or(|old| old.state != event.state) {
                followed.announced_ids.push(event.id.clone());
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
        let hash = text.chain(at_us.to_be_bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{}-{hash:016x}", self.quantity.word())
    }

    fn event(&self, change: &LevelChange, state: EventState, now_us: i64) -> ChangeEvent {
        ChangeEvent {
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
            shared: None,
            part_of: None,
        }
    }
}

struct EventRound<'a> {
    watcher: &'a EventTracker,
    course: SeriesLevels,
    events: Vec<ChangeEvent>,
    /// For each event, true if a change of this update matches it.
    held: Vec<bool>,
    now_us: i64,
}

fn is_rise(event: &ChangeEvent) -> bool {
    event.after.median > event.before.median
}

impl EventRound<'_> {
    /// Returns the first sample after the event.
    fn sample_of(&self, event: &ChangeEvent) -> usize {
        let samples = &self.course.samples;
        samples.partition_point(|it| it.last_us < event.between_us[1])
    }

    fn confirm(&mut self) {
        for change in self.course.changes.clone() {
            match self.find_known_event(&change) {
                Some(i) => self.update_event(i, &change),
                None => self.add_event(&change, EventState::Confirmed),
            }
        }
    }

    /// Returns the nearest event that may be this change; an unconfirmed one may be farther away.
    fn find_known_event(&self, change: &LevelChange) -> Option<usize> {
        let id = self.watcher.id(change.between_us[1]);
        let upwards = change.after.median > change.before.median;
        let near = |i: usize, event: &ChangeEvent| {
            let away = self.sample_of(event).abs_diff(change.sample);
            let unsure = matches!(event.state, EventState::Suspected | EventState::Withdrawn);
            let reach = if unsure { PATIENCE } else { MAX_SAME_CHANGE_SAMPLES };
            let same = event.id == id || is_rise(event) == upwards && away <= reach;
            (same && !self.held[i]).then_some((unsure, away, i))
        };
        let all = self.events.iter().enumerate();
        all.filter_map(|(i, event)| near(i, event)).min().map(|(_, _, i)| i)
    }

    fn update_event(&mut self, i: usize, change: &LevelChange) {
        self.held[i] = true;
        let event = &mut self.events[i];
        if matches!(event.state, EventState::Suspected | EventState::Withdrawn) {
            event.state = EventState::Confirmed;
        }
        event.between_us = change.between_us;
        event.before = change.before;
        event.after = change.after;
        event.change_ratio = change.ratio();
        event.score = change.score;
        event.autocorrelation = change.autocorrelation;
    }

    fn add_event(&mut self, change: &LevelChange, state: EventState) {
        let event = self.watcher.event(change, state, self.now_us);
        self.events.push(event);
        self.held.push(true);
    }

    fn suspect(&mut self) {
        let Some(change) = super::find_sudden_change(&self.course, self.watcher.quantity) else {
            return;
        };
        let id = self.watcher.id(change.between_us[1]);
        let upwards = change.after.median > change.before.median;
        let told = self.events.iter().any(|event| {
            let away = self.sample_of(event).abs_diff(change.sample);
            event.id == id || is_rise(event) == upwards && away <= PATIENCE
        });
        if !told {
            self.add_event(&change, EventState::Suspected);
        }
    }

    fn withdraw(&mut self) {
        for i in 0..self.events.len() {
            let begin = self.sample_of(&self.events[i]);
            let since = self.course.samples.len() - begin;
            let event = &self.events[i];
            let over = since >= 2 * PATIENCE || since >= PATIENCE && self.came_back(event, begin);
            if event.state == EventState::Suspected && over {
                self.events[i].state = EventState::Withdrawn;
            }
        }
    }

    /// Returns whether most values since then are closer to the earlier level.
    fn came_back(&self, event: &ChangeEvent, begin: usize) -> bool {
        let since = self.course.samples[begin..].iter().map(|it| it.value);
        let now = median(since).unwrap_or(event.before.median);
        let even = |value: f64| super::scale_value(value, self.watcher.quantity.scale());
        let half = f64::midpoint(even(event.before.median), even(event.after.median));
        (even(now) > half) != is_rise(event)
    }

    fn recover(&mut self) {
        self.events.sort_by_key(|event| event.between_us);
        for i in 0..self.events.len() {
            if self.events[i].state != EventState::Confirmed || self.is_recovery(i) {
                continue;
            }
            let event = &self.events[i];
            let back = self.events[i + 1..].iter().find(|later| {
                matches!(later.state, EventState::Confirmed | EventState::Recovered)
                    && self.restores_level(event, later)
            });
            if let Some(id) = back.map(|later| later.id.clone()) {
                self.events[i].state = EventState::Recovered;
                self.events[i].recovered_by = Some(id);
            }
        }
    }

    /// Returns whether the event is itself a recovery; a recovery cannot recover.
    fn is_recovery(&self, i: usize) -> bool {
        let id = &self.events[i].id;
        let all = self.events.iter();
        all.filter_map(|event| event.recovered_by.as_ref()).any(|by| by == id)
    }

    /// Returns whether `later` restores the level before `event`, or exceeds it after a change for
    /// the worse.
    fn restores_level(&self, event: &ChangeEvent, later: &ChangeEvent) -> bool {
        if is_rise(event) == is_rise(later) {
            return false;
        }
        let quantity = self.watcher.quantity;
        let even = |value: f64| super::scale_value(value, quantity.scale());
        let change = (even(event.after.median) - even(event.before.median)).abs();
        let noise = super::min_lasting_difference(quantity, event.before.median)
            .max(self.course.levels.sigma)
            .max(MAX_REMAINING_RATIO * change);
        let mut missing = even(event.before.median) - even(later.after.median);
        if is_rise(event) {
            missing = -missing;
        }
        let worse = quantity.more_is_better().is_some_and(|more| more != is_rise(event));
        missing <= noise && (worse || missing >= -noise)
    }
}
