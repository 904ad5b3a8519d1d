//! Checks the items of a batch.

use super::senders::Known;
use crate::agent::forward::wire::{Came, CameRun, Word, bounded};
use crate::agent::forward::{chain, derive};
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::series::Pair;
use longhaul_store::sqlite::outbox::Refusal;
use longhaul_store::watched::{Delivery, PlannedRow, WatchedRun, limits};
use longhaul_store::{StoreError, Watched};
use std::collections::HashMap;

/// The maximum time in the future. Beyond it the sender's clock was wrong, and the value would stay
/// the newest one for a long time.
const FUTURE_US: i64 = 600_000_000;

/// The accepted and rejected items of a batch.
#[derive(Default)]
pub struct Taken {
    pub delivery: Delivery,
    pub refused: Vec<Refusal>,
    /// Places of runs in the batch, by id.
    places: HashMap<String, i64>,
}

impl Taken {
    /// Accepts or rejects an item. Returns an error only if the archive fails.
    pub fn add(
        &mut self,
        came: Came,
        sender: &Known,
        now_us: i64,
        archive: &dyn Watched,
    ) -> Result<(), StoreError> {
        let place = came.place;
        let checked = match came.item {
            Ok(Word::Run(came)) => run(came, sender, now_us).map(|run| {
                self.places.insert(run.run.id.clone(), place);
                self.delivery.runs.push(run);
            }),
            Ok(Word::Planned(row)) => {
                planned(&row, sender).map(|()| self.delivery.planned.push(row))
            }
            Ok(Word::Event(event)) => match event_checked(&event, sender, now_us) {
                Ok(()) => self.event(*event, archive)?,
                Err(why) => Err(why),
            },
            Err(why) => Err(why),
        };
        if let Err(why) = checked {
            self.refuse(place, &why);
        }
        Ok(())
    }

    /// Ignores an event whose stored state is more certain, because the batch came late.
    fn event(
        &mut self,
        event: Event,
        archive: &dyn Watched,
    ) -> Result<Result<(), String>, StoreError> {
        let same = |it: &Event| it.pair == event.pair && it.quantity == event.quantity;
        let held = archive.event(&event.id)?;
        Ok(match held {
            Some(held) if !same(&held) => {
                Err("its id is that of an event of another pair or quantity".to_owned())
            }
            Some(held) if rank(held.state) > rank(event.state) => Ok(()),
            _ => {
                self.delivery.events.push(event);
                Ok(())
            }
        })
    }

    /// Rejects runs whose ids belong to other reports in the archive.
    pub fn refuse_differing(&mut self, ids: &[String]) {
        for id in ids {
            if let Some(place) = self.places.get(id).copied() {
                let why = StoreError::IdTaken { id: id.clone() }.to_string();
                self.refuse(place, &why);
            }
        }
    }

    fn refuse(&mut self, place: i64, why: &str) {
        self.refused.push(Refusal {
            place,
            why: bounded(why),
        });
    }
}

const fn rank(state: State) -> u8 {
    match state {
        State::Suspected => 0,
        State::Confirmed | State::Withdrawn => 1,
        State::Recovered => 2,
    }
}

fn run(came: CameRun, sender: &Known, now_us: i64) -> Result<WatchedRun, String> {
    let near = match &came.near {
        Some(near) if sender.relay => near.clone(),
        Some(near) if *near != sender.name => {
            return Err(format!(
                "it was begun by {:?}, for which this agent does not speak",
                bounded(near)
            ));
        }
        _ => sender.name.clone(),
    };
    let run = derive::run(came, &near)?;
    limits::run(&run).map_err(|error| chain(&error))?;
    is_past(run.at_us, now_us)?;
    Ok(run)
}

fn planned(row: &PlannedRow, sender: &Known) -> Result<(), String> {
    limits::planned(std::slice::from_ref(&row.planned)).map_err(|error| chain(&error))?;
    if let Some(outcome) = &row.outcome {
        limits::outcome(outcome).map_err(|error| chain(&error))?;
    }
    if sender.relay {
        return Ok(());
    }
    if !is_id_of(&row.planned.id, &sender.name) {
        return Err("its id is not one that this agent gives".to_owned());
    }
    row.planned
        .pair
        .as_ref()
        .map_or(Ok(()), |pair| is_an_end(pair, sender))
}

/// Returns whether the agent's schedule made this id: name, start time, sequence number.
fn is_id_of(id: &str, agent: &str) -> bool {
    let rest = id.strip_prefix(agent).and_then(|it| it.strip_prefix('-'));
    let parts = rest.and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(begun, number)| {
        !begun.is_empty()
            && !number.is_empty()
            && begun.bytes().all(|it| it.is_ascii_hexdigit())
            && number.bytes().all(|it| it.is_ascii_digit())
    })
}

fn event_checked(event: &Event, sender: &Known, now_us: i64) -> Result<(), String> {
    let text = serde_json::to_string(event).map_err(|error| error.to_string())?;
    limits::event(event, &text).map_err(|error| chain(&error))?;
    for at_us in event.between_us.into_iter().chain([event.announced_at_us]) {
        if at_us < 0 {
            return Err("a time of it is before 1970".to_owned());
        }
        is_past(at_us, now_us)?;
    }
    if sender.relay {
        return Ok(());
    }
    is_an_end(&event.pair, sender)
}

fn is_an_end(pair: &Pair, sender: &Known) -> Result<(), String> {
    derive::other_end(pair, &sender.name).map(drop)
}

fn is_past(at_us: i64, now_us: i64) -> Result<(), String> {
    let ahead_us = at_us.saturating_sub(now_us);
    if ahead_us > FUTURE_US {
        let seconds = ahead_us / 1_000_000;
        return Err(format!(
            "its time lies {seconds} s in the future: the clock was wrong"
        ));
    }
    Ok(())
}
