//! What all tests of the server share: what is shown, and when it ends.

use super::object;
use super::screen::{ScreenSlot, ServerScreen};
use super::system;
use super::test::ShownTest;
use super::words::{self, INTERRUPTED};
use crate::cli::args::Iperf3Args;
use crate::cli::iperf3::Refusal;
use longhaul_iperf3::iperf3_service::server_observer::{
    AcceptedTest, RunningTestObserver, ServerTestObserver,
};
use longhaul_iperf3::server_protocol::ServerTestEnd;
use longhaul_iperf3::text_output::{RateFormat, text_opening};
use longhaul_probe::measurement_server::{MeasurementServer, ServeEvent};
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How late an idle server may notice that its time is over.
const IDLE_LOOK: Duration = Duration::from_millis(100);

/// How a test is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    /// A line for each event.
    Stream,
}

pub struct Desk {
    pub screen: ServerScreen,
    pub form: Form,
    /// With events: the whole object too.
    pub full: bool,
    pub unit: RateFormat,
    pub verbose: bool,
    /// A signal ends the server.
    pub interrupted: Arc<AtomicBool>,
    pub stop: Arc<AtomicBool>,
    port: u16,
    one_off: bool,
    /// With `--one-off`: how long to wait for a test.
    patience: Option<Duration>,
    held: Mutex<HeldResults>,
}

/// What changes.
#[derive(Debug)]
struct HeldResults {
    /// Clients that speak iperf3's wire.
    peers: BTreeSet<SocketAddr>,
    /// Nobody has been there since.
    idle_since: Instant,
    /// A test has said that the server is being ended.
    said: bool,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Desk({:?})", self.form)
    }
}

impl Desk {
    pub fn new(args: &Iperf3Args, screen: ServerScreen) -> Arc<Desk> {
        let form = match (args.json_stream, args.json) {
            (true, _) => Form::Stream,
            (false, true) => Form::Json,
            (false, false) => Form::Text,
        };
        let idle = args.server.idle_timeout;
        Arc::new(Desk {
            screen,
            form,
            full: form == Form::Stream && args.json_stream_full_output,
            unit: args.format,
            verbose: args.verbose || args.debug.is_some(),
            interrupted: Arc::default(),
            stop: Arc::default(),
            port: args.port,
            one_off: args.server.one_off,
            patience: idle
                .filter(|_| args.server.one_off)
                .map(|seconds| Duration::from_secs(u64::from(seconds))),
            held: Mutex::new(HeldResults {
                peers: BTreeSet::new(),
                idle_since: Instant::now(),
                said: false,
            }),
        })
    }

    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What iperf3 says when it waits for a test.
    pub fn listening(&self, count: u64) -> String {
        text_opening::format_listening(self.port, count)
    }

    /// An error before there is a server.
    pub fn fail(&self, text: &str) -> Refusal {
        let error = format!("error - {text}");
        if self.form == Form::Text {
            self.screen.complain(&error);
            self.screen.complain("exiting");
        } else {
            self.screen.write(&object::pretty(&object::empty(&error)));
        }
        Refusal::Told
    }

    /// Serves until a signal, or the one test, or the end of patience.
    pub fn serve(&self, responder: MeasurementServer) -> Result<(), Refusal> {
        if self.form == Form::Text {
            if self.verbose {
                let (program, system) = (system::program(), system::system_info());
                self.screen.write(&format!("{program}\n{system}\n"));
            }
            self.screen.write(&self.listening(1));
        }
        std::thread::scope(|scope| {
            if let Some(patience) = self.patience {
                scope.spawn(move || self.watch(patience));
            }
            let done = responder.run(|event| self.note(&event), &self.stop);
            self.stop.store(true, Ordering::Relaxed);
            done.map_err(|error| self.fail(&error.to_string()))
        })?;
        if !self.interrupted() {
            return Ok(());
        }
        if self.form == Form::Text {
            self.screen.complain(INTERRUPTED);
        } else if !self.held().said {
            let value = object::empty(INTERRUPTED);
            self.screen.write(&object::pretty(&value));
        }
        Err(Refusal::Told)
    }

    fn watch(&self, patience: Duration) {
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(IDLE_LOOK);
            let held = self.held();
            if held.peers.is_empty() && held.idle_since.elapsed() >= patience {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// What the service says beside iperf3's tests.
    fn note(&self, event: &ServeEvent) {
        match event {
            ServeEvent::SessionClosed { peer, .. } => {
                let mut held = self.held();
                held.idle_since = Instant::now();
                let known = held.peers.remove(peer);
                drop(held);
                if !known {
                    self.own_protocol(event);
                    self.end_if_one_off();
                }
            }
            ServeEvent::Trouble { .. } => self.screen.complain(&format!("warning: {event}")),
            _ => {}
        }
    }

    /// A peer of our own protocol, which the same port answers.
    fn own_protocol(&self, event: &ServeEvent) {
        if self.verbose && self.form == Form::Text {
            self.screen.write(&format!("longhaul: {event}\n"));
        }
    }

    fn end_if_one_off(&self) {
        if self.one_off {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// A test is over, or a client had none (no `place`).
    pub fn over(&self, place: Option<ScreenSlot>, closed: &ServerTestEnd, error: Option<&str>) {
        let last = self.one_off && words::counts(closed);
        if error == Some(INTERRUPTED) {
            // Said once, at the end of the server.
            self.held().said = true;
        }
        let text = self.form == Form::Text;
        let complaint = error.filter(|error| text && *error != INTERRUPTED);
        let stopping = last || self.stop.load(Ordering::Relaxed);
        let next = |count| {
            if text && !stopping {
                self.listening(count)
            } else {
                String::new()
            }
        };
        match place {
            Some(place) => self.screen.leave(place, complaint, next),
            None => self.screen.passed(complaint, next),
        }
        if last {
            self.end_if_one_off();
        }
    }

    fn meet(&self, peer: SocketAddr) {
        self.held().peers.insert(peer);
    }

    fn held(&self) -> MutexGuard<'_, HeldResults> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerTestObserver for Desk {
    fn test_accepted(self: Arc<Self>, accepted: AcceptedTest) -> Box<dyn RunningTestObserver> {
        self.meet(accepted.peer);
        Box::new(ShownTest::new(self, accepted))
    }

    fn test_rejected(&self, peer: SocketAddr, closed: &ServerTestEnd) {
        self.meet(peer);
        if matches!(closed, ServerTestEnd::Busy(_)) {
            return;
        }
        let error = words::error(closed, self.interrupted());
        if let (Some(error), true) = (&error, self.form != Form::Text) {
            self.screen.write(&object::pretty(&object::empty(error)));
        }
        self.over(None, closed, error.as_deref());
    }
}
