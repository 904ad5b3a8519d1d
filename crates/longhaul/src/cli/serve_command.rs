//! `longhaul serve`: runs the server.

use crate::cli::args::{LogArgs, TokenArgs};
use crate::cli::command_output;
use crate::cli::value_parsers::{
    accept_count, parse_device, parse_rate, parse_run_bytes, parse_run_time, parse_served_folder,
    parse_streams,
};
use crate::cli::{header_analysis, interrupt, invocation, option_resolution};
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::Args;
use jiff::Timestamp;
use longhaul_agent::event_log::{self, LogFormat, LogLevel};
use longhaul_agent::log_writer::{LogStream, LogWriter};
use longhaul_agent::watch::watch_file::ServeSection;
use longhaul_copy::{FilesHandler, FilesRoot};
use longhaul_iperf3::users::DEFAULT_SKEW;
use longhaul_iperf3::{AuthorizedUsers, Iperf3Handler, Iperf3Options};
use longhaul_model::units::Bytes;
use longhaul_ndt7::ndt7_service::Ndt7Handler;
use longhaul_probe::latency::session_reflector::{
    ReflectorOptions, SessionReflector, StampOptions,
};
use longhaul_probe::latency::twamp_service::{TwampService, TwampServiceOptions};
use longhaul_probe::measurement_server::{
    AnonymousLimits, MeasurementServer, ProtocolHandler, ServeEvent, ServeOptions,
};
use longhaul_probe::secure::{AuthToken, TlsIdentity};
use longhaul_probe::supervise::StopFlag;
use longhaul_report::number_format::{count_of, format_rate};
use longhaul_report::style::{COMMAND, FAINT, STRONG, paint};
use longhaul_rpm::rpm_service::RpmHandler;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/serve-examples.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Port to listen on
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = accept_count::<u16>(0..=65_535))]
    pub port: u16,
    /// Local address to listen on [default: all]
    #[arg(short = 'B', long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Local interface to listen on
    #[arg(long, value_name = "DEV", value_parser = parse_device, hide_short_help = true)]
    pub bind_dev: Option<String>,
    /// Exit after one run
    #[arg(short = '1', long)]
    pub one_off: bool,
    /// Maximum streams of a run in each direction
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = parse_streams)]
    pub max_streams: u32,
    /// Maximum concurrent runs of all clients
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = accept_count::<u32>(1..=1024))]
    pub max_sessions: u32,
    /// Refuse requests for packet captures, and capture no headers
    #[arg(long, hide_short_help = true)]
    pub no_capture: bool,
    /// Let clients with the token copy files from below DIR, and with DIR:rw also to there;
    /// DIR:anonymous lets everybody read. May be repeated: then remote names begin with the last
    /// part of DIR
    #[arg(long, value_name = "DIR", value_parser = parse_served_folder)]
    pub files: Vec<FilesRoot>,
    /// User whose rights clients have on the files if this is root [default: the owner of DIR]
    #[arg(long, value_name = "USER", requires = "files", hide_short_help = true)]
    pub files_user: Option<String>,
    /// Refuse iperf3 clients
    #[arg(long)]
    pub no_iperf3: bool,
    /// Serve ndt7 clients on the same port too, within the anonymous limits
    #[arg(long)]
    pub ndt7: bool,
    /// Serve clients of responsiveness (RPM) too
    #[arg(long)]
    pub rpm: bool,
    /// Certificates (PEM) for clients of ndt7 and RPM [default: self-signed]
    #[arg(long, value_name = "FILE", requires = "tls_key", hide_short_help = true)]
    pub tls_certificate: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate", hide_short_help = true)]
    pub tls_key: Option<PathBuf>,
    /// Reflect STAMP and TWAMP Light [default port: 862]
    ///
    /// Answers on this UDP port need no token; docs/latency.md has the limits.
    #[arg(
        long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "862",
        value_parser = accept_count::<u16>(0..=65_535), hide_short_help = true)]
    pub stamp: Option<u16>,
    /// Count the packets of each session of STAMP, so that senders see the loss of each direction
    #[arg(long, requires = "stamp", hide_short_help = true)]
    pub stamp_stateful: bool,
    /// Answer only packets of STAMP that are authenticated with the key in this file
    #[arg(
        long,
        value_name = "FILE",
        requires = "stamp",
        help_heading = "Access",
        hide_short_help = true
    )]
    pub stamp_key: Option<PathBuf>,
    /// Serve TWAMP clients [default port: 862]
    ///
    /// Sessions need no token; docs/latency.md has the limits. Their packets are reflected on the UDP port
    /// of --stamp, or of this number.
    #[arg(
        long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "862",
        value_parser = accept_count::<u16>(0..=65_535), hide_short_help = true)]
    pub twamp: Option<u16>,
    /// Serve only TWAMP clients with a key of this file: KeyID, space, passphrase in each line
    #[arg(
        long,
        value_name = "FILE",
        requires = "twamp",
        help_heading = "Access",
        hide_short_help = true
    )]
    pub twamp_keys: Option<PathBuf>,
    /// Log one JSON object per line
    #[arg(short = 'J', long)]
    pub json: bool,
    #[command(flatten)]
    pub log: LogArgs,

    #[command(flatten)]
    pub token: TokenArgs,
    /// Use no token: serve all clients within the anonymous limits
    #[arg(long, help_heading = "Access", conflicts_with_all = ["token", "token_file"])]
    pub anonymous: bool,
    /// Refuse clients without the token
    #[arg(long, help_heading = "Access", conflicts_with = "anonymous")]
    pub token_only: bool,
    /// Private RSA key (PEM) for the credentials of iperf3 clients
    #[arg(long, value_name = "FILE", requires = "iperf3_users", help_heading = "Access")]
    pub iperf3_key: Option<PathBuf>,
    /// Authorized users of iperf3: name, comma, SHA-256 of `{name}password`
    #[arg(long, value_name = "FILE", requires = "iperf3_key", help_heading = "Access")]
    pub iperf3_users: Option<PathBuf>,
    /// Maximum clock skew of iperf3 clients, and the time to reject replays [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_run_time, requires = "iperf3_key", help_heading = "Access", hide_short_help = true)]
    pub iperf3_skew: Option<u64>,
    /// Maximum concurrent runs without a token
    #[arg(long, value_name = "N", value_parser = accept_count::<u32>(1..=1024), help_heading = "Access")]
    pub anonymous_runs: Option<u32>,
    /// Maximum streams of a run without a token
    #[arg(long, value_name = "N", value_parser = parse_streams, help_heading = "Access")]
    pub anonymous_streams: Option<u32>,
    /// Maximum duration of a run without a token
    #[arg(long, value_name = "TIME", value_parser = parse_run_time, help_heading = "Access")]
    pub anonymous_time: Option<u64>,
    /// Maximum rate of a run without a token
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Access")]
    pub anonymous_rate: Option<u64>,
    /// Maximum bytes of a run without a token
    #[arg(long, value_name = "SIZE", value_parser = parse_run_bytes, help_heading = "Access")]
    pub anonymous_bytes: Option<u64>,
}

