//! The server side of a copy: data connections from the listener, and threads that handle the
//! requests, so that long file operations do not stop the session's heartbeats.

use crate::block_header::BlockKey;
use crate::server_files::{NOTHING_SERVED, TOKEN_REQUIRED};
use crate::{FilesRoot, ServerFiles, connection_plan};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_probe::engine::{self, TransferRole as Flow};
use longhaul_probe::measurement_server::{
    ExpectedStreams, ProtocolHandler, RequestHandler, ServeEvent, ServerContext, SessionEntry,
    SessionPeer, SessionSlot, StreamClaim,
};
use longhaul_probe::plan_limits::check_plan;
use longhaul_probe::secure::random_bytes;
use longhaul_probe::session::{STEP_TIMEOUT, SessionInput};
use longhaul_probe::wire::{
    AnonymousLimits, Base64Bytes, FilesReply, FilesRequest, OpenStreamsReply, OpenStreamsRequest,
    SessionReply, SessionRequest,
};
use parking_lot::Mutex;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

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
        let key = random_bytes()?;
        let abandoned: Arc<AtomicBool> = Arc::default();
        let files = ServerFiles::new(
            self.roots.clone(),
            peer.anonymous.is_none(),
            key,
            Arc::clone(&abandoned),
        );
        Some(Box::new(FilesSession {
            service: server,
            roots: &self.roots,
            peer: peer.address,
            anonymous: peer.anonymous,
            key,
            files: Arc::new(Mutex::new(files)),
            worker: None,
            connections: None,
            waiting: None,
            moved_bytes: 0,
            abandoned,
        }))
    }
}

struct FilesSession<'a> {
    service: &'a ServerContext<'a>,
    roots: &'a [FilesRoot],
    peer: SocketAddr,
    anonymous: Option<AnonymousLimits>,
    key: BlockKey,
    /// A thread for each request works on them.
    files: Arc<Mutex<ServerFiles>>,
    worker: Option<JoinHandle<SessionReply>>,
    connections: Option<CopyConnections<'a>>,
    /// A request that needs data connections, and the time by which they must have arrived.
    waiting: Option<(FilesRequest, Instant)>,
    moved_bytes: u64,
    /// Set to tell a thread that its answer is no longer needed.
    abandoned: Arc<AtomicBool>,
}

impl Drop for FilesSession<'_> {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        // Ending a copy takes a while, which the session does not wait for.
        let files = Arc::clone(&self.files);
        std::thread::spawn(move || files.lock().end_copy());
    }
}

/// The data connections that have arrived so far.
struct CopyConnections<'a> {
    registered: SessionEntry<'a>,
    plan: ThroughputPlan,
    forward: bool,
    open: Vec<TcpStream>,
    /// All that have arrived, including those that were passed on.
    arrived: u32,
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
        self.waiting.is_some() || self.worker.is_some()
    }

    fn start_request(&mut self, request: SessionRequest) -> Option<SessionInput> {
        let SessionRequest::Files(ask) = request else {
            return None;
        };
        match *ask {
            FilesRequest::Open(ask) => Some(to_answer_input(self.open(&ask))),
            ask @ (FilesRequest::Begin {} | FilesRequest::Resize(_)) => {
                if let FilesRequest::Resize(ask) = &ask
                    && let Err(why) = self.expect_total(ask.opened_streams)
                {
                    return Some(to_answer_input(Err(why)));
                }
                self.waiting = Some((ask, Instant::now() + STEP_TIMEOUT));
                None
            }
            other => self.start_task(other, Vec::new()),
        }
    }

    fn poll(&mut self) -> Option<SessionInput> {
        if let Some((ask, deadline)) = self.waiting.take() {
            let claims = match self.take_claims() {
                Ok(None) if Instant::now() < deadline => {
                    self.waiting = Some((ask, deadline));
                    return None;
                }
                Ok(None) => {
                    self.give_up_connections();
                    Err("the data connections did not arrive in time".to_owned())
                }
                other => other.map(Option::unwrap_or_default),
            };
            return match claims {
                Ok(streams) => self.start_task(ask, streams),
                Err(why) => Some(to_answer_input(Err(why))),
            };
        }
        let worker = self.worker.take_if(|worker| worker.is_finished())?;
        let Ok(answer) = worker.join() else {
            return Some(SessionInput::Failed("the file thread panicked".to_owned()));
        };
        if let SessionReply::Files(FilesReply::Status(status)) = &answer {
            self.moved_bytes = status.moved_bytes;
        }
        Some(SessionInput::Answer(Box::new(answer)))
    }
}

