//! Answers to the command lines of other programs: iperf3, mtr, traceroute.
//!
//! Their options work where the meaning is the same. Other options end with an error that names the
//! command that does it. A command is suggested only if it can be parsed, so that it can be copied.

use crate::cli::args::CliArgs;
use crate::cli::invocation::quote_for_shell;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Error, Parser};
use longhaul_model::units::parse_duration;
use std::ffi::OsString;

/// Options with an optional value, which may also follow as a word of its own.
const OPTIONAL_VALUES: [&str; 3] = ["--load", "--alternatives", "--shaper"];

/// The commands that send a load to a server.
const LOADS: &str = "test iperf3 tune load record";
/// The commands that measure a path with probes.
const PROBES: &str = "path available";

/// An option of another program that means nothing here, or something else.
struct OptionHint {
    /// The commands in which it may be typed.
    commands: &'static str,
    options: &'static str,
    /// The remedy.
    hint: &'static str,
}

const fn hint(commands: &'static str, options: &'static str, hint: &'static str) -> OptionHint {
    OptionHint { commands, options, hint }
}

const OPTION_HINTS: [OptionHint; 18] = [
    hint(
        "iperf3 test serve",
        "-D --daemon -I --pidfile --idle-timeout",
        "run it under a service manager: the packages contain longhaul-serve.service",
    ),
    hint(
        "iperf3 test",
        "--forceflush --timestamps",
        "leave it out; every line is flushed, and `longhaul serve --json` logs with timestamps",
    ),
    hint("iperf3 test", "-d --debug", "use --full for all figures, or -J for all readings"),
    hint(
        "iperf3 test",
        "--json-stream-full-output --extra-data",
        "use --json-stream or -J; --output FILE.json writes the whole report too",
    ),
    hint("iperf3 test", "-F --file", "copy a file with `longhaul copy FILE HOST:`"),
    hint("iperf3 test", "--sctp -X --xbind --nstreams -m --mptcp", "use TCP, or UDP with -u"),
    hint(
        "iperf3 test",
        "-L --flowlabel --repeating-payload --pacing-timer --udp-counters-64bit --gsro --cntl-ka \
         --rcv-timeout --snd-timeout",
        "leave it out; nothing here corresponds to it",
    ),
    hint("test tune load available record", "-s --server", "run the server: longhaul serve"),
    hint("tune load", "-i --interval -f --format --json-stream", "this works with `longhaul test`"),
    hint(PROBES, "-S --tos", "give the code point with --dscp, in `longhaul available HOST`"),
    hint("path", "-f --first --first-ttl", "leave it out; every hop is probed"),
    hint("path", "-a --address", "give the local address with -B"),
    hint("path", "-A -y --ipinfo", "leave it out; AS numbers are shown if there are databases"),
    hint("path", "-e --mpls", "leave it out; MPLS labels are always shown"),
    hint("path", "-j --json-lines -C --csv -l --raw -x --xml", "print JSON with -J"),
    hint("path", "-F", "leave it out; probes are never fragmented"),
    hint("path", "-L --localport -M --mark -Q --max-unknown -G --gracetime -Z", "leave it out"),
    hint("path", "-N --sim-queries --sendwait -g -t", "leave it out; probes are paced"),
];

/// Short options of `path` that take a value in mtr or traceroute.
const VALUES_ELSEWHERE: [(&str, &str, &str); 2] =
    [("-q", "--queries", "-q is --quiet here"), ("-w", "--timeout", "-w is --watch here")];

/// Names by which other programs call `serve` and `test`.
const SERVER_WORDS: [&str; 4] = ["server", "-s", "--server", "listen"];
const CLIENT_WORDS: [&str; 3] = ["client", "-c", "--client"];

/// A lab has no state of its own: it lasts as long as its command (decision 0070).
const LAB_HINT: &str = "emulate a path while a command runs: longhaul lab run PATH -- COMMAND";

/// Parses the command line. An error names the command that was probably meant.
///
/// # Errors
/// The command line is wrong, or asks for help or the version.
pub fn parse_command_line(words: Vec<OsString>) -> Result<CliArgs, Error> {
    let words = join_optional_values(words);
    CliArgs::try_parse_from(&words).map_err(|error| {
        let typed: Vec<String> =
            words.iter().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
        add_hint(error, &typed)
    })
}

