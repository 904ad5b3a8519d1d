//! A run against an iperf3 server, as its client.
//!
//! - [`ClientProtocol`]: the protocol, without sockets or clocks
//! - [`run`]: a run on real connections with our engine
//! - [`LoginCredentials`] authenticates the client
//! - [`ClientTestEnd`]: the end of a test, with advice
//!
//! # Run error
//!
//! Errors of runs against an iperf3 server.
//!
//! # Login
//!
//! Client authentication: a token for the server's RSA key.
//!
//! A token has three lines (user, password, time), encrypted with OAEP as since 3.17, or with the
//! padding of earlier releases. A token is not bound to its connection; a new one is made for every
//! attempt, since our own servers accept each only once.

mod client_driver;
mod client_protocol;
mod client_transfer;
mod joined_results;
mod plan_to_parameters;

pub use client_protocol::{
    ClientAction, ClientInput, ClientProtocol, ClientStep, RESULTS_TIMEOUT, SILENCE_TIMEOUT,
    STEP_TIMEOUT,
};
pub use joined_results::{JoinContext, join_ends};

use super::iperf3_messages::{TestCookie, UdpGreeting};
use crate::iperf3_messages::{ServerRefusal, TestResults};
use crate::users::read_limited;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client_driver::ClientDriver;
use client_transfer::{ClientTransfer, fill_in_sizes};
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, ThroughputPlan};
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_probe::engine::{self, DataSocket, EngineError, TransferRole};
use longhaul_probe::plan_limits::{LimitError, MAX_STREAMS, check_cores, check_plan};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::session::SessionState;
use longhaul_probe::session_driver::SessionSockets;
use longhaul_probe::throughput::{
    self, OwnEndContext, TargetConnection, TargetHost, ThroughputOutcome, ThroughputProgress,
};
use longhaul_probe::wire::IntervalCounters;
use longhaul_sys::tcp_info;
use rsa::pkcs1::DecodeRsaPublicKey;
use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::OsRng;
use rsa::{Oaep, Pkcs1v15Encrypt, RsaPublicKey};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The default payload of a datagram if neither the plan nor the path gives one, for Ethernet.
const DEFAULT_DATAGRAM_BYTES: u64 = 1460;
/// The largest datagram that iperf3 accepts, and the smallest that holds our counters.
const DATAGRAM_BYTES_RANGE: std::ops::RangeInclusive<u64> = 24..=65_507;
/// The interval at which a busy server, or one between two tests, is contacted again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The minimum time for which a server that closed the connection is contacted again: after each
/// test, an iperf3 server closes its listener and with it all waiting connections.
const MIN_HANGUP_RETRY: Duration = Duration::from_secs(1);

