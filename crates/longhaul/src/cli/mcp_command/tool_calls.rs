//! The tool calls that run at the moment, each in a thread of its own.

use super::mcp_tools::ToolCommand;
use super::tool_process;
use super::{INVALID_REQUEST, RpcError, send_answer};
use longhaul_probe::supervise::StopFlag;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

/// The maximum number of calls at the same time.
const MAX_CALLS: usize = 4;

/// The calls without an answer yet.
#[derive(Default)]
pub struct ToolCalls {
    running: Vec<ToolCall>,
}

struct ToolCall {
    id: Value,
    stop: StopFlag,
    thread: JoinHandle<()>,
}

impl ToolCalls {
    /// Starts a call. Its thread sends the answer, unless the call is cancelled.
    pub fn start(&mut self, id: &Value, command: ToolCommand) -> Result<(), RpcError> {
        self.running.retain(|call| !call.thread.is_finished());
        if self.running.len() >= MAX_CALLS {
            let text = format!("{MAX_CALLS} calls are running; try again when one has ended");
            return Err(RpcError::new(INVALID_REQUEST, text));
        }
        let stop = StopFlag::default();
        let (own_id, own_stop) = (id.clone(), StopFlag::clone(&stop));
        let thread = thread::spawn(move || {
            let result = tool_process::run_tool(&command, &own_stop);
            if !own_stop.load(Ordering::Relaxed) {
                // A client that is gone has closed stdin too, which ends the program.
                let _ = send_answer(&own_id, Ok(result));
            }
        });
        self.running.push(ToolCall { id: id.clone(), stop, thread });
        Ok(())
    }

    /// Stops the call of this request, if it runs.
    pub fn cancel(&self, id: &Value) {
        for call in self.running.iter().filter(|call| call.id == *id) {
            call.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Stops all calls, and waits until their processes have ended.
    pub fn stop_all(self) {
        for call in &self.running {
            call.stop.store(true, Ordering::Relaxed);
        }
        for call in self.running {
            // A panic has printed its message.
            let _ = call.thread.join();
        }
    }
}
