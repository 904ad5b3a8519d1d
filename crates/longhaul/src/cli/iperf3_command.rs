//! `longhaul iperf3`: `test` and `serve` with the options of iperf3.

use crate::cli::args::{ServeArgs, TestArgs, TestFormat};
use crate::cli::option_resolution::DEFAULT_UDP_RATE_BPS;
use crate::cli::option_resolution::UNTIL_STOPPED;
use crate::cli::{command_output, serve_command, test_command, value_parsers};
use crate::command_failure::{CommandFailure, USAGE};
use clap::builder::Resettable;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use longhaul_iperf3::client_run::{LoginCredentials, TokenPadding};
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_probe::plan_limits::{MAX_RATE_BPS, MAX_RUN_US, MAX_STREAMS};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE_LINES: &str = "longhaul iperf3 -c HOST [OPTIONS]\n       longhaul iperf3 -s [OPTIONS]";

const EXAMPLES: &str = include_str!("help/iperf3-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/iperf3-details.txt").trim_ascii_end();

/// iperf3's names of options that have another name here. `longhaul test` knows the others.
const ALIASES: [(&str, &str); 8] = [
    ("iperf3_user", "username"),
    ("iperf3_public_key", "rsa-public-key-path"),
    ("iperf3_pkcs1", "use-pkcs1-padding"),
    ("iperf3_key", "rsa-private-key-path"),
    ("iperf3_users", "authorized-users-path"),
    ("iperf3_skew", "time-skew-threshold"),
    ("anonymous_rate", "server-bitrate-limit"),
    ("anonymous_time", "server-max-duration"),
];

/// Options of `test` that a server has as well.
const SHARED: [&str; 9] =
    ["host", "port", "bind", "bind_dev", "ipv4", "ipv6", "json", "token", "logfile"];

/// A client or a server, as iperf3's options select it.
#[derive(Debug)]
pub enum Iperf3Args {
    Client(Box<TestArgs>),
    Server { serve: Box<ServeArgs>, logfile: Option<PathBuf> },
}

