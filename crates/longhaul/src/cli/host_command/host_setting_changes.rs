//! Writes settings and reverts them, with a journal of the previous values.

use crate::cli::args::HostArgs;
use crate::cli::report_archiving;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use etcetera::BaseStrategy;
use jiff::Timestamp;
use longhaul_model::report::v1::host::{AuditAnalysis, AuditGrade, SettingChange};
use longhaul_probe::host::{self, HostError};
use std::path::{Path, PathBuf};

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
        match revert_failure(self.journal, &reverted) {
            None => Ok(reverted),
            Some(fail) => Err(fail),
        }
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
    let failed = |change: &&SettingChange| !change.reverted;
    let mut fail = CommandFailure::new(HOST, "cannot revert all settings");
    for change in changes.iter().filter(failed) {
        let why = change.error.as_deref().unwrap_or("the value differs");
        let text = format!("{} should be `{}`: {why}", change.name, change.before);
        fail.causes.push(text);
    }
    Some(
        fail.hint(Some("run `longhaul host --revert` as root on the host where they were applied")),
    )
}

/// Returns true if the setting has the wanted value.
pub fn is_setting_written(change: &SettingChange) -> bool {
    change.after.is_some() && change.error.is_none()
}

impl From<HostError> for CommandFailure {
    fn from(error: HostError) -> Self {
        CommandFailure::from_error(error.exit_code(), &error).hint(error.hint())
    }
}