/// Joins an option with an optional value to a number or duration that follows it: `--load 4s`.
fn join_optional_values(words: Vec<OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::with_capacity(words.len());
    for word in words {
        let is_value = word.to_str().is_some_and(|word| parse_duration(word).is_ok());
        match joined.last_mut() {
            Some(option) if is_value && OPTIONAL_VALUES.iter().any(|name| option == name) => {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// Replaces clap's advice by that for the command that was probably meant.
fn add_hint(mut error: Error, typed: &[String]) -> Error {
    let command = typed.first().map_or("", String::as_str);
    let text = match error.kind() {
        ErrorKind::InvalidSubcommand if command == "lab" => Some(LAB_HINT.to_owned()),
        ErrorKind::InvalidSubcommand if is_invalid_command(&error, command) => {
            suggest_without_command(&error, typed)
        }
        ErrorKind::UnknownArgument if command.starts_with('-') => {
            suggest_without_command(&error, typed)
        }
        ErrorKind::UnknownArgument => {
            // "to pass '--x' as a value" is never what was meant.
            error.remove(ContextKind::Suggested);
            let option = invalid_argument(&error);
            find_value_hint(command, typed, &option)
                .or_else(|| find_option_hint(command, typed, &option))
                .or_else(|| suggest_command_with_options(command, typed))
        }
        ErrorKind::ArgumentConflict if command == "path" && is_wide_report(typed) => {
            Some("-w is --watch here; leave mtr's -w out: a report is as wide as it needs".into())
        }
        _ => None,
    };
    if let Some(text) = text {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text.into()]));
    }
    error
}

/// Returns whether clap does not know this word as a command.
fn is_invalid_command(error: &Error, word: &str) -> bool {
    let invalid = error.get(ContextKind::InvalidSubcommand);
    matches!(invalid, Some(ContextValue::String(invalid)) if invalid == word)
}

/// Returns the argument that clap does not know.
fn invalid_argument(error: &Error) -> String {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.clone(),
        _ => String::new(),
    }
}

/// Returns whether both `-r` and `-w` were typed, as for mtr.
fn is_wide_report(typed: &[String]) -> bool {
    let has = |letter| typed.iter().any(|word| is_cluster(word) && word.contains(letter));
    has('r') && has('w')
}

fn is_cluster(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--")
}

/// Returns the remedy for a value after an option that has none here.
fn find_value_hint(command: &str, typed: &[String], value: &str) -> Option<String> {
    if command != "path" {
        return None;
    }
    let place = typed.iter().position(|word| word == value)?;
    let before = typed.get(place.checked_sub(1)?)?;
    let (_, long, why) = VALUES_ELSEWHERE.iter().find(|(short, ..)| before == short)?;
    Some(format!("{why}; use {long} {value}"))
}

/// Returns the remedy for an option of another program.
fn find_option_hint(command: &str, typed: &[String], option: &str) -> Option<String> {
    let is_word_of = |list: &str, word: &str| list.split(' ').any(|it| it == word);
    let known = OPTION_HINTS
        .iter()
        .find(|it| is_word_of(it.commands, command) && is_word_of(it.options, option))?;
    let measured = typed.iter().skip(1).find(|word| !word.starts_with('-'));
    let host = measured.map_or("HOST", String::as_str);
    Some(known.hint.replace("COMMAND", command).replace("HOST", host))
}

/// Returns another command that accepts these options.
fn suggest_command_with_options(command: &str, typed: &[String]) -> Option<String> {
    if !LOADS.split(' ').chain(PROBES.split(' ')).any(|it| it == command) {
        return None;
    }
    let words = list_words(&typed[1..], &CLIENT_WORDS);
    let without_client = std::iter::once([vec!["longhaul", command], words].concat());
    if let Some(line) = find_accepted(without_client) {
        return Some(format!("give the server without -c: {}", join_words(&line)));
    }
    find_test(&typed[1..]).map(|line| format!("measure throughput: {}", join_words(&line)))
}

