//! The server side of a copy: data connections from the listener, and a thread that handles the
//! requests, so that long file operations do not stop the session's heartbeats.

use super::ServerContext;
use super::serve_event::ServeEvent;
use super::session_slots::SessionSlot;
use super::stream_registry::{ExpectedStreams, SessionEntry, StreamClaim};
use crate::engine::{self, TransferRole as Flow};
use crate::plan_limits::check_plan;
use crate::secure::random_bytes;
use crate::session::SessionInput;
use crate::transfer::{ServerFiles, connection_plan};
use crate::wire::{
    AnonymousLimits, Base64Bytes, BlockKey, FilesReply, FilesRequest, OpenStreamsReply,
    OpenStreamsRequest, SessionNonce, SessionReply,
};
use longhaul_model::report::v1::plan::ThroughputPlan;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// A request for the thread, with the data connections.
type FilesTask = (FilesRequest, Vec<TcpStream>);

pub(super) struct FilesSession<'a> {
    service: &'a ServerContext<'a>,
    peer: SocketAddr,
    anonymous: Option<AnonymousLimits>,
    key: BlockKey,
    worker: Option<(SyncSender<FilesTask>, Receiver<SessionReply>)>,
    connections: Option<CopyConnections<'a>>,
    /// A request that waits for its connections.
    begin: Option<FilesRequest>,
    /// The thread has not answered yet.
    is_waiting: bool,
    moved_bytes: u64,
    /// Set to tell the thread that its answer is no longer needed.
    abandoned: Arc<AtomicBool>,
}

impl Drop for FilesSession<'_> {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

/// The data connections that have arrived so far.
struct CopyConnections<'a> {
    registered: SessionEntry<'a>,
    plan: ThroughputPlan,
    forward: bool,
    open: Vec<TcpStream>,
    _slot: SessionSlot<'a>,
}

impl<'a> FilesSession<'a> {
    /// Returns `None` if the kernel provides no random bytes.
    pub fn new(
        service: &'a ServerContext<'a>,
        peer: SocketAddr,
        anonymous: Option<AnonymousLimits>,
    ) -> Option<FilesSession<'a>> {
        Some(FilesSession {
            service,
            peer,
            anonymous,
            key: random_bytes()?,
            worker: None,
            connections: None,
            begin: None,
            is_waiting: false,
            moved_bytes: 0,
            abandoned: Arc::default(),
        })
    }

    /// Returns the payload that this end moved, as of the peer's last status request.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Returns whether connections or an answer are pending. Otherwise only the peer can send news.
    pub fn is_pending(&self) -> bool {
        self.begin.is_some() || self.is_waiting
    }

    /// Starts a request; returns an answer if it is available at once or the request is impossible.
    pub fn start_request(&mut self, ask: FilesRequest) -> Option<SessionInput> {
        match ask {
            FilesRequest::Open(ask) => Some(to_answer_input(self.open(&ask))),
            FilesRequest::Begin { .. } => {
                self.begin = Some(ask);
                None
            }
            other => self.send_task((other, Vec::new())),
        }
    }

    /// Returns the answer, if there is one.
    pub fn poll(&mut self) -> Option<SessionInput> {
        if self.begin.is_some() {
            match self.take_claims() {
                Ok(None) => return None,
                Ok(Some(streams)) => {
                    let begin = self.begin.take()?;
                    return self.send_task((begin, streams));
                }
                Err(why) => {
                    self.begin = None;
                    return Some(to_answer_input(Err(why)));
                }
            }
        }
        let (_, answers) = self.worker.as_ref()?;
        match answers.try_recv() {
            Ok(answer) => {
                self.is_waiting = false;
                if let SessionReply::Files(FilesReply::Status(status)) = &answer {
                    self.moved_bytes = status.moved_bytes;
                }
                Some(SessionInput::Answer(Box::new(answer)))
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(SessionInput::Failed("the file thread ended".to_owned()))
            }
        }
    }

    fn send_task(&mut self, task: FilesTask) -> Option<SessionInput> {
        let sent = self.worker().map(|asks| asks.try_send(task).is_ok());
        match sent {
            Ok(true) => {
                self.is_waiting = true;
                None
            }
            Ok(false) => Some(SessionInput::Failed(
                "the file thread accepts no request".to_owned(),
            )),
            Err(error) => Some(SessionInput::Failed(format!(
                "cannot start a thread: {error}"
            ))),
        }
    }

    /// Returns the thread's queue; the first request starts the thread.
    fn worker(&mut self) -> io::Result<&SyncSender<FilesTask>> {
        if self.worker.is_none() {
            let (ask, asks) = sync_channel::<FilesTask>(1);
            let (answer, answers) = sync_channel(1);
            let roots = self.service.options.files.clone();
            let gone = Arc::clone(&self.abandoned);
            let mut far = ServerFiles::new(roots, self.anonymous.is_none(), self.key, gone);
            // The thread ends with the session, which drops the other end of `asks`.
            std::thread::Builder::new()
                .name("files".to_owned())
                .spawn(move || {
                    while let Ok((task, streams)) = asks.recv() {
                        let done = match far.handle_request(task, streams) {
                            Ok(done) => SessionReply::Files(done),
                            Err(why) => SessionReply::Failed(why),
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
    fn open(&mut self, ask: &OpenStreamsRequest) -> Result<FilesReply, String> {
        if self.service.options.files.is_empty() {
            return Err(NOTHING_SERVED.to_owned());
        }
        if self.connections.is_some() {
            return Err("the data connections are already set up".to_owned());
        }
        let plan = connection_plan(ask);
        check_plan(&plan, self.service.options.max_streams).map_err(|error| error.to_string())?;
        if let Some(limits) = &self.anonymous {
            if limits.rate_bps.is_some() || limits.bytes.is_some() {
                return Err("copying files requires the token".to_owned());
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
        let nonce = random_bytes()
            .map(SessionNonce)
            .ok_or("the kernel provides no random bytes")?;
        let expected = ExpectedStreams {
            peer: self.peer.ip(),
            streams: plan.streams,
            forward: ask.forward,
            reverse: !ask.forward,
            udp: false,
        };
        self.connections = Some(CopyConnections {
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
        Ok(FilesReply::Opened(OpenStreamsReply {
            nonce,
            key: Base64Bytes(self.key.to_vec()),
        }))
    }

    /// Returns all connections after they have arrived.
    fn take_claims(&mut self) -> Result<Option<Vec<TcpStream>>, String> {
        let Some(connections) = &mut self.connections else {
            return Err("no data connections are set up".to_owned());
        };
        let flow = if connections.forward {
            Flow::Receiver
        } else {
            Flow::Sender
        };
        while let Ok(claim) = connections.registered.claims.try_recv() {
            let StreamClaim::Connection(_, stream) = claim else {
                return Err("received a datagram instead of a data connection".to_owned());
            };
            engine::prepare_accepted(&stream, &connections.plan, flow)
                .and_then(|()| engine::limit_window(&stream, &connections.plan))
                .map_err(|error| error.to_string())?;
            connections.open.push(stream);
        }
        let all = connections.open.len() == connections.plan.streams as usize;
        Ok(all.then(|| std::mem::take(&mut connections.open)))
    }
}

const NOTHING_SERVED: &str =
    "the server serves no files; serve a folder with `longhaul serve --files DIR`";

fn to_answer_input(done: Result<FilesReply, String>) -> SessionInput {
    SessionInput::Answer(Box::new(match done {
        Ok(done) => SessionReply::Files(done),
        Err(why) => SessionReply::Failed(why),
    }))
}
