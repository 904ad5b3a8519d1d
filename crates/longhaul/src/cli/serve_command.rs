//! `longhaul serve`: runs the server.

use super::args::ServeArgs;
use super::{invocation, option_resolution};
use crate::command_failure::{CommandFailure, HOST, USAGE};
use jiff::Timestamp;
use longhaul_copy::{FilesHandler, FilesRoot};
use longhaul_iperf3::users::DEFAULT_SKEW;
use longhaul_iperf3::{AuthorizedUsers, Iperf3Handler, Iperf3Options};
use longhaul_model::units::Bytes;
use longhaul_probe::measurement_server::{
    AnonymousLimits, MeasurementServer, ServeEvent, ServeOptions,
};
use longhaul_probe::secure::AuthToken;
use longhaul_report::number_format::{count_of, format_rate};
use longhaul_report::style::{COMMAND, FAINT, STRONG, paint};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub fn run(args: &ServeArgs) -> Result<ExitCode, CommandFailure> {
    let token = resolve_serve_token(args)?;
    let anonymous = (!args.token_only).then(|| anonymous_limits(args));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|e| {
            CommandFailure::from_error(HOST, &e)
                .hint(Some("check that this process may install signal handlers"))
        })?;
    }
    let responder = MeasurementServer::bind(ServeOptions {
        addresses: args.bind.into_iter().collect(),
        port: args.port,
        device: args.bind_dev.clone(),
        token: token.as_ref().map(|(token, _)| token.as_str().to_owned()),
        anonymous,
        max_sessions: args.max_sessions,
        max_streams: args.max_streams,
        captures: !args.no_capture,
        handlers: vec![
            Arc::new(FilesHandler::new(check_served_folders(&args.files)?)),
            Arc::new(Iperf3Handler::new(iperf3_options(args)?)),
        ],
        command: Some(invocation::redacted_command_line()),
    })?;
    let notice = ServeNotice {
        files: &args.files,
        addresses: responder.addresses(),
        token: token.as_ref().map(|(token, made)| (token, *made)),
        anonymous: anonymous.as_ref(),
    };
    let log = ServeLog { json: args.json };
    log.write(&notice.text(), notice.json());
    responder.run(
        |event| {
            if let ServeEvent::Listening(_) = event {
                return;
            }
            log.write(&format_event_line(&event), event_json(&event));
            if args.one_off && matches!(event, ServeEvent::SessionClosed { .. }) {
                stop.store(true, Ordering::Relaxed);
            }
        },
        &stop,
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Checks that the folders exist and have distinct names.
fn check_served_folders(roots: &[FilesRoot]) -> Result<Vec<FilesRoot>, CommandFailure> {
    for (place, root) in roots.iter().enumerate() {
        let shown = root.path.display();
        if !root.path.is_dir() {
            let text = format!("cannot serve the files of {shown}: not a folder");
            return Err(CommandFailure::new(USAGE, text).hint(Some("name an existing folder")));
        }
        if roots[..place].iter().any(|other| other.name == root.name) {
            let text = format!("cannot serve two folders with the name {}", root.name);
            let hint =
                "serve a folder above both, because clients see only the last part of a name";
            return Err(CommandFailure::new(USAGE, text).hint(Some(hint)));
        }
    }
    Ok(roots.to_vec())
}

/// Returns the token, and whether it was generated.
fn resolve_serve_token(args: &ServeArgs) -> Result<Option<(AuthToken, bool)>, CommandFailure> {
    if args.anonymous {
        return Ok(None);
    }
    if let Some(given) = option_resolution::resolve_token(&args.token)? {
        return Ok(Some((given, false)));
    }
    let made = AuthToken::generate().ok_or_else(|| {
        CommandFailure::new(HOST, "cannot generate a token: no random bytes from the kernel")
            .hint(Some("give a token with `--token-file FILE`"))
    })?;
    Ok(Some((made, true)))
}

/// Returns the options for iperf3 clients, if they are served.
fn iperf3_options(args: &ServeArgs) -> Result<Option<Iperf3Options>, CommandFailure> {
    if args.no_iperf3 {
        return Ok(None);
    }
    let users = match (&args.iperf3_key, &args.iperf3_users) {
        (Some(key), Some(users)) => {
            let skew = args.iperf3_skew.map_or(DEFAULT_SKEW, Duration::from_micros);
            let users = AuthorizedUsers::load(key, users, skew);
            Some(users.map_err(|error| {
                CommandFailure::from_error(USAGE, &error)
                    .hint(Some("see docs/iperf3.md for the key and the users"))
            })?)
        }
        _ => None,
    };
    Ok(Some(Iperf3Options { users }))
}

fn anonymous_limits(args: &ServeArgs) -> AnonymousLimits {
    let default = AnonymousLimits::default();
    AnonymousLimits {
        seconds: args.anonymous_time.map_or(default.seconds, |us| us.div_ceil(1_000_000)),
        streams: args.anonymous_streams.unwrap_or(default.streams),
        concurrent: args.anonymous_runs.unwrap_or(default.concurrent),
        rate_bps: args.anonymous_rate.or(default.rate_bps),
        bytes: args.anonymous_bytes.or(default.bytes),
    }
}

/// The notice printed at startup.
struct ServeNotice<'a> {
    files: &'a [FilesRoot],
    addresses: Vec<SocketAddr>,
    /// The token, and whether it was generated.
    token: Option<(&'a AuthToken, bool)>,
    anonymous: Option<&'a AnonymousLimits>,
}

impl ServeNotice<'_> {
    fn text(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let token = match self.token {
            Some((token, true)) => format!(
                "{}\n                 {}",
                paint(COMMAND, token.as_str()),
                paint(FAINT, "give it to clients as LONGHAUL_TOKEN or with --token-file")
            ),
            Some((_, false)) => "as given".to_owned(),
            None => "none".to_owned(),
        };
        let mut text = format!(
            "{} on {}, TCP and UDP\ntoken            {token}\nwithout a token  {}",
            paint(STRONG, format!("longhaul {version} serving")),
            addresses.join(", "),
            describe_limits(self.anonymous)
        );
        for root in self.files {
            let may = if root.writable { "read, and write with the token" } else { "read only" };
            let line = format!("\nfiles            {}, {may}", root.path.display());
            text.push_str(&line);
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "event": "serving",
            "longhaul": env!("CARGO_PKG_VERSION"),
            "addresses": self.addresses,
            "token": self.token.filter(|(_, made)| *made).map(|(token, _)| token.as_str()),
            "files": self.files.iter().map(|root| json!({
                "path": root.path.to_string_lossy(),
                "writable": root.writable,
            })).collect::<Vec<_>>(),
            "anonymous": self.anonymous.map(|limits| json!({
                "seconds": limits.seconds,
                "streams": limits.streams,
                "concurrent": limits.concurrent,
                "rate_bps": limits.rate_bps,
                "bytes": limits.bytes,
            })),
        })
    }
}

