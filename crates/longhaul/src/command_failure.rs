//! Failures of commands: exit code, chain of causes, hint.
//!
//! Libraries return errors; only this module prints them, in one format:
//!
//! ```text
//! error: cannot connect to far (192.0.2.7:5201)
//!   caused by: connection refused
//! hint: start `longhaul serve` on that host: nothing listens on this port
//! ```

use longhaul_agent::agent_error::AgentError;
use longhaul_agent::watch_file_reading::WatchFileReadError;
use longhaul_config::ConfigProblems;
use longhaul_iperf3::client_run::Iperf3RunError;
use longhaul_lab::lab_error::{LabError, LabErrorKind};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::sanitize::sanitize;
use longhaul_probe::host::HostError;
use longhaul_probe::probe_error::{ProbeError, ServeError};
use longhaul_report::plot::FigureError;
use longhaul_report::style::{ERROR, FAINT, HINT, paint};
use longhaul_store::StoreError;
use std::error::Error;
use std::io;
use std::process::ExitCode;

/// Success.
const DONE: u8 = 0;
/// Success, but an expectation was missed.
pub const EXPECTATION_MISSED: u8 = 1;
/// Invalid command line or input file.
pub const USAGE: u8 = 2;
/// No peer, or a failure of the peer.
pub const PEER: u8 = 3;
/// Missing privilege or kernel feature, or a failure of this host.
pub const HOST: u8 = 5;
/// A failure of the archive, for commands about the archive.
pub const ARCHIVE: u8 = 6;
/// Interrupted by the user (128 plus the number of SIGINT, as in shells).
pub const INTERRUPTED: u8 = 130;
/// A bug in longhaul.
pub const BUG: u8 = 70;

/// A command that failed.
#[derive(Debug)]
pub struct CommandFailure {
    pub code: u8,
    pub message: String,
    pub causes: Vec<String>,
    pub hint: Option<String>,
    /// Print nothing: the reader of the output has closed it.
    pub silent: bool,
}

impl CommandFailure {
    /// Creates a failure without a cause.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        CommandFailure {
            code,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            silent: false,
        }
    }

    /// Takes the message and all sources of `error`.
    pub fn from_error(code: u8, error: &(dyn Error + 'static)) -> Self {
        let mut fail = CommandFailure::new(code, error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            fail.causes.push(cause.to_string());
            source = cause.source();
        }
        fail
    }

    #[must_use]
    pub fn hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// Adds a cause after the others.
    #[must_use]
    pub fn cause(mut self, cause: &(impl ToString + ?Sized)) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    /// Returns the message and all causes in one line.
    pub fn chain(&self) -> String {
        let parts = std::iter::once(&self.message).chain(&self.causes);
        parts.map(String::as_str).collect::<Vec<_>>().join(": ")
    }

    /// Returns the text for stderr. A cause may quote a file, so each line is sanitized.
    pub fn text(&self) -> String {
        let clean = |text: &str| text.lines().map(sanitize).collect::<Vec<_>>().join("\n");
        let mut lines = vec![format!("{} {}\n", paint(ERROR, "error:"), clean(&self.message))];
        let cause = |cause: &String| format!("  {} {}\n", paint(FAINT, "caused by:"), clean(cause));
        lines.extend(self.causes.iter().map(cause));
        let hint = |hint: &String| format!("{} {}\n", paint(HINT, "hint:"), clean(hint));
        lines.extend(self.hint.iter().map(hint));
        lines.concat()
    }
}

/// Converts errors that know their exit code and their hint.
macro_rules! convert_errors {
    ($($error:ty),+) => {$(
        impl From<$error> for CommandFailure {
            fn from(error: $error) -> Self {
                CommandFailure::from_error(error.exit_code(), &error).hint(error.hint())
            }
        }
    )+};
}

convert_errors!(HostError, Iperf3RunError, ProbeError, ServeError);

impl From<ConfigProblems> for CommandFailure {
    fn from(error: ConfigProblems) -> Self {
        CommandFailure::from_error(USAGE, &error).hint(Some(
            "list the paths with `longhaul lab list`, and their values with `longhaul lab show PATH`",
        ))
    }
}

impl From<LabError> for CommandFailure {
    fn from(error: LabError) -> Self {
        let code = match error.kind {
            LabErrorKind::Usage => USAGE,
            LabErrorKind::Unavailable => HOST,
            LabErrorKind::Internal => BUG,
        };
        CommandFailure::from_error(code, &error).hint(error.hint.clone())
    }
}

impl From<FigureError> for CommandFailure {
    fn from(error: FigureError) -> Self {
        let code = match error {
            FigureError::NotReplaceable { .. } => USAGE,
            FigureError::Write { .. } => HOST,
        };
        CommandFailure::from_error(code, &error).hint(Some(error.hint()))
    }
}

impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> Self {
        CommandFailure::from_error(ARCHIVE, &error).hint(error.hint())
    }
}

impl From<AgentError> for CommandFailure {
    fn from(error: AgentError) -> Self {
        let code = match error {
            AgentError::ArchiveInUse(_) | AgentError::Store(_) => ARCHIVE,
            AgentError::Folder { .. } | AgentError::Listen { .. } | AgentError::Host(_) => HOST,
        };
        CommandFailure::from_error(code, &error).hint(error.hint())
    }
}

impl From<WatchFileReadError> for CommandFailure {
    fn from(error: WatchFileReadError) -> Self {
        let hint = "see docs/watch-file.md for the format";
        CommandFailure::from_error(USAGE, &error).hint(Some(hint))
    }
}

/// A failure to write stdout. A reader that closes early (`| head`) is not an error.
impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        let closed = error.kind() == io::ErrorKind::BrokenPipe;
        CommandFailure {
            silent: closed,
            ..CommandFailure::new(if closed { DONE } else { HOST }, "cannot write the output")
        }
        .cause(&error)
    }
}

/// Fails after a result was shown if the peer was lost before the end of the measurement.
pub fn require_peer(caveats: &[ReportCaveat]) -> Result<(), CommandFailure> {
    let lost = caveats.iter().find(|caveat| caveat.code == ReportCaveat::PEER_LOST);
    lost.map_or(Ok(()), |caveat| {
        let hint = "the result holds what was measured until then; check the server and repeat";
        Err(CommandFailure::new(PEER, caveat.text.clone()).hint(Some(hint)))
    })
}

/// Returns the exit code of a check or an expectation.
pub fn met_exit_code(is_met: bool) -> ExitCode {
    if is_met { ExitCode::SUCCESS } else { ExitCode::from(EXPECTATION_MISSED) }
}

/// Reports a panic as a bug, with the data for a bug report. The exit code is [`BUG`].
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        anstream::eprintln!(
            "{} bug in longhaul {}: {panic}\n{} report this text and the command that caused it",
            paint(ERROR, "error:"),
            env!("CARGO_PKG_VERSION"),
            paint(HINT, "hint:"),
        );
    }));
}
