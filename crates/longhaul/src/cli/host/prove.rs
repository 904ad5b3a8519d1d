//! Tests changes with runs before and after them, both ways, and reverts what does not help.

use super::change::{Hand, Setting, written};
use crate::cli::args::{HostArgs, LocalArgs};
use crate::cli::tune::attempt::{self, Ending};
use crate::cli::{filing, resolve};
use crate::fail::{Fail, HOST, INTERRUPTED, PEER, USAGE};
use crate::render::figures::rate;
use crate::render::style::{FAINT, paint};
use longhaul_analysis::audit::{bearing, helped, prove};
use longhaul_model::report::v1::host::{Change, Trial};
use longhaul_model::report::v1::plan::{Direction, Plan, Stop};
use longhaul_model::report::v1::{PartOf, Party, Throughput};
use longhaul_probe::throughput::{self, Target};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The minimum payload time of a run, long enough for a default stream to settle.
const TIME_LEAST_US: u64 = 8_000_000;
const TIME_RTTS: u64 = 20;
const TIME_MOST_US: u64 = 120_000_000;

/// The result of a proof.
#[derive(Default)]
pub struct Proven {
    pub changes: Vec<Change>,
    pub trials: Vec<Trial>,
    pub responder: Option<Party>,
    /// The error that ended the proof early; everything is reverted.
    pub cut_off: Option<Fail>,
}

/// A proof in progress.
struct Proof<'a> {
    args: &'a HostArgs,
    id: &'a str,
    target: Target,
    time_us: u64,
    stop: Arc<AtomicBool>,
    found: Proven,
}

pub fn target(args: &HostArgs, host: &str) -> Result<Target, Fail> {
    let local = LocalArgs {
        bind_dev: args.interface.clone(),
        ..LocalArgs::default()
    };
    resolve::target((host, args.port), &local, &args.token, args.connect_timeout)
}

/// Measures, decides, and keeps only the changes that helped. `id` is the id of the report that the
/// runs are part of.
pub fn run(
    args: &HostArgs,
    id: &str,
    (host, settings): (&str, &[Setting]),
    hand: &mut Hand,
) -> Result<Proven, Fail> {
    let target = target(args, host)?;
    let rtt = throughput::round_trip(&target)?;
    let rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
    let usual_us = rtt_us.saturating_mul(TIME_RTTS);
    let mut proof = Proof {
        args,
        id,
        target,
        time_us: args
            .time
            .unwrap_or(usual_us.clamp(TIME_LEAST_US, TIME_MOST_US)),
        stop: stop_flag()?,
        found: Proven::default(),
    };
    // The first apply shows which settings can be written, and so which directions to measure.
    proof.found.changes = hand.apply(settings)?;
    hand.revert()?;
    if !proof.found.changes.iter().any(written) {
        return Ok(proof.found);
    }
    if let Err(fail) = proof.measure(hand) {
        hand.revert()?;
        proof.found.cut_off = Some(fail);
        mark(&mut proof.found.changes, |_| false);
        return Ok(proof.found);
    }
    proof.decide(hand)?;
    Ok(proof.found)
}

/// Fails if an earlier apply is in force, because `before` would then not be the current state.
pub fn refuse_second_apply(journal: &std::path::Path) -> Result<(), Fail> {
    if !journal.exists() {
        return Ok(());
    }
    let text = format!(
        "settings of an earlier --apply are in force: {} holds what stood before them",
        journal.display()
    );
    Err(Fail::new(USAGE, text).hint(Some(
        "a proof begins with the host as it was: `longhaul host --revert` first",
    )))
}

/// Registers a flag for SIGINT, SIGTERM and SIGHUP, so that settings are reverted before the exit.
fn stop_flag() -> Result<Arc<AtomicBool>, Fail> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|e| {
            Fail::from_error(HOST, &e).hint(Some("signals of this process cannot be handled"))
        })?;
    }
    Ok(stop)
}

