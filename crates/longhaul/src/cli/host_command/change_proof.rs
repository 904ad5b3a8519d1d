//! Tests changes with runs before and after them, both ways, and reverts what does not help.

use super::host_setting_changes::{RevertGuard, WantedSetting, is_setting_written};
use crate::cli::args::{HostArgs, LocalArgs};
use crate::cli::tune_command::probe_attempt::{self, ProbeEnding};
use crate::cli::{option_resolution, report_archiving};
use crate::command_failure::{CommandFailure, HOST, INTERRUPTED, PEER, USAGE};
use longhaul_analysis::audit::{evaluate_trials, find_affected_direction, has_helped};
use longhaul_model::report::v1::host::{ProofTrial, SettingChange};
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ParentRun, RunParty, ThroughputReport};
use longhaul_probe::throughput::{self, TargetHost};
use longhaul_report::number_format::format_rate;
use longhaul_report::style::{FAINT, paint};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The minimum payload time of a run, long enough for a default stream to settle.
const MIN_TIME_US: u64 = 8_000_000;
const TIME_RTTS: u64 = 20;
const MAX_TIME_US: u64 = 120_000_000;

/// The result of a proof.
#[derive(Default)]
pub struct ProofResult {
    pub changes: Vec<SettingChange>,
    pub trials: Vec<ProofTrial>,
    pub responder: Option<RunParty>,
    /// The error that ended the proof early; everything is reverted.
    pub cut_off: Option<CommandFailure>,
}

/// A proof in progress.
struct ProofRun<'a> {
    args: &'a HostArgs,
    id: &'a str,
    target: TargetHost,
    time_us: u64,
    stop: Arc<AtomicBool>,
    result: ProofResult,
}

pub fn proof_target(args: &HostArgs, host: &str) -> Result<TargetHost, CommandFailure> {
    let local = LocalArgs { bind_dev: args.interface.clone(), ..LocalArgs::default() };
    option_resolution::build_target(host, args.port, &local, &args.token, args.connect_timeout)
}

/// Measures, decides, and keeps only the changes that helped. `id` is the id of the report that the
/// runs are part of.
pub fn prove_changes(
    args: &HostArgs,
    id: &str,
    host: &str,
    settings: &[WantedSetting],
    guard: &mut RevertGuard,
) -> Result<ProofResult, CommandFailure> {
    let target = proof_target(args, host)?;
    let rtt = throughput::measure_connect_rtt(&target)?;
    let rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
    let usual_us = rtt_us.saturating_mul(TIME_RTTS);
    let mut proof = ProofRun {
        args,
        id,
        target,
        time_us: args.time.unwrap_or(usual_us.clamp(MIN_TIME_US, MAX_TIME_US)),
        stop: register_revert_signals()?,
        result: ProofResult::default(),
    };
    // The first apply shows which settings can be written, and so which directions to measure.
    proof.result.changes = guard.apply(settings)?;
    guard.revert()?;
    if !proof.result.changes.iter().any(is_setting_written) {
        return Ok(proof.result);
    }
    if let Err(fail) = proof.measure(guard) {
        guard.revert()?;
        proof.result.cut_off = Some(fail);
        mark_reverted(&mut proof.result.changes, |_| false);
        return Ok(proof.result);
    }
    proof.keep_helpful(guard)?;
    Ok(proof.result)
}

/// Fails if an earlier apply is in force, because `before` would then not be the current state.
pub fn refuse_second_apply(journal: &std::path::Path) -> Result<(), CommandFailure> {
    if !journal.exists() {
        return Ok(());
    }
    let text = format!(
        "cannot test changes: settings of an earlier --apply are in force (journal {})",
        journal.display()
    );
    Err(CommandFailure::new(USAGE, text)
        .hint(Some("restore the previous values first: `longhaul host --revert`")))
}

/// Registers a flag for SIGINT, SIGTERM and SIGHUP, so that settings are reverted before the exit.
fn register_revert_signals() -> Result<Arc<AtomicBool>, CommandFailure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|e| {
            CommandFailure::from_error(HOST, &e)
                .hint(Some("check that this process may install signal handlers"))
        })?;
    }
    Ok(stop)
}

