//! The folder of imported sets: one file for each, beside the archive.

use super::table::{Says, Table};
use crate::cli::args::ArchiveArgs;
use crate::cli::command_output;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const FOLDER: &str = "address-data";
const ENDING: &str = "ranges";
/// A table of the most ranges is smaller.
const BYTES_MOST: u64 = 1 << 30;
/// Sets that are held at one time.
pub const SETS_MOST: usize = 32;

/// A set as it stands in the folder.
#[derive(Debug)]
pub struct Set {
    pub name: String,
    /// Or why it cannot be used.
    pub table: Result<Table, String>,
}

/// Where sets are.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn of(args: &ArchiveArgs) -> Result<Folder, CommandFailure> {
        let archive = command_output::archive_path(args)?;
        let beside = archive.parent().unwrap_or(Path::new(""));
        Ok(Folder(beside.join(FOLDER)))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.{ENDING}"))
    }

    /// Writes a set whole or not at all; a set of this name is replaced.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CommandFailure> {
        let file = self.file(name);
        let fresh = self.0.join(format!(".{name}.{}", std::process::id()));
        let written = fs::create_dir_all(&self.0)
            .and_then(|()| synced(&fresh, bytes))
            .and_then(|()| fs::rename(&fresh, &file));
        written.map_err(|e| {
            let _ = fs::remove_file(&fresh);
            unwritable(&file, &e)
        })
    }

    /// The names of all sets, in order.
    pub fn names(&self) -> Result<Vec<String>, CommandFailure> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(unreadable(&self.0, &e)),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|file| Some(file.strip_suffix(ENDING)?.strip_suffix('.')?.to_owned()))
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable();
        names.truncate(SETS_MOST);
        Ok(names)
    }

    /// All sets, the unusable ones with the reason.
    pub fn sets(&self) -> Result<Vec<Set>, CommandFailure> {
        let names = self.names()?.into_iter();
        let set = |name: String| Set {
            table: self.read(&name),
            name,
        };
        Ok(names.map(set).collect())
    }

    fn read(&self, name: &str) -> Result<Table, String> {
        let file = self.file(name);
        let size = fs::metadata(&file).map_err(|e| e.to_string())?.len();
        if size > BYTES_MOST {
            return Err("it is too large".to_owned());
        }
        Table::new(fs::read(&file).map_err(|e| e.to_string())?)
    }

    pub fn remove(&self, name: &str) -> Result<(), CommandFailure> {
        let file = self.file(name);
        // Only what the list names: a name is no path.
        let known = self.names()?.iter().any(|known| known == name);
        if !known {
            return Err(
                CommandFailure::new(USAGE, format!("there is no imported set {name}"))
                    .hint(Some("`longhaul data list` names the imported sets")),
            );
        }
        fs::remove_file(&file).map_err(|e| unwritable(&file, &e))
    }
}

fn synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn unwritable(path: &Path, error: &io::Error) -> CommandFailure {
    let mut fail = CommandFailure::new(HOST, format!("cannot write {}", path.display()));
    fail.causes.push(error.to_string());
    fail.hint(Some("`--archive FILE` names a folder that may be written"))
}

fn unreadable(path: &Path, error: &io::Error) -> CommandFailure {
    let mut fail = CommandFailure::new(HOST, format!("cannot read {}", path.display()));
    fail.causes.push(error.to_string());
    fail
}

/// The usable sets, as one.
#[derive(Debug, Default)]
pub struct Known(Vec<Table>);

impl Known {
    /// What the folder holds, and what of it cannot be used.
    pub fn load(folder: &Folder) -> (Known, Vec<String>) {
        let sets = match folder.sets() {
            Ok(sets) => sets,
            Err(fail) => return (Known::default(), vec![fail.message]),
        };
        let (mut tables, mut unusable) = (Vec::new(), Vec::new());
        for set in sets {
            match set.table {
                Ok(table) => tables.push(table),
                Err(why) => unusable.push(format!("imported set {}: {why}", set.name)),
            }
        }
        (Known(tables), unusable)
    }

    /// Each fact from the first set that has it.
    pub fn find(&self, address: IpAddr) -> Says {
        let mut says = Says::default();
        for more in self.0.iter().filter_map(|table| table.find(address)) {
            if says.autonomous_system.is_none() {
                says.autonomous_system = more.autonomous_system;
                says.organisation = more.organisation;
            }
            says.place = says.place.or(more.place);
        }
        says
    }
}
