//! One run against an iperf3 server, from the client's side.
//!
//! - [`Client`]: the protocol, without sockets or clocks
//! - [`run`]: the same on real connections, with our engine; [`run_followed`]: told as it goes
//! - [`Wish`]: what is asked beyond a plan; [`Login`]: who measures
//! - [`Closed`]: how it ended, and what to do about it

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

/// Payload of a datagram where neither the plan nor the path tells: Ethernet's.
const DATAGRAM_BYTES: u64 = 1460;
/// The largest that iperf3 takes, and the least that our counters fit in.
const DATAGRAMS: std::ops::RangeInclusive<u64> = 24..=65_507;
/// A server that is busy, or between two tests, is asked again after this long.
const AGAIN: Duration = Duration::from_millis(200);
/// An iperf3 server shuts its listener after each test, and with it whoever had just come: it is
/// asked again for so long, whatever the caller's patience.
const BETWEEN_TESTS: Duration = Duration::from_secs(1);

/// Does one run. `watch` is called about five times a second while payload flows.
///
/// Blocks for the whole run; every wait in it has a deadline. `patience` is how long a server
/// that is busy, or has no listener, is asked again; one that hung up before its first byte is
/// for a second in any case, as it may have been between two tests.
///
/// # Errors
/// See [`ProbeError`]: a plan that no iperf3 server runs, no connection, or how the test ended.
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

/// What a followed test gave.
#[derive(Debug, Clone, Default)]
pub struct Followed {
    /// What this end counted; absent: no payload flowed.
    pub counted: Option<Counted>,
    /// What we told the server of this end, processor and congestion control among it.
    pub own: Option<Results>,
    /// What it told us.
    pub far: Option<Results>,
    /// What limited the run, a paragraph each, where this end sent over TCP.
    pub verdict: Vec<String>,
}

/// Does one run that somebody follows. Nothing of it is kept.
///
/// Blocks for the whole run; every wait in it has a deadline.
///
/// # Errors
/// As [`run`]; what was counted until then stands beside it.
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

/// A test whose control connection stands.
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

/// A server between two tests: busy, its listener shut, or shut while we were waiting for it.
fn may_pass(error: &ProbeError) -> bool {
    hung_up(error)
        || match error {
            ProbeError::Connect { source, .. } => source.kind() == io::ErrorKind::ConnectionRefused,
            ProbeError::Iperf3 { closed, .. } => *closed == Closed::Busy,
            _ => false,
        }
}

/// It was there, and shut the connection without a word.
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

/// As the plan says, or what one packet of the control connection carries.
fn datagram_bytes(plan: &Plan, control: &TcpStream) -> u64 {
    let of_path = || Some(u64::from(tcp_info::read(control).ok()?.send_mss_bytes));
    let bytes = plan.write_bytes.or_else(of_path).unwrap_or(DATAGRAM_BYTES);
    bytes.clamp(*DATAGRAMS.start(), *DATAGRAMS.end())
}
