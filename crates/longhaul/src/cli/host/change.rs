//! Writes settings and reverts them, with a journal of the previous values.

use crate::cli::args::HostArgs;
use crate::cli::filing;
use crate::fail::{Fail, HOST, USAGE};
use etcetera::BaseStrategy;
use jiff::Timestamp;
use longhaul_model::report::v1::host::{Analysis, Change, Grade};
use longhaul_probe::host::{self, HostError};
use std::path::{Path, PathBuf};

/// The name of a setting and its wanted value.
pub type Setting = (String, String);

/// Returns the path of the given journal, or of the user's default one.
pub fn journal(args: &HostArgs) -> Result<PathBuf, Fail> {
    if let Some(path) = &args.journal {
        return Ok(path.clone());
    }
    let folders = etcetera::base_strategy::Xdg::new().map_err(|e| {
        Fail::from_error(USAGE, &e)
            .hint(Some("set HOME, or name the journal with `--journal FILE`"))
    })?;
    // XDG has a folder for state; systems without one keep it with their data.
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir());
    Ok(folder.join("longhaul").join("host-journal.json"))
}

/// Returns the settings that the verdicts recommend, each name once, the worst verdict first.
pub fn wanted(analysis: &Analysis) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    let verdicts = analysis.verdicts.iter();
    let asking = verdicts.filter(|v| matches!(v.grade, Grade::Limits | Grade::Advice));
    for remedy in asking.flat_map(|verdict| &verdict.remedies) {
        if let (Some(name), Some(value)) = (&remedy.name, &remedy.value)
            && host::writable(name)
            && settings.iter().all(|(known, _)| known != name)
        {
            settings.push((name.clone(), value.clone()));
        }
    }
    settings
}

/// Applies settings and reverts them when dropped, unless they are kept.
pub struct Hand<'a> {
    journal: &'a Path,
    interface: Option<&'a str>,
    /// Whether settings may have been written that are not to be kept.
    pending: bool,
}

impl<'a> Hand<'a> {
    pub fn new(journal: &'a Path, interface: Option<&'a str>) -> Self {
        Hand {
            journal,
            interface,
            pending: false,
        }
    }

    pub fn apply(&mut self, settings: &[Setting]) -> Result<Vec<Change>, Fail> {
        self.pending = true;
        let now = filing::rfc3339(Timestamp::now());
        let changes = host::apply(settings, self.interface, self.journal, &now)?;
        Ok(changes)
    }

    /// Restores the values from before the first apply.
    pub fn revert(&mut self) -> Result<Vec<Change>, Fail> {
        let reverted = reverted(self.journal)?;
        self.pending = false;
        match missing(self.journal, &reverted) {
            None => Ok(reverted),
            Some(fail) => Err(fail),
        }
    }

    /// Keeps the current settings.
    pub fn keep(&mut self) {
        self.pending = false;
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        if self.pending {
            // The caller reports the error. If this fails too, the journal remains.
            let _ = host::revert(self.journal);
        }
    }
}

/// Reverts the settings in the journal. Without a journal there is nothing to do.
pub fn reverted(journal: &Path) -> Result<Vec<Change>, Fail> {
    match host::revert(journal) {
        Err(HostError::NothingToRevert { .. }) => Ok(Vec::new()),
        other => Ok(other?),
    }
}

/// Returns the failure if a setting could not be reverted; it then stays in the journal. Settings
/// lost with an earlier boot or a removed interface do not.
pub fn missing(journal: &Path, changes: &[Change]) -> Option<Fail> {
    if !journal.exists() {
        return None;
    }
    let failed = |change: &&Change| !change.reverted;
    let mut fail = Fail::new(HOST, "cannot put back every setting");
    for change in changes.iter().filter(failed) {
        let why = change.error.as_deref().unwrap_or("it reads otherwise");
        let text = format!("{} should be `{}`: {why}", change.name, change.before);
        fail.causes.push(text);
    }
    Some(fail.hint(Some(
        "the journal still holds them: run `longhaul host --revert` as root, where it was applied",
    )))
}

/// Returns true if the setting has the wanted value.
pub fn written(change: &Change) -> bool {
    change.after.is_some() && change.error.is_none()
}

impl From<HostError> for Fail {
    fn from(error: HostError) -> Self {
        Fail::from_error(error.exit_code(), &error).hint(error.hint())
    }
}