pub fn run(args: &ServeArgs) -> Result<ExitCode, CommandFailure> {
    let log_format = args.log.format(args.json, std::io::stderr().is_terminal());
    let token = resolve_serve_token(args, log_format)?;
    let anonymous = (!args.token_only).then(|| anonymous_limits(args));
    let stop = interrupt::register_signals(&[SIGINT, SIGTERM])?;
    let responder = MeasurementServer::bind(ServeOptions {
        addresses: args.bind.into_iter().collect(),
        port: args.port,
        device: args.bind_dev.clone(),
        token: token.as_ref().map(|it| it.token.as_str().to_owned()),
        anonymous,
        max_sessions: args.max_sessions,
        max_streams: args.max_streams,
        captures: !args.no_capture,
        header_analysis: Some(header_analysis::analyse_headers),
        handlers: build_handlers(args)?,
        command: Some(invocation::redacted_command_line()),
        heavy_runs: None,
    })?;
    let reflection = bind_reflection(args)?;
    let addresses = responder.addresses();
    let reflected = reflection.as_ref().map(ReflectionService::addresses).unwrap_or_default();
    let shown = match &token {
        Some(ServeToken { token, is_generated: true, .. }) => format!(
            "{}\n                 {}",
            paint(COMMAND, token.as_str()),
            paint(FAINT, "give it to clients as LONGHAUL_TOKEN or with --token-file")
        ),
        Some(_) => "as given".to_owned(),
        None => "none".to_owned(),
    };
    let file = token.as_ref().and_then(|it| it.file.as_ref()).map(|it| it.path.as_path());
    let log = LogWriter::start(LogStream::Stderr, log_format);
    write_log(
        &log,
        log_format,
        LogLevel::Info,
        || format_notice(args, &addresses, &reflected, &shown, anonymous.as_ref()),
        || {
            let fields = notice_json(args, &addresses, &reflected, file, anonymous.as_ref());
            (describe_service(file), fields)
        },
    );
    let reflection = reflection.map(|service| service.start(&stop)).unwrap_or_default();
    let served = responder.run(
        |event| {
            if let ServeEvent::Listening(_) = event {
                return;
            }
            let level = if event.is_warning() { LogLevel::Warn } else { LogLevel::Info };
            write_log(
                &log,
                log_format,
                level,
                || format_event_line(&event),
                || (event.to_string(), json!(event)),
            );
            if args.one_off && matches!(event, ServeEvent::SessionClosed { opened: true, .. }) {
                stop.store(true, Ordering::Relaxed);
            }
        },
        &stop,
    );
    stop.store(true, Ordering::Relaxed);
    // A panic was reported by its hook.
    for thread in reflection {
        let _ = thread.join();
    }
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the handlers of the protocols besides longhaul's own.
fn build_handlers(args: &ServeArgs) -> Result<Vec<Arc<dyn ProtocolHandler>>, CommandFailure> {
    let folders = check_served_folders(&args.files, args.files_user.as_deref())?;
    let mut handlers: Vec<Arc<dyn ProtocolHandler>> = vec![
        Arc::new(FilesHandler::new(folders)),
        Arc::new(Iperf3Handler::new(iperf3_options(args)?)),
    ];
    if !args.ndt7 && !args.rpm {
        return Ok(handlers);
    }
    let identity = match args.tls_certificate.as_ref().zip(args.tls_key.as_ref()) {
        Some((certificate, key)) => TlsIdentity::load(certificate, key).map_err(|why| {
            CommandFailure::new(USAGE, format!("cannot use the certificate: {why}"))
                .hint(Some("give PEM files of a certificate and its private key"))
        })?,
        None => TlsIdentity::generate()?,
    };
    if args.rpm {
        handlers.push(Arc::new(RpmHandler::new(&identity)));
    }
    // Clients of ndt7 are recognized last: theirs is any other TLS.
    if args.ndt7 {
        handlers.push(Arc::new(Ndt7Handler::new(identity.server_config())));
    }
    Ok(handlers)
}

/// The reflector of STAMP and TWAMP, and the server of TWAMP.
struct ReflectionService {
    reflector: SessionReflector,
    twamp: Option<TwampService>,
}

/// The addresses of a [`ReflectionService`].
#[derive(Default)]
struct ReflectionAddresses {
    reflector: Vec<SocketAddr>,
    twamp: Vec<SocketAddr>,
}

/// Opens the reflector of STAMP and TWAMP, if one of them is wanted.
fn bind_reflection(args: &ServeArgs) -> Result<Option<ReflectionService>, CommandFailure> {
    let Some(port) = args.stamp.or(args.twamp) else {
        return Ok(None);
    };
    let key = args.stamp_key.as_deref().map(option_resolution::read_packet_key).transpose()?;
    let stamp = StampOptions { is_stateful: args.stamp_stateful, key };
    let reflector = SessionReflector::bind(ReflectorOptions {
        address: args.bind,
        port,
        device: args.bind_dev.clone(),
        stamp: args.stamp.map(|_| stamp),
    })?;
    let keys = args.twamp_keys.as_deref().map(option_resolution::read_twamp_keys).transpose()?;
    let keys = keys.unwrap_or_default();
    let twamp = args.twamp.map(|port| {
        let options = TwampServiceOptions { port, device: args.bind_dev.clone(), keys };
        TwampService::bind(options, &reflector)
    });
    Ok(Some(ReflectionService { twamp: twamp.transpose()?, reflector }))
}

impl ReflectionService {
    fn addresses(&self) -> ReflectionAddresses {
        ReflectionAddresses {
            reflector: self.reflector.addresses(),
            twamp: self.twamp.as_ref().map(TwampService::addresses).unwrap_or_default(),
        }
    }

    /// Runs on threads of its own until `stop` is set.
    fn start(self, stop: &StopFlag) -> Vec<JoinHandle<()>> {
        let (of_reflector, of_twamp) = (Arc::clone(stop), Arc::clone(stop));
        let mut threads = vec![thread::spawn(move || self.reflector.run(&of_reflector))];
        threads.extend(self.twamp.map(|it| thread::spawn(move || it.run(&of_twamp))));
        threads
    }
}

/// Builds the handlers of an agent's server; relative folders refer to `folder`.
///
/// # Errors
/// A served folder does not exist, or two have the same name.
pub fn build_section_handlers(
    section: &ServeSection,
    folder: &Path,
) -> Result<Vec<Arc<dyn ProtocolHandler>>, String> {
    let in_folder = |text: &String| parse_served_folder(&folder.join(text).to_string_lossy());
    let roots = section.files.iter().map(in_folder).collect::<Result<Vec<_>, _>>()?;
    let roots = check_served_folders(&roots, section.files_user.as_deref())
        .map_err(|failure| failure.message)?;
    let iperf3 = section.iperf3.then_some(Iperf3Options { users: None });
    Ok(vec![Arc::new(FilesHandler::new(roots)), Arc::new(Iperf3Handler::new(iperf3))])
}

/// Checks that the folders exist and have distinct names, and chooses the users whose rights copies
/// have.
fn check_served_folders(
    roots: &[FilesRoot],
    user: Option<&str>,
) -> Result<Vec<FilesRoot>, CommandFailure> {
    let mut checked = Vec::new();
    for (place, root) in roots.iter().enumerate() {
        let shown = root.path.display();
        if !root.path.is_dir() {
            let text = format!("cannot serve the files of {shown}: not a folder");
            return Err(CommandFailure::new(USAGE, text).hint(Some("name an existing folder")));
        }
        if roots[..place].iter().any(|other| other.name == root.name) {
            let text = format!("cannot serve two folders with the name {}", root.name);
            return Err(CommandFailure::new(USAGE, text).hint(Some(
                "serve a folder above both, because clients see only the last part of a name",
            )));
        }
        let root = root.clone().with_user(user);
        checked.push(root.map_err(|text| CommandFailure::new(USAGE, text))?);
    }
    Ok(checked)
}

/// The token of the server.
struct ServeToken {
    token: AuthToken,
    is_generated: bool,
    /// The file of a generated token that no terminal shows.
    file: Option<TokenFile>,
}

/// A file that only its owner may read, removed when the server ends.
struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Writes a generated token for servers without a terminal, whose log may be read by others.
    fn write(token: &AuthToken, port: u16) -> Result<TokenFile, CommandFailure> {
        let folder = command_output::data_folder()?;
        // Servers on ports of the kernel's choice have files of their own.
        let number = if port == 0 { std::process::id() } else { port.into() };
        let path = folder.join(format!("serve-{number}.token"));
        let write = || -> io::Result<()> {
            longhaul_store::create_private_folder(&folder)?;
            // Another owner or mode of an earlier file would remain.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
            writeln!(file, "{}", token.as_str())
        };
        write().map_err(|error| {
            let text = format!("cannot write the generated token to {}", path.display());
            let failure = CommandFailure::new(HOST, format!("{text}: {error}"));
            failure.hint(Some("give a token with `--token-file FILE`"))
        })?;
        Ok(TokenFile { path })
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the token. A generated one is shown on a terminal only, and otherwise written to a file.
fn resolve_serve_token(
    args: &ServeArgs,
    log_format: LogFormat,
) -> Result<Option<ServeToken>, CommandFailure> {
    if args.anonymous {
        return Ok(None);
    }
    if let Some(given) = option_resolution::resolve_token(&args.token)? {
        return Ok(Some(ServeToken { token: given, is_generated: false, file: None }));
    }
    let made = AuthToken::generate().ok_or_else(|| {
        CommandFailure::new(HOST, "cannot generate a token: no random bytes from the kernel")
            .hint(Some("give a token with `--token-file FILE`"))
    })?;
    let on_terminal = log_format == LogFormat::Text;
    let file = if on_terminal { None } else { Some(TokenFile::write(&made, args.port)?) };
    Ok(Some(ServeToken { token: made, is_generated: true, file }))
}

/// Returns the options for iperf3 clients, if they are served.
fn iperf3_options(args: &ServeArgs) -> Result<Option<Iperf3Options>, CommandFailure> {
    if args.no_iperf3 {
        return Ok(None);
    }
    let load = |(key, users): (&PathBuf, &PathBuf)| {
        let skew = args.iperf3_skew.map_or(DEFAULT_SKEW, Duration::from_micros);
        AuthorizedUsers::load(key, users, skew).map_err(|error| {
            CommandFailure::from_error(USAGE, &error)
                .hint(Some("see docs/iperf3.md for the key and the users"))
        })
    };
    let users = args.iperf3_key.as_ref().zip(args.iperf3_users.as_ref()).map(load).transpose()?;
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

/// Formats the notice printed at startup.
fn format_notice(
    args: &ServeArgs,
    addresses: &[SocketAddr],
    reflected: &ReflectionAddresses,
    token: &str,
    anonymous: Option<&AnonymousLimits>,
) -> String {
    let list = |addresses: &[SocketAddr]| {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "{} on {}, TCP and UDP\ntoken            {token}\nwithout a token  {}",
        paint(STRONG, concat!("longhaul ", env!("CARGO_PKG_VERSION"), " serving")),
        list(addresses),
        describe_limits(anonymous)
    );
    let whom = |key: &Option<_>| if key.is_some() { "with the key" } else { "without a token" };
    if args.stamp.is_some() {
        let places = list(&reflected.reflector);
        text = format!("{text}\nSTAMP            {places}, {}", whom(&args.stamp_key));
    }
    if args.twamp.is_some() {
        let places = list(&reflected.twamp);
        text = format!("{text}\nTWAMP            {places}, {}", whom(&args.twamp_keys));
    }
    for root in &args.files {
        let may = if root.writable { "read, and write with the token" } else { "read only" };
        text = format!("{text}\nfiles            {}, {may}", root.path.display());
    }
    text
}

fn notice_json(
    args: &ServeArgs,
    addresses: &[SocketAddr],
    reflected: &ReflectionAddresses,
    token_file: Option<&Path>,
    anonymous: Option<&AnonymousLimits>,
) -> Value {
    let folder = |root: &FilesRoot| {
        json!({
            "path": root.path.to_string_lossy(), "writable": root.writable,
            "anonymous": root.anonymous,
        })
    };
    json!({
        "event": "serving",
        "longhaul": env!("CARGO_PKG_VERSION"),
        "addresses": addresses,
        "stamp": args.stamp.map_or(&[][..], |_| &reflected.reflector),
        "twamp": reflected.twamp,
        "token_file": token_file,
        "files": args.files.iter().map(folder).collect::<Vec<_>>(),
        "anonymous": anonymous,
    })
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

/// Describes the service in a sentence for the log.
fn describe_service(token_file: Option<&Path>) -> String {
    match token_file {
        Some(file) => format!("serving; clients need the token in {}", file.display()),
        None => "serving".to_owned(),
    }
}

/// Writes an event to the log: `people` returns the text for a terminal, `entry` a sentence and the
/// fields for other logs.
fn write_log(
    log: &LogWriter,
    format: LogFormat,
    level: LogLevel,
    people: impl FnOnce() -> String,
    entry: impl FnOnce() -> (String, Value),
) {
    let line = if format == LogFormat::Text {
        people()
    } else {
        let (text, fields) = entry();
        event_log::format_event_line(format, level, &text, fields)
    };
    log.write_line(line + "\n");
}

fn format_event_line(event: &ServeEvent) -> String {
    let now = Timestamp::now().strftime("%H:%M:%S").to_string();
    format!("{} {event}", paint(FAINT, now))
}
