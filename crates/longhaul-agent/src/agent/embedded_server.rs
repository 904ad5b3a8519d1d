//! The server of `[serve]`: answers runs of others in a thread of the agent.

use super::agent_log::AgentLog;
use super::export::format_error_chain;
use super::shared_state::SharedState;
use crate::secret_file;
use crate::watch::watch_file::ServeSection;
use longhaul_probe::header_capture::HeaderAnalysis;
use longhaul_probe::measurement_server::{
    HeavyRunLock, MeasurementServer, ProtocolHandler, ServeEvent, ServeOptions,
};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The delay after a failed start doubles from this to [`MAX_RETRY_TIME`].
const MIN_RETRY_TIME: Duration = Duration::from_secs(1);
const MAX_RETRY_TIME: Duration = Duration::from_secs(60);

/// Builds the handlers of further protocols; relative paths of the section refer to the folder.
pub type HandlerBuilder = fn(&ServeSection, &Path) -> Result<Vec<Arc<dyn ProtocolHandler>>, String>;

/// The parts of the server of `[serve]` that the agent does not know.
#[derive(Debug, Clone, Copy)]
pub struct ServerExtensions {
    /// Builds the protocols beside that of measurements.
    pub build_handlers: HandlerBuilder,
    pub header_analysis: HeaderAnalysis,
}

/// The server, while the watch file has `[serve]`.
pub struct EmbeddedServer {
    extensions: ServerExtensions,
    state: Arc<SharedState>,
    log: AgentLog,
    running: Option<RunningServer>,
}

struct RunningServer {
    section: ServeSection,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl EmbeddedServer {
    pub fn new(
        extensions: ServerExtensions,
        state: Arc<SharedState>,
        log: AgentLog,
    ) -> EmbeddedServer {
        EmbeddedServer { extensions, state, log, running: None }
    }

    /// Starts, restarts or stops the server, if the section of the current watch file differs.
    pub fn apply_watch_file(&mut self) {
        let file = self.state.file();
        if file.serve.as_ref() == self.running.as_ref().map(|it| &it.section) {
            return;
        }
        self.stop();
        let Some(section) = file.serve.clone() else {
            return;
        };
        self.state.counters.write().server_is_up = Some(false);
        let stop = Arc::new(AtomicBool::new(false));
        let task = ServerTask {
            section: section.clone(),
            extensions: self.extensions,
            state: Arc::clone(&self.state),
            log: self.log,
            stop: Arc::clone(&stop),
        };
        match thread::Builder::new().name("serve".to_owned()).spawn(move || task.run()) {
            Ok(thread) => self.running = Some(RunningServer { section, stop, thread }),
            Err(error) => self.log.warn(&format!("cannot start the server: {error}")),
        }
    }

    /// Ends the server and the runs that it answers, within about a second.
    pub fn stop(&mut self) {
        if let Some(RunningServer { stop, thread, .. }) = self.running.take() {
            stop.store(true, Ordering::Relaxed);
            thread.thread().unpark();
            if thread.join().is_err() {
                self.log.warn("the server ended by a panic");
            }
            self.log.info("the server has stopped");
            self.state.counters.write().server_is_up = None;
        }
    }
}

/// The work of the server's thread.
struct ServerTask {
    section: ServeSection,
    extensions: ServerExtensions,
    state: Arc<SharedState>,
    log: AgentLog,
    stop: Arc<AtomicBool>,
}

impl ServerTask {
    /// Serves until the server is stopped; starts it again after failures.
    fn run(&self) {
        let mut wait = MIN_RETRY_TIME;
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(why) = self.serve() {
                let seconds = wait.as_secs();
                self.log
                    .warn(&format!("the server does not run: {why}; next attempt in {seconds} s"));
            }
            self.state.counters.write().server_is_up = Some(false);
            if !self.stop.load(Ordering::Relaxed) {
                thread::park_timeout(wait);
            }
            wait = (wait * 2).min(MAX_RETRY_TIME);
        }
    }

    fn serve(&self) -> Result<(), String> {
        let server = MeasurementServer::bind(self.build_options()?);
        let describe = |error: longhaul_probe::probe_error::ServeError| {
            let mut text = format_error_chain(&error);
            if let Some(hint) = error.hint() {
                // Writing to a string does not fail.
                let _ = write!(text, "; {}", hint.replace("`--port PORT`", "`listen` in [serve]"));
            }
            text
        };
        server
            .map_err(describe)?
            .run(|event| self.handle_event(&event), &self.stop)
            .map_err(describe)
    }

    fn build_options(&self) -> Result<ServeOptions, String> {
        let ServeSection { listen, token_file, max_sessions, max_streams, captures, .. } =
            &self.section;
        let token = token_file.as_ref().map(|file| {
            let file = self.state.folder.join(file);
            let cannot = |error| format!("cannot read the token in {}: {error}", file.display());
            secret_file::read_secret(&file).map_err(cannot)
        });
        Ok(ServeOptions {
            addresses: if listen.ip().is_unspecified() && listen.is_ipv6() {
                Vec::new()
            } else {
                vec![listen.ip()]
            },
            port: listen.port(),
            device: None,
            token: token.transpose()?,
            anonymous: self.section.anonymous_limits(),
            max_sessions: *max_sessions,
            max_streams: *max_streams,
            captures: *captures,
            header_analysis: Some(self.extensions.header_analysis),
            handlers: (self.extensions.build_handlers)(&self.section, &self.state.folder)?,
            command: None,
            heavy_runs: Some(HeavyRunLock::clone(&self.state.heavy_runs)),
        })
    }

    fn handle_event(&self, event: &ServeEvent) {
        let mut counters = self.state.counters.write();
        match event {
            ServeEvent::Listening(_) => counters.server_is_up = Some(true),
            ServeEvent::SessionOpened { .. } => counters.served_sessions += 1,
            ServeEvent::EventsOmitted { counts } => {
                counters.served_sessions += counts.get("session_opened").copied().unwrap_or(0);
            }
            _ => {}
        }
        drop(counters);
        self.log.server_event(event);
    }
}
