//! Writes and reverts settings.

use super::error::HostError;
use super::journal::{self, Held};
use super::setting::{Setting, same};
use longhaul_model::report::v1::host::{Change, Journal};
use std::path::Path;

/// Writes `changes` (name, value) in order; names that begin with `interface` apply to `interface`.
///
/// The journal is on disk before anything is written; for each name it keeps the value before the
/// first change. If a value cannot be written, its [`Change::error`] says why and the others are
/// still written. A value that is already set is neither written nor recorded. Of two values for
/// one name the later counts. A journal of an earlier boot is replaced: its settings are gone.
///
/// # Errors
/// No setting has been changed when an error is returned.
pub fn apply(
    changes: &[(String, String)],
    interface: Option<&str>,
    journal: &Path,
    now_rfc3339: &str,
) -> Result<Vec<Change>, HostError> {
    let wanted = settings(changes, interface)?;
    let held = Held::take(journal)?;
    let (mut book, earlier) = continue_book(&held, journal, now_rfc3339)?;
    let mut planned: Vec<(Setting, Change)> = wanted
        .into_iter()
        .map(|(setting, value)| {
            let change = plan(&setting, value);
            (setting, change)
        })
        .collect();
    for (_, change) in planned.iter().filter(|(_, change)| is_open(change)) {
        journal::merge(&mut book, change);
    }
    held.store(&book)?;
    for (setting, change) in planned.iter_mut().filter(|(_, change)| is_open(change)) {
        carry_out(setting, change);
    }
    let done: Vec<Change> = planned.into_iter().map(|(_, change)| change).collect();
    settle(&mut book, &done, &earlier);
    // The existing journal is enough to revert; this one only adds the outcomes.
    let _ = held.store(&book);
    Ok(done)
}

fn settings<'a>(
    changes: &'a [(String, String)],
    interface: Option<&str>,
) -> Result<Vec<(Setting, &'a str)>, HostError> {
    let mut settings: Vec<(Setting, &str)> = Vec::new();
    for (name, value) in changes {
        let setting = Setting::find(name, interface)?;
        settings.retain(|(known, _)| *known != setting);
        settings.push((setting, value));
    }
    Ok(settings)
}

/// Returns the journal to continue, and its earlier changes.
fn continue_book(
    held: &Held<'_>,
    path: &Path,
    now_rfc3339: &str,
) -> Result<(Journal, Vec<Change>), HostError> {
    match held.load()? {
        Some(book) if !journal::is_of_another_boot(&book) => {
            journal::check_namespace(&book, path)?;
            let earlier = book.changes.clone();
            Ok((book, earlier))
        }
        _ => Ok((journal::begin(now_rfc3339), Vec::new())),
    }
}

/// Plans a change: with an error if it is impossible, with an `after` if it is unnecessary.
fn plan(setting: &Setting, wanted: &str) -> Change {
    let now = setting.read();
    let error = now.as_ref().err().map(|error| setting.why_not(error));
    let now = now.unwrap_or_default();
    Change {
        name: setting.name.clone(),
        interface: setting.interface.clone(),
        wanted: wanted.to_owned(),
        after: (error.is_none() && same(&now, wanted)).then(|| now.clone()),
        before: now,
        error,
        reverted: false,
    }
}

/// Returns whether the change is still to be made.
fn is_open(change: &Change) -> bool {
    change.after.is_none() && change.error.is_none()
}

fn carry_out(setting: &Setting, change: &mut Change) {
    let written = setting.write(&change.wanted);
    let now = setting.read().ok();
    if let Err(error) = written {
        change.error = Some(setting.why_not(&error));
        // Written in part, for example on one of several cores: it must be reverted.
        change.after = now.filter(|now| *now != change.before);
        return;
    }
    if !now.as_deref().is_some_and(|now| same(now, &change.wanted)) {
        let reads = now.as_deref().unwrap_or("nothing");
        change.error = Some(format!("written, but it reads {reads}"));
    }
    change.after = now.or_else(|| Some(change.wanted.clone()));
}

/// Records the outcome of each change; removes changes that were never written.
fn settle(book: &mut Journal, done: &[Change], earlier: &[Change]) {
    let is_same =
        |one: &Change, other: &Change| one.name == other.name && one.interface == other.interface;
    for entry in &mut book.changes {
        if let Some(change) = done.iter().find(|change| is_same(change, entry)) {
            entry.after.clone_from(&change.after);
            entry.error.clone_from(&change.error);
        }
    }
    book.changes
        .retain(|entry| entry.after.is_some() || earlier.iter().any(|known| is_same(known, entry)));
}

/// Restores the values in the journal, newest first, and reads each one back. The journal is
/// removed when every value is restored. Otherwise the remaining ones stay in it, with the reason
/// in [`Change::error`]. Settings of an earlier boot or of an interface that no longer exists are
/// reported as gone.
pub fn revert(journal: &Path) -> Result<Vec<Change>, HostError> {
    if !journal.exists() {
        return Err(HostError::nothing_to_revert(journal));
    }
    let held = Held::take(journal)?;
    let Some(mut book) = held.load()? else {
        return Err(HostError::nothing_to_revert(journal));
    };
    let mut changes: Vec<Change> = book.changes.drain(..).rev().collect();
    if journal::is_of_another_boot(&book) {
        for change in &mut changes {
            change.error = Some("of an earlier boot, which it did not outlive".to_owned());
        }
    } else {
        journal::check_namespace(&book, journal)?;
        for change in &mut changes {
            if put_back(change) == Outcome::Missing {
                // Keeps the original order, oldest first.
                book.changes.insert(0, change.clone());
            }
        }
    }
    held.store(&book)?;
    Ok(changes)
}

/// The outcome of restoring a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Back,
    /// The setting no longer exists.
    Gone,
    /// The setting could not be restored yet.
    Missing,
}

fn put_back(change: &mut Change) -> Outcome {
    let interface = change.interface.as_deref();
    let is_gone = Setting::find(&change.name, interface).is_ok_and(|setting| setting.is_gone());
    if is_gone {
        change.error = Some("its interface is no more, and the setting with it".to_owned());
        return Outcome::Gone;
    }
    change.error = restore(&change.name, interface, &change.before).err();
    change.reverted = change.error.is_none();
    if change.reverted {
        Outcome::Back
    } else {
        Outcome::Missing
    }
}

/// Writes `before` if it is not the current value, and verifies it.
fn restore(name: &str, interface: Option<&str>, before: &str) -> Result<(), String> {
    let setting = Setting::find(name, interface).map_err(|error| error.to_string())?;
    let read = || setting.read().map_err(|error| setting.why_not(&error));
    if read()? == before {
        return Ok(());
    }
    setting
        .write(before)
        .map_err(|error| setting.why_not(&error))?;
    let now = read()?;
    if now == before {
        Ok(())
    } else {
        Err(format!("written back, but it reads {now}"))
    }
}
