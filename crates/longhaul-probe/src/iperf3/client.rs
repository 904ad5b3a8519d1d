//! A run against an iperf3 server, as its client.
//!
//! - [`Client`]: the protocol, without sockets or clocks
//! - [`run`]: a run on real connections with our engine; [`run_followed`]: reports each interval
//! - [`Wish`]: options beyond the plan; [`Login`]: authentication
//! - [`Closed`]: the end of a test, with advice

mod asked;
mod closed;
mod course;
mod drive;
mod follow;
mod login;
mod observe;
mod role;
mod streams;
mod wish;

pub use closed::Closed;
pub use follow::{Control, Counted, Follow, Following};
pub use login::{Login, LoginError, Padding};
pub use role::{Action, Client, Input, RESULTS_TIME, SILENCE, STEP_TIME, Step};
pub use wish::Wish;

use super::one_end;
use super::wire::{Cookie, Parameters, Results};
use crate::error::ProbeError;
use crate::limits::{MOST_STREAMS, check_plan};
use crate::throughput::{self, Outcome, Progress, Target};
use course::{Course, filled_in};
use drive::Drive;
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::plan::{Plan, Transport};
use longhaul_sys::tcp_info;
use observe::Known;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

/// The default payload of a datagram if neither the plan nor the path gives one, for Ethernet.
const DATAGRAM_BYTES: u64 = 1460;
/// The largest datagram that iperf3 accepts, and the smallest that holds our counters.
const DATAGRAMS: std::ops::RangeInclusive<u64> = 24..=65_507;
/// The interval at which a busy server, or one between two tests, is contacted again.
const AGAIN: Duration = Duration::from_millis(200);
/// The minimum time for which a server that closed the connection is contacted again: after each
/// test, an iperf3 server closes its listener and with it all waiting connections.
const BETWEEN_TESTS: Duration = Duration::from_secs(1);