/// Performs one run. `watch` is called about five times a second while payload flows.
///
/// Blocks for the whole run; every wait has a deadline. For `patience`, a server that is busy or
/// has no listener is contacted again. A server that closed the connection before its first byte is
/// contacted again for at least a second, as it may have been between two tests.
///
/// `stop` ends the run early, as in [`throughput::run`], and so does a server that is lost; the
/// result is then that of what was measured.
///
/// # Errors
/// See [`Iperf3RunError`]: the plan is unsuitable for iperf3, or the connection or test failed.
pub fn run(
    target: &TargetHost,
    plan: &ThroughputPlan,
    login: Option<&LoginCredentials>,
    patience: Duration,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, Iperf3RunError> {
    check_plan(plan, MAX_STREAMS)?;
    check_cores(&plan.affinity, true)?;
    plan_to_parameters::check_iperf3_plan(plan)?;
    let (began, mut patience) = (Instant::now(), patience);
    loop {
        let done = try_run(target, plan, login, stop, watch);
        if done.as_ref().is_err_and(server_hung_up) {
            patience = patience.max(MIN_HANGUP_RETRY);
        }
        match done {
            Err(error)
                if is_transient(&error)
                    && began.elapsed() < patience
                    && !stop.load(Ordering::Relaxed) =>
            {
                std::thread::sleep(RETRY_INTERVAL);
            }
            done => return done,
        }
    }
}

/// The server is between two tests: busy, without a listener, or the listener closed meanwhile.
fn is_transient(error: &Iperf3RunError) -> bool {
    server_hung_up(error)
        || match error {
            Iperf3RunError::Probe(ProbeError::Connect { failures, .. }) => {
                failures.decisive_kind() == io::ErrorKind::ConnectionRefused
            }
            Iperf3RunError::Test { closed, .. } => *closed == ClientTestEnd::Busy,
            Iperf3RunError::Probe(_) => false,
        }
}

/// The server was reachable, but closed the connection before its first byte.
fn server_hung_up(error: &Iperf3RunError) -> bool {
    match error {
        Iperf3RunError::Probe(ProbeError::Connect { failures, .. }) => {
            failures.decisive_kind() == io::ErrorKind::ConnectionReset
        }
        Iperf3RunError::Test { closed, .. } => {
            matches!(closed, ClientTestEnd::Cut { step: ClientStep::Greeting, .. })
        }
        Iperf3RunError::Probe(_) => false,
    }
}

fn try_run(
    target: &TargetHost,
    plan: &ThroughputPlan,
    login: Option<&LoginCredentials>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, Iperf3RunError> {
    let (started_at, epoch) = (SystemTime::now(), Instant::now());
    let own_target = target.clone();
    let TargetConnection { stream: control, address, target } =
        throughput::connect_unless_stopped(stop, move || throughput::connect_target(&own_target))?;
    let target = &target;
    let local = control.local_addr().ok();
    let datagram_bytes = choose_datagram_bytes(plan, &control);
    let mut parameters = plan_to_parameters::build_parameters(plan, datagram_bytes);
    if let Some(login) = login {
        let token = login.make_token(started_at);
        let failed = |error: LoginError| ProbeError::local(error.to_string(), None);
        parameters.authtoken = Some(token.map_err(failed)?);
    }
    let cookie = TestCookie::random()
        .map_err(|error| ProbeError::local("cannot create a cookie for the test", error))?;
    let effective_plan = fill_in_sizes(plan, datagram_bytes);
    let mut transfer = ClientTransfer::new(target, &effective_plan, (local, address), epoch, watch);
    let greeting = epoch.elapsed() + target.connect_timeout;
    let client = ClientProtocol::new(cookie, parameters, greeting);
    let driver = ClientDriver { control, client, cookie, transfer: &mut transfer, epoch, stop };
    let (closed, results) = driver.run();
    let ended = ClosedTest { address, closed, results };
    let (observation, caveats) = conclude_test(plan, &mut transfer, ended, &target.host)?;
    Ok(ThroughputOutcome {
        observation,
        stop: plan.stop,
        initiator: throughput::initiator_party(local),
        responder: RunParty {
            host: target.host.clone(),
            address: Some(address.ip().to_string()),
            failed_addresses: target.failed_addresses(),
            port: target.changed_port(),
            ..RunParty::default()
        },
        started_at,
        duration: epoch.elapsed(),
        origin: epoch + transfer.origin,
        caveats,
        captures: transfer.captures,
    })
}

/// A test whose control connection has ended.
struct ClosedTest {
    address: SocketAddr,
    closed: ClientTestEnd,
    /// The server's results.
    results: Option<TestResults>,
}

/// Joins the results of both ends, or takes those of this end if the server sent none.
fn conclude_test(
    plan: &ThroughputPlan,
    transfer: &mut ClientTransfer<'_>,
    ended: ClosedTest,
    host: &str,
) -> Result<(ThroughputObservation, Vec<ReportCaveat>), Iperf3RunError> {
    let ClosedTest { address, closed, results } = ended;
    transfer.collect();
    let (idle_rtt, same_host) = (transfer.idle_rtt, transfer.same_host());
    let mut collected = std::mem::take(&mut transfer.collected);
    let mut caveats = plan_to_parameters::list_caveats(plan);
    for end in collected.sender.iter_mut().chain(&mut collected.receiver) {
        caveats.append(&mut end.caveats);
    }
    let stopped = transfer.was_interrupted();
    let failed = |closed| Iperf3RunError::Test { address, closed };
    let Some(results) = results.filter(|_| closed == ClientTestEnd::Finished) else {
        let error = failed(match closed {
            ClientTestEnd::Finished => {
                let what = "it sent no results".to_owned();
                ClientTestEnd::Violation { step: ClientStep::Exchanging, what }
            }
            closed => closed,
        });
        let known = OwnEndContext {
            plan,
            server: host,
            clock: None,
            idle_rtt,
            same_host,
            same_boot: None,
            server_counts: IntervalCounters::default(),
        };
        let Ok(observation) = throughput::observe_own_end(&known, collected) else {
            let interrupted = ProbeError::Interrupted { step: SessionState::Running };
            return Err(if stopped { interrupted.into() } else { error });
        };
        caveats.extend(throughput::early_end_caveats(plan, &observation, stopped, Some(&error)));
        return Ok((observation, caveats));
    };
    let known = JoinContext { plan, host, idle_rtt, same_host };
    let observation = join_ends(&known, collected, &results)
        .map_err(|what| failed(ClientTestEnd::Violation { step: ClientStep::Exchanging, what }))?;
    // A server that sends may count what it sent in its own way; our count is the goodput then.
    if observation.forward {
        let checked = observation.check_direction();
        checked.map_err(|what| ProbeError::Contradiction { address, what })?;
    }
    caveats.extend(throughput::early_end_caveats(plan, &observation, stopped, None));
    Ok((observation, caveats))
}

/// Returns the size in the plan, or the payload of one packet of the control connection.
fn choose_datagram_bytes(plan: &ThroughputPlan, control: &TcpStream) -> u64 {
    let of_path = || Some(tcp_info::read_tcp_info(control).ok()?.reading.mss_bytes);
    let bytes = plan.write_bytes.or_else(of_path).unwrap_or(DEFAULT_DATAGRAM_BYTES);
    bytes.clamp(*DATAGRAM_BYTES_RANGE.start(), *DATAGRAM_BYTES_RANGE.end())
}

/// Error of a run against an iperf3 server that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Iperf3RunError {
    /// The plan is unsuitable, or the connection failed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The test ended without a result.
    #[error("no result from the iperf3 server at {address}: {closed}")]
    Test { address: SocketAddr, closed: ClientTestEnd },
}

impl From<LimitError> for Iperf3RunError {
    fn from(error: LimitError) -> Self {
        Iperf3RunError::Probe(error.into())
    }
}

impl From<Iperf3RunError> for ProbeError {
    fn from(error: Iperf3RunError) -> ProbeError {
        use ClientTestEnd::{Busy, Cut, Failed, Interrupted, Terminated, TimedOut, Violation};
        match error {
            Iperf3RunError::Probe(error) => error,
            Iperf3RunError::Test { closed: Failed(what), .. } => ProbeError::local(what, None),
            Iperf3RunError::Test { closed: Interrupted { .. }, .. } => {
                ProbeError::Interrupted { step: SessionState::Opening }
            }
            Iperf3RunError::Test { address, closed } => ProbeError::OtherProtocol {
                address,
                what: format!("no result from the iperf3 server: {closed}"),
                advice: closed.hint(),
                is_lost: matches!(
                    closed,
                    Busy | Cut { .. } | Terminated { .. } | TimedOut { .. } | Violation { .. }
                ),
            },
        }
    }
}

impl Iperf3RunError {
    /// Returns the suggested next step, if there is one.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Iperf3RunError::Probe(error) => error.hint(),
            Iperf3RunError::Test { closed, .. } => closed.hint().map(Cow::Borrowed),
        }
    }

    /// Returns the program's exit code, as [`ProbeError::exit_code`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Iperf3RunError::Probe(error) => error.exit_code(),
            Iperf3RunError::Test { closed: ClientTestEnd::Failed(_), .. } => 5,
            Iperf3RunError::Test { closed: ClientTestEnd::Interrupted { .. }, .. } => 130,
            Iperf3RunError::Test { .. } => 3,
        }
    }
}

