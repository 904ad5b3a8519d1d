//! Applies a changed watch file without losing a run.

use super::birth::Origin;
use super::service::Service;
use super::turns::Agent;
use crate::cli;
use crate::watch::file::WatchFile;
use std::sync::{Arc, PoisonError};

/// Reads the file again. An invalid file changes nothing.
pub fn reload(origin: &Origin<'_>, agent: &mut Agent) {
    Service::reloading();
    let name = origin.args.agent.as_deref();
    match cli::watch::read(&origin.path, name) {
        Ok(Ok(file)) => follow(agent, file),
        Ok(Err(problems)) => refuse(agent, &problems.to_string()),
        Err(fail) => refuse(
            agent,
            &format!("{}: {}", fail.message, fail.causes.join(": ")),
        ),
    }
    Service::ready("watching");
}

fn refuse(agent: &Agent, why: &str) {
    for line in why.lines() {
        agent.voice.trouble(line);
    }
    agent
        .voice
        .trouble("the watch file is wrong: the one before goes on");
    let mut figures = agent
        .desk
        .figures
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    figures.reloads_refused += 1;
}

fn follow(agent: &mut Agent, file: WatchFile) {
    let before = agent.desk.file();
    for (what, differs) in [
        ("archive", before.agent.archive != file.agent.archive),
        ("listen", before.agent.listen != file.agent.listen),
        ("name", before.agent.name != file.agent.name),
        ("collector", before.collector != file.collector),
    ] {
        if differs {
            agent.voice.trouble(&format!(
                "`{what}` has changed in the file: that takes a restart of the agent"
            ));
        }
    }
    let file = Arc::new(file);
    agent.schedule.reload(&file, agent.clocks.now());
    agent.inquiry.follow(Arc::clone(&file));
    agent.notifier.follow(&file);
    {
        let mut held = agent
            .desk
            .file
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *held = Arc::clone(&file);
    }
    let mut figures = agent
        .desk
        .figures
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    figures.reloads += 1;
    drop(figures);
    let jobs = agent.schedule.jobs().count();
    agent
        .voice
        .note(&format!("the watch file was read again: {jobs} jobs"));
}
