//! The limit on the events that the server logs: peers cause them, so the number of lines must not
//! depend on the number of events.

use super::serve_event::ServeEvent;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of events of each class that are logged in a second; further ones are counted.
/// Together with the line of the counts there are fewer than 100.
#[derive(Debug, Clone, Copy)]
struct EventBudget {
    refusals: u32,
    others: u32,
}

const EVENT_BUDGET: EventBudget = EventBudget { refusals: 40, others: 55 };

/// The events of the current second.
#[derive(Debug, Default)]
pub(super) struct EventLimiter {
    second: u64,
    refusals: u32,
    others: u32,
    omitted: BTreeMap<&'static str, u64>,
}

impl EventLimiter {
    /// Returns the events to log: `event`, if the budget of this second allows it, after the
    /// counts of those that were omitted in an earlier second.
    pub fn add_event(&mut self, now: Duration, event: ServeEvent) -> Vec<ServeEvent> {
        let mut logged: Vec<ServeEvent> = self.take_counts(now).into_iter().collect();
        let (used, most) = if event.is_refusal() {
            (&mut self.refusals, EVENT_BUDGET.refusals)
        } else {
            (&mut self.others, EVENT_BUDGET.others)
        };
        if *used < most {
            *used += 1;
            logged.push(event);
        } else {
            *self.omitted.entry(event.kind()).or_default() += 1;
        }
        logged
    }

    /// Returns the counts of the events that were omitted in an earlier second, once.
    pub fn take_counts(&mut self, now: Duration) -> Option<ServeEvent> {
        if now.as_secs() == self.second {
            return None;
        }
        let counts = std::mem::take(&mut self.omitted);
        *self = EventLimiter { second: now.as_secs(), ..EventLimiter::default() };
        (!counts.is_empty()).then_some(ServeEvent::EventsOmitted { counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_refusals_are_less_than_a_hundred_lines_and_their_count() {
        let mut limiter = EventLimiter::default();
        let peer = "192.0.2.1:4000".parse().expect("an address");
        let at = Duration::from_micros;
        let mut logged = Vec::new();
        for number in 0..10_000_u64 {
            let event = ServeEvent::StreamRefused { peer, why: "no session has this nonce" };
            logged.extend(limiter.add_event(at(number * 100), event));
            if number % 10 == 0 {
                let why = String::new();
                logged.extend(
                    limiter.add_event(at(number * 100), ServeEvent::Dismissed { peer, why }),
                );
            }
        }
        assert!(logged.len() < 100, "{}", logged.len());
        logged.extend(limiter.take_counts(at(1_000_000)));
        let Some(ServeEvent::EventsOmitted { counts }) = logged.pop() else {
            panic!("the counts come last");
        };
        let omitted: u64 = counts.values().sum();
        assert_eq!(omitted + logged.len() as u64, 11_000);
        assert_eq!(limiter.take_counts(at(2_000_000)), None, "they are reported once");
    }

    #[test]
    fn refusals_do_not_hide_sessions() {
        let mut limiter = EventLimiter::default();
        let peer = "192.0.2.1:4000".parse().expect("an address");
        let now = Duration::from_millis(500);
        for _ in 0..1000 {
            limiter.add_event(now, ServeEvent::Dismissed { peer, why: String::new() });
        }
        let opened = ServeEvent::SessionOpened {
            peer,
            host: "near".to_owned(),
            anonymous: false,
            what: "receiving TCP".to_owned(),
        };
        assert_eq!(limiter.add_event(now, opened.clone()), [opened]);
    }
}