impl FilesSession<'_> {
    /// Handles a request in a thread, so that long file operations do not stop the session.
    fn start_task(&mut self, ask: FilesRequest, streams: Vec<TcpStream>) -> Option<SessionInput> {
        let files = Arc::clone(&self.files);
        let work = move || match files.lock().handle_request(ask, streams) {
            Ok(done) => SessionReply::Files(done),
            Err(why) => SessionReply::Failed(why),
        };
        match std::thread::Builder::new().name("files".to_owned()).spawn(work) {
            Ok(worker) => self.worker = Some(worker),
            Err(error) => {
                return Some(SessionInput::Failed(format!("cannot start a thread: {error}")));
            }
        }
        None
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
        check_plan(&plan, self.service.options.max_streams).map_err(|error| error.to_string())?;
        if let Some(limits) = &self.anonymous {
            if !self.roots.iter().any(|root| root.anonymous) {
                return Err(TOKEN_REQUIRED.to_owned());
            }
            if limits.rate_bps.is_some() || limits.bytes.is_some() {
                return Err("copying files requires the token".to_owned());
            }
            check_anonymous_streams(limits, ask.streams)?;
        }
        let strangers = self.anonymous.map(|limits| limits.concurrent);
        let slot = self.service.take_slot(self.peer.ip(), strangers)?;
        let expected = ExpectedStreams {
            peer: self.peer.ip(),
            // Those of a later request to resize arrive before it.
            streams: self.anonymous.map_or(self.service.options.max_streams, |it| it.streams),
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
            arrived: 0,
            _slot: slot,
        });
        self.service.log(ServeEvent::HandlerTransfer {
            peer: self.peer,
            activity: "copies files",
            receiving: ask.forward,
        });
        Ok(FilesReply::Opened(OpenStreamsReply { nonce, key: Base64Bytes(self.key.to_vec()) }))
    }

    /// Waits for further connections, up to so many of the whole copy: that limits those at a time, too.
    fn expect_total(&mut self, streams: u32) -> Result<(), String> {
        let connections = self.connections.as_mut().ok_or(NO_CONNECTIONS)?;
        if streams <= connections.plan.streams {
            return Ok(());
        }
        let plan = ThroughputPlan { streams, ..connections.plan.clone() };
        check_plan(&plan, self.service.options.max_streams).map_err(|error| error.to_string())?;
        if let Some(limits) = &self.anonymous {
            check_anonymous_streams(limits, streams)?;
        }
        connections.plan = plan;
        Ok(())
    }

    /// Closes the connections that have arrived while others did not.
    fn give_up_connections(&mut self) {
        if let Some(connections) = &mut self.connections {
            connections.open.clear();
            connections.plan.streams = connections.arrived;
        }
    }

    /// Returns all new connections after they have arrived.
    fn take_claims(&mut self) -> Result<Option<Vec<TcpStream>>, String> {
        let connections = self.connections.as_mut().ok_or(NO_CONNECTIONS)?;
        let flow = if connections.forward { Flow::Receiver } else { Flow::Sender };
        while connections.arrived < connections.plan.streams
            && let Ok(claim) = connections.registered.claims.try_recv()
        {
            let StreamClaim::Connection(_, stream) = claim else {
                return Err("received a datagram instead of a data connection".to_owned());
            };
            engine::prepare_accepted(&stream, &connections.plan, flow)
                .and_then(|()| engine::limit_window(&stream, &connections.plan))
                .map_err(|error| error.to_string())?;
            connections.open.push(stream);
            connections.arrived += 1;
        }
        let all = connections.arrived == connections.plan.streams;
        Ok(all.then(|| std::mem::take(&mut connections.open)))
    }
}

const NO_CONNECTIONS: &str = "no data connections are set up";

fn check_anonymous_streams(limits: &AnonymousLimits, streams: u32) -> Result<(), String> {
    if streams > limits.streams {
        return Err(format!("without a token, at most {} streams", limits.streams));
    }
    Ok(())
}

fn to_answer_input(done: Result<FilesReply, String>) -> SessionInput {
    SessionInput::Answer(Box::new(match done {
        Ok(done) => SessionReply::Files(done),
        Err(why) => SessionReply::Failed(why),
    }))
}
