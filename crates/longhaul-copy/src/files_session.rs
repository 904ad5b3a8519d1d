//! The server side of a copy: data connections from the listener, and a thread that handles the
//! requests, so that long file operations do not stop the session's heartbeats.

use crate::block_header::BlockKey;
use crate::server_files::NOTHING_SERVED;
use crate::{FilesRoot, ServerFiles, connection_plan};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_probe::engine::{self, TransferRole as Flow};
use longhaul_probe::measurement_server::{
    ExpectedStreams, ProtocolHandler, RequestHandler, ServeEvent, ServerContext, SessionEntry,
    SessionPeer, SessionSlot, StreamClaim,
};
use longhaul_probe::plan_limits::check_plan;
use longhaul_probe::secure::random_bytes;
use longhaul_probe::session::SessionInput;
use longhaul_probe::wire::{
    AnonymousLimits, Base64Bytes, FilesReply, FilesRequest, OpenStreamsReply, OpenStreamsRequest,
    SessionReply, SessionRequest,
};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// A request for the thread, with the data connections.
type FilesTask = (FilesRequest, Vec<TcpStream>);

/// Serves file copies on the port of a measurement server.
#[derive(Debug)]
pub struct FilesHandler {
    roots: Vec<FilesRoot>,
}

impl FilesHandler {
    /// Creates a handler; without folders it rejects every request.
    pub fn new(roots: Vec<FilesRoot>) -> FilesHandler {
        FilesHandler { roots }
    }
}

impl ProtocolHandler for FilesHandler {
    fn open_session<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        peer: SessionPeer,
    ) -> Option<Box<dyn RequestHandler + 'a>> {
        Some(Box::new(FilesSession {
            service: server,
            roots: &self.roots,
            peer: peer.address,
            anonymous: peer.anonymous,
            key: random_bytes()?,
            worker: None,
            connections: None,
            begin: None,
            is_waiting: false,
            moved_bytes: 0,
            abandoned: Arc::default(),
        }))
    }
}

struct FilesSession<'a> {
    service: &'a ServerContext<'a>,
    roots: &'a [FilesRoot],
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

impl RequestHandler for FilesSession<'_> {
    fn accepts_request(&self, request: &SessionRequest) -> bool {
        matches!(request, SessionRequest::Files(_))
    }

    fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    fn is_pending(&self) -> bool {
        self.begin.is_some() || self.is_waiting
    }

    fn start_request(&mut self, request: SessionRequest) -> Option<SessionInput> {
        let SessionRequest::Files(ask) = request else {
            return None;
        };
        match *ask {
            FilesRequest::Open(ask) => Some(to_answer_input(self.open(&ask))),
            begin @ FilesRequest::Begin {} => {
                self.begin = Some(begin);
                None
            }
            other => self.send_task((other, Vec::new())),
        }
    }

    fn poll(&mut self) -> Option<SessionInput> {
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
}

impl FilesSession<'_> {
    fn send_task(&mut self, task: FilesTask) -> Option<SessionInput> {
        let sent = self.worker().map(|asks| asks.try_send(task).is_ok());
        match sent {
            Ok(true) => {
                self.is_waiting = true;
                None
            }
            Ok(false) => {
                Some(SessionInput::Failed("the file thread accepts no request".to_owned()))
            }
            Err(error) => Some(SessionInput::Failed(format!("cannot start a thread: {error}"))),
        }
    }

    /// Returns the thread's queue; the first request starts the thread.
    fn worker(&mut self) -> io::Result<&SyncSender<FilesTask>> {
        if self.worker.is_none() {
            let (ask, asks) = sync_channel::<FilesTask>(1);
            let (answer, answers) = sync_channel(1);
            let roots = self.roots.to_vec();
            let gone = Arc::clone(&self.abandoned);
            let mut far = ServerFiles::new(roots, self.anonymous.is_none(), self.key, gone);
            // The thread ends with the session, which drops the other end of `asks`.
            std::thread::Builder::new().name("files".to_owned()).spawn(move || {
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
        if self.roots.is_empty() {
            return Err(NOTHING_SERVED.to_owned());
        }
        if self.connections.is_some() {
            return Err("the data connections are already set up".to_owned());
        }
        let plan = connection_plan(ask);
        check_plan(&plan, self.service.options().max_streams).map_err(|error| error.to_string())?;
        if let Some(limits) = &self.anonymous {
            if limits.rate_bps.is_some() || limits.bytes.is_some() {
                return Err("copying files requires the token".to_owned());
            }
            if ask.streams > limits.streams {
                return Err(format!("without a token, at most {} streams", limits.streams));
            }
        }
        let strangers = self.anonymous.map(|limits| limits.concurrent);
        let slot = self.service.take_slot(strangers)?;
        let expected = ExpectedStreams {
            peer: self.peer.ip(),
            streams: plan.streams,
            forward: ask.forward,
            reverse: !ask.forward,
            udp: false,
        };
        let registered = self.service.expect_streams(expected)?;
        let nonce = registered.nonce;
        self.connections = Some(CopyConnections {
            registered,
            plan,
            forward: ask.forward,
            open: Vec::new(),
            _slot: slot,
        });
        self.service.log(ServeEvent::HandlerTransfer {
            peer: self.peer,
            activity: "copies files",
            receiving: ask.forward,
        });
        Ok(FilesReply::Opened(OpenStreamsReply { nonce, key: Base64Bytes(self.key.to_vec()) }))
    }

    /// Returns all connections after they have arrived.
    fn take_claims(&mut self) -> Result<Option<Vec<TcpStream>>, String> {
        let Some(connections) = &mut self.connections else {
            return Err("no data connections are set up".to_owned());
        };
        let flow = if connections.forward { Flow::Receiver } else { Flow::Sender };
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

fn to_answer_input(done: Result<FilesReply, String>) -> SessionInput {
    SessionInput::Answer(Box::new(match done {
        Ok(done) => SessionReply::Files(done),
        Err(why) => SessionReply::Failed(why),
    }))
}
