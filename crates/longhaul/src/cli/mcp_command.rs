//! `longhaul mcp`: serves tools of the Model Context Protocol over stdin and stdout.
//!
//! The messages are lines of JSON-RPC 2.0 (<https://modelcontextprotocol.io/specification/2025-06-18>).
//! A tool is a command of this program with `--json`, in a process of its own: its output is the JSON
//! that the command prints.
//!
//! - [`mcp_tools`]: the tools, the schemas of their arguments, and the commands that they run
//! - [`tool_process`]: the process of a call, with its deadline and limits
//! - [`tool_calls`]: the calls that run at the moment

mod mcp_tools;
mod tool_calls;
mod tool_process;

use crate::cli::args::ArchiveArgs;
use crate::cli::{command_output, interrupt};
use crate::command_failure::CommandFailure;
use clap::Args;
use mcp_tools::{MCP_TOOLS, McpTool};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;
use tool_calls::ToolCalls;

const EXAMPLES: &str = include_str!("help/mcp-examples.txt").trim_ascii_end();

/// Options of `longhaul mcp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct McpArgs {
    /// Offer the tool `test`, which sends traffic and archives its report
    #[arg(long)]
    pub allow_measurements: bool,
    /// File with the token of the servers that `test` measures with
    #[arg(long, value_name = "FILE", requires = "allow_measurements")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

/// The versions of the protocol that are spoken, the preferred one first.
const PROTOCOL_VERSIONS: [&str; 2] = ["2025-06-18", "2024-11-05"];
const MAX_LINE_BYTES: usize = 256 << 10;
/// The number of lines that are read ahead.
const READ_AHEAD: usize = 16;
/// The maximum time until a signal is noticed.
const SIGNAL_POLL: Duration = Duration::from_millis(200);

const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;

/// A request, or a notification if it has no id.
#[derive(Debug, Deserialize)]
struct RpcMessage {
    jsonrpc: String,
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

/// An error of the protocol; failures of a tool are results.
#[derive(Debug, PartialEq)]
struct RpcError {
    code: i32,
    message: String,
}

impl RpcError {
    fn new(code: i32, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into() }
    }
}

/// A line from the client, or the notice that it was too long.
type ClientLine = Result<Vec<u8>, RpcError>;

