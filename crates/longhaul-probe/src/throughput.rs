//! A bulk run against a server, from the client's side.
//!
//! Only the first address of the requested family is tried: a measurement must be of the requested
//! path, not of any that works. The samples of both ends are returned on one time line, with a
//! bound of its error.

mod connect;
mod hooks;
mod observe;
mod rtt;
mod streams;

pub(crate) use connect::{DEAD_PEER, open as connect_control, plain as connect_plain, resolve};
pub(crate) use observe::{elapsed_us, payload_span};
pub(crate) use streams::{open as open_streams, open_flow};

use crate::capture::Captured;
use crate::drive::Drive;
use crate::error::{ProbeError, TokenTrouble};
use crate::limits::{LONGEST_WAIT, MOST_STREAMS, check_plan};
use crate::secure::{Token, boot_proof};
use crate::session::{Closed, Initiative, Part, Session, Setup, State};
use hooks::InitiatorHooks;
use longhaul_model::report::v1::observation::Observation;
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::report::v1::{Caveat, Party};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

pub use crate::engine::LocalBind;
pub use rtt::round_trip;

/// Address families that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// The resolver's first address.
    #[default]
    Any,
    V4,
    V6,
}

/// The server, and how to reach it.
#[derive(Debug, Clone)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub family: Family,
    /// Local address and interface of control and data connections.
    pub bind: LocalBind,
    pub token: Option<String>,
    /// Timeout of each TCP connect, the TLS handshake, and the opening of UDP flows.
    pub connect_timeout: Duration,
}

