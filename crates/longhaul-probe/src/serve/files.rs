//! The server side of a copy: data connections from the listener, and a thread that handles the
//! requests, so that long file operations do not stop the session's heartbeats.

use super::Service;
use super::event::ServeEvent;
use super::registry::{Claim, Expected, Registered};
use super::slots::Slot;
use crate::engine::{self, Role as Flow};
use crate::limits::check_plan;
use crate::secure::random;
use crate::session::Input;
use crate::transfer::{FarFiles, plan_of};
use crate::wire::{
    AnonymousLimits, Answer, BlockKey, FilesAnswer, FilesAsk, Nonce, OpenAsk, Opened, Packed,
};
use longhaul_model::report::v1::plan::Plan;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// A request for the thread, with the data connections.
type Task = (FilesAsk, Vec<TcpStream>);

pub(super) struct Files<'a> {
    service: &'a Service<'a>,
    peer: SocketAddr,
    anonymous: Option<AnonymousLimits>,
    key: BlockKey,
    worker: Option<(SyncSender<Task>, Receiver<Answer>)>,
    connections: Option<Connections<'a>>,
    /// A request that waits for its connections.
    begin: Option<FilesAsk>,
    /// The thread has not answered yet.
    asked: bool,
    moved_bytes: u64,
    /// Set to tell the thread that its answer is no longer needed.
    gone: Arc<AtomicBool>,
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// The data connections that have arrived so far.
struct Connections<'a> {
    registered: Registered<'a>,
    plan: Plan,
    forward: bool,
    open: Vec<TcpStream>,
    _slot: Slot<'a>,
}