impl FromArgMatches for Iperf3Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        if matches.get_flag("server") {
            let serve = ServeArgs::from_arg_matches(matches)?;
            let [ipv4, ipv6] = ["ipv4", "ipv6"].map(|name| matches.get_flag(name));
            let serve = Box::new(adapt_server(serve, ipv4, ipv6));
            return Ok(Iperf3Args::Server { serve, logfile: matches.get_one("logfile").cloned() });
        }
        let test = TestArgs::from_arg_matches(matches)?;
        Ok(Iperf3Args::Client(Box::new(adapt_client(test))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Iperf3Args::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Iperf3Args {
    fn augment_args(command: Command) -> Command {
        let shared = |arg: &Arg| SHARED.contains(&arg.get_id().as_str());
        let mut command = TestArgs::augment_args(command)
            .mut_args(|arg| if shared(&arg) { arg } else { arg.conflicts_with("server") });
        let serve = ServeArgs::augment_args(Command::new("serve"));
        for arg in serve.get_arguments() {
            let known = command.get_arguments().any(|other| other.get_id() == arg.get_id());
            if !known {
                let arg = arg.clone().help_heading("Server").conflicts_with("host");
                let is_rare = arg.get_id() != "one_off";
                command = command.arg(arg.hide_short_help(is_rare));
            }
        }
        for (name, alias) in ALIASES {
            command = command.mut_arg(name, |arg| arg.visible_alias(alias));
        }
        adapt_values(command)
            .next_help_heading(Resettable::Reset)
            .arg(
                Arg::new("server")
                    .short('s')
                    .long("server")
                    .action(ArgAction::SetTrue)
                    .help("Run the server"),
            )
            .override_usage(USAGE_LINES)
            .after_help(EXAMPLES)
            .after_long_help(format!("{EXAMPLES}\n\n{DETAILS}"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Iperf3Args::augment_args(command)
    }
}

/// Replaces the parsers of values that iperf3 writes differently.
fn adapt_values(command: Command) -> Command {
    command
        .mut_arg("host", |arg| {
            arg.short('c')
                .long("client")
                .required(false)
                .required_unless_present("server")
                .conflicts_with("server")
        })
        .mut_arg("port", |arg| arg.default_value_if("server", "true", "5201"))
        .mut_arg("iperf3", |arg| arg.hide(true))
        .mut_arg("format", |arg| arg.help("Rates in k, m, g, t (bit/s) or K, M, G, T (bytes/s)"))
        .mut_arg("json", |arg| arg.help("Print iperf3's JSON; log as JSON with --server"))
        .mut_arg("bitrate", |arg| arg.help("Rate of each stream, 0 for unlimited [UDP: 1M]"))
        .mut_arg("connect_timeout", |arg| {
            arg.value_name("MS")
                .value_parser(parse_milliseconds)
                .help("Maximum time to connect, in milliseconds [default: 10000]")
        })
}

/// Turns iperf3's rates and times into those of `longhaul test`.
fn adapt_client(mut test: TestArgs) -> TestArgs {
    test.server.iperf3 = true;
    if std::mem::take(&mut test.output.form.json) && !test.json_stream {
        test.format = Some(TestFormat::Iperf3);
    }
    let default_rate = test.udp.then_some(DEFAULT_UDP_RATE_BPS);
    let streams = u64::from(test.streams.unwrap_or(1));
    test.bitrate = match test.bitrate.or(default_rate) {
        Some(0) => test.udp.then_some(MAX_RATE_BPS),
        each => each.map(|each| each.saturating_mul(streams).min(MAX_RATE_BPS)),
    };
    if let (Some(omit), None, None) = (test.omit, test.bytes, test.blocks) {
        let default = match ThroughputPlan::default().stop {
            StopCondition::TimeUs(time) => time,
            StopCondition::Bytes(_) | StopCondition::Blocks(_) => 0,
        };
        let time = test.time.unwrap_or(default);
        test.time = Some(if time == UNTIL_STOPPED { time } else { time + omit });
    }
    test
}

/// Allows clients without a token what iperf3 allows every client, unless there is another proof.
fn adapt_server(mut serve: ServeArgs, ipv4: bool, ipv6: bool) -> ServeArgs {
    if serve.bind.is_none() && ipv4 != ipv6 {
        serve.bind =
            Some(if ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() });
    }
    if serve.one_off {
        serve.max_sessions = 1;
    }
    let token = &serve.token;
    if token.token.is_some() || token.token_file.is_some() || serve.token_only {
        return serve;
    }
    serve.anonymous = true;
    if serve.iperf3_key.is_none() {
        serve.anonymous_time.get_or_insert(MAX_RUN_US);
        serve.anonymous_streams.get_or_insert(MAX_STREAMS);
        serve.anonymous_runs.get_or_insert(serve.max_sessions);
    }
    serve
}

fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    value_parsers::parse_connect_timeout(&format!("{text}ms"))
}

/// The variable of the password has the same name as in iperf3.
const PASSWORD_VARIABLE: &str = "IPERF3_PASSWORD";

/// The user of an iperf3 server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Access")]
#[expect(clippy::struct_field_names, reason = "the fields are named as the options")]
pub struct Iperf3UserArgs {
    /// User of an iperf3 server that wants one; the password comes from IPERF3_PASSWORD
    #[arg(long, value_name = "NAME", requires = "iperf3_public_key", hide_short_help = true)]
    pub iperf3_user: Option<String>,
    /// Public RSA key of that server, in PEM
    #[arg(long, value_name = "FILE", requires = "iperf3_user", hide_short_help = true)]
    pub iperf3_public_key: Option<PathBuf>,
    /// The padding of iperf3 before 3.17, PKCS #1 v1.5
    #[arg(long, requires = "iperf3_user", hide_short_help = true)]
    pub iperf3_pkcs1: bool,
}

impl Iperf3UserArgs {
    /// Returns the user with the password from the environment, or `None` without a user.
    pub fn login(&self) -> Result<Option<LoginCredentials>, CommandFailure> {
        let (Some(user), Some(key)) = (&self.iperf3_user, &self.iperf3_public_key) else {
            return Ok(None);
        };
        let password = std::env::var(PASSWORD_VARIABLE).map_err(|error| {
            CommandFailure::new(USAGE, format!("cannot use {PASSWORD_VARIABLE}: {error}"))
                .hint(Some("set it to the password of the user"))
        })?;
        let padding = if self.iperf3_pkcs1 { TokenPadding::Pkcs1 } else { TokenPadding::Oaep };
        LoginCredentials::new(key, user, &password, padding)
            .map(Some)
            .map_err(|error| CommandFailure::from_error(USAGE, &error))
    }
}

pub fn run(args: &Iperf3Args) -> Result<ExitCode, CommandFailure> {
    match args {
        Iperf3Args::Server { serve, logfile } => {
            if let Some(file) = logfile {
                command_output::append_output_to(file)?;
            }
            serve_command::run(serve)
        }
        Iperf3Args::Client(test) => test_command::run(test),
    }
}

#[cfg(test)]
mod tests {
    use super::Iperf3Args;
    use crate::cli::args::{CliArgs, CliCommand};
    use clap::Parser;

    #[test]
    fn a_server_listens_on_the_default_port() {
        let args = CliArgs::try_parse_from(["longhaul", "iperf3", "-s"]).expect("arguments");
        let CliCommand::Iperf3(iperf3) = args.command else { panic!("another command") };
        let Iperf3Args::Server { serve, .. } = *iperf3 else { panic!("a client") };
        assert_eq!(serve.port, longhaul_probe::DEFAULT_PORT);
    }
}
