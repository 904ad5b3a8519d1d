//! Runtime and shutdown of the agent.

use super::birth::{Born, Origin, Signals, born};
use super::service::Service;
use crate::cli::args::WatchArgs;
use crate::fail::{Fail, HOST};
use crate::watch::file::WatchFile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// The number of runtime threads. Two suffice for event loop and page, since runs are processes.
const WORKERS: usize = 2;
/// The time that running runs have to end at shutdown.
const LAST_RUNS: Duration = Duration::from_secs(60);
/// The time for terminated runs to end, and for the last writes.
const LAST_NOTES: Duration = Duration::from_secs(10);

/// Runs the agent until it is stopped.
pub fn run(args: &WatchArgs, path: PathBuf, file: WatchFile) -> Result<ExitCode, Fail> {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let origin = Origin { args, path, folder };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("agent")
        .enable_all()
        .build()
        .map_err(|e| Fail::from_error(HOST, &e))?;
    let ended = runtime.block_on(async {
        let born = born(&origin, file).await?;
        Ok(live(&origin, born).await)
    });
    // Pending connections to peers are dropped.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn live(origin: &Origin<'_>, mut born: Born) -> ExitCode {
    loop {
        let Signals {
            reload,
            stop,
            interrupt,
        } = &mut born.signals;
        tokio::select! {
            biased;
            _ = stop.recv() => break,
            _ = interrupt.recv() => break,
            _ = reload.recv() => super::reload::reload(origin, &mut born.agent),
            () = born.agent.hear(&mut born.ears) => {}
        }
        born.agent.turn();
    }
    finish(born).await;
    ExitCode::SUCCESS
}

/// Shuts down: starts no new runs, and waits for running ones up to a limit or a second signal.
async fn finish(mut born: Born) {
    let agent = &mut born.agent;
    Service::stopping("waiting for runs under way");
    agent.schedule.stop(agent.clocks.now());
    agent.write_down();
    say_what_is_waited_for(&born);
    wait_for_runs(&mut born, LAST_RUNS, true).await;
    let _ = born.end.send(true);
    // Runs of an earlier process continue; the next agent recovers them.
    born.left.abort();
    wait_for_runs(&mut born, LAST_NOTES, false).await;
    let agent = &mut born.agent;
    agent.abandon();
    let _ = born.stop.send(true);
    let _ = timeout(LAST_NOTES, agent.scribe.reached()).await;
    agent.scribe.end();
    agent.notifier.finish().await;
    let _ = timeout(LAST_NOTES, born.page).await;
    let joined = tokio::task::spawn_blocking(move || born.archive_thread.join());
    let _ = timeout(LAST_NOTES, joined).await;
    born.agent.voice.note("stopped");
}

fn say_what_is_waited_for(born: &Born) {
    let agent = &born.agent;
    let mut names: Vec<&str> = agent.under_way.values().map(String::as_str).collect();
    if !born.left.is_finished() {
        names.push("what an earlier agent began");
    }
    if !names.is_empty() {
        agent.voice.note(&format!(
            "stopping; waiting for {} up to {} s (stop again to end now): {}",
            crate::render::figures::count_of(names.len() as u64, "run"),
            LAST_RUNS.as_secs(),
            names.join(", ")
        ));
    }
}

/// Waits until no run is running, at most for `most`. If `patient`, a second signal ends the wait.
async fn wait_for_runs(born: &mut Born, most: Duration, patient: bool) {
    let limit = Instant::now() + most;
    let mut left = born.left.is_finished();
    while !left || !born.agent.under_way.is_empty() {
        tokio::select! {
            _ = born.signals.stop.recv(), if patient => break,
            _ = born.signals.interrupt.recv(), if patient => break,
            () = sleep_until(limit) => break,
            _ = &mut born.left, if !left => left = true,
            Some(ran) = born.ears.ran.recv() => born.agent.ran(&ran),
        }
        born.agent.write_down();
    }
    // Also handle runs that ended just now.
    while let Ok(ran) = born.ears.ran.try_recv() {
        born.agent.ran(&ran);
    }
    born.agent.write_down();
}
