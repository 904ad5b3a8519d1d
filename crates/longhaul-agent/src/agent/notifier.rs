//! Notifies people and programs of an event: once when it is confirmed, and once when it has
//! recovered, by a webhook, and with a program of the user; both get the event as JSON.
//!
//! Each channel has its own task and queue, so that a failing one delays neither the other nor the
//! measurements. A file in the agent's folder records deliveries, so that a restart does not repeat
//! them.
//!
//! # Delivery log
//!
//! The record of deliveries, so that a restart does not repeat a notice.
//!
//! An attempt is recorded before it is made. One that a kill interrupted may have arrived, so it is
//! not repeated. One that failed and waits for a retry is repeated.

use super::agent_folder::AgentFolder;
use super::agent_log::AgentLog;
use super::shared_state::SharedState;
use crate::agent::export::format_error_chain;
use crate::agent::{agent_folder, clocks};
use crate::http_client::http_client_builder;
use crate::secret_file;
use crate::watch::watch_file::{NotifySection, WebhookConfig};
use longhaul_model::report::v1::{ChangeEvent, EventState};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of queued notices per channel.
const MAX_QUEUED_NOTICES: usize = 256;
/// The delays between attempts in seconds; after the last one the notice is given up.
const RETRY_DELAYS_S: [u64; 5] = [1, 5, 30, 120, 600];
/// The time for pending deliveries at shutdown. The next process delivers the rest.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// A way to send notifications.
#[derive(Debug, Clone, Copy)]
enum NotifyChannel {
    Webhook,
    Command,
}

impl NotifyChannel {
    const fn name(self) -> &'static str {
        match self {
            NotifyChannel::Webhook => "webhook",
            NotifyChannel::Command => "command",
        }
    }

    fn is_configured(self, section: &NotifySection) -> bool {
        match self {
            NotifyChannel::Webhook => section.webhook.is_some(),
            NotifyChannel::Command => section.command.is_some(),
        }
    }

    fn notice_key(self, event: &ChangeEvent) -> String {
        format!("{}/{}/{}", event.id, event.state.word(), self.name())
    }
}

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

/// State shared with the tasks that deliver.
#[derive(Clone)]
struct NotifyContext {
    state: Arc<SharedState>,
    delivery_log: Arc<Mutex<DeliveryLog>>,
    log: AgentLog,
}

/// The task of a channel, which ends when its queue is dropped.
struct ChannelTask {
    channel: NotifyChannel,
    queue: Sender<EventNotice>,
    task: JoinHandle<()>,
}

pub struct EventNotifier {
    /// Empty after the shutdown.
    channels: Vec<ChannelTask>,
    shared: NotifyContext,
}

impl EventNotifier {
    pub fn start(state: &Arc<SharedState>, own: &AgentFolder, log: AgentLog) -> EventNotifier {
        let shared = NotifyContext {
            state: Arc::clone(state),
            delivery_log: Arc::new(Mutex::new(DeliveryLog::load(own.file_path("told.json")))),
            log,
        };
        let start_channel = |channel| {
            let (queue, notices) = mpsc::channel(MAX_QUEUED_NOTICES);
            let task = tokio::spawn(deliver_notices(channel, notices, shared.clone()));
            ChannelTask { channel, queue, task }
        };
        let channels = [NotifyChannel::Webhook, NotifyChannel::Command].map(start_channel).into();
        EventNotifier { channels, shared }
    }

    fn configured_channels(&self) -> impl Iterator<Item = &ChannelTask> {
        let file = self.shared.state.file();
        self.channels.iter().filter(move |it| it.channel.is_configured(&file.notify))
    }

    /// Queues notices of the event for the channels that have not delivered it; `case` is its text
    /// for the network operator.
    pub fn notify_event(&self, event: &ChangeEvent, case: &str) {
        if !is_notified(event) {
            return;
        }
        for ChannelTask { channel, queue, .. } in self.configured_channels() {
            let Ok(place) = queue.try_reserve() else {
                self.shared.state.counters.write().notices_failed += 1;
                let channel = channel.name();
                self.shared.log.warn(&format!(
                    "cannot queue a notification by {channel}: the queue is full; it is sent later"
                ));
                continue;
            };
            let key = channel.notice_key(event);
            if self.shared.delivery_log.lock().claim(&key) {
                let agent = &self.shared.state.file().agent.name;
                let title = longhaul_report::summary_lines::format_event_headline(event);
                let body = json!({ "agent": agent, "title": title, "event": event, "text": case });
                place.send(EventNotice { key, body: body.to_string() });
            }
        }
    }

