//! Runs one probe in its own thread, so that an interrupt does not wait for its end.

use longhaul_model::report::v1::plan::Plan;
use longhaul_probe::error::ProbeError;
use longhaul_probe::throughput::{self, Outcome, Progress, Target};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The interval of checks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);
/// The maximum number of unread messages; more are dropped.
const NEWS_MOST: usize = 16;
/// The time to wait for a lost server, which may be restarting.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE_LEAST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(4);

/// The outcome of a probe.
pub enum Ending {
    Measured(Box<Outcome>),
    /// The server refuses this setting, or a kernel does not support it; others may work.
    Setting(ProbeError),
    /// The connection failed or was lost.
    Lost(ProbeError),
    /// Another program than the expected server answers.
    Stranger(ProbeError),
    Interrupted,
}

enum News {
    Progress(Box<Progress>),
    Ended(Box<Result<Outcome, ProbeError>>),
}

/// Runs one probe. After an interrupt the probe is abandoned and ends with the program.
pub fn run(
    target: &Target,
    plan: &Plan,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Ending {
    let news = match start(target.clone(), plan.clone()) {
        Ok(news) => news,
        Err(source) => {
            return Ending::Setting(ProbeError::Local {
                what: "cannot start a thread for the probe".to_owned(),
                source: Some(source),
            });
        }
    };
    loop {
        match news.recv_timeout(LOOK) {
            Ok(News::Progress(progress)) => show(&progress),
            Ok(News::Ended(ended)) => return judge(*ended),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let what = "the probe ended without a word".to_owned();
                return Ending::Setting(ProbeError::Local { what, source: None });
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ending::Interrupted;
        }
    }
}

fn start(target: Target, plan: Plan) -> io::Result<Receiver<News>> {
    let (tell, news) = sync_channel(NEWS_MOST);
    thread::Builder::new()
        .name("probe".to_owned())
        .spawn(move || probe(&target, &plan, &tell))?;
    Ok(news)
}

fn probe(target: &Target, plan: &Plan, tell: &SyncSender<News>) {
    let ended = throughput::run(target, plan, &mut |progress| {
        // A full channel drops progress messages.
        let _ = tell.try_send(News::Progress(Box::new(progress.clone())));
    });
    // After an interrupt the receiver is gone.
    let _ = tell.send(News::Ended(Box::new(ended)));
}

fn judge(ended: Result<Outcome, ProbeError>) -> Ending {
    match ended {
        Ok(outcome) => Ending::Measured(Box::new(outcome)),
        Err(
            error @ (ProbeError::Plan(_)
            | ProbeError::Refused { .. }
            | ProbeError::PeerFailed { .. }
            | ProbeError::Local { .. }),
        ) => Ending::Setting(error),
        Err(
            error @ (ProbeError::Connect { .. }
            | ProbeError::PeerLost { .. }
            | ProbeError::Timeout { .. }),
        ) => Ending::Lost(error),
        Err(error) => Ending::Stranger(error),
    }
}

/// Waits until the server answers. Returns false after a timeout or an interrupt.
pub fn answers_again(target: &Target, stop: &AtomicBool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = PAUSE_LEAST;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let hasty = Target {
            connect_timeout: target.connect_timeout.min(left).max(LOOK),
            ..target.clone()
        };
        if throughput::round_trip(&hasty).is_ok() {
            return true;
        }
        let until = Instant::now() + pause;
        if until >= deadline {
            return false;
        }
        while Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            thread::sleep(LOOK);
        }
        pause = (pause * 2).min(PAUSE_MOST);
    }
}
