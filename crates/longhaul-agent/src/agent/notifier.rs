//! Notifies people and programs of an event: once when it is confirmed, and once when it has
//! recovered, with a program of the user that gets the event as JSON on its standard input.
//!
//! A task with a queue runs the program, so that a failing one does not delay the measurements. A
//! file in the agent's folder records deliveries, so that a restart does not repeat them.
//!
//! - [`delivery_log`]: the record of deliveries

mod delivery_log;

use super::agent_folder::AgentFolder;
use super::agent_log::AgentLog;
use super::shared_state::SharedState;
use delivery_log::{DeliveryLog, DeliveryState};
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use parking_lot::Mutex;
use serde_json::json;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of queued notices.
const MAX_QUEUED_NOTICES: usize = 256;
/// The delays between attempts in seconds; after the last one the notice is given up.
const RETRY_DELAYS_S: [u64; 5] = [1, 5, 30, 120, 600];
/// The time for pending deliveries at shutdown. The next process delivers the rest.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// A notification about an event.
struct EventNotice {
    key: String,
    /// The event and its text as JSON.
    body: String,
}

/// Returns whether an event in this state is notified.
fn is_notified(event: &ChangeEvent) -> bool {
    matches!(event.state, EventState::Confirmed | EventState::Recovered)
}

fn format_notice_key(event: &ChangeEvent) -> String {
    format!("{}/{}/command", event.id, event.state.word())
}

/// State shared with the task that delivers.
#[derive(Clone)]
struct NotifyContext {
    state: Arc<SharedState>,
    delivery_log: Arc<Mutex<DeliveryLog>>,
    log: AgentLog,
}

pub struct EventNotifier {
    /// Absent after the shutdown.
    queue: Option<Sender<EventNotice>>,
    task: JoinHandle<()>,
    shared: NotifyContext,
}

impl EventNotifier {
    pub fn start(state: &Arc<SharedState>, own: &AgentFolder, log: AgentLog) -> EventNotifier {
        let shared = NotifyContext {
            state: Arc::clone(state),
            delivery_log: Arc::new(Mutex::new(DeliveryLog::load(own.file_path("told.json")))),
            log,
        };
        let (queue, notices) = channel(MAX_QUEUED_NOTICES);
        let task = tokio::spawn(deliver_notices(notices, shared.clone()));
        EventNotifier { queue: Some(queue), task, shared }
    }

    /// Queues a notice of the event unless it has been delivered; `case` is its text for the network
    /// operator.
    pub fn notify_event(&self, event: &ChangeEvent, case: &str) {
        let file = self.shared.state.file();
        let Some(queue) = self.queue.as_ref().filter(|_| file.notify.command.is_some()) else {
            return;
        };
        if !is_notified(event) {
            return;
        }
        let Ok(place) = queue.try_reserve() else {
            self.shared.state.counters.write().notices_failed += 1;
            self.shared
                .log
                .warn("cannot queue a notification: the queue is full; it is sent later");
            return;
        };
        let key = format_notice_key(event);
        if self.shared.delivery_log.lock().claim(&key) {
            let title = longhaul_report::summary_lines::format_event_headline(event);
            let body =
                json!({ "agent": file.agent.name, "title": title, "event": event, "text": case });
            place.send(EventNotice { key, body: body.to_string() });
        }
    }

    /// Returns whether an event since the first start lacks a confirmed delivery.
    pub fn is_pending(&self, event: &ChangeEvent) -> bool {
        let memory = self.shared.delivery_log.lock();
        self.shared.state.file().notify.command.is_some()
            && is_notified(event)
            && memory.covers(event.announced_at_us)
            && memory.is_pending(&format_notice_key(event))
    }

    pub async fn shut_down(&mut self) {
        self.queue = None;
        if timeout(SHUTDOWN_GRACE, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

async fn deliver_notices(mut notices: Receiver<EventNotice>, shared: NotifyContext) {
    let set_state = |key: &str, state| shared.delivery_log.lock().set_state(key, state);
    while let Some(EventNotice { key, body }) = notices.recv().await {
        let mut waits = RETRY_DELAYS_S.iter();
        loop {
            set_state(&key, DeliveryState::Done);
            let Err(why) = attempt_delivery(&body, &shared).await else {
                shared.state.counters.write().notified += 1;
                break;
            };
            let text = format!("cannot send the notification by command: {why}");
            let Some(wait) = waits.next() else {
                shared.state.counters.write().notices_failed += 1;
                shared.log.warn(&format!("{text}; giving up"));
                break;
            };
            shared.log.warn(&format!("{text}; retrying in {wait} s"));
            set_state(&key, DeliveryState::Waiting);
            tokio::time::sleep(Duration::from_secs(*wait)).await;
        }
    }
}

/// Makes one delivery attempt. The error is a single line.
async fn attempt_delivery(body: &str, shared: &NotifyContext) -> Result<(), String> {
    let file = shared.state.file();
    let Some((program, arguments)) = file.notify.command.as_deref().and_then(<[_]>::split_first)
    else {
        // The command has been removed from the watch file.
        return Ok(());
    };
    timeout(ATTEMPT_TIMEOUT, run_notify_command(program, arguments, body))
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs())))
}

async fn run_notify_command(program: &str, arguments: &[String], body: &str) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A timeout drops the child and thus kills it.
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("cannot start {program}: {e}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A program need not read its input; only its exit code counts.
        let _ = input.write_all(body.as_bytes()).await;
    }
    let status = child.wait().await.map_err(|e| format!("{program}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed with {status}")) }
}