/// The reason why a test ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientTestEnd {
    #[error("the test is over")]
    Finished,
    /// The server runs one test at a time.
    #[error("the server is busy with another test")]
    Busy,
    /// The server denied access in a later step, with the same state as `Busy`.
    #[error("the server denied access while {}", step.describe())]
    Denied { step: ClientStep },
    /// The server refused the test with an error code.
    #[error("the server refused while {}: {refusal}", step.describe())]
    Refused { step: ClientStep, refusal: ServerRefusal },
    /// The test was ended on the server.
    #[error("the server ended the test while {}", step.describe())]
    Terminated { step: ClientStep },
    /// No answer arrived in time.
    #[error("the server did not answer in time while {}", step.describe())]
    TimedOut { step: ClientStep },
    /// The server's message is not iperf3's protocol.
    #[error("the server violated the iperf3 protocol while {}: {what}", step.describe())]
    Violation { step: ClientStep, what: String },
    /// The control connection ended.
    #[error("the connection was lost while {}: {why}", step.describe())]
    Cut { step: ClientStep, why: String },
    /// The user ended the test before any payload was measured.
    #[error("interrupted while {}", step.describe())]
    Interrupted { step: ClientStep },
    /// This end could not continue.
    #[error("{0}")]
    Failed(String),
}

