//! Notifies people and programs of an event: once when it is confirmed, and once when it has
//! recovered.
//!
//! Each channel has its own task and queue, so that a failing one delays neither the others nor the
//! measurements. A file in the agent's folder records deliveries, so that a restart does not repeat
//! them.
//!
//! - [`delivery_log`]: the record of deliveries
//! - [`webhook_channel`], [`command_channel`]: the channels

mod command_channel;
mod delivery_log;
mod webhook_channel;

use super::agent_folder::AgentFolder;
use super::agent_log::AgentLog;
use super::shared_state::SharedState;
use crate::watch::watch_file::NotifySection;
use delivery_log::{DeliveryLog, DeliveryState};
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The timeout of one attempt.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of queued notices per channel.
const MAX_QUEUED_NOTICES: usize = 256;
/// The delays between attempts; after the last one the notice is given up.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
];
/// The time for pending deliveries at shutdown. The next process delivers the rest.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// A notification channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyChannel {
    Webhook,
    Program,
}

impl NotifyChannel {
    const ALL: [NotifyChannel; 2] = [NotifyChannel::Webhook, NotifyChannel::Program];

    const fn word(self) -> &'static str {
        match self {
            NotifyChannel::Webhook => "webhook",
            NotifyChannel::Program => "command",
        }
    }

    fn is_configured(self, notify: &NotifySection) -> bool {
        match self {
            NotifyChannel::Webhook => notify.webhook.is_some(),
            NotifyChannel::Program => notify.command.is_some(),
        }
    }
}

/// A notification about an event.
#[derive(Debug, Clone)]
pub struct EventNotice {
    pub event: ChangeEvent,
    /// The case text for the network operator.
    pub case: Arc<str>,
    pub agent: String,
}

impl EventNotice {
    /// Returns the event as one line.
    pub fn title(&self) -> String {
        longhaul_report::summary_lines::format_event_headline(&self.event)
    }

    pub fn to_json(&self) -> String {
        serde_json::json!({
            "agent": self.agent, "title": self.title(), "event": self.event, "text": *self.case,
        })
        .to_string()
    }
}

fn format_notice_key(event: &ChangeEvent, channel_kind: NotifyChannel) -> String {
    format!("{}/{}/{}", event.id, event.state.word(), channel_kind.word())
}

/// State shared by all channels.
#[derive(Clone)]
struct NotifyContext {
    state: Arc<SharedState>,
    delivery_log: Arc<Mutex<DeliveryLog>>,
    log: AgentLog,
}

pub struct EventNotifier {
    queues: Vec<(NotifyChannel, Sender<EventNotice>)>,
    tasks: Vec<JoinHandle<()>>,
    shared: NotifyContext,
}

impl EventNotifier {
    pub fn start(state: &Arc<SharedState>, own: &AgentFolder, log: AgentLog) -> EventNotifier {
        let shared = NotifyContext {
            state: Arc::clone(state),
            delivery_log: Arc::new(Mutex::new(DeliveryLog::load(own.file_path("told.json")))),
            log,
        };
        let (mut queues, mut tasks) = (Vec::new(), Vec::new());
        for channel_kind in NotifyChannel::ALL {
            let (queue, taken) = channel(MAX_QUEUED_NOTICES);
            queues.push((channel_kind, queue));
            tasks.push(tokio::spawn(run_channel(channel_kind, taken, shared.clone())));
        }
        EventNotifier { queues, tasks, shared }
    }

    /// Queues notices of the event for all channels that have not delivered it yet.
    pub fn notify_event(&self, event: &ChangeEvent, case: &Arc<str>) {
        if !matches!(event.state, EventState::Confirmed | EventState::Recovered) {
            return;
        }
        let file = self.shared.state.file();
        for (channel_kind, queue) in &self.queues {
            let key = format_notice_key(event, *channel_kind);
            if !channel_kind.is_configured(&file.notify)
                || !self.shared.delivery_log.lock().claim(&key)
            {
                continue;
            }
            let notice = EventNotice {
                event: event.clone(),
                case: Arc::clone(case),
                agent: file.agent.name.clone(),
            };
            if queue.try_send(notice).is_err() {
                self.shared.state.counters.write().notices_failed += 1;
                let channel_kind = channel_kind.word();
                let text = format!(
                    "cannot queue a notification by {channel_kind}: the queue is full; one is sent later"
                );
                self.shared.log.warn(&text);
                self.shared.delivery_log.lock().forget(&key);
            }
        }
    }

    /// Returns whether an event since the first start lacks a confirmed delivery.
    pub fn is_pending(&self, event: &ChangeEvent) -> bool {
        let file = self.shared.state.file();
        let memory = self.shared.delivery_log.lock();
        let mut ways = NotifyChannel::ALL.into_iter();
        matches!(event.state, EventState::Confirmed | EventState::Recovered)
            && memory.covers(event.announced_at_us)
            && ways.any(|channel_kind| {
                channel_kind.is_configured(&file.notify)
                    && memory.is_pending(&format_notice_key(event, channel_kind))
            })
    }

    pub async fn shut_down(&mut self) {
        self.queues.clear();
        for task in self.tasks.drain(..) {
            let stop = task.abort_handle();
            if timeout(SHUTDOWN_GRACE, task).await.is_err() {
                stop.abort();
            }
        }
    }
}

async fn run_channel(
    channel_kind: NotifyChannel,
    mut notices: Receiver<EventNotice>,
    shared: NotifyContext,
) {
    while let Some(notice) = notices.recv().await {
        let key = format_notice_key(&notice.event, channel_kind);
        let mut waits = RETRY_DELAYS.iter();
        loop {
            shared.delivery_log.lock().set_state(&key, DeliveryState::Trying);
            let why = match attempt_delivery(channel_kind, &notice, &shared).await {
                Ok(()) => {
                    shared.state.counters.write().notified += 1;
                    shared.delivery_log.lock().set_state(&key, DeliveryState::Done);
                    break;
                }
                Err(why) => why,
            };
            let text = format!("cannot send the notification by {}: {why}", channel_kind.word());
            let Some(wait) = waits.next() else {
                shared.state.counters.write().notices_failed += 1;
                shared.delivery_log.lock().set_state(&key, DeliveryState::GivenUp);
                shared.log.warn(&format!("{text}; giving up"));
                break;
            };
            shared.log.warn(&format!("{text}; retrying in {} s", wait.as_secs()));
            shared.delivery_log.lock().set_state(&key, DeliveryState::Waiting);
            tokio::time::sleep(*wait).await;
        }
    }
}

/// Makes one delivery attempt. The error is a single line.
async fn attempt_delivery(
    channel_kind: NotifyChannel,
    notice: &EventNotice,
    shared: &NotifyContext,
) -> Result<(), String> {
    let file = shared.state.file();
    let told = async {
        match (channel_kind, &file.notify.webhook, &file.notify.command) {
            (NotifyChannel::Webhook, Some(webhook), _) => {
                webhook_channel::post_notice(webhook, &shared.state.folder, notice).await
            }
            (NotifyChannel::Program, _, Some(command)) => {
                command_channel::run_notify_command(command, notice).await
            }
            // The channel has been removed from the watch file.
            _ => Ok(()),
        }
    };
    timeout(ATTEMPT_TIMEOUT, told)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs())))
}
