//! `longhaul serve`: runs the server.

use super::args::ServeArgs;
use super::{called, resolve};
use crate::fail::{Fail, HOST, USAGE};
use crate::render::figures::{count_of, rate};
use crate::render::style::{COMMAND, FAINT, STRONG, paint};
use jiff::Timestamp;
use longhaul_model::units::Bytes;
use longhaul_probe::iperf3::Users;
use longhaul_probe::iperf3::users::DEFAULT_SKEW;
use longhaul_probe::secure::Token;
use longhaul_probe::serve::{
    AnonymousLimits, FilesRoot, Iperf3Options, Responder, ServeEvent, ServeOptions,
};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub fn run(args: &ServeArgs) -> Result<ExitCode, Fail> {
    let token = token(args)?;
    let anonymous = (!args.token_only).then(|| limits(args));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|e| {
            Fail::from_error(HOST, &e).hint(Some("signals of this process cannot be handled"))
        })?;
    }
    let responder = Responder::bind(ServeOptions {
        addresses: args.bind.into_iter().collect(),
        port: args.port,
        device: args.bind_dev.clone(),
        token: token.as_ref().map(|(token, _)| token.as_str().to_owned()),
        anonymous,
        max_sessions: args.max_sessions,
        max_streams: args.max_streams,
        captures: !args.no_capture,
        files: folders(&args.files)?,
        iperf3: iperf3(args)?,
        command: Some(called::command()),
    })?;
    let notice = Notice {
        files: &args.files,
        addresses: responder.addresses(),
        token: token.as_ref().map(|(token, made)| (token, *made)),
        anonymous: anonymous.as_ref(),
    };
    let log = Log { json: args.json };
    log.write(&notice.text(), notice.json());
    responder.run(
        |event| {
            if let ServeEvent::Listening(_) = event {
                return;
            }
            log.write(&event_line(&event), event_json(&event));
            if args.one_off && matches!(event, ServeEvent::SessionClosed { .. }) {
                stop.store(true, Ordering::Relaxed);
            }
        },
        &stop,
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Checks that the folders exist and have distinct names.
fn folders(roots: &[FilesRoot]) -> Result<Vec<FilesRoot>, Fail> {
    for (place, root) in roots.iter().enumerate() {
        let shown = root.path.display();
        if !root.path.is_dir() {
            let text = format!("cannot serve the files of {shown}: it is no folder");
            return Err(Fail::new(USAGE, text).hint(Some("name a folder that exists")));
        }
        if roots[..place].iter().any(|other| other.name == root.name) {
            let text = format!("two folders that are served end in {}", root.name);
            let hint = "peers tell them apart by their last part: serve a folder above both";
            return Err(Fail::new(USAGE, text).hint(Some(hint)));
        }
    }
    Ok(roots.to_vec())
}

/// Returns the token, and whether it was generated.
fn token(args: &ServeArgs) -> Result<Option<(Token, bool)>, Fail> {
    if args.anonymous {
        return Ok(None);
    }
    if let Some(given) = resolve::token(&args.token)? {
        return Ok(Some((given, false)));
    }
    let made = Token::generate().ok_or_else(|| {
        Fail::new(
            HOST,
            "cannot make a token: the kernel gives no random bytes",
        )
        .hint(Some("give one with `--token-file`"))
    })?;
    Ok(Some((made, true)))
}

/// Returns the options for iperf3 clients, if they are served.
fn iperf3(args: &ServeArgs) -> Result<Option<Iperf3Options>, Fail> {
    if args.no_iperf3 {
        return Ok(None);
    }
    let users = match (&args.iperf3_key, &args.iperf3_users) {
        (Some(key), Some(users)) => {
            let skew = args.iperf3_skew.map_or(DEFAULT_SKEW, Duration::from_micros);
            let users = Users::load(key, users, skew);
            Some(users.map_err(|error| {
                Fail::from_error(USAGE, &error).hint(Some("docs/iperf3.md says how to make both"))
            })?)
        }
        _ => None,
    };
    Ok(Some(Iperf3Options {
        users,
        json_output: args.iperf3_json,
        ..Iperf3Options::default()
    }))
}

fn limits(args: &ServeArgs) -> AnonymousLimits {
    let default = AnonymousLimits::default();
    AnonymousLimits {
        seconds: args
            .anonymous_time
            .map_or(default.seconds, |us| us.div_ceil(1_000_000)),
        streams: args.anonymous_streams.unwrap_or(default.streams),
        concurrent: args.anonymous_runs.unwrap_or(default.concurrent),
        rate_bps: args.anonymous_rate.or(default.rate_bps),
        bytes: args.anonymous_bytes.or(default.bytes),
    }
}

/// The notice printed at startup.
struct Notice<'a> {
    files: &'a [FilesRoot],
    addresses: Vec<SocketAddr>,
    /// The token, and whether it was generated.
    token: Option<(&'a Token, bool)>,
    anonymous: Option<&'a AnonymousLimits>,
}

impl Notice<'_> {
    fn text(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let token = match self.token {
            Some((token, true)) => format!(
                "{}\n                 {}",
                paint(COMMAND, token.as_str()),
                paint(FAINT, "for the other end's LONGHAUL_TOKEN or --token-file")
            ),
            Some((_, false)) => "as given".to_owned(),
            None => "none".to_owned(),
        };
        let mut text = format!(
            "{} on {}, TCP and UDP\ntoken            {token}\nwithout a token  {}",
            paint(STRONG, format!("longhaul {version} serving")),
            addresses.join(", "),
            limits_in_words(self.anonymous)
        );
        for root in self.files {
            let may = if root.writable {
                "to be read, and written with the token"
            } else {
                "to be read"
            };
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

fn limits_in_words(limits: Option<&AnonymousLimits>) -> String {
    let Some(limits) = limits else {
        return "nothing".to_owned();
    };
    let mut parts = vec![
        format!("at most {} s", limits.seconds),
        count_of(u64::from(limits.streams), "stream"),
        format!(
            "{} at a time",
            count_of(u64::from(limits.concurrent), "run")
        ),
    ];
    parts.extend(limits.rate_bps.map(rate));
    parts.extend(limits.bytes.map(|bytes| Bytes(bytes).to_string()));
    parts.join(", ")
}

/// The log on stderr: text or JSON lines.
struct Log {
    json: bool,
}

impl Log {
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

fn event_line(event: &ServeEvent) -> String {
    let now = Timestamp::now().strftime("%H:%M:%S").to_string();
    format!("{} {event}", paint(FAINT, now))
}

fn event_json(event: &ServeEvent) -> Value {
    match event {
        ServeEvent::Listening(address) => json!({"event": "listening", "address": address}),
        ServeEvent::TokenGuessable => json!({"event": "token_guessable"}),
        ServeEvent::Iperf3Refused(peer) => json!({"event": "iperf3_refused", "peer": peer}),
        ServeEvent::Dismissed { peer, why } => {
            json!({"event": "dismissed", "peer": peer, "why": why})
        }
        ServeEvent::StreamRefused { peer, why } => {
            json!({"event": "stream_refused", "peer": peer, "why": why})
        }
        ServeEvent::SessionOpened {
            peer,
            host,
            anonymous,
            what,
        } => json!({
            "event": "session_opened",
            "peer": peer,
            "host": host,
            "anonymous": anonymous,
            "what": what,
        }),
        ServeEvent::ResultsReady {
            peer,
            bytes,
            streams,
            capture_bytes,
        } => json!({
            "event": "results_ready",
            "peer": peer,
            "bytes": bytes,
            "streams": streams,
            "capture_bytes": capture_bytes,
        }),
        ServeEvent::Copying { peer, receiving } => {
            json!({"event": "copying", "peer": peer, "receiving": receiving})
        }
        ServeEvent::SessionClosed {
            peer,
            reason,
            elapsed,
            bytes,
        } => json!({
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