impl Proof<'_> {
    /// Measures before, after, after, before, …, so that a drifting path favours neither.
    fn measure(&mut self, hand: &mut Hand) -> Result<(), Fail> {
        let covers = |forward: bool| {
            let mut changed = self.found.changes.iter().filter(|change| written(change));
            changed.any(|change| bearing(&change.name).covers(forward))
        };
        let ways: Vec<bool> = [true, false]
            .into_iter()
            .filter(|way| covers(*way))
            .collect();
        let settings: Vec<Setting> = self
            .found
            .changes
            .iter()
            .filter(|change| written(change))
            .map(|change| (change.name.clone(), change.wanted.clone()))
            .collect();
        let mut in_force = false;
        for state in states(self.args.pairs) {
            if state != in_force {
                if state {
                    hand.apply(&settings)?;
                } else {
                    hand.revert()?;
                }
                in_force = state;
            }
            for forward in &ways {
                self.trial(state, *forward)?;
            }
        }
        if in_force {
            hand.revert()?;
        }
        Ok(())
    }

    fn trial(&mut self, changed: bool, forward: bool) -> Result<(), Fail> {
        let plan = Plan {
            direction: if forward {
                Direction::Forward
            } else {
                Direction::Reverse
            },
            stop: Stop::TimeUs(self.time_us),
            ..Plan::default()
        };
        let mut trial = Trial {
            changed,
            forward,
            run_id: None,
            goodput_bps: None,
            limited_by: None,
            error: None,
        };
        let ended = match attempt::run(&self.target, &plan, &self.stop, &mut |_| {}) {
            Ending::Measured(outcome) => {
                let part = PartOf {
                    id: self.id.to_owned(),
                    index: self.found.trials.len() as u32,
                };
                let mut run = filing::throughput(plan, *outcome, Some(part));
                self.file(&mut run);
                trial.run_id = Some(run.run.id.clone());
                trial.goodput_bps = run.analysis.goodput_bps;
                trial.limited_by = Some(run.analysis.limited_by);
                Ok(())
            }
            Ending::Setting(error) | Ending::Lost(error) | Ending::Stranger(error) => {
                trial.error = Some(error.to_string());
                Err(Fail::from(error))
            }
            Ending::Interrupted => {
                trial.error = Some(String::from("interrupted"));
                Err(Fail::new(INTERRUPTED, "the proof was interrupted"))
            }
        };
        self.tell(&trial);
        self.found.trials.push(trial);
        ended
    }

    fn file(&mut self, run: &mut Throughput) {
        if !self.args.no_save {
            filing::keep(&self.args.archive, run);
        }
        self.found.responder = Some(run.run.responder.clone());
    }

    fn tell(&self, trial: &Trial) {
        if self.args.quiet || self.args.json || !std::io::stderr().is_terminal() {
            return;
        }
        let state = if trial.changed { "after" } else { "before" };
        let way = if trial.forward {
            "sending"
        } else {
            "receiving"
        };
        let found = match (trial.goodput_bps, &trial.error) {
            (Some(bps), _) => rate(bps),
            (None, Some(error)) => error.clone(),
            (None, None) => String::from("no steady goodput"),
        };
        let line = format!("{}\n", paint(FAINT, format!("{state:<7}{way:<10}{found}")));
        // If stderr is closed, the line is lost and the proof continues.
        let _ = anstream::stderr().write_all(line.as_bytes());
    }

    /// Keeps the changes that affect a direction that improved.
    fn decide(&mut self, hand: &mut Hand) -> Result<(), Fail> {
        let Some(proof) = prove(&self.found.trials) else {
            return Err(Fail::new(PEER, "no run gave a result"));
        };
        let helped: Vec<bool> = proof
            .directions
            .iter()
            .filter(|effect| helped(effect))
            .map(|effect| effect.forward)
            .collect();
        let stays = |change: &Change| {
            let bearing = bearing(&change.name);
            helped.iter().any(|forward| bearing.covers(*forward))
        };
        let kept: Vec<Setting> = self
            .found
            .changes
            .iter()
            .filter(|change| written(change) && stays(change))
            .map(|change| (change.name.clone(), change.wanted.clone()))
            .collect();
        if !kept.is_empty() {
            let again = hand.apply(&kept)?;
            if let Some(failed) = again.iter().find(|change| !written(change)) {
                let why = failed.error.clone().unwrap_or_default();
                return Err(Fail::new(
                    HOST,
                    format!("cannot set {}: {why}", failed.name),
                ));
            }
            hand.keep();
        }
        mark(&mut self.found.changes, stays);
        Ok(())
    }
}

/// Records for each written change whether it was reverted.
fn mark(changes: &mut [Change], stays: impl Fn(&Change) -> bool) {
    for change in changes.iter_mut().filter(|change| written(change)) {
        change.reverted = !stays(change);
    }
}

/// Returns whether the changes are in force, for each run.
fn states(pairs: u32) -> Vec<bool> {
    (0..pairs)
        .flat_map(|pair| {
            if pair % 2 == 0 {
                [false, true]
            } else {
                [true, false]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_take_turns_and_drift_favours_neither() {
        assert_eq!(states(2), [false, true, true, false]);
        for pairs in 2..6 {
            let states = states(pairs);
            let after = states.iter().filter(|state| **state).count();
            assert_eq!(after * 2, states.len());
            assert!(!states[0]);
        }
    }
}
