//! Results of other agents that wait for the analysis of a collector, and events that wait to be
//! grouped.
//!
//! Each series waits once, however many values arrive, so that the work is bounded by the number of
//! series. Everything waits for a moment: the agents of a fleet find events of their own, which
//! arrive with the values or soon after them.

use longhaul_model::report::v1::HostPair;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::history_store::SeriesReading;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The maximum number of series that wait. Others wait again with their next value.
const MAX_WAITING_SERIES: usize = 65_536;
/// The maximum number of events that wait. Others are found beside an event that waits.
const MAX_WAITING_EVENTS: usize = 10_000;

/// An event that waits to be grouped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingEvent {
    pub id: String,
    /// It is new or has changed its state. Otherwise another agent announced it long ago.
    pub is_news: bool,
}

/// A series of values: the pair and the quantity.
pub type SeriesName = (HostPair, PathQuantity);

#[derive(Debug, Default)]
pub struct ReceivedResults {
    waiting: Mutex<WaitingResults>,
}

#[derive(Debug, Default)]
struct WaitingResults {
    /// In the order of arrival.
    series: VecDeque<(Instant, SeriesName)>,
    pairs: HashMap<PathQuantity, HashSet<HostPair>>,
    /// Ids of events, and whether they are news.
    events: BTreeMap<String, bool>,
    first_event: Option<Instant>,
}

impl ReceivedResults {
    /// Adds the series of readings.
    pub fn add_series<'a>(&self, readings: impl IntoIterator<Item = &'a SeriesReading>) {
        let waiting = &mut *self.waiting.lock();
        let now = Instant::now();
        for SeriesReading { pair, quantity, .. } in readings {
            let pairs = waiting.pairs.entry(*quantity).or_default();
            if waiting.series.len() < MAX_WAITING_SERIES && !pairs.contains(pair) {
                pairs.insert(pair.clone());
                waiting.series.push_back((now, (pair.clone(), *quantity)));
            }
        }
    }

    pub fn add_events(&self, events: impl IntoIterator<Item = WaitingEvent>) {
        let mut waiting = self.waiting.lock();
        for WaitingEvent { id, is_news } in events {
            if waiting.events.len() < MAX_WAITING_EVENTS {
                *waiting.events.entry(id).or_default() |= is_news;
                waiting.first_event.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Takes the series that has waited the longest, if that is at least `settle`.
    pub fn take_series(&self, settle: Duration) -> Option<SeriesName> {
        let mut waiting = self.waiting.lock();
        waiting.series.front().filter(|(since, _)| since.elapsed() >= settle)?;
        let (_, (pair, quantity)) = waiting.series.pop_front()?;
        if let Some(pairs) = waiting.pairs.get_mut(&quantity) {
            pairs.remove(&pair);
        }
        Some((pair, quantity))
    }

    /// Takes all events once the first one has waited for `settle`.
    pub fn take_events(&self, settle: Duration) -> Vec<WaitingEvent> {
        let mut waiting = self.waiting.lock();
        if waiting.first_event.is_none_or(|since| since.elapsed() < settle) {
            return Vec::new();
        }
        waiting.first_event = None;
        let events = std::mem::take(&mut waiting.events).into_iter();
        events.map(|(id, is_news)| WaitingEvent { id, is_news }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::SeriesPoint;

    #[test]
    fn a_series_waits_once_and_comes_back_after_it_was_taken() {
        let received = ReceivedResults::default();
        let reading = |to: &str| SeriesReading {
            pair: HostPair { from: "a".to_owned(), to: to.to_owned() },
            quantity: PathQuantity::Loss,
            point: SeriesPoint { at_us: 0, value: 0.0 },
        };
        received.add_series(&[reading("b"), reading("c"), reading("b")]);
        assert_eq!(received.take_series(Duration::from_secs(3600)), None);
        let all = || std::iter::from_fn(|| received.take_series(Duration::ZERO));
        let name = |to: &str| (reading(to).pair, PathQuantity::Loss);
        assert_eq!(all().collect::<Vec<_>>(), [name("b"), name("c")]);
        received.add_series(&[reading("b")]);
        assert_eq!(all().count(), 1);
    }

    #[test]
    fn events_are_taken_together_and_once() {
        let received = ReceivedResults::default();
        let event = |id: &str, is_news| WaitingEvent { id: id.to_owned(), is_news };
        received.add_events([event("y", true), event("x", false), event("y", false)]);
        assert!(received.take_events(Duration::from_secs(3600)).is_empty());
        let taken = received.take_events(Duration::ZERO);
        assert_eq!(taken, [event("x", false), event("y", true)]);
        assert!(received.take_events(Duration::ZERO).is_empty());
    }
}
