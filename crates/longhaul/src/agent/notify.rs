//! Notifies people and programs of an event: once when it is confirmed, and once when it has
//! recovered.
//!
//! Each channel has its own task and queue, so that a failing one delays neither the others nor the
//! measurements. A file in the agent's folder records deliveries, so that a restart does not repeat
//! them.
//!
//! - [`memory`]: the record of deliveries
//! - [`webhook`], [`program`]: the channels

mod memory;
mod program;
mod webhook;

use super::folder::Folder;
use super::voice::Voice;
use crate::watch::file::{Notify, WatchFile};
use longhaul_model::report::v1::event::{Event, State};
use memory::{Memory, Told};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The timeout of one attempt.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The maximum number of queued notices per channel.
const QUEUE_MAX: usize = 256;
/// The delays between attempts; after the last one the notice is given up.
const WAITS: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
];
/// The time for pending deliveries at shutdown. The next process delivers the rest.
const LAST: Duration = Duration::from_secs(5);

/// A notification channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Webhook,
    Program,
}

impl Way {
    const ALL: [Way; 2] = [Way::Webhook, Way::Program];

    const fn word(self) -> &'static str {
        match self {
            Way::Webhook => "webhook",
            Way::Program => "command",
        }
    }

    fn is_asked_for(self, notify: &Notify) -> bool {
        match self {
            Way::Webhook => notify.webhook.is_some(),
            Way::Program => notify.command.is_some(),
        }
    }
}

/// A notification about an event.
#[derive(Debug, Clone)]
pub struct Notice {
    pub event: Event,
    /// The case text for the network operator.
    pub case: Arc<str>,
    pub agent: Arc<str>,
}

impl Notice {
    fn key(&self, way: Way) -> String {
        key(&self.event, way)
    }

    /// Returns the event as one line.
    pub fn title(&self) -> String {
        crate::render::watch::lines::headline(&self.event)
    }

    pub fn json(&self) -> String {
        serde_json::json!({
            "agent": *self.agent, "title": self.title(), "event": self.event, "text": *self.case,
        })
        .to_string()
    }
}

fn key(event: &Event, way: Way) -> String {
    format!("{}/{}/{}", event.id, event.state.word(), way.word())
}

/// State shared by all channels.
#[derive(Clone)]
struct Shared {
    /// The current `[notify]` section.
    notify: watch::Receiver<Arc<Notify>>,
    folder: PathBuf,
    memory: Arc<Mutex<Memory>>,
    counts: Arc<Counts>,
    voice: Voice,
}

#[derive(Debug, Default)]
struct Counts {
    told: AtomicU64,
    failed: AtomicU64,
}

pub struct Notifier {
    queues: Vec<(Way, Sender<Notice>)>,
    tasks: Vec<JoinHandle<()>>,
    notify: watch::Sender<Arc<Notify>>,
    agent: Arc<str>,
    shared: Shared,
}

impl Notifier {
    /// Relative paths in the file refer to `folder`.
    pub fn start(file: &WatchFile, folder: &Path, own: &Folder, voice: Voice) -> Notifier {
        let (notify, followed) = watch::channel(Arc::new(file.notify.clone()));
        let shared = Shared {
            notify: followed,
            folder: folder.to_owned(),
            memory: Arc::new(Mutex::new(Memory::read(own.file("told.json")))),
            counts: Arc::default(),
            voice,
        };
        let (mut queues, mut tasks) = (Vec::new(), Vec::new());
        for way in Way::ALL {
            let (queue, taken) = channel(QUEUE_MAX);
            queues.push((way, queue));
            tasks.push(tokio::spawn(work(way, taken, shared.clone())));
        }
        Notifier {
            queues,
            tasks,
            notify,
            agent: file.agent.name.as_str().into(),
            shared,
        }
    }

    pub fn follow(&self, file: &WatchFile) {
        self.notify.send_replace(Arc::new(file.notify.clone()));
    }

