//! Writing settings, and putting them back.

use super::error::HostError;
use super::journal::{self, Held};
use super::setting::{Setting, same};
use longhaul_model::report::v1::host::{Change, Journal};
use std::path::Path;

/// Writes `changes` (name, value) in order, for `interface` where a name begins so.
///
/// The journal is on disk before anything is written, and keeps for each name the value that
/// stood before the first change. What cannot be written is told in its [`Change::error`], and
/// the others go on. What stands already is neither written nor journalled. Of two values for one
/// name the later counts. A journal of an earlier boot is replaced: its settings are gone.
///
/// # Errors
/// None of them has changed a setting.
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
    // The journal that stands already serves to revert; this one only says more.
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

/// The journal to go on with, and the changes that were in it.
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

/// The change before it is made; with an error where it cannot be, with an `after` where it need
/// not be.
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

/// Still to be made.
fn is_open(change: &Change) -> bool {
    change.after.is_none() && change.error.is_none()
}

fn carry_out(setting: &Setting, change: &mut Change) {
    let written = setting.write(&change.wanted);
    let now = setting.read().ok();
    if let Err(error) = written {
        change.error = Some(setting.why_not(&error));
        // Written in part, as on one of several cores: it is to be put back.
        change.after = now.filter(|now| *now != change.before);
        return;
    }
    if !now.as_deref().is_some_and(|now| same(now, &change.wanted)) {
        let reads = now.as_deref().unwrap_or("nothing");
        change.error = Some(format!("written, but it reads {reads}"));
    }
    change.after = now.or_else(|| Some(change.wanted.clone()));
}

/// Enters what became of each change; what was not written and never was is left out.
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

/// Puts back what the journal holds, newest first, bit for bit, and reads it back. The journal is
/// removed when everything is back; otherwise what is missing stays in it, and says why in its
/// [`Change::error`]. Settings of an earlier boot, or of an interface that is no more, are told as
/// gone.
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
                // The oldest first again, as it was.
                book.changes.insert(0, change.clone());
            }
        }
    }
    held.store(&book)?;
    Ok(changes)
}

/// What became of a setting that was to be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Back,
    /// There is nothing any more that could be put back.
    Gone,
    /// To be tried again.
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

/// Writes `before` if it does not stand, and makes sure that it then does.
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
