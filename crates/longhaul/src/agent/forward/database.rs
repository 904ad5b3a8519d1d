//! Writes batches into a database that several agents share.

use super::wire::{Answer, CameRun};
use super::{Trouble, chain, derive};
use longhaul_store::sqlite::outbox::{Item, Refusal, ToSend};
use longhaul_store::watched::{Delivery, limits};
use longhaul_store::{StoreError, Watched};
use std::collections::HashMap;

/// Stores the items. Invalid items are rejected one by one.
pub fn deliver(
    database: &mut dyn Watched,
    agent: &str,
    items: &[ToSend],
) -> Result<Answer, Trouble> {
    let mut delivery = Delivery::default();
    let mut refused = Vec::new();
    let mut places = HashMap::new();
    for sent in items {
        match add(&mut delivery, agent, &sent.item) {
            Ok(Some(run_id)) => {
                places.insert(run_id, sent.place);
            }
            Ok(None) => {}
            Err(why) => refused.push(Refusal {
                place: sent.place,
                why,
            }),
        }
    }
    let landed = database.receive(&delivery).map_err(|error| match error {
        StoreError::Refused { .. } => Trouble::Refused(chain(&error)),
        _ => Trouble::Later(chain(&error)),
    })?;
    refused.extend(landed.differing.iter().filter_map(|id| {
        Some(Refusal {
            place: *places.get(id)?,
            why: StoreError::IdTaken { id: id.clone() }.to_string(),
        })
    }));
    Ok(Answer {
        new: landed.new,
        joined: landed.joined,
        already: landed.already,
        late_values: landed.late_values,
        refused,
    })
}

/// Adds an item. Returns the id if it is a run.
fn add(delivery: &mut Delivery, agent: &str, item: &Item) -> Result<Option<String>, String> {
    match item {
        Item::Run(sent) => {
            let near = sent.near.as_deref().unwrap_or(agent);
            let run = derive::run(CameRun::from(sent), near)?;
            limits::run(&run).map_err(|error| chain(&error))?;
            let id = run.run.id.clone();
            delivery.runs.push(run);
            return Ok(Some(id));
        }
        Item::Planned(row) => delivery.planned.push(row.clone()),
        Item::Event(event) => delivery.events.push((**event).clone()),
    }
    Ok(None)
}
