//! The server's half of the personality: `longhaul serve` with iperf3's options, text and JSON.

mod desk;
mod object;
mod pidfile;
mod screen;
mod test;
mod words;

use super::Refusal;
use super::system;
use crate::cli::args::Iperf3Args;
use desk::{Desk, Form};
use longhaul_iperf3::users::DEFAULT_SKEW;
use longhaul_iperf3::{
    AuthorizedUsers, Iperf3Handler, Iperf3Limits, Iperf3Options, RateLimit, ServerObserverConfig,
};
use longhaul_probe::measurement_server::{
    AnonymousLimits, DetachedProcess, MeasurementServer, ServeOptions, detach,
};
use longhaul_probe::probe_error::ServeError;
use pidfile::PidFile;
use screen::ServerScreen;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Tests at one time; with `--one-off` there is one.
const MOST_SESSIONS: u32 = 128;
/// Unless `-i` says otherwise.
const INTERVAL: Duration = Duration::from_secs(1);
/// Over which `--server-bitrate-limit` takes its mean, unless it says otherwise.
const RATE_WINDOW_S: u64 = 5;
const MOST_WINDOW_S: u64 = 3600;
const MOST_IDLE_S: u32 = 86_400;
const CREDENTIALS: &str =
    "you must specify a path to a valid RSA private key and a user credential file";

/// Serves as `iperf3 -s` does.
///
/// # Errors
/// What the program ends with, said as iperf3 says it.
pub fn run(args: &Iperf3Args) -> Result<(), Refusal> {
    check(args)?;
    let users = users(args)?;
    let screen = ServerScreen::new(args.logfile.as_deref(), args.timestamps.as_ref())
        .map_err(|error| Refusal::error(format!("unable to open log file: {}", plain(&error))))?;
    let desk = Desk::new(args, screen);
    let responder = match MeasurementServer::bind(options(args, users, &desk)?) {
        Ok(responder) => responder,
        Err(error) => return Err(desk.fail(&listening_failed(&error))),
    };
    signals(&desk)?;
    let pidfile = args.pidfile.as_deref().map(PidFile::open).transpose()?;
    if args.server.daemon {
        let detached = detach();
        let detached = detached.map_err(|error| {
            Refusal::error(format!("unable to become a daemon: {}", plain(&error)))
        })?;
        if let DetachedProcess::Caller { service } = detached {
            return pidfile.map_or(Ok(()), |file| file.write(service));
        }
        // The caller writes the file, so that it stands there when it returns.
    } else if let Some(file) = &pidfile {
        file.write(std::process::id())?;
    }
    let done = desk.serve(responder);
    if let Some(file) = pidfile {
        file.remove();
    }
    done
}

/// What cannot be, or is not done here.
fn check(args: &Iperf3Args) -> Result<(), Refusal> {
    let server = &args.server;
    if args.file.is_some() {
        let text = "-F is not supported: no payload is kept, and none is sent from files";
        return Err(Refusal::parameter(text));
    }
    if args.mptcp {
        return Err(Refusal::parameter("-m is not supported: leave it out"));
    }
    if server
        .idle_timeout
        .is_some_and(|s| !(1..=MOST_IDLE_S).contains(&s))
    {
        let text = "idle timeout parameter is not positive or larger than allowed limit";
        return Err(Refusal::parameter(text));
    }
    if server.time_skew_threshold == Some(0) {
        return Err(Refusal::parameter(
            "skew threshold must be a positive number",
        ));
    }
    let window = server.server_bitrate_limit.and_then(|limit| limit.count);
    if window.is_some_and(|s| !(1..=MOST_WINDOW_S).contains(&s)) {
        let text = format!("the bitrate limit is a mean over 1 to {MOST_WINDOW_S} seconds");
        return Err(Refusal::Parameter(text));
    }
    Ok(())
}

