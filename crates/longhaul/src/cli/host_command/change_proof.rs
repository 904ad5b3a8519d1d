//! Writes settings and reverts them, with a journal of the previous values; tests changes with runs
//! before and after them, both ways, and reverts what does not help.

use crate::cli::args::HostArgs;
use crate::cli::interrupt;
use crate::cli::progress_lines::StatusLine;
use crate::cli::report_archiving::{self, saturating_micros};
use crate::cli::tune_command::probe_attempt::{self, ProbeEnding};
use crate::command_failure::{CommandFailure, HOST, PEER, USAGE};
use etcetera::BaseStrategy;
use jiff::Timestamp;
use longhaul_analysis::audit::{affects_direction, evaluate_trials, has_helped};
use longhaul_model::report::v1::host::{AuditAnalysis, AuditGrade, ProofTrial, SettingChange};
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ParentRun, RunParty};
use longhaul_probe::host::{self, HostError};
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{self, TargetHost};
use longhaul_report::number_format::format_rate;
use longhaul_report::style::{FAINT, paint};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};

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
    stop: StopFlag,
    line: StatusLine,
    result: ProofResult,
}

/// Measures, decides, and keeps only the changes that helped. `id` is the id of the report that the
/// runs are part of.
pub fn prove_changes(
    args: &HostArgs,
    id: &str,
    target: TargetHost,
    settings: &[WantedSetting],
    guard: &mut RevertGuard,
) -> Result<ProofResult, CommandFailure> {
    let rtt_us = saturating_micros(throughput::measure_connect_rtt(&target)?);
    let usual_us = rtt_us.saturating_mul(TIME_RTTS);
    let mut proof = ProofRun {
        args,
        id,
        target,
        time_us: args.time.unwrap_or(usual_us.clamp(MIN_TIME_US, MAX_TIME_US)),
        // Settings are reverted before the exit.
        stop: interrupt::register_signals(&[SIGINT, SIGTERM, SIGHUP])?,
        line: StatusLine::new(args.output.shows_progress()),
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

impl ProofRun<'_> {
    /// Measures before, after, after, before, …, so that a drifting path favours neither.
    fn measure(&mut self, guard: &mut RevertGuard) -> Result<(), CommandFailure> {
        let settings = self.wanted_of(is_setting_written);
        let covers =
            |forward: &bool| settings.iter().any(|(name, _)| affects_direction(name, *forward));
        let ways: Vec<bool> = [true, false].into_iter().filter(covers).collect();
        for state in trial_order(self.args.pairs) {
            if state {
                guard.apply(&settings)?;
            }
            for forward in &ways {
                self.run_trial(state, *forward)?;
            }
            if state {
                guard.revert()?;
            }
        }
        Ok(())
    }

    /// Returns the wanted values of some changes.
    fn wanted_of(&self, chosen: impl Fn(&SettingChange) -> bool) -> Vec<WantedSetting> {
        let changes = self.result.changes.iter().filter(|change| chosen(change));
        changes.map(|change| (change.name.clone(), change.wanted.clone())).collect()
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
        let ending = probe_attempt::run_probe(
            &self.target,
            &plan,
            &throughput::run,
            &self.stop,
            None,
            &mut |_| {},
        );
        let (outcome, ended) = match ending {
            ProbeEnding::Measured(outcome) => (Some(outcome), Ok(())),
            ProbeEnding::CutShort(outcome, fail) => (Some(outcome), Err(fail)),
            ProbeEnding::SettingRefused(fail)
            | ProbeEnding::ConnectionLost(fail)
            | ProbeEnding::WrongServer(fail)
            | ProbeEnding::Interrupted(fail) => (None, Err(fail)),
        };
        if let Some(outcome) = outcome {
            let part = ParentRun { id: self.id.to_owned(), index: self.result.trials.len() as u32 };
            let mut run = report_archiving::build_throughput_report(plan, *outcome, Some(part));
            report_archiving::archive_report(&self.args.output, &mut run);
            self.result.responder = Some(run.run.responder.clone());
            trial.run_id = Some(run.run.id.clone());
            if ended.is_ok() {
                trial.goodput_bps = run.analysis.goodput_bps;
                trial.limited_by = Some(run.analysis.limited_by);
            }
        }
        trial.error = ended.as_ref().err().map(|fail| fail.message.clone());
        self.print_trial(&trial);
        self.result.trials.push(trial);
        ended
    }

    fn print_trial(&mut self, trial: &ProofTrial) {
        let state = if trial.changed { "after" } else { "before" };
        let way = if trial.forward { "sending" } else { "receiving" };
        let found = match (trial.goodput_bps, &trial.error) {
            (Some(bps), _) => format_rate(bps),
            (None, Some(error)) => error.clone(),
            (None, None) => String::from("no steady goodput"),
        };
        self.line.print(&paint(FAINT, format!("{state:<7}{way:<10}{found}")));
    }

    /// Keeps the changes that affect a direction that improved.
    fn keep_helpful(&mut self, guard: &mut RevertGuard) -> Result<(), CommandFailure> {
        let Some(proof) = evaluate_trials(&self.result.trials) else {
            let text = "cannot evaluate the changes: no run has a result";
            return Err(CommandFailure::new(PEER, text));
        };
        let helped = proof.directions.iter().filter(|effect| has_helped(effect));
        let helped: Vec<bool> = helped.map(|effect| effect.forward).collect();
        let stays = |change: &SettingChange| {
            helped.iter().any(|forward| affects_direction(&change.name, *forward))
        };
        let kept = self.wanted_of(|change| is_setting_written(change) && stays(change));
        if !kept.is_empty() {
            let again = guard.apply(&kept)?;
            if let Some(failed) = again.iter().find(|change| !is_setting_written(change)) {
                let why = failed.error.clone().unwrap_or_default();
                let text = format!("cannot set {}: {why}", failed.name);
                return Err(CommandFailure::new(HOST, text));
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

/// The name of a setting and its wanted value.
pub type WantedSetting = (String, String);

/// Returns the path of the given journal, or of the user's default one.
pub fn host_journal_path(args: &HostArgs) -> Result<PathBuf, CommandFailure> {
    if let Some(path) = &args.journal {
        return Ok(path.clone());
    }
    let folders = etcetera::base_strategy::Xdg::new().map_err(|e| {
        CommandFailure::from_error(USAGE, &e)
            .hint(Some("set HOME, or name the journal with `--journal FILE`"))
    })?;
    // XDG has a folder for state; systems without one keep it with their data.
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir());
    Ok(folder.join("longhaul").join("host-journal.json"))
}

/// Returns the settings that the verdicts recommend, each name once, the worst verdict first.
pub fn wanted_settings(analysis: &AuditAnalysis) -> Vec<WantedSetting> {
    let mut settings: Vec<WantedSetting> = Vec::new();
    let verdicts = analysis.verdicts.iter();
    let asking = verdicts.filter(|v| matches!(v.grade, AuditGrade::Limits | AuditGrade::Advice));
    for remedy in asking.flat_map(|verdict| &verdict.remedies) {
        if let (Some(name), Some(value)) = (&remedy.name, &remedy.value)
            && host::is_writable(name)
            && settings.iter().all(|(known, _)| known != name)
        {
            settings.push((name.clone(), value.clone()));
        }
    }
    settings
}

/// Applies settings and reverts them when dropped, unless they are kept.
pub struct RevertGuard<'a> {
    journal: &'a Path,
    interface: Option<&'a str>,
    /// Whether settings may have been written that are not to be kept.
    pending: bool,
}

impl<'a> RevertGuard<'a> {
    pub fn new(journal: &'a Path, interface: Option<&'a str>) -> Self {
        RevertGuard { journal, interface, pending: false }
    }

    pub fn apply(
        &mut self,
        settings: &[WantedSetting],
    ) -> Result<Vec<SettingChange>, CommandFailure> {
        self.pending = true;
        let now = report_archiving::format_rfc3339(Timestamp::now());
        let changes = host::apply_settings(settings, self.interface, self.journal, &now)?;
        Ok(changes)
    }

    /// Restores the values from before the first apply.
    pub fn revert(&mut self) -> Result<Vec<SettingChange>, CommandFailure> {
        let reverted = revert_from_journal(self.journal)?;
        self.pending = false;
        revert_failure(self.journal, &reverted).map_or(Ok(reverted), Err)
    }

    /// Keeps the current settings.
    pub fn keep(&mut self) {
        self.pending = false;
    }
}

impl Drop for RevertGuard<'_> {
    fn drop(&mut self) {
        if self.pending {
            // The caller reports the error. If this fails too, the journal remains.
            let _ = host::revert_settings(self.journal);
        }
    }
}

/// Reverts the settings in the journal. Without a journal there is nothing to do.
pub fn revert_from_journal(journal: &Path) -> Result<Vec<SettingChange>, CommandFailure> {
    match host::revert_settings(journal) {
        Err(HostError::NothingToRevert { .. }) => Ok(Vec::new()),
        other => Ok(other?),
    }
}

/// Returns the failure if a setting could not be reverted; it then stays in the journal. Settings
/// lost with an earlier boot or a removed interface do not.
pub fn revert_failure(journal: &Path, changes: &[SettingChange]) -> Option<CommandFailure> {
    if !journal.exists() {
        return None;
    }
    let hint = "run `longhaul host --revert` as root on the host where they were applied";
    let mut fail = CommandFailure::new(HOST, "cannot revert all settings").hint(Some(hint));
    for change in changes.iter().filter(|change| !change.reverted) {
        let why = change.error.as_deref().unwrap_or("the value differs");
        fail = fail.cause(&format!("{} should be `{}`: {why}", change.name, change.before));
    }
    Some(fail)
}

/// Returns true if the setting has the wanted value.
pub fn is_setting_written(change: &SettingChange) -> bool {
    change.after.is_some() && change.error.is_none()
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