impl ClientTestEnd {
    /// Returns advice on what to do next, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ClientTestEnd::Busy => {
                "try again when its test is over, or run `longhaul serve` there, which serves many at once"
            }
            ClientTestEnd::Denied { .. } => {
                "pass a user if it requires one: `--iperf3-user NAME --iperf3-public-key FILE`"
            }
            ClientTestEnd::Refused { refusal, .. } => match refusal.code {
                5..=37 => "request less, or only what its release supports",
                142 => {
                    "pass a user that it knows: `--iperf3-user NAME --iperf3-public-key FILE`, \
                     and `--iperf3-pkcs1` for a server before 3.17"
                }
                _ => "check what the server printed",
            },
            ClientTestEnd::Terminated { .. } => "start the server again, then measure again",
            ClientTestEnd::TimedOut { step: ClientStep::Greeting } => {
                "check that an iperf3 server listens on this port and is not running a test"
            }
            ClientTestEnd::TimedOut { .. } | ClientTestEnd::Cut { .. } => {
                "check what the server printed, and that no firewall blocks its streams"
            }
            ClientTestEnd::Violation { .. } => {
                "check `--port`, and that the server is iperf3 3.1 or newer"
            }
            ClientTestEnd::Finished
            | ClientTestEnd::Interrupted { .. }
            | ClientTestEnd::Failed(_) => return None,
        })
    }
}

/// The padding of a token before encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenPadding {
    /// The padding of releases since 3.17.
    #[default]
    Oaep,
    /// PKCS #1 v1.5: the only padding of earlier releases.
    Pkcs1,
}

/// The error of making a token.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("cannot read the public key {path}", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} contains no public RSA key in PEM", path = path.display())]
    Key { path: PathBuf },
    #[error("the user and the password are too long for this key")]
    TooLong,
}

/// A user name, a password and the server's key.
#[derive(Clone)]
pub struct LoginCredentials {
    key: RsaPublicKey,
    user: String,
    password: String,
    padding: TokenPadding,
}

impl fmt::Debug for LoginCredentials {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?}, {:?})", self.user, self.padding)
    }
}

impl LoginCredentials {
    /// Reads a public key in PEM (PKCS #1 or SubjectPublicKeyInfo).
    ///
    /// # Errors
    /// There is no such key, or the credentials do not fit into it.
    pub fn new(
        key: &Path,
        user: &str,
        password: &str,
        padding: TokenPadding,
    ) -> Result<LoginCredentials, LoginError> {
        let path = key.to_owned();
        let text =
            read_limited(key).map_err(|source| LoginError::Read { path: path.clone(), source })?;
        let parsed = RsaPublicKey::from_public_key_pem(&text)
            .ok()
            .or_else(|| RsaPublicKey::from_pkcs1_pem(&text).ok());
        let login = LoginCredentials {
            key: parsed.ok_or(LoginError::Key { path })?,
            user: user.to_owned(),
            password: password.to_owned(),
            padding,
        };
        login.make_token(SystemTime::now()).map(|_| login)
    }

    /// Returns a token with the current time.
    ///
    /// # Errors
    /// The credentials do not fit into the key.
    fn make_token(&self, now: SystemTime) -> Result<String, LoginError> {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        let text = format!("user: {}\npwd:  {}\nts:   {seconds}", self.user, self.password);
        let cipher = match self.padding {
            TokenPadding::Oaep => {
                self.key.encrypt(&mut OsRng, Oaep::new::<sha1::Sha1>(), text.as_bytes())
            }
            TokenPadding::Pkcs1 => self.key.encrypt(&mut OsRng, Pkcs1v15Encrypt, text.as_bytes()),
        };
        let cipher = cipher.map_err(|_| LoginError::TooLong)?;
        Ok(STANDARD.encode(cipher))
    }
}

/// The interval at which an unanswered hello is repeated. The server counts a duplicate as data, so
/// it is not much shorter.
const HELLO_INTERVAL: Duration = Duration::from_secs(1);
/// The buffer for the answer, which has 4 bytes; longer datagrams may already be data.
const ANSWER_ROOM_BYTES: usize = 64;