impl ProofRun<'_> {
    /// Measures before, after, after, before, …, so that a drifting path favours neither.
    fn measure(&mut self, guard: &mut RevertGuard) -> Result<(), CommandFailure> {
        let covers = |forward: bool| {
            let mut changed =
                self.result.changes.iter().filter(|change| is_setting_written(change));
            changed.any(|change| find_affected_direction(&change.name).covers(forward))
        };
        let ways: Vec<bool> = [true, false].into_iter().filter(|way| covers(*way)).collect();
        let settings: Vec<WantedSetting> = self
            .result
            .changes
            .iter()
            .filter(|change| is_setting_written(change))
            .map(|change| (change.name.clone(), change.wanted.clone()))
            .collect();
        let mut in_force = false;
        for state in trial_order(self.args.pairs) {
            if state != in_force {
                if state {
                    guard.apply(&settings)?;
                } else {
                    guard.revert()?;
                }
                in_force = state;
            }
            for forward in &ways {
                self.run_trial(state, *forward)?;
            }
        }
        if in_force {
            guard.revert()?;
        }
        Ok(())
    }

    fn run_trial(&mut self, changed: bool, forward: bool) -> Result<(), CommandFailure> {
        let plan = ThroughputPlan {
            direction: if forward { RunDirection::Forward } else { RunDirection::Reverse },
            stop: StopCondition::TimeUs(self.time_us),
            ..ThroughputPlan::default()
        };
        let mut trial = ProofTrial {
            changed,
            forward,
            run_id: None,
            goodput_bps: None,
            limited_by: None,
            error: None,
        };
        let ended = match probe_attempt::run_probe(&self.target, &plan, &self.stop, &mut |_| {}) {
            ProbeEnding::Measured(outcome) => {
                let part =
                    ParentRun { id: self.id.to_owned(), index: self.result.trials.len() as u32 };
                let mut run = report_archiving::build_throughput_report(plan, *outcome, Some(part));
                self.archive_trial(&mut run);
                trial.run_id = Some(run.run.id.clone());
                trial.goodput_bps = run.analysis.goodput_bps;
                trial.limited_by = Some(run.analysis.limited_by);
                Ok(())
            }
            ProbeEnding::SettingRefused(error)
            | ProbeEnding::ConnectionLost(error)
            | ProbeEnding::WrongServer(error) => {
                trial.error = Some(error.to_string());
                Err(CommandFailure::from(error))
            }
            ProbeEnding::Interrupted => {
                trial.error = Some(String::from("interrupted"));
                Err(CommandFailure::new(INTERRUPTED, "the test runs were interrupted"))
            }
        };
        self.print_trial(&trial);
        self.result.trials.push(trial);
        ended
    }

    fn archive_trial(&mut self, run: &mut ThroughputReport) {
        if !self.args.output.no_save {
            report_archiving::archive_report(&self.args.output, run);
        }
        self.result.responder = Some(run.run.responder.clone());
    }

    fn print_trial(&self, trial: &ProofTrial) {
        if self.args.output.quiet || self.args.output.form.json || !std::io::stderr().is_terminal()
        {
            return;
        }
        let state = if trial.changed { "after" } else { "before" };
        let way = if trial.forward { "sending" } else { "receiving" };
        let found = match (trial.goodput_bps, &trial.error) {
            (Some(bps), _) => format_rate(bps),
            (None, Some(error)) => error.clone(),
            (None, None) => String::from("no steady goodput"),
        };
        let line = format!("{}\n", paint(FAINT, format!("{state:<7}{way:<10}{found}")));
        // If stderr is closed, the line is lost and the proof continues.
        let _ = anstream::stderr().write_all(line.as_bytes());
    }

    /// Keeps the changes that affect a direction that improved.
    fn keep_helpful(&mut self, guard: &mut RevertGuard) -> Result<(), CommandFailure> {
        let Some(proof) = evaluate_trials(&self.result.trials) else {
            return Err(CommandFailure::new(
                PEER,
                "cannot evaluate the changes: no run has a result",
            ));
        };
        let helped: Vec<bool> = proof
            .directions
            .iter()
            .filter(|effect| has_helped(effect))
            .map(|effect| effect.forward)
            .collect();
        let stays = |change: &SettingChange| {
            let bearing = find_affected_direction(&change.name);
            helped.iter().any(|forward| bearing.covers(*forward))
        };
        let kept: Vec<WantedSetting> = self
            .result
            .changes
            .iter()
            .filter(|change| is_setting_written(change) && stays(change))
            .map(|change| (change.name.clone(), change.wanted.clone()))
            .collect();
        if !kept.is_empty() {
            let again = guard.apply(&kept)?;
            if let Some(failed) = again.iter().find(|change| !is_setting_written(change)) {
                let why = failed.error.clone().unwrap_or_default();
                return Err(CommandFailure::new(
                    HOST,
                    format!("cannot set {}: {why}", failed.name),
                ));
            }
            guard.keep();
        }
        mark_reverted(&mut self.result.changes, stays);
        Ok(())
    }
}

/// Records for each written change whether it was reverted.
fn mark_reverted(changes: &mut [SettingChange], stays: impl Fn(&SettingChange) -> bool) {
    for change in changes.iter_mut().filter(|change| is_setting_written(change)) {
        change.reverted = !stays(change);
    }
}

/// Returns whether the changes are in force, for each run.
fn trial_order(pairs: u32) -> Vec<bool> {
    (0..pairs).flat_map(|pair| if pair % 2 == 0 { [false, true] } else { [true, false] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_take_turns_and_drift_favours_neither() {
        assert_eq!(trial_order(2), [false, true, true, false]);
        for pairs in 2..6 {
            let states = trial_order(pairs);
            let after = states.iter().filter(|state| **state).count();
            assert_eq!(after * 2, states.len());
            assert!(!states[0]);
        }
    }
}
