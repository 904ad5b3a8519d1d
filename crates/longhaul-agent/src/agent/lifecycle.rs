//! Runtime and shutdown of the agent.

use super::agent_log::AgentLog;
use super::clocks::read_clock_times;
use super::finished_run::recover_spool;
use super::service_manager::ServiceManager;
use super::startup::{AgentOptions, AgentSignals, RunningAgent, start_agent};
use super::watch_file_reload::WatchFileReloader;
use crate::agent_error::AgentError;
use crate::watch::watch_file::WatchFile;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// The number of runtime threads. Two suffice for event loop and page, since runs are processes.
const RUNTIME_THREADS: usize = 2;
/// The time that running runs have to end at shutdown.
const RUNS_GRACE: Duration = Duration::from_secs(60);
/// The time for terminated runs to end, and for the last writes.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Runs the agent until it is stopped.
pub fn run(origin: &AgentOptions, file: WatchFile) -> Result<(), AgentError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .thread_name("agent")
        .enable_all()
        .build()
        .map_err(AgentError::Host)?;
    let ended = runtime.block_on(async {
        let running = start_agent(origin, file).await?;
        run_event_loop(origin, running).await;
        Ok(())
    });
    // Pending connections to peers are dropped.
    runtime.shutdown_timeout(Duration::from_secs(1));
    AgentLog::flush();
    ended
}

async fn run_event_loop(origin: &AgentOptions, mut running: RunningAgent) {
    let mut reloader = WatchFileReloader::new(&running.event_loop.state.file());
    loop {
        let AgentSignals { reload, stop, interrupt } = &mut running.signals;
        tokio::select! {
            biased;
            _ = stop.recv() => break,
            _ = interrupt.recv() => break,
            _ = reload.recv() => reloader.request(),
            read = reloader.wait_for_result() => reloader.apply_result(read, &mut running),
            () = running.event_loop.handle_next_event(&mut running.channels) => {}
        }
        reloader.start_if_due(origin, &running.event_loop.state.file());
        running.event_loop.start_due_runs();
    }
    shut_down(running).await;
}

/// Shuts down: starts no new runs, and waits for running ones up to a limit or a second signal.
async fn shut_down(mut running: RunningAgent) {
    running.server.stop();
    let told = running.fireflies.stop();
    let told = tokio::spawn(recover_spool(running.event_loop.launcher.clone(), told));
    let agent = &mut running.event_loop;
    ServiceManager::stopping("waiting for runs in progress");
    agent.schedule.stop(read_clock_times());
    agent.record_decisions();
    log_running_runs(&running);
    wait_for_runs(&mut running, RUNS_GRACE, true).await;
    let _ = running.end_runs.send(true);
    // Runs of an earlier process continue; the next agent recovers them.
    running.recovery.abort();
    wait_for_runs(&mut running, SHUTDOWN_GRACE, false).await;
    let agent = &mut running.event_loop;
    agent.abandon_running_runs();
    let _ = running.stop_page.send(true);
    // What the archive does not take now, the next agent recovers.
    let _ = timeout(SHUTDOWN_GRACE, told).await;
    let _ = timeout(SHUTDOWN_GRACE, agent.launcher.writer.flush()).await;
    agent.launcher.writer.stop();
    agent.notifier.shut_down().await;
    let _ = timeout(SHUTDOWN_GRACE, running.page).await;
    let joined = tokio::task::spawn_blocking(move || running.archive_thread.join());
    let _ = timeout(SHUTDOWN_GRACE, joined).await;
    running.event_loop.log.info("stopped");
}

fn log_running_runs(running: &RunningAgent) {
    let agent = &running.event_loop;
    let mut names: Vec<&str> = agent.running.values().map(|it| it.title.as_str()).collect();
    if !running.recovery.is_finished() {
        names.push("runs of an earlier agent");
    }
    if !names.is_empty() {
        agent.log.info(&format!(
            "stopping; waiting for {} for up to {} s (stop again to end now): {}",
            longhaul_report::number_format::count_of(names.len() as u64, "run"),
            RUNS_GRACE.as_secs(),
            names.join(", ")
        ));
    }
}

/// Waits until no run is running, at most for `most`. If `patient`, a second signal ends the wait.
async fn wait_for_runs(running: &mut RunningAgent, most: Duration, patient: bool) {
    let limit = Instant::now() + most;
    let mut left = running.recovery.is_finished();
    while !left || !running.event_loop.running.is_empty() {
        tokio::select! {
            _ = running.signals.stop.recv(), if patient => break,
            _ = running.signals.interrupt.recv(), if patient => break,
            () = sleep_until(limit) => break,
            _ = &mut running.recovery, if !left => left = true,
            Some(ran) = running.channels.finished_runs.recv() => running.event_loop.handle_finished_run(&ran),
        }
        running.event_loop.record_decisions();
    }
    // Also handle runs that ended just now.
    while let Ok(ran) = running.channels.finished_runs.try_recv() {
        running.event_loop.handle_finished_run(&ran);
    }
    running.event_loop.record_decisions();
}