impl Target {
    /// Creates a target with the default port, any family, and no token.
    pub fn new(host: impl Into<String>) -> Target {
        Target {
            host: host.into(),
            port: crate::DEFAULT_PORT,
            family: Family::Any,
            bind: LocalBind::default(),
            token: None,
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// Result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub observation: Observation,
    pub initiator: Party,
    pub responder: Party,
    /// Start of the run, including setup.
    pub started_at: SystemTime,
    /// Duration, including setup and exchange of results.
    pub duration: Duration,
    /// Zero of the observation's time line, on this host's clock.
    pub origin: Instant,
    pub caveats: Vec<Caveat>,
    pub captures: Captures,
}

/// Packet captures of both ends, if requested.
#[derive(Debug, Clone, Default)]
pub struct Captures {
    pub near: Option<Captured>,
    /// The server's file as received; its content is untrusted.
    pub far: Option<Vec<u8>>,
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The session state; payload flows in [`State::Running`] and [`State::Draining`].
    pub state: State,
    /// Time since payload began to flow.
    pub elapsed: Duration,
    /// Client to server; `None` if no payload flows in that direction.
    pub forward: Option<FlowProgress>,
    /// Server to client.
    pub reverse: Option<FlowProgress>,
}

/// Progress of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowProgress {
    /// Written by the sender; the server's count is up to a second old.
    pub sent_bytes: Option<u64>,
    /// Read by the receiver; the basis of goodput.
    pub received_bytes: Option<u64>,
    /// Time of the receiver's count, since its payload began to flow.
    pub received_at: Option<Duration>,
    /// The local byte count of each stream.
    pub stream_bytes: Vec<u64>,
    /// Retransmits, if this end sends.
    pub retransmits: Option<u64>,
    pub rtt: Option<Duration>,
}

/// Runs one measurement. Calls `watch` about five times a second while payload flows, and on every
/// change of the session state.
///
/// Blocks for the whole run; every wait in it has a deadline.
///
/// # Errors
/// See [`ProbeError`].
pub fn run(
    target: &Target,
    plan: &Plan,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ProbeError> {
    check_plan(plan, MOST_STREAMS)?;
    let start_in = time_until_start(plan)?;
    let token = token_of(target)?;
    let (started_at, epoch) = (SystemTime::now(), Instant::now());
    let address = connect::resolve(target)?;
    let connection = connect::open(target, address)?;
    let party = initiator_party(connection.local);
    let setup = Setup {
        token,
        exporter: *connection.channel.exporter(),
        party: party.clone(),
        boot_proof: boot_proof(connection.channel.exporter()),
        one_address: connection.local.map(|local| local.ip()) == Some(address.ip()),
    };
    // The session's deadlines count from here, independent of the handshake's duration.
    let session_epoch = Instant::now();
    let start_at = start_in.map(|wait| wait.saturating_sub(epoch.elapsed()));
    let part = Part::Initiator(Box::new(Initiative::new(plan.clone(), start_at)));
    let session = Session::new(setup, part);
    let ends = (connection.local, address);
    let mut hooks = InitiatorHooks::new(target, plan, ends, session_epoch, watch);
    let drive = Drive::new(connection.channel, session, session_epoch);
    let (closed, session) = drive.run(&mut hooks);
    if closed != Closed::Finished {
        if let (Closed::OwnFailure { step, what }, true) = (&closed, hooks.far_end_unreached) {
            let (step, what) = (*step, what.clone());
            return Err(ProbeError::PeerLost {
                address,
                step,
                what,
            });
        }
        return Err(error_of(target, address, closed, hooks.moved_bytes()));
    }
    let responder = responder_party(target, address, &session);
    let origin = hooks.origin();
    let captures = hooks.take_captures();
    let (observation, caveats) = hooks.observation(&session).map_err(|what| {
        let step = State::Exchanging;
        ProbeError::PeerLost {
            address,
            step,
            what,
        }
    })?;
    Ok(Outcome {
        observation,
        initiator: party,
        responder,
        started_at,
        duration: epoch.elapsed(),
        origin,
        caveats,
        captures,
    })
}

pub(crate) fn token_of(target: &Target) -> Result<Option<Token>, ProbeError> {
    let Some(text) = &target.token else {
        return Ok(None);
    };
    Token::new(text).map(Some).ok_or_else(|| ProbeError::Local {
        what: "the token given is empty".to_owned(),
        source: None,
    })
}

/// Returns the time until the agreed start, by this host's wall clock.
fn time_until_start(plan: &Plan) -> Result<Option<Duration>, ProbeError> {
    let Some(start_us) = plan.start_at_us else {
        return Ok(None);
    };
    let start = SystemTime::UNIX_EPOCH + Duration::from_micros(start_us.min(1 << 60));
    let refuse = |asked: &str| crate::limits::LimitError {
        option: "start_at",
        asked: asked.to_owned(),
        allowed: format!("from now to {} s from now", LONGEST_WAIT.as_secs()),
    };
    let wait = start
        .duration_since(SystemTime::now())
        .map_err(|_| refuse("in the past"))?;
    if wait > LONGEST_WAIT {
        return Err(refuse(&format!("{} s from now", wait.as_secs())).into());
    }
    Ok(Some(wait))
}

pub(crate) fn initiator_party(local: Option<SocketAddr>) -> Party {
    Party {
        address: local.map(|local| local.ip().to_canonical().to_string()),
        ..crate::own_party()
    }
}

pub(crate) fn responder_party(target: &Target, address: SocketAddr, session: &Session) -> Party {
    Party {
        host: target.host.clone(),
        address: Some(address.ip().to_string()),
        ..session.peer().cloned().unwrap_or_default()
    }
}

/// Converts the end of an unfinished session into an error.
pub(crate) fn error_of(
    target: &Target,
    address: SocketAddr,
    closed: Closed,
    moved_bytes: u64,
) -> ProbeError {
    let token = |what| ProbeError::Token { address, what };
    let so_far = |what: String| match moved_bytes {
        0 => what,
        bytes => {
            let bytes = longhaul_model::units::Bytes(bytes);
            format!("{what} (after {bytes} here)")
        }
    };
    match closed {
        Closed::VersionDiffers { theirs } => ProbeError::Version {
            address,
            ours: crate::wire::Versions::OURS,
            theirs,
        },
        Closed::TokenMissing => token(TokenTrouble::Missing),
        Closed::TokenWrong if target.token.is_none() => token(TokenTrouble::Missing),
        Closed::TokenWrong => token(TokenTrouble::Wrong),
        Closed::PeerUnproven => token(TokenTrouble::Unproven),
        Closed::PeerRefused { what } | Closed::WeRefused { what } => {
            ProbeError::Refused { address, what }
        }
        Closed::TimedOut { step, what } | Closed::PeerTimedOut { step, what } => {
            let what = so_far(what);
            ProbeError::Timeout {
                address,
                step,
                what,
            }
        }
        Closed::OwnFailure { what, .. } => ProbeError::Local { what, source: None },
        Closed::PeerFailure { step, what } => ProbeError::PeerFailed {
            address,
            step,
            what,
        },
        Closed::Cut { step, why } => {
            let what = so_far(why);
            ProbeError::PeerLost {
                address,
                step,
                what,
            }
        }
        Closed::PeerViolation { step, what } | Closed::OwnViolation { step, what } => {
            ProbeError::PeerLost {
                address,
                step,
                what,
            }
        }
        Closed::Finished | Closed::PeerTokenMissing | Closed::PeerTokenWrong => {
            let what = closed.to_string();
            let step = State::Closed;
            ProbeError::PeerLost {
                address,
                step,
                what,
            }
        }
    }
}