fn describe_limits(limits: Option<&AnonymousLimits>) -> String {
    let Some(limits) = limits else {
        return "refused".to_owned();
    };
    let mut parts = vec![
        format!("at most {} s", limits.seconds),
        count_of(u64::from(limits.streams), "stream"),
        format!("{} at a time", count_of(u64::from(limits.concurrent), "run")),
    ];
    parts.extend(limits.rate_bps.map(format_rate));
    parts.extend(limits.bytes.map(|bytes| Bytes(bytes).to_string()));
    parts.join(", ")
}

/// The log on stderr: text or JSON lines.
struct ServeLog {
    json: bool,
}

impl ServeLog {
    fn write(&self, text: &str, value: Value) {
        // If stderr is closed, the log is lost and the server continues.
        let mut to = anstream::stderr().lock();
        let _ = if self.json {
            let mut value = value;
            value["at"] = json!(Timestamp::now().to_string());
            writeln!(to, "{value}")
        } else {
            writeln!(to, "{text}")
        };
    }
}

fn format_event_line(event: &ServeEvent) -> String {
    let now = Timestamp::now().strftime("%H:%M:%S").to_string();
    format!("{} {event}", paint(FAINT, now))
}

fn event_json(event: &ServeEvent) -> Value {
    match event {
        ServeEvent::Listening(address) => json!({"event": "listening", "address": address}),
        ServeEvent::TokenGuessable => json!({"event": "token_guessable"}),
        ServeEvent::ProtocolRefused { peer, protocol, .. } => {
            json!({"event": format!("{protocol}_refused"), "peer": peer})
        }
        ServeEvent::Dismissed { peer, why } => {
            json!({"event": "dismissed", "peer": peer, "why": why})
        }
        ServeEvent::StreamRefused { peer, why } => {
            json!({"event": "stream_refused", "peer": peer, "why": why})
        }
        ServeEvent::SessionOpened { peer, host, anonymous, what } => json!({
            "event": "session_opened",
            "peer": peer,
            "host": host,
            "anonymous": anonymous,
            "what": what,
        }),
        ServeEvent::ResultsReady { peer, bytes, streams, capture_bytes } => json!({
            "event": "results_ready",
            "peer": peer,
            "bytes": bytes,
            "streams": streams,
            "capture_bytes": capture_bytes,
        }),
        ServeEvent::HandlerTransfer { peer, receiving, .. } => {
            json!({"event": "copying", "peer": peer, "receiving": receiving})
        }
        ServeEvent::SessionClosed { peer, reason, elapsed, bytes } => json!({
            "event": "session_closed",
            "peer": peer,
            "reason": reason,
            "elapsed_us": elapsed.as_micros() as u64,
            "bytes": bytes,
        }),
        ServeEvent::Trouble { tried, why } => {
            json!({"event": "trouble", "tried": tried, "why": why})
        }
    }
}