impl<'a> Files<'a> {
    /// Returns `None` if the kernel provides no random bytes.
    pub fn new(
        service: &'a Service<'a>,
        peer: SocketAddr,
        anonymous: Option<AnonymousLimits>,
    ) -> Option<Files<'a>> {
        Some(Files {
            service,
            peer,
            anonymous,
            key: random()?,
            worker: None,
            connections: None,
            begin: None,
            asked: false,
            moved_bytes: 0,
            gone: Arc::default(),
        })
    }

    /// Returns the payload that this end moved, as of the peer's last status request.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Returns whether connections or an answer are pending. Otherwise only the peer can send news.
    pub fn expects(&self) -> bool {
        self.begin.is_some() || self.asked
    }

    /// Starts a request; returns an answer if it is available at once or the request is impossible.
    pub fn ask(&mut self, ask: FilesAsk) -> Option<Input> {
        match ask {
            FilesAsk::Open(ask) => Some(answered(self.open(&ask))),
            FilesAsk::Begin { .. } => {
                self.begin = Some(ask);
                None
            }
            other => self.hand_over((other, Vec::new())),
        }
    }

    /// Returns the answer, if there is one.
    pub fn poll(&mut self) -> Option<Input> {
        if self.begin.is_some() {
            match self.take_claims() {
                Ok(None) => return None,
                Ok(Some(streams)) => {
                    let begin = self.begin.take()?;
                    return self.hand_over((begin, streams));
                }
                Err(why) => {
                    self.begin = None;
                    return Some(answered(Err(why)));
                }
            }
        }
        let (_, answers) = self.worker.as_ref()?;
        match answers.try_recv() {
            Ok(answer) => {
                self.asked = false;
                if let Answer::Files(FilesAnswer::Status(status)) = &answer {
                    self.moved_bytes = status.moved_bytes;
                }
                Some(Input::Answer(Box::new(answer)))
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Input::Failed("its thread for files ended".to_owned()))
            }
        }
    }

    fn hand_over(&mut self, task: Task) -> Option<Input> {
        let sent = self.started().map(|asks| asks.try_send(task).is_ok());
        match sent {
            Ok(true) => {
                self.asked = true;
                None
            }
            Ok(false) => Some(Input::Failed(
                "its thread for files takes no work".to_owned(),
            )),
            Err(error) => Some(Input::Failed(format!("cannot start a thread: {error}"))),
        }
    }

    /// Returns the thread's queue; the first request starts the thread.
    fn started(&mut self) -> io::Result<&SyncSender<Task>> {
        if self.worker.is_none() {
            let (ask, asks) = sync_channel::<Task>(1);
            let (answer, answers) = sync_channel(1);
            let roots = self.service.options.files.clone();
            let gone = Arc::clone(&self.gone);
            let mut far = FarFiles::new(roots, self.anonymous.is_none(), self.key, gone);
            // The thread ends with the session, which drops the other end of `asks`.
            std::thread::Builder::new()
                .name("files".to_owned())
                .spawn(move || {
                    while let Ok((task, streams)) = asks.recv() {
                        let done = match far.answer(task, streams) {
                            Ok(done) => Answer::Files(done),
                            Err(why) => Answer::Failed(why),
                        };
                        if answer.send(done).is_err() {
                            return;
                        }
                    }
                })?;
            self.worker = Some((ask, answers));
        }
        match &self.worker {
            Some((asks, _)) => Ok(asks),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sets the number of connections and takes a slot for a bulk run.
    fn open(&mut self, ask: &OpenAsk) -> Result<FilesAnswer, String> {
        if self.service.options.files.is_empty() {
            return Err(NOTHING_SERVED.to_owned());
        }
        if self.connections.is_some() {
            return Err("the data connections were settled already".to_owned());
        }
        let plan = plan_of(ask);
        check_plan(&plan, self.service.options.max_streams).map_err(|error| error.to_string())?;
        if let Some(limits) = &self.anonymous {
            if limits.rate_bps.is_some() || limits.bytes.is_some() {
                return Err("files go only to who has the token".to_owned());
            }
            if ask.streams > limits.streams {
                return Err(format!(
                    "without a token, at most {} streams",
                    limits.streams
                ));
            }
        }
        let strangers = self.anonymous.map(|limits| limits.concurrent);
        let slot = self.service.slots.take(strangers)?;
        let nonce = random()
            .map(Nonce)
            .ok_or("the kernel gives no random bytes")?;
        let expected = Expected {
            peer: self.peer.ip(),
            streams: plan.streams,
            forward: ask.forward,
            reverse: !ask.forward,
            udp: false,
        };
        self.connections = Some(Connections {
            registered: self.service.registry.register(nonce, expected),
            plan,
            forward: ask.forward,
            open: Vec::new(),
            _slot: slot,
        });
        (self.service.log)(ServeEvent::Copying {
            peer: self.peer,
            receiving: ask.forward,
        });
        Ok(FilesAnswer::Opened(Opened {
            nonce,
            key: Packed(self.key.to_vec()),
        }))
    }

    /// Returns all connections after they have arrived.
    fn take_claims(&mut self) -> Result<Option<Vec<TcpStream>>, String> {
        let Some(connections) = &mut self.connections else {
            return Err("no data connections were settled".to_owned());
        };
        let flow = if connections.forward {
            Flow::Receiver
        } else {
            Flow::Sender
        };
        while let Ok(claim) = connections.registered.claims.try_recv() {
            let Claim::Connection(_, stream) = claim else {
                return Err("a datagram in the place of a data connection".to_owned());
            };
            engine::prepare_accepted(&stream, &connections.plan, flow)
                .and_then(|()| engine::bound_window(&stream, &connections.plan))
                .map_err(|error| error.to_string())?;
            connections.open.push(stream);
        }
        let all = connections.open.len() == connections.plan.streams as usize;
        Ok(all.then(|| std::mem::take(&mut connections.open)))
    }
}

const NOTHING_SERVED: &str =
    "no files are served there; `longhaul serve --files DIR` at the far end serves a folder";

fn answered(done: Result<FilesAnswer, String>) -> Input {
    Input::Answer(Box::new(match done {
        Ok(done) => Answer::Files(done),
        Err(why) => Answer::Failed(why),
    }))
}