    /// Records that an event in this state is not notified, because a person has silenced it.
    pub fn skip_event(&self, event: &ChangeEvent) {
        let mut log = self.shared.delivery_log.lock();
        for it in self.configured_channels().filter(|_| is_notified(event)) {
            log.set_state(&it.channel.notice_key(event), DeliveryState::Done);
        }
    }

    /// Returns whether an event since the first start lacks a confirmed delivery.
    pub fn is_pending(&self, event: &ChangeEvent) -> bool {
        let memory = self.shared.delivery_log.lock();
        is_notified(event)
            && memory.covers(event.announced_at_us)
            && self.configured_channels().any(|it| memory.is_pending(&it.channel.notice_key(event)))
    }

    pub async fn shut_down(&mut self) {
        for ChannelTask { queue, mut task, .. } in self.channels.drain(..) {
            drop(queue);
            if timeout(SHUTDOWN_GRACE, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

async fn deliver_notices(
    channel: NotifyChannel,
    mut notices: Receiver<EventNotice>,
    shared: NotifyContext,
) {
    let set_state = |key: &str, state| shared.delivery_log.lock().set_state(key, state);
    while let Some(EventNotice { key, body }) = notices.recv().await {
        let mut waits = RETRY_DELAYS_S.iter();
        loop {
            set_state(&key, DeliveryState::Done);
            let Err(why) = attempt_delivery(channel, &body, &shared).await else {
                shared.state.counters.write().notified += 1;
                break;
            };
            let text = format!("cannot send the notification by {}: {why}", channel.name());
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
async fn attempt_delivery(
    channel: NotifyChannel,
    body: &str,
    shared: &NotifyContext,
) -> Result<(), String> {
    let file = shared.state.file();
    let delivered = async {
        let command = file.notify.command.as_deref().and_then(<[_]>::split_first);
        match (channel, &file.notify.webhook, command) {
            (NotifyChannel::Webhook, Some(webhook), _) => {
                post_notice(webhook, &shared.state.folder, body).await
            }
            (NotifyChannel::Command, _, Some((program, arguments))) => {
                run_notify_command(program, arguments, body).await
            }
            // The channel has been removed from the watch file.
            _ => Ok(()),
        }
    };
    timeout(ATTEMPT_TIMEOUT, delivered)
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

async fn post_notice(to: &WebhookConfig, folder: &Path, body: &str) -> Result<(), String> {
    let web =
        http_client_builder(ATTEMPT_TIMEOUT).build().map_err(|error| format_error_chain(&error))?;
    let mut request =
        web.post(&to.url).header("content-type", "application/json").body(body.to_owned());
    if let Some(token) = &to.token_file {
        let path = folder.join(token);
        let secret = secret_file::read_secret(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        request = request.bearer_auth(secret);
    }
    // The URL may contain a secret, so errors omit it.
    let answer = request.send().await.map_err(|error| format_error_chain(&error.without_url()))?;
    let status = answer.status();
    if status.is_success() { Ok(()) } else { Err(format!("the server answered {status}")) }
}

/// The maximum number of remembered notices.
const MAX_NOTICES: usize = 10_000;
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeliveryState {
    Waiting,
    /// Delivered, given up, or being delivered when the agent was killed.
    #[serde(alias = "trying", alias = "given_up")]
    Done,
}

/// The file of the log.
#[derive(Debug, Serialize, Deserialize)]
struct DeliveryLogFile {
    /// Older events are not notified.
    since_us: i64,
    /// Notices, the oldest first.
    told: Vec<(String, DeliveryState)>,
}

#[derive(Debug)]
struct DeliveryLog {
    path: PathBuf,
    file: DeliveryLogFile,
    /// Notices that this process has delivered or queued.
    claimed: HashSet<String>,
}

impl DeliveryLog {
    pub fn load(path: PathBuf) -> DeliveryLog {
        let stored = agent_folder::load_json(&path, FILE_BYTES_MAX);
        let is_new = stored.is_none();
        let new = || DeliveryLogFile { since_us: clocks::read_wall_us(), told: Vec::new() };
        let file = stored.unwrap_or_else(new);
        let log = DeliveryLog { path, file, claimed: HashSet::new() };
        if is_new {
            log.save();
        }
        log
    }

    /// Returns whether an event that was announced at this time is notified.
    pub fn covers(&self, announced_at_us: i64) -> bool {
        announced_at_us >= self.file.since_us
    }

    /// Returns whether the notice is pending, including after a failed attempt.
    pub fn is_pending(&self, key: &str) -> bool {
        let told = self.file.told.iter().find(|(known, _)| known == key);
        !self.claimed.contains(key) && told.is_none_or(|(_, told)| *told == DeliveryState::Waiting)
    }

    /// Claims the notice. Returns false if it is not pending.
    pub fn claim(&mut self, key: &str) -> bool {
        let may = self.is_pending(key);
        if may {
            self.claimed.insert(key.to_owned());
            self.set_state(key, DeliveryState::Waiting);
        }
        may
    }

    pub fn set_state(&mut self, key: &str, told: DeliveryState) {
        match self.file.told.iter_mut().find(|(known, _)| known == key) {
            Some((_, state)) => *state = told,
            None => self.file.told.push((key.to_owned(), told)),
        }
        let excess = self.file.told.len().saturating_sub(MAX_NOTICES);
        for (oldest, _) in self.file.told.drain(..excess) {
            self.claimed.remove(&oldest);
        }
        self.save();
    }

    fn save(&self) {
        agent_folder::save_json(&self.path, &self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::export::tests::place;

    #[test]
    fn a_restart_tells_what_waits_and_nothing_twice() {
        let path = std::env::temp_dir().join(format!("longhaul-told-{}.json", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut first = DeliveryLog::load(path.clone());
        for (key, told) in [("done", DeliveryState::Done), ("failed", DeliveryState::Waiting)] {
            assert!(first.claim(key) && !first.claim(key));
            first.set_state(key, told);
        }
        let mut second = DeliveryLog::load(path.clone());
        assert_eq!(second.file.since_us, first.file.since_us);
        for (key, again) in [("done", false), ("failed", true), ("new", true)] {
            assert_eq!(second.claim(key), again, "{key}");
        }
        std::fs::remove_file(&path).expect("it was written");
    }

    fn event(id: &str, state: EventState) -> ChangeEvent {
        let announced_at_us = i64::MAX;
        ChangeEvent { id: id.to_owned(), state, announced_at_us, ..place::event() }
    }

    #[tokio::test]
    async fn a_silenced_event_is_not_notified_later_but_its_next_state_may_be() {
        let folder = std::env::temp_dir().join(format!("longhaul-skip-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let own = AgentFolder::acquire(&folder.join("archive.sqlite3"), Duration::ZERO)
            .expect("a folder");
        let text = "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\naddress = \"192.0.2.7\"\n\
                    [[target]]\nhost = \"b\"\n[[measure]]\nname = \"m\"\nkind = \"path\"\n\
                    every = \"1 h\"\n[notify]\ncommand = [\"/bin/true\"]\n";
        let check_secret = |_: &Path| crate::watch::watch_file::SecretFileState::Private;
        let context =
            crate::watch::watch_file::WatchFileContext { agent: None, check_secret: &check_secret };
        let file = crate::watch::watch_file::parse_watch_file("watch.toml", text, &context);
        let path = folder.join("archive.sqlite3");
        let open = Arc::new(move || longhaul_store::Archive::open(&path));
        let file = Arc::new(file.expect("a right file"));
        let tokens = crate::token_store::TokenStore::of_archive(&folder.join("archive"));
        let (state, _requests) = SharedState::new(open, file, folder.clone(), tokens, 0);
        let log = AgentLog { format: crate::event_log::LogFormat::Text };
        let mut notifier = EventNotifier::start(&state, &own, log);
        let (confirmed, recovered) =
            (event("e", EventState::Confirmed), event("e", EventState::Recovered));
        assert!(notifier.is_pending(&confirmed));
        notifier.skip_event(&confirmed);
        assert!(!notifier.is_pending(&confirmed), "also not after the silence");
        assert!(notifier.is_pending(&recovered));
        notifier.notify_event(&confirmed, "");
        notifier.notify_event(&recovered, "");
        notifier.shut_down().await;
        assert_eq!(state.read_counters().notified, 1, "the recovery alone");
        std::fs::remove_dir_all(&folder).expect("it was written");
    }
}
