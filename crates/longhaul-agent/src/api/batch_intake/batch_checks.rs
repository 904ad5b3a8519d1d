//! Checks the items of a batch.

use crate::agent::export::batch_wire::{BatchItem, CheckedBatch, sanitize_reason};
use crate::agent::export::{format_error_chain, run_from_report};
use crate::watch::watch_file::SenderConfig;
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{IncomingRun, PlannedRun, ingest_limits};
use longhaul_store::sqlite::outbox::{OutboxItem, OutgoingRun};
use longhaul_store::{Archive, StoreError};

/// The maximum time in the future. Beyond it the sender's clock was wrong, and the value would stay
/// the newest one for a long time.
const MAX_FUTURE_US: i64 = 600_000_000;

impl CheckedBatch {
    /// Accepts or rejects an item. Returns an error only if the archive fails.
    pub fn check_item(
        &mut self,
        came: BatchItem,
        sender: &SenderConfig,
        now_us: i64,
        archive: &Archive,
    ) -> Result<(), StoreError> {
        let place = came.place;
        let checked = match came.item {
            Ok(OutboxItem::Run(came)) => {
                check_run(came, sender, now_us).map(|run| self.add_run(place, run))
            }
            Ok(OutboxItem::Planned(row)) => {
                check_planned(&row, sender).map(|()| self.delivery.planned.push(row))
            }
            Ok(OutboxItem::Event(event)) => match check_event(&event, sender, now_us) {
                Ok(()) => self.add_event(*event, archive)?,
                Err(why) => Err(why),
            },
            Err(why) => Err(why),
        };
        if let Err(why) = checked {
            self.reject(place, &why);
        }
        Ok(())
    }

    /// Ignores an event whose stored state is more certain, because the batch came late.
    fn add_event(
        &mut self,
        event: ChangeEvent,
        archive: &Archive,
    ) -> Result<Result<(), String>, StoreError> {
        let same = |it: &ChangeEvent| it.pair == event.pair && it.quantity == event.quantity;
        let held = archive.event(&event.id)?;
        Ok(match held {
            Some(held) if !same(&held) => {
                Err("its id belongs to an event of another pair or quantity".to_owned())
            }
            Some(held) if rank_state(held.state) > rank_state(event.state) => Ok(()),
            _ => {
                self.delivery.events.push(event);
                Ok(())
            }
        })
    }
}

const fn rank_state(state: EventState) -> u8 {
    match state {
        EventState::Suspected => 0,
        EventState::Confirmed | EventState::Withdrawn => 1,
        EventState::Recovered => 2,
    }
}

fn check_run(came: OutgoingRun, sender: &SenderConfig, now_us: i64) -> Result<IncomingRun, String> {
    let near = match &came.near {
        Some(near) if sender.relay => near.clone(),
        Some(near) if *near != sender.name => {
            return Err(format!(
                "the run was started by {:?}, whose results this agent may not send",
                sanitize_reason(near)
            ));
        }
        _ => sender.name.clone(),
    };
    let run = run_from_report::build_run(came, &near)?;
    check_not_future(run.at_us, now_us)?;
    Ok(run)
}

fn check_planned(row: &PlannedRun, sender: &SenderConfig) -> Result<(), String> {
    ingest_limits::check_planned(std::slice::from_ref(row))
        .map_err(|error| format_error_chain(&error))?;
    if sender.relay {
        return Ok(());
    }
    if !is_id_of_agent(&row.id, &sender.name) {
        return Err("its id does not belong to this agent".to_owned());
    }
    row.pair.as_ref().map_or(Ok(()), |pair| check_pair_end(pair, sender))
}

/// Returns whether the agent's schedule made this id: name, start time, sequence number.
fn is_id_of_agent(id: &str, agent: &str) -> bool {
    let rest = id.strip_prefix(agent).and_then(|it| it.strip_prefix('-'));
    let parts = rest.and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(begun, number)| {
        !begun.is_empty()
            && !number.is_empty()
            && begun.bytes().all(|it| it.is_ascii_hexdigit())
            && number.bytes().all(|it| it.is_ascii_digit())
    })
}

fn check_event(event: &ChangeEvent, sender: &SenderConfig, now_us: i64) -> Result<(), String> {
    let text = serde_json::to_string(event).map_err(|error| error.to_string())?;
    ingest_limits::check_event(event, &text).map_err(|error| format_error_chain(&error))?;
    for at_us in event.between_us.into_iter().chain([event.announced_at_us]) {
        if at_us < 0 {
            return Err("one of its times is before 1970".to_owned());
        }
        check_not_future(at_us, now_us)?;
    }
    if sender.relay {
        return Ok(());
    }
    check_pair_end(&event.pair, sender)
}

fn check_pair_end(pair: &HostPair, sender: &SenderConfig) -> Result<(), String> {
    run_from_report::find_other_end(pair, &sender.name).map(drop)
}

fn check_not_future(at_us: i64, now_us: i64) -> Result<(), String> {
    let ahead_us = at_us.saturating_sub(now_us);
    if ahead_us > MAX_FUTURE_US {
        let seconds = ahead_us / 1_000_000;
        return Err(format!("its time is {seconds} s in the future: the sender's clock was wrong"));
    }
    Ok(())
}
