//! Applies a changed watch file without losing a run.

use super::clocks::read_clock_times;
use super::event_loop::EventLoop;
use super::export::format_error_chain;
use super::service_manager::ServiceManager;
use super::startup::AgentOptions;
use crate::watch::watch_file::WatchFile;
use crate::watch_file_reading::read_watch_file;
use std::sync::Arc;

/// Reads the file again. An invalid file changes nothing.
pub fn reload_watch_file(origin: &AgentOptions, agent: &mut EventLoop) {
    ServiceManager::reloading();
    let name = origin.agent.as_deref();
    match read_watch_file(&origin.path, name) {
        Ok(Ok(file)) => apply_watch_file(agent, file),
        Ok(Err(problems)) => reject_watch_file(agent, &problems.to_string()),
        Err(error) => reject_watch_file(agent, &format_error_chain(&error)),
    }
    ServiceManager::ready("watching");
}

fn reject_watch_file(agent: &EventLoop, why: &str) {
    for line in why.lines() {
        agent.log.warn(line);
    }
    agent.log.warn("watch file invalid, keeping the previous one");
    let mut figures = agent.state.counters.write();
    figures.reloads_refused += 1;
}

fn apply_watch_file(agent: &mut EventLoop, file: WatchFile) {
    let before = agent.state.file();
    for (what, differs) in [
        ("archive", before.agent.archive != file.agent.archive),
        ("listen", before.agent.listen != file.agent.listen),
        ("name", before.agent.name != file.agent.name),
        ("collector", before.collector != file.collector),
        ("database", before.database != file.database),
    ] {
        if differs {
            agent.log.warn(&format!(
                "`{what}` has changed in the watch file; restart the agent to apply it"
            ));
        }
    }
    let file = Arc::new(file);
    agent.schedule.reload(&file, read_clock_times());
    {
        let mut held = agent.state.file.write();
        *held = Arc::clone(&file);
    }
    let mut figures = agent.state.counters.write();
    figures.reloads += 1;
    drop(figures);
    let jobs = agent.schedule.jobs().count();
    agent.log.info(&format!("watch file reloaded: {jobs} jobs"));
}
