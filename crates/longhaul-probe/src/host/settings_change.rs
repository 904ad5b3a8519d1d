//! Writes and reverts settings.

use super::HostError;
use super::host_settings::{HostSetting, is_same_value};
use super::settings_journal::{self, LockedJournal};
use longhaul_model::report::v1::host::{ChangeJournal, SettingChange};
use std::path::Path;

/// Writes `changes` (name, value) in order; names that begin with `interface` apply to `interface`.
///
/// The journal is on disk before anything is written; for each name it keeps the value before the
/// first change. If a value cannot be written, its [`SettingChange::error`] says why and the others are
/// still written. A value that is already set is neither written nor recorded. Of two values for
/// one name the later counts. A journal of an earlier boot is replaced: its settings are gone.
///
/// # Errors
/// No setting has been changed when an error is returned.
pub fn apply_settings(
    changes: &[(String, String)],
    interface: Option<&str>,
    journal: &Path,
    now_rfc3339: &str,
) -> Result<Vec<SettingChange>, HostError> {
    let wanted = find_settings(changes, interface)?;
    let held = LockedJournal::take(journal)?;
    let (mut book, earlier) = continue_journal(&held, journal, now_rfc3339)?;
    let mut planned: Vec<(HostSetting, SettingChange)> = wanted
        .into_iter()
        .map(|(setting, value)| {
            let change = plan_change(&setting, value);
            (setting, change)
        })
        .collect();
    for (_, change) in planned.iter().filter(|(_, change)| is_pending(change)) {
        settings_journal::merge_change(&mut book, change);
    }
    held.store(&book)?;
    for (setting, change) in planned.iter_mut().filter(|(_, change)| is_pending(change)) {
        carry_out(setting, change);
    }
    let done: Vec<SettingChange> = planned.into_iter().map(|(_, change)| change).collect();
    record_outcomes(&mut book, &done, &earlier);
    // The existing journal is enough to revert; this one only adds the outcomes.
    let _ = held.store(&book);
    Ok(done)
}

fn find_settings<'a>(
    changes: &'a [(String, String)],
    interface: Option<&str>,
) -> Result<Vec<(HostSetting, &'a str)>, HostError> {
    let mut settings: Vec<(HostSetting, &str)> = Vec::new();
    for (name, value) in changes {
        let setting = HostSetting::find(name, interface)?;
        settings.retain(|(known, _)| *known != setting);
        settings.push((setting, value));
    }
    Ok(settings)
}

/// Returns the journal to continue, and its earlier changes.
fn continue_journal(
    held: &LockedJournal<'_>,
    path: &Path,
    now_rfc3339: &str,
) -> Result<(ChangeJournal, Vec<SettingChange>), HostError> {
    match held.load()? {
        Some(book) if !settings_journal::is_of_another_boot(&book) => {
            settings_journal::check_namespace(&book, path)?;
            let earlier = book.changes.clone();
            Ok((book, earlier))
        }
        _ => Ok((settings_journal::new_journal(now_rfc3339), Vec::new())),
    }
}

/// Plans a change: with an error if it is impossible, with an `after` if it is unnecessary.
fn plan_change(setting: &HostSetting, wanted: &str) -> SettingChange {
    let now = setting.read();
    let error = now.as_ref().err().map(|error| setting.explain_error(error));
    let now = now.unwrap_or_default();
    SettingChange {
        name: setting.name.clone(),
        interface: setting.interface.clone(),
        wanted: wanted.to_owned(),
        after: (error.is_none() && is_same_value(&now, wanted)).then(|| now.clone()),
        before: now,
        error,
        reverted: false,
    }
}

/// Returns whether the change is still to be made.
fn is_pending(change: &SettingChange) -> bool {
    change.after.is_none() && change.error.is_none()
}

fn carry_out(setting: &HostSetting, change: &mut SettingChange) {
    let written = setting.write(&change.wanted);
    let now = setting.read().ok();
    if let Err(error) = written {
        change.error = Some(setting.explain_error(&error));
        // Written in part, for example on one of several cores: it must be reverted.
        change.after = now.filter(|now| *now != change.before);
        return;
    }
    if !now.as_deref().is_some_and(|now| is_same_value(now, &change.wanted)) {
        let reads = now.as_deref().unwrap_or("nothing");
        change.error = Some(format!("written, but it reads back as {reads}"));
    }
    change.after = now.or_else(|| Some(change.wanted.clone()));
}

/// Records the outcome of each change; removes changes that were never written.
fn record_outcomes(book: &mut ChangeJournal, done: &[SettingChange], earlier: &[SettingChange]) {
    let is_same = |one: &SettingChange, other: &SettingChange| {
        one.name == other.name && one.interface == other.interface
    };
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
/// in [`SettingChange::error`]. Settings of an earlier boot or of an interface that no longer exists are
/// reported as gone.
pub fn revert_settings(journal: &Path) -> Result<Vec<SettingChange>, HostError> {
    if !settings_journal::exists(journal) {
        return Err(HostError::nothing_to_revert(journal));
    }
    let held = LockedJournal::take(journal)?;
    let Some(mut book) = held.load()? else {
        return Err(HostError::nothing_to_revert(journal));
    };
    let mut changes: Vec<SettingChange> = book.changes.drain(..).rev().collect();
    if settings_journal::is_of_another_boot(&book) {
        for change in &mut changes {
            change.error = Some("set before the last reboot, which reset it".to_owned());
        }
    } else {
        settings_journal::check_namespace(&book, journal)?;
        for change in &mut changes {
            if !restore_change(change) {
                // Keeps the original order, oldest first.
                book.changes.insert(0, change.clone());
            }
        }
    }
    held.store(&book)?;
    Ok(changes)
}

/// Restores a setting; returns false if it could not be restored yet.
fn restore_change(change: &mut SettingChange) -> bool {
    let interface = change.interface.as_deref();
    let is_gone = HostSetting::find(&change.name, interface).is_ok_and(|setting| setting.is_gone());
    if is_gone {
        change.error = Some("its interface no longer exists".to_owned());
        return true;
    }
    change.error = restore_value(&change.name, interface, &change.before).err();
    change.reverted = change.error.is_none();
    change.reverted
}

/// Writes `before` if it is not the current value, and verifies it.
fn restore_value(name: &str, interface: Option<&str>, before: &str) -> Result<(), String> {
    let setting = HostSetting::find(name, interface).map_err(|error| error.to_string())?;
    let read = || setting.read().map_err(|error| setting.explain_error(&error));
    if read()? == before {
        return Ok(());
    }
    setting.write(before).map_err(|error| setting.explain_error(&error))?;
    let now = read()?;
    if now == before { Ok(()) } else { Err(format!("restored, but it reads back as {now}")) }
}