fn users(args: &Iperf3Args) -> Result<Option<AuthorizedUsers>, Refusal> {
    let server = &args.server;
    let (key, list) = match (&server.rsa_private_key_path, &server.authorized_users_path) {
        (None, None) => return Ok(None),
        (Some(key), Some(list)) => (key, list),
        _ => return Err(Refusal::parameter(CREDENTIALS)),
    };
    let skew = server.time_skew_threshold;
    let skew = skew.map_or(DEFAULT_SKEW, |s| Duration::from_secs(u64::from(s)));
    let users = AuthorizedUsers::load(key, list, skew);
    let refused = |error| Refusal::Parameter(format!("{CREDENTIALS}: {error}"));
    users.map(Some).map_err(refused)
}

fn options(
    args: &Iperf3Args,
    users: Option<AuthorizedUsers>,
    desk: &Arc<Desk>,
) -> Result<ServeOptions, Refusal> {
    let place = args.bind.as_ref();
    let device = args.bind_dev.clone();
    let every = args.interval.unwrap_or(INTERVAL);
    let limit = args.server.server_bitrate_limit;
    let rate = limit.filter(|limit| limit.bps > 0).map(|limit| RateLimit {
        bits_per_second: limit.bps,
        window: Duration::from_secs(limit.count.unwrap_or(RATE_WINDOW_S)),
    });
    let longest = args.server.server_max_duration.filter(|s| *s > 0);
    Ok(ServeOptions {
        addresses: addresses(args)?,
        port: args.port,
        device: device.or_else(|| place.and_then(|place| place.device.clone())),
        // Who is asked for a password lets no strangers in by another door.
        anonymous: users.is_none().then(AnonymousLimits::default),
        max_sessions: if args.server.one_off {
            1
        } else {
            MOST_SESSIONS
        },
        handlers: vec![Arc::new(Iperf3Handler::new(Some(Iperf3Options {
            users,
            json_output: desk.form != Form::Text,
            limits: Iperf3Limits {
                anonymous_unlimited: true,
                max_duration: longest.map(|s| Duration::from_secs(u64::from(s))),
                rate,
                silence_timeout: args.rcv_timeout,
            },
            core: args.affinity.map(|cores| cores.own),
            observer: Some(ServerObserverConfig {
                observer: Arc::clone(desk) as Arc<_>,
                interval: Some(every).filter(|every| !every.is_zero()),
            }),
        })))],
        command: Some(crate::cli::invocation::redacted_command_line()),
        ..ServeOptions::default()
    })
}

/// Where to listen; none: everywhere, both families.
fn addresses(args: &Iperf3Args) -> Result<Vec<IpAddr>, Refusal> {
    let Some(place) = &args.bind else {
        return Ok(match (args.version4, args.version6) {
            (true, false) => vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
            (false, true) => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
            _ => Vec::new(),
        });
    };
    let host = place.host.as_str();
    let fits = |ip: &IpAddr| (ip.is_ipv4() || !args.version4) && (ip.is_ipv6() || !args.version6);
    let found = (host, args.port).to_socket_addrs();
    let found = found.map_err(|error| Refusal::error(unheard(host, &plain(&error))))?;
    let first = found.map(|address| address.ip()).find(fits);
    let none = || Refusal::error(unheard(host, "it has no address of that family"));
    first.map(|ip| vec![ip]).ok_or_else(none)
}

fn unheard(host: &str, why: &str) -> String {
    format!("unable to start listener for connections on {host}: {why}")
}

fn listening_failed(error: &ServeError) -> String {
    match error {
        ServeError::Listen { source, .. } => format!(
            "unable to start listener for connections: {}",
            plain(source)
        ),
        other => format!("unable to start listener for connections: {other}"),
    }
}

/// An error of the system as C has it.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

fn signals(desk: &Desk) -> Result<(), Refusal> {
    let register = |signal, flag: &Arc<AtomicBool>| {
        let done = signal_hook::flag::register(signal, Arc::clone(flag));
        let failed = |error| Refusal::error(format!("signals cannot be handled: {error}"));
        done.map(|_| ()).map_err(failed)
    };
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        register(signal, &desk.interrupted)?;
        register(signal, &desk.stop)?;
    }
    Ok(())
}
