//! Writing settings and putting them back, with the journal between.

use crate::cli::args::HostArgs;
use crate::cli::filing;
use crate::fail::{Fail, HOST, USAGE};
use etcetera::BaseStrategy;
use jiff::Timestamp;
use longhaul_model::report::v1::host::{Analysis, Change, Grade};
use longhaul_probe::host::{self, HostError};
use std::path::{Path, PathBuf};

/// A name and the value that it shall have.
pub type Setting = (String, String);

/// The journal asked for, or the user's own.
pub fn journal(args: &HostArgs) -> Result<PathBuf, Fail> {
    if let Some(path) = &args.journal {
        return Ok(path.clone());
    }
    let folders = etcetera::base_strategy::Xdg::new().map_err(|e| {
        Fail::from_error(USAGE, &e)
            .hint(Some("set HOME, or name the journal with `--journal FILE`"))
    })?;
    // The strategy of this system has a folder for state; others keep it with their data.
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir());
    Ok(folder.join("longhaul").join("host-journal.json"))
}

/// What the verdicts would have written, each name once, the worst first.
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

/// Settings that can be put back at any time, and are when this goes out of scope.
pub struct Hand<'a> {
    journal: &'a Path,
    interface: Option<&'a str>,
    /// Something may have been written and is not meant to stay.
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

    /// Everything as it was before the first apply.
    pub fn revert(&mut self) -> Result<Vec<Change>, Fail> {
        let reverted = reverted(self.journal)?;
        self.pending = false;
        match missing(self.journal, &reverted) {
            None => Ok(reverted),
            Some(fail) => Err(fail),
        }
    }

    /// What is written now stays.
    pub fn keep(&mut self) {
        self.pending = false;
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        if self.pending {
            // Whoever unwinds here tells why; the journal stays if this fails too.
            let _ = host::revert(self.journal);
        }
    }
}

/// Puts back what the journal holds; without one there is nothing to do.
pub fn reverted(journal: &Path) -> Result<Vec<Change>, Fail> {
    match host::revert(journal) {
        Err(HostError::NothingToRevert { .. }) => Ok(Vec::new()),
        other => Ok(other?),
    }
}

/// The failure when something could not be put back: it then stays in the journal. What is gone,
/// with an earlier boot or its interface, does not.
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

/// Whether it stands as wanted now.
pub fn written(change: &Change) -> bool {
    change.after.is_some() && change.error.is_none()
}

impl From<HostError> for Fail {
    fn from(error: HostError) -> Self {
        Fail::from_error(error.exit_code(), &error).hint(error.hint())
    }
}