/// Performs one run. `watch` is called about five times a second while payload flows.
///
/// Blocks for the whole run; every wait has a deadline. For `patience`, a server that is busy or
/// has no listener is contacted again. A server that closed the connection before its first byte is
/// contacted again for at least a second, as it may have been between two tests.
///
/// # Errors
/// See [`ProbeError`]: the plan is unsuitable for iperf3, or the connection or test failed.
pub fn run(
    target: &Target,
    plan: &Plan,
    wish: &Wish<'_>,
    patience: Duration,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ProbeError> {
    check_plan(plan, MOST_STREAMS)?;
    asked::check(plan)?;
    let (began, mut patience) = (Instant::now(), patience);
    loop {
        let done = attempt(target, plan, wish, watch);
        if done.as_ref().is_err_and(hung_up) {
            patience = patience.max(BETWEEN_TESTS);
        }
        match done {
            Err(error) if may_pass(&error) && began.elapsed() < patience => {
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

/// The results of a test with an observer.
#[derive(Debug, Clone, Default)]
pub struct Followed {
    /// This end's counts; `None` if no payload flowed.
    pub counted: Option<Counted>,
    /// The results sent to the server, including CPU use and congestion control.
    pub own: Option<Results>,
    /// The server's results.
    pub far: Option<Results>,
    /// The paragraphs that explain what limited the run, if this end sent over TCP.
    pub verdict: Vec<String>,
}

/// Performs one run with an observer. Its results are not archived.
///
/// Blocks for the whole run; every wait has a deadline.
///
/// # Errors
/// See [`run`]; the counts until then are returned with the error.
pub fn run_followed(
    target: &Target,
    plan: &Plan,
    wish: &Wish<'_>,
    following: Following<'_>,
) -> (Followed, Result<(), ProbeError>) {
    let mut followed = Followed::default();
    let done = check_plan(plan, MOST_STREAMS)
        .and_then(|()| asked::check(plan))
        .map_err(ProbeError::from)
        .and_then(|()| follow_run(target, plan, wish, (following, &mut followed)));
    (followed, done)
}

fn follow_run(
    target: &Target,
    plan: &Plan,
    wish: &Wish<'_>,
    (following, followed): (Following<'_>, &mut Followed),
) -> Result<(), ProbeError> {
    let begun = Begun::new(target, plan, wish)?;
    following.follow.connected(&begun.about);
    let mut nobody = |_: &Progress| {};
    let following = Following {
        follow: &mut *following.follow,
        every: following.every,
    };
    let omit = Duration::from_secs(u64::from(wish.omit_seconds.unwrap_or(0)));
    let mut course = begun.course(target, &mut nobody);
    course.follow(following, omit);
    let (closed, mut client) = begun.drive(target, wish, &mut course)?.run();
    followed.counted = course.take_counted();
    followed.own = course.told.take();
    followed.far = client.take_results();
    let sender = course.collected.sender.as_ref();
    if let Some(sender) = sender.filter(|_| plan.transport == Transport::Tcp) {
        followed.verdict = one_end::verdict(plan, sender, course.idle_rtt);
    }
    match closed {
        Closed::Finished => Ok(()),
        closed => Err(ProbeError::Iperf3 {
            address: begun.address,
            closed,
        }),
    }
}

/// A test whose control connection is open.
struct Begun {
    started_at: SystemTime,
    epoch: Instant,
    address: SocketAddr,
    control: TcpStream,
    about: Control,
    parameters: Parameters,
    filled: Plan,
}

impl Begun {
    fn new(target: &Target, plan: &Plan, wish: &Wish<'_>) -> Result<Begun, ProbeError> {
        let (started_at, epoch) = (SystemTime::now(), Instant::now());
        let address = throughput::resolve(target)?;
        let control = throughput::connect_plain(target, address)?;
        let cookie = Cookie::random().map_err(|error| ProbeError::Local {
            what: "cannot name the test".to_owned(),
            source: Some(error),
        })?;
        let datagram_bytes = datagram_bytes(plan, &control);
        let mut parameters = asked::parameters(plan, datagram_bytes);
        wish.add_to(&mut parameters);
        if let Some(login) = wish.login {
            let token = login.token(started_at).map_err(|error| ProbeError::Local {
                what: error.to_string(),
                source: None,
            })?;
            parameters.authtoken = Some(token);
        }
        let info = tcp_info::read(&control).ok();
        Ok(Begun {
            started_at,
            epoch,
            address,
            about: Control {
                cookie,
                local: control.local_addr().ok(),
                peer: address,
                mss_bytes: info.map(|info| info.send_mss_bytes),
                datagram_bytes,
            },
            control,
            parameters,
            filled: filled_in(plan, datagram_bytes),
        })
    }

    fn course<'a>(&'a self, target: &'a Target, watch: &'a mut dyn FnMut(&Progress)) -> Course<'a> {
        let ends = (self.about.local, self.address);
        Course::new(target, &self.filled, ends, self.epoch, watch)
    }

    fn drive<'a, 'w>(
        &self,
        target: &Target,
        wish: &Wish<'a>,
        course: &'a mut Course<'w>,
    ) -> Result<Drive<'a, 'w>, ProbeError> {
        let greeting = self.epoch.elapsed() + target.connect_timeout;
        let client = Client::new(self.about.cookie, self.parameters.clone(), greeting);
        let control = self
            .control
            .try_clone()
            .map_err(|error| ProbeError::Local {
                what: "cannot share the control connection".to_owned(),
                source: Some(error),
            })?;
        Ok(Drive {
            control,
            client: client.with_silence(wish.silence.unwrap_or(SILENCE)),
            cookie: self.about.cookie,
            course,
            epoch: self.epoch,
            stop: wish.stop,
        })
    }
}

/// The server is between two tests: busy, without a listener, or the listener closed meanwhile.
fn may_pass(error: &ProbeError) -> bool {
    hung_up(error)
        || match error {
            ProbeError::Connect { source, .. } => source.kind() == io::ErrorKind::ConnectionRefused,
            ProbeError::Iperf3 { closed, .. } => *closed == Closed::Busy,
            _ => false,
        }
}

/// The server was reachable, but closed the connection before its first byte.
fn hung_up(error: &ProbeError) -> bool {
    match error {
        ProbeError::Connect { source, .. } => source.kind() == io::ErrorKind::ConnectionReset,
        ProbeError::Iperf3 { closed, .. } => matches!(
            closed,
            Closed::Cut {
                step: Step::Greeting,
                ..
            }
        ),
        _ => false,
    }
}

fn attempt(
    target: &Target,
    plan: &Plan,
    wish: &Wish<'_>,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ProbeError> {
    let begun = Begun::new(target, plan, wish)?;
    let (address, local) = (begun.address, begun.about.local);
    let mut course = begun.course(target, watch);
    let (closed, mut client) = begun.drive(target, wish, &mut course)?.run();
    let failed = |closed| ProbeError::Iperf3 { address, closed };
    if closed != Closed::Finished {
        return Err(failed(closed));
    }
    let results = client.take_results().ok_or_else(|| {
        failed(Closed::Violation {
            step: Step::Exchanging,
            what: "it told no results".to_owned(),
        })
    })?;
    outcome(
        target,
        plan,
        (address, local),
        (begun.started_at, begun.epoch),
        (course, &results),
    )
    .map_err(|what| {
        failed(Closed::Violation {
            step: Step::Exchanging,
            what,
        })
    })
}

fn outcome(
    target: &Target,
    plan: &Plan,
    (address, local): (SocketAddr, Option<SocketAddr>),
    (started_at, epoch): (SystemTime, Instant),
    (mut course, results): (Course<'_>, &Results),
) -> Result<Outcome, String> {
    let known = Known {
        plan,
        host: &target.host,
        idle_rtt: course.idle_rtt,
        same_host: course.same_host(),
    };
    let mut collected = std::mem::take(&mut course.collected);
    let mut caveats = asked::caveats(plan);
    for end in collected.sender.iter_mut().chain(&mut collected.receiver) {
        caveats.append(&mut end.caveats);
    }
    let observation = observe::join(&known, collected, results)?;
    Ok(Outcome {
        observation,
        initiator: throughput::initiator_party(local),
        responder: Party {
            host: target.host.clone(),
            address: Some(address.ip().to_string()),
            ..Party::default()
        },
        started_at,
        duration: epoch.elapsed(),
        origin: epoch + course.origin,
        caveats,
        captures: course.captures,
    })
}

/// Returns the size in the plan, or the payload of one packet of the control connection.
fn datagram_bytes(plan: &Plan, control: &TcpStream) -> u64 {
    let of_path = || Some(u64::from(tcp_info::read(control).ok()?.send_mss_bytes));
    let bytes = plan.write_bytes.or_else(of_path).unwrap_or(DATAGRAM_BYTES);
    bytes.clamp(*DATAGRAMS.start(), *DATAGRAMS.end())
}
