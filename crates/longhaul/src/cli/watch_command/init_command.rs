//! `longhaul watch init`: writes the files of a fleet from a list of its hosts.

use super::watch_file_failure;
use crate::cli::command_output;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::Args;
use longhaul_agent::included_files::parse_host_list;
use longhaul_agent::watch::watch_file::{FILE_BYTES_MAX, WatchFile};
use longhaul_agent::watch::watch_forecast::forecast_mesh;
use longhaul_agent::watch_file_reading::read_limited_text;
use longhaul_config::ConfigProblems;
use longhaul_probe::secure::AuthToken;
use longhaul_report::document::ReportDocument;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const TEMPLATE: &str = include_str!("fleet.toml");
/// The minimum interval of tests of throughput, in hours.
const MIN_TEST_HOURS: i64 = 6;
const HOUR_US: i64 = 3_600_000_000;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// List of the hosts: lines with NAME and ADDRESS or with ADDRESS alone, each with :PORT if
    /// needed, or the JSON of Prometheus's file_sd_configs (.json)
    #[arg(long, value_name = "LIST")]
    pub hosts: PathBuf,
    /// Folder to write; it is the same on all hosts
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// URL (https) of the collector to which all agents send their results
    #[arg(long, value_name = "URL")]
    pub collector: Option<String>,
    /// Overwrite watch.toml and hosts.json; tokens are kept
    #[arg(long)]
    pub force: bool,
}

pub fn run(args: &InitArgs) -> Result<ExitCode, CommandFailure> {
    let shown = args.hosts.display().to_string();
    let text = read_limited_text(&args.hosts, FILE_BYTES_MAX).map_err(|error| {
        let text = format!("cannot read the list of hosts {shown}: {error}");
        CommandFailure::new(USAGE, text).hint(Some("write one line per host: NAME ADDRESS"))
    })?;
    let is_json = args.hosts.extension().is_some_and(|it| it == "json");
    let list = if is_json { text } else { convert_lines(&shown, &text)? };
    // The interval of heavy runs depends on the number of rounds of the mesh.
    let refuse = |problems: ConfigProblems| watch_file_failure(&problems);
    let draft = parse_host_list(&shown, &list, &add_labels, &format_watch_file(args, 24 * 365));
    let draft = draft.map_err(refuse)?;
    let turns = forecast_mesh(&draft).map_or(0, |mesh| mesh.cycle_us);
    let hours = (turns + HOUR_US - 1) / HOUR_US;
    let watch = format_watch_file(args, hours.max(MIN_TEST_HOURS));
    let file = parse_host_list(&shown, &list, &add_labels, &watch).map_err(refuse)?;
    let list: Value = serde_json::from_str(&list).unwrap_or_default();
    write_files(args, &watch, &format!("{:#}\n", add_labels(list)))?;
    command_output::print_document(&describe_next_steps(args, &file))?;
    Ok(ExitCode::SUCCESS)
}

/// Converts lines into a list in JSON that has each host in the line of the text.
fn convert_lines(name: &str, text: &str) -> Result<String, CommandFailure> {
    let mut list = "[".to_owned();
    let mut comma = "";
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let host = match words[..] {
            [] => String::new(),
            [target] => json!({ "targets": [target] }).to_string(),
            [name, target] => {
                json!({ "targets": [target], "labels": { "name": name } }).to_string()
            }
            _ => {
                let text = format!("{name}:{}: more than NAME and ADDRESS", index + 1);
                return Err(CommandFailure::new(USAGE, text)
                    .hint(Some("use a list in JSON for groups, rates and places of hosts")));
            }
        };
        if !host.is_empty() {
            list.push_str(comma);
            comma = ",";
        }
        list.push_str(&host);
        list.push('\n');
    }
    Ok(list + "]\n")
}

/// Adds group and token to the hosts of a list that have none.
fn add_labels(mut list: Value) -> Value {
    for group in list.as_array_mut().into_iter().flatten() {
        if let Some(group) = group.as_object_mut()
            && let Some(labels) = group.entry("labels").or_insert(json!({})).as_object_mut()
        {
            labels.entry("groups").or_insert(json!("fleet"));
            labels.entry("token_file").or_insert(json!("serve.token"));
        }
    }
    list
}

fn format_watch_file(args: &InitArgs, hours: i64) -> String {
    let mark = if args.collector.is_some() { "" } else { "# " };
    let url = args.collector.as_deref().unwrap_or("https://collector.example.net:5280");
    TEMPLATE
        .replace("{hours}", &hours.to_string())
        .replace("{mark}", mark)
        .replace("{url}", &json!(url).to_string())
}

fn write_files(args: &InitArgs, watch: &str, hosts: &str) -> Result<(), CommandFailure> {
    let files = [("watch.toml", watch), ("hosts.json", hosts)];
    let cannot = |path: &Path, error: &io::Error| {
        CommandFailure::new(HOST, format!("cannot write {}: {error}", path.display()))
    };
    for (name, _) in files.iter().filter(|_| !args.force) {
        let path = args.out.join(name);
        if path.exists() {
            let text = format!("{} exists already", path.display());
            return Err(CommandFailure::new(USAGE, text)
                .hint(Some("name another folder with `--out`, or overwrite it with `--force`")));
        }
    }
    fs::create_dir_all(&args.out).map_err(|error| cannot(&args.out, &error))?;
    for name in ["serve.token", "enrol.token"] {
        let path = args.out.join(name);
        match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let token = AuthToken::generate().ok_or_else(|| {
                    CommandFailure::new(HOST, "cannot make a token: no random bytes")
                })?;
                writeln!(file, "{}", token.as_str()).map_err(|error| cannot(&path, &error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(&path, &error)),
        }
    }
    for (name, text) in files {
        let path = args.out.join(name);
        fs::write(&path, text).map_err(|error| cannot(&path, &error))?;
    }
    Ok(())
}

fn describe_next_steps(args: &InitArgs, file: &WatchFile) -> ReportDocument {
    let mut page = ReportDocument::default();
    let folder = args.out.display();
    let name = &file.agent.name;
    page.fact("hosts", file.hosts.len().to_string());
    page.fact("written", format!("{folder}: watch.toml, hosts.json, serve.token, enrol.token"));
    page.action("check", format!("longhaul watch --check {folder}/watch.toml --agent {name}"));
    page.fact(
        "install",
        format!(
            "copy {folder} to every host as /etc/longhaul, readable by its agent; then run there"
        ),
    );
    page.action("", "longhaul watch /etc/longhaul/watch.toml --agent NAME");
    page
}
