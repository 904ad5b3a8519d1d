//! The process of a tool call: its output, its deadline and its end.

use super::mcp_tools::ToolCommand;
use longhaul_model::sanitize::sanitize;
use longhaul_probe::supervise::{self, StopFlag};
use serde_json::{Value, json};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The maximum size of what a tool prints.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
const MAX_STDERR_BYTES: usize = 16 << 10;
/// The time between two looks at the process.
const EXIT_POLL: Duration = Duration::from_millis(20);
/// The time between SIGTERM and SIGKILL.
const TERMINATE_GRACE: Duration = Duration::from_secs(5);

/// Runs a command of this program to its end, and returns the result of `tools/call`.
pub fn run_tool(command: &ToolCommand, stop: &StopFlag) -> Value {
    match run_process(command, stop) {
        Ok((status, output, stderr)) if status.success() => build_result(command, &output, &stderr),
        Ok((status, output, stderr)) => {
            let failure = if stderr.is_empty() { status.to_string() } else { stderr };
            build_failure(failure, output)
        }
        Err(error) => build_failure(error.to_string(), String::new()),
    }
}

fn build_result(command: &ToolCommand, output: &str, stderr: &str) -> Value {
    let output = output.trim_end();
    let mut content = vec![json!({ "type": "text", "text": output })];
    if !stderr.is_empty() {
        content.push(json!({ "type": "text", "text": stderr }));
    }
    let mut result = json!({ "content": content, "isError": false });
    // The protocol allows only objects there; lists are in the text.
    if command.is_json
        && let Ok(report @ Value::Object(_)) = serde_json::from_str(output)
    {
        result["structuredContent"] = report;
    }
    result
}

/// Returns a failure, with what the tool printed before, such as a partial report.
fn build_failure(failure: String, output: String) -> Value {
    let texts = [failure, output].into_iter().filter(|text| !text.is_empty());
    let content: Vec<Value> = texts.map(|text| json!({ "type": "text", "text": text })).collect();
    json!({ "content": content, "isError": true })
}

/// Returns exit status, stdout and stderr.
fn run_process(command: &ToolCommand, stop: &StopFlag) -> io::Result<(ExitStatus, String, String)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(&command.words)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().map(|pipe| spawn_reader(pipe, MAX_OUTPUT_BYTES));
    let stderr = child.stderr.take().map(|pipe| spawn_reader(pipe, MAX_STDERR_BYTES));
    let status = wait_for_exit(&mut child, command.deadline, stop)?;
    let collect = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let (output, errors) = (collect(stdout), collect(stderr));
    if output.len() > MAX_OUTPUT_BYTES {
        let text = format!(
            "the output is larger than {MAX_OUTPUT_BYTES} bytes; use a limit, a later `since`, or \
             the format markdown"
        );
        return Err(io::Error::other(text));
    }
    let errors = String::from_utf8_lossy(&errors);
    let errors: Vec<_> = errors.lines().map(sanitize).collect();
    Ok((status, String::from_utf8_lossy(&output).into_owned(), errors.join("\n")))
}

/// Reads at most one byte more than `max`, then closes the pipe, which ends its writer.
fn spawn_reader(pipe: impl Read + Send + 'static, max: usize) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts.
        let _ = pipe.take(max as u64 + 1).read_to_end(&mut bytes);
        bytes
    })
}

/// Waits for the process, and terminates it at the deadline or when the call is cancelled.
fn wait_for_exit(child: &mut Child, most: Duration, stop: &StopFlag) -> io::Result<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < most && !stop.load(Ordering::Relaxed) {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(EXIT_POLL);
    }
    // The process has not been reaped, so its pid is still valid.
    let _ = supervise::terminate_child(child.id());
    let terminated = Instant::now();
    while terminated.elapsed() < TERMINATE_GRACE && child.try_wait()?.is_none() {
        thread::sleep(EXIT_POLL);
    }
    child.kill()?;
    child.wait()?;
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("the tool did not end within {} s and was stopped", most.as_secs()),
    ))
}