pub fn run(args: &McpArgs) -> Result<ExitCode, CommandFailure> {
    let stop = interrupt::install_end_flag()?;
    let lines = spawn_line_reader();
    let mut calls = ToolCalls::default();
    while !stop.load(Ordering::Relaxed) {
        match lines.recv_timeout(SIGNAL_POLL) {
            Ok(line) => answer_line(line, args, &mut calls)?,
            Err(RecvTimeoutError::Timeout) => {}
            // The client has closed the connection.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    calls.stop_all();
    Ok(ExitCode::SUCCESS)
}

fn spawn_line_reader() -> Receiver<ClientLine> {
    let (sender, lines) = mpsc::sync_channel(READ_AHEAD);
    // It ends with the process: a read of stdin cannot be interrupted.
    thread::spawn(move || read_lines(&mut std::io::stdin().lock(), &sender));
    lines
}

/// Reads lines until the end of the input. Of a line that is too long, only the error is passed on.
fn read_lines(input: &mut impl BufRead, sender: &SyncSender<ClientLine>) {
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let is_cut = line.len() == MAX_LINE_BYTES && line.last() != Some(&b'\n');
        if is_cut && input.skip_until(b'\n').is_err() {
            return;
        }
        let text = format!("a message is longer than {MAX_LINE_BYTES} bytes");
        let line = if is_cut { Err(RpcError::new(INVALID_REQUEST, text)) } else { Ok(line) };
        if sender.send(line).is_err() {
            return;
        }
    }
}

fn answer_line(
    line: ClientLine,
    args: &McpArgs,
    calls: &mut ToolCalls,
) -> Result<(), CommandFailure> {
    let message = match line.and_then(|line| parse_message(&line)) {
        Ok(None) => return Ok(()),
        Ok(Some(message)) => message,
        Err(error) => return send_answer(&Value::Null, Err(error)),
    };
    let method = message.method.unwrap_or_default();
    let Some(id) = message.id else {
        if method == "notifications/cancelled" {
            calls.cancel(&message.params["requestId"]);
        }
        return Ok(());
    };
    let answer = match method.as_str() {
        "initialize" => Ok(describe_server(&message.params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(list_tools(args)),
        "tools/call" => match start_call(&id, &message.params, args, calls) {
            // Its thread answers.
            Ok(()) => return Ok(()),
            Err(error) => Err(error),
        },
        other => Err(RpcError::new(METHOD_NOT_FOUND, format!("no method {other:?}"))),
    };
    send_answer(&id, answer)
}

/// Parses a line. Empty lines and answers of the client are `None`: this server asks nothing.
fn parse_message(line: &[u8]) -> Result<Option<RpcMessage>, RpcError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| RpcError::new(PARSE_ERROR, format!("not JSON: {error}")))?;
    let message: RpcMessage = serde_json::from_value(value)
        .map_err(|error| RpcError::new(INVALID_REQUEST, format!("no JSON-RPC message: {error}")))?;
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64();
    if message.jsonrpc != "2.0" || !message.id.as_ref().is_none_or(is_id) {
        let text = "a message needs \"jsonrpc\": \"2.0\", and an id is a string or an integer";
        return Err(RpcError::new(INVALID_REQUEST, text));
    }
    Ok(message.method.is_some().then_some(message))
}

/// Returns the answer to `initialize`, with the version of the client if it is spoken here.
fn describe_server(params: &Value) -> Value {
    let wanted = params["protocolVersion"].as_str();
    let version = PROTOCOL_VERSIONS.into_iter().find(|version| Some(*version) == wanted);
    json!({
        "protocolVersion": version.unwrap_or(PROTOCOL_VERSIONS[0]),
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "longhaul", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Tools about network paths and what limits them. The JSON is report v1; \
                         format \"markdown\" is much shorter.",
    })
}

fn list_tools(args: &McpArgs) -> Value {
    let offered = MCP_TOOLS.iter().filter(|tool| is_offered(tool, args));
    json!({ "tools": offered.map(McpTool::describe).collect::<Vec<_>>() })
}

fn is_offered(tool: &McpTool, args: &McpArgs) -> bool {
    tool.is_read_only || args.allow_measurements
}

fn start_call(
    id: &Value,
    params: &Value,
    args: &McpArgs,
    calls: &mut ToolCalls,
) -> Result<(), RpcError> {
    let invalid = |text: String| RpcError::new(INVALID_PARAMS, text);
    let name = params["name"].as_str().unwrap_or_default();
    let tool = MCP_TOOLS.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| invalid(format!("no tool {name:?}")))?;
    if !is_offered(tool, args) {
        let text = "needs `longhaul mcp --allow-measurements`";
        return Err(invalid(format!("the tool {name} {text}")));
    }
    let command = tool.build_command(&params["arguments"]).map_err(invalid)?;
    let archive = command_output::archive_path(&args.archive)
        .map_err(|failure| RpcError::new(INVALID_REQUEST, failure.chain()))?;
    let token_file = args.token_file.as_deref().filter(|_| !tool.is_read_only);
    calls.start(id, command.with_files(&archive, token_file))
}

/// Writes the answer to a request as one line.
fn send_answer(id: &Value, answer: Result<Value, RpcError>) -> Result<(), CommandFailure> {
    let line = match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(RpcError { code, message }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    };
    command_output::print_json_lines(&[line])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<ClientLine> {
        let (sender, lines) = mpsc::sync_channel(8);
        read_lines(&mut &text[..], &sender);
        drop(sender);
        lines.iter().collect()
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_to_its_end() {
        let text = [&vec![b'x'; 2 * MAX_LINE_BYTES][..], b"\nnext\n"].concat();
        let lines = read(&text);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].as_ref().map_err(|error| error.code), Err(INVALID_REQUEST));
        assert_eq!(lines[1], Ok(b"next\n".to_vec()));
    }

    #[test]
    fn the_version_of_the_client_is_taken_only_if_it_is_known() {
        let agreed = |version: &str| {
            let answer = describe_server(&json!({ "protocolVersion": version }));
            answer["protocolVersion"].as_str().map(str::to_owned)
        };
        assert_eq!(agreed("2024-11-05").as_deref(), Some("2024-11-05"));
        assert_eq!(agreed("2099-01-01").as_deref(), Some("2025-06-18"));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_code() {
        let code = |line: &str| parse_message(line.as_bytes()).map_err(|error| error.code).err();
        assert_eq!(code("{"), Some(PARSE_ERROR));
        assert_eq!(code("[]"), Some(INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), Some(INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#), Some(INVALID_REQUEST));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), None);
    }
}