    /// Queues notices of the event for all channels that have not delivered it yet.
    pub fn tell(&self, event: &Event, case: &Arc<str>) {
        if !matches!(event.state, State::Confirmed | State::Recovered) {
            return;
        }
        let notify = Arc::clone(&self.shared.notify.borrow());
        for (way, queue) in &self.queues {
            let key = key(event, *way);
            if !way.is_asked_for(&notify) || !lock(&self.shared.memory).begin(&key) {
                continue;
            }
            let notice = Notice {
                event: event.clone(),
                case: Arc::clone(case),
                agent: Arc::clone(&self.agent),
            };
            if queue.try_send(notice).is_err() {
                self.shared.counts.failed.fetch_add(1, Ordering::Relaxed);
                let way = way.word();
                let text = format!("too many notices wait for {way}: one is told later");
                self.shared.voice.trouble(&text);
                lock(&self.shared.memory).set(&key, None);
            }
        }
    }

    /// Returns whether an event since the first start lacks a confirmed delivery.
    pub fn is_to_tell(&self, event: &Event) -> bool {
        let notify = Arc::clone(&self.shared.notify.borrow());
        let memory = lock(&self.shared.memory);
        let mut ways = Way::ALL.into_iter();
        matches!(event.state, State::Confirmed | State::Recovered)
            && event.announced_at_us >= memory.since_us
            && ways.any(|way| way.is_asked_for(&notify) && memory.may_tell(&key(event, way)))
    }

    /// Returns the number of delivered and of given-up notices.
    pub fn counts(&self) -> (u64, u64) {
        let counts = &self.shared.counts;
        (
            counts.told.load(Ordering::Relaxed),
            counts.failed.load(Ordering::Relaxed),
        )
    }

    pub async fn finish(&mut self) {
        self.queues.clear();
        for task in self.tasks.drain(..) {
            let stop = task.abort_handle();
            if timeout(LAST, task).await.is_err() {
                stop.abort();
            }
        }
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn work(way: Way, mut notices: Receiver<Notice>, shared: Shared) {
    while let Some(notice) = notices.recv().await {
        let key = notice.key(way);
        let mut waits = WAITS.iter();
        loop {
            lock(&shared.memory).set(&key, Some(Told::Trying));
            let why = match attempt(way, &notice, &shared).await {
                Ok(()) => {
                    shared.counts.told.fetch_add(1, Ordering::Relaxed);
                    lock(&shared.memory).set(&key, Some(Told::Done));
                    break;
                }
                Err(why) => why,
            };
            let text = format!("{} was not told: {why}", way.word());
            let Some(wait) = waits.next() else {
                shared.counts.failed.fetch_add(1, Ordering::Relaxed);
                lock(&shared.memory).set(&key, Some(Told::GivenUp));
                shared.voice.trouble(&format!("{text}; given up"));
                break;
            };
            shared
                .voice
                .trouble(&format!("{text}; tried again in {} s", wait.as_secs()));
            lock(&shared.memory).set(&key, Some(Told::Waiting));
            tokio::time::sleep(*wait).await;
        }
    }
}

/// Makes one delivery attempt. The error is a single line.
async fn attempt(way: Way, notice: &Notice, shared: &Shared) -> Result<(), String> {
    let notify = Arc::clone(&shared.notify.borrow());
    let told = async {
        match way {
            Way::Webhook => match &notify.webhook {
                Some(webhook) => webhook::tell(webhook, &shared.folder, notice).await,
                None => Ok(()),
            },
            Way::Program => match &notify.command {
                Some(command) => program::tell(command, notice).await,
                None => Ok(()),
            },
        }
    };
    timeout(DEADLINE, told)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", DEADLINE.as_secs())))
}

/// Returns the first line of a secret file.
fn secret(folder: &Path, file: &Path) -> Result<String, String> {
    let path = folder.join(file);
    let text = super::folder::read(&path, 4096)
        .ok()
        .flatten()
        .unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        return Err(format!("{} holds no secret", path.display()));
    }
    Ok(line.to_owned())
}
