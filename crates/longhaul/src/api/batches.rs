//! Receives results of other agents: POST /api/v1/batches.
//!
//! Each agent has its own token in `[[api.agent]]` and may send results in which it is one end.
//! Every item is checked against the limits of the archive. Rejected items are listed with the
//! reason; all others are stored in one transaction before the response is sent. A repeated batch
//! is harmless. docs/collector.md describes the protocol.
//!
//! - [`senders`]: authentication; [`body`]: reading the body; [`check`]: checking the items

mod body;
mod check;
mod senders;
#[cfg(test)]
mod tests;

use super::fault::Fault;
use crate::agent::desk::{Desk, News};
use crate::agent::forward::wall_us;
use crate::agent::forward::wire::{self, Answer, Batch};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use check::Taken;
use longhaul_store::watched::Delivery;
use longhaul_store::{StoreError, Watched};
use senders::{Known, Senders};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// The maximum number of batches in memory.
const AT_ONCE: usize = 3;
/// The maximum offset of the sender's clock.
const CLOCK_US: i64 = 600_000_000;

/// The receiver of batches.
struct Intake {
    desk: Arc<Desk>,
    senders: Senders,
    places: Arc<Semaphore>,
    /// The connection that writes batches, one at a time.
    archive: Mutex<Option<Box<dyn Watched>>>,
}

/// Returns the route of batches, which has its own limits, timeout and tokens.
pub fn router(desk: Arc<Desk>) -> Router {
    let intake = Intake {
        senders: Senders::new(Arc::clone(&desk)),
        places: Arc::new(Semaphore::new(AT_ONCE)),
        archive: Mutex::new(None),
        desk,
    };
    Router::new()
        .route("/api/v1/batches", post(batches))
        .with_state(Arc::new(intake))
}

async fn batches(State(intake): State<Arc<Intake>>, request: Request) -> Result<Response, Fault> {
    let sender = intake.senders.known(request.headers())?;
    let place = Arc::clone(&intake.places)
        .try_acquire_owned()
        .map_err(|_| Fault::busy("busy", "other agents are sending; send it again soon"))?;
    let (packed, bytes) = body::read(request).await?;
    let stored = tokio::task::spawn_blocking(move || {
        let answer = intake.take(&sender, packed, &bytes);
        drop(place);
        answer
    });
    let answer = stored
        .await
        .map_err(|_| Fault::defect("storing the batch"))??;
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::OK, json, answer.text()).into_response())
}

impl Intake {
    fn take(&self, sender: &Known, packed: body::Packed, bytes: &[u8]) -> Result<Answer, Fault> {
        let bytes = body::unpack(packed, bytes)?;
        let batch = wire::read_batch(&bytes)
            .map_err(|why| Fault::asked(format!("the batch cannot be read: {why}")))?;
        drop(bytes);
        let now_us = wall_us();
        is_of(&batch, sender)?;
        clocks_agree(&batch, now_us)?;
        let mut held = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self
            .connection(&mut held)
            .and_then(|archive| self.store(archive, sender, batch, now_us));
        if answer.is_err() {
            // The connection may be broken, so the next batch opens another one.
            *held = None;
        }
        answer.map_err(told)
    }

    fn connection<'a>(
        &self,
        held: &'a mut Option<Box<dyn Watched>>,
    ) -> Result<&'a mut dyn Watched, StoreError> {
        let archive = match held.take() {
            Some(archive) => archive,
            None => (self.desk.open)()?,
        };
        Ok(held.insert(archive).as_mut())
    }

    fn store(
        &self,
        archive: &mut dyn Watched,
        sender: &Known,
        batch: Batch,
        now_us: i64,
    ) -> Result<Answer, StoreError> {
        let mut taken = Taken::default();
        for came in batch.items {
            taken.add(came, sender, now_us, archive)?;
        }
        let landed = archive.receive(&taken.delivery)?;
        taken.refuse_differing(&landed.differing);
        if landed.new + landed.joined > 0 || !taken.delivery.events.is_empty() {
            self.tell(&taken.delivery);
        }
        Ok(Answer {
            new: landed.new,
            joined: landed.joined,
            already: landed.already,
            late_values: landed.late_values,
            refused: taken.refused,
        })
    }

    /// Publishes the new items to the page; sending fails if there is no subscriber.
    fn tell(&self, delivery: &Delivery) {
        for run in &delivery.runs {
            let _ = self.desk.news.send(News::Run {
                id: run.run.id.clone(),
                pairs: run.pairs.clone(),
            });
        }
        for row in &delivery.planned {
            let _ = self.desk.news.send(News::Planned(Arc::new(row.clone())));
        }
        for event in &delivery.events {
            let _ = self.desk.news.send(News::Event(Arc::new(event.clone())));
        }
    }
}

fn is_of(batch: &Batch, sender: &Known) -> Result<(), Fault> {
    if batch.agent == sender.name {
        return Ok(());
    }
    let text = format!(
        "the token is that of {:?}, the batch that of {:?}",
        sender.name,
        wire::bounded(&batch.agent)
    );
    Err(Fault::new(StatusCode::FORBIDDEN, "other_agent", text)
        .hint("each agent has its own name and token in [[api.agent]] of the collector"))
}

/// Clock errors do not reject the batch for good: it is accepted once the clock is right.
fn clocks_agree(batch: &Batch, now_us: i64) -> Result<(), Fault> {
    let ahead_us = batch.sent_us.saturating_sub(now_us);
    if ahead_us.saturating_abs() <= CLOCK_US {
        return Ok(());
    }
    let seconds = ahead_us / 1_000_000;
    let text = format!("the clocks of agent and collector differ by {seconds} s");
    Err(Fault::new(StatusCode::CONFLICT, "clock", text)
        .hint("set both by NTP; the agent keeps its results until then"))
}

fn told(error: StoreError) -> Fault {
    let full = matches!(error, StoreError::Full { .. });
    let fault = Fault::from(error);
    if full {
        return Fault {
            status: StatusCode::INSUFFICIENT_STORAGE,
            code: "disk_full",
            ..fault
        };
    }
    fault
}