/// Opens every stream of the plan; those on which this end sends come first.
fn open_streams(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    cookie: TestCookie,
) -> Result<SessionSockets, EngineError> {
    let all = |role, wanted: bool| -> Result<Vec<DataSocket>, EngineError> {
        let count = if wanted { plan.streams } else { 0 };
        (0..count)
            .map(|index| match plan.transport {
                RunTransport::Tcp => connect_stream(target, plan, role, to, cookie, index),
                RunTransport::Udp { .. } => open_udp_stream(target, plan, role, to, index),
            })
            .collect()
    };
    Ok(SessionSockets {
        forward: all(TransferRole::Sender, plan.direction != RunDirection::Reverse)?,
        reverse: all(TransferRole::Receiver, plan.direction != RunDirection::Forward)?,
    })
}

fn connect_stream(
    target: &TargetHost,
    plan: &ThroughputPlan,
    role: TransferRole,
    to: SocketAddr,
    cookie: TestCookie,
    index: u32,
) -> Result<DataSocket, EngineError> {
    let local = target.stream_bind(plan, role == TransferRole::Sender, index as u16);
    let socket = engine::open_tcp_socket(plan, role, to, &local)?;
    let opened = || -> io::Result<TcpStream> {
        let mut stream = socket.connect(target.connect_timeout)?;
        stream.set_write_timeout(Some(target.connect_timeout))?;
        stream.write_all(&cookie.0)?;
        stream.set_write_timeout(None)?;
        Ok(stream)
    };
    let stream =
        opened().map_err(|e| EngineError::new(format!("open data stream {index} to {to}"), e))?;
    Ok(DataSocket::Tcp(stream))
}

fn open_udp_stream(
    target: &TargetHost,
    plan: &ThroughputPlan,
    role: TransferRole,
    to: SocketAddr,
    index: u32,
) -> Result<DataSocket, EngineError> {
    let local = target.stream_bind(plan, role == TransferRole::Sender, index as u16);
    let socket = engine::open_udp_socket(plan, to, &local)?;
    greet_server(&socket, target.connect_timeout)
        .map_err(|error| EngineError::new(format!("open UDP stream {index} to {to}"), error))?;
    Ok(DataSocket::Udp(socket))
}

fn greet_server(socket: &UdpSocket, within: Duration) -> io::Result<()> {
    let deadline = Instant::now() + within;
    let mut bytes = [0; ANSWER_ROOM_BYTES];
    while Instant::now() < deadline {
        // The next round repairs a full queue or an early "port unreachable".
        let _ = socket.send(&UdpGreeting::Text.hello());
        let again = deadline.min(Instant::now() + HELLO_INTERVAL);
        loop {
            let left = again.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match socket.recv(&mut bytes) {
                Ok(count) if UdpGreeting::is_answer(&bytes[..count]) => {
                    return socket.set_read_timeout(None);
                }
                Ok(_) => {}
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(20))),
            }
        }
    }
    let why = "no answer to its hello: UDP may be blocked on the path";
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsa::RsaPrivateKey;
    use rsa::pkcs8::{EncodePublicKey, LineEnding};

    #[test]
    fn a_token_says_user_password_and_time_to_whoever_has_the_private_key() {
        let private = RsaPrivateKey::new(&mut OsRng, 1024).expect("a key");
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF);
        let name = format!("longhaul-login-{}.pem", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, pem.expect("PEM")).expect("written");
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        for padding in [TokenPadding::Oaep, TokenPadding::Pkcs1] {
            let login = LoginCredentials::new(&path, "mario", "rossi", padding).expect("a login");
            assert!(!format!("{login:?}").contains("rossi"));
            let cipher = STANDARD.decode(login.make_token(now).expect("short"));
            let cipher = cipher.expect("base64");
            let plain = match padding {
                TokenPadding::Oaep => private.decrypt(Oaep::new::<sha1::Sha1>(), &cipher),
                TokenPadding::Pkcs1 => private.decrypt(Pkcs1v15Encrypt, &cipher),
            };
            let text = String::from_utf8(plain.expect("ours")).expect("text");
            assert_eq!(text, "user: mario\npwd:  rossi\nts:   1800000000");
        }
        let long = "x".repeat(200);
        let error =
            LoginCredentials::new(&path, "mario", &long, TokenPadding::Oaep).expect_err("too long");
        assert!(matches!(error, LoginError::TooLong));
        std::fs::write(&path, "no key").expect("written");
        let error = LoginCredentials::new(&path, "a", "b", TokenPadding::Oaep).expect_err("no key");
        assert!(error.to_string().contains("no public RSA key"));
        std::fs::remove_file(&path).expect("removed");
    }
}