/// Returns the command for words that do not begin with one: `HOST`, `-c HOST`, `-s`, `client`.
fn suggest_without_command(error: &Error, typed: &[String]) -> Option<String> {
    let is_server = typed.iter().any(|word| SERVER_WORDS.contains(&word.as_str()));
    let is_client = typed
        .iter()
        .any(|word| CLIENT_WORDS.contains(&word.as_str()) || word.starts_with("--client="));
    if is_server && !is_client {
        let rest = list_words(typed, &SERVER_WORDS);
        let lines = [vec!["longhaul", "serve"], vec!["longhaul", "iperf3", "-s"]];
        let mut lines = lines.into_iter().map(|line| [line, rest.clone()].concat());
        let command = find_accepted(&mut lines).unwrap_or_else(|| vec!["longhaul", "serve"]);
        return Some(format!("run the server: {}", join_words(&command)));
    }
    // The name of a command with a mistake in it; clap suggests the right one.
    if !is_client && error.get(ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    Some(suggest_test(typed))
}

/// Returns the words without those of a list.
fn list_words<'w>(typed: &'w [String], without: &[&str]) -> Vec<&'w str> {
    typed.iter().map(String::as_str).filter(|word| !without.contains(word)).collect()
}

/// Returns the command that measures throughput to the host among these words.
fn suggest_test(typed: &[String]) -> String {
    let words = host_and_options(typed);
    let command = find_test(typed).unwrap_or_else(|| {
        let host = words.iter().find(|word| !word.starts_with('-')).copied().unwrap_or("HOST");
        let options = words.iter().copied().filter(|word| *word != host);
        ["longhaul", "test", host].into_iter().chain(options).collect()
    });
    format!("measure throughput: {}", join_words(&command))
}

fn host_and_options(typed: &[String]) -> Vec<&str> {
    let words = list_words(typed, &CLIENT_WORDS).into_iter();
    words.map(|word| word.strip_prefix("--client=").unwrap_or(word)).collect()
}

/// Returns the command that accepts these words: `longhaul test`, or else `longhaul iperf3`.
fn find_test(typed: &[String]) -> Option<Vec<&str>> {
    let words = host_and_options(typed);
    // A word without a dash may be the value of an option instead of the host.
    let places = (0..words.len()).filter(|place| !words[*place].starts_with('-'));
    let lines = places.flat_map(|place| {
        let (host, rest) = (words[place], [&words[..place], &words[place + 1..]].concat());
        let lines = [vec!["longhaul", "test", host], vec!["longhaul", "iperf3", "-c", host]];
        lines.map(|line| [line, rest.clone()].concat())
    });
    find_accepted(lines)
}

/// Returns the first line that can be parsed.
fn find_accepted<'w>(mut lines: impl Iterator<Item = Vec<&'w str>>) -> Option<Vec<&'w str>> {
    lines.find(|line| CliArgs::try_parse_from(line).is_ok())
}

fn join_words(words: &[&str]) -> String {
    words.iter().map(|word| quote_for_shell(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_after_an_option_with_an_optional_value_is_its_value() {
        let join = |line: &str| {
            let words = join_optional_values(line.split(' ').map(OsString::from).collect());
            words.join(std::ffi::OsStr::new(" ")).into_string().expect("UTF-8")
        };
        assert_eq!(join("longhaul path far --load 4s -P 8"), "longhaul path far --load=4s -P 8");
        assert_eq!(join("path --alternatives 0.99 far"), "path --alternatives=0.99 far");
        for other in ["path --load far", "path --load 192.0.2.7", "path --load=4s 5s", "test -t 4s"]
        {
            assert_eq!(join(other), other);
        }
    }

    #[test]
    fn every_option_with_a_hint_is_unknown_to_its_commands() {
        let root = <CliArgs as clap::CommandFactory>::command();
        for known in &OPTION_HINTS {
            for command in known.commands.split(' ') {
                let command = root.find_subcommand(command).expect("a command");
                for option in known.options.split(' ') {
                    let is_there =
                        command.get_arguments().any(|arg| match option.strip_prefix("--") {
                            Some(long) => arg
                                .get_long_and_visible_aliases()
                                .is_some_and(|it| it.contains(&long)),
                            None => arg.get_short_and_visible_aliases().is_some_and(|it| {
                                it.contains(&option.chars().nth(1).unwrap_or(' '))
                            }),
                        });
                    assert!(!is_there, "{option} of {}", command.get_name());
                }
            }
        }
    }
}
