//! Databases about IP addresses in MaxMind's format (.mmdb), kept next to the archive.

use super::args::ArchiveArgs;
use super::command_output;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use longhaul_model::sanitize::sanitize_line;
use maxminddb::Reader;
use serde_json::Value;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const FOLDER: &str = "address-data";
const EXTENSION: &str = "mmdb";
/// The largest city databases are half as large.
const MAX_DATABASE_BYTES: u64 = 1 << 30;
const MAX_DATABASES: usize = 32;
/// Characters of a text: it comes from outside and is printed in tables of 80 columns.
const MAX_TEXT_CHARS: usize = 100;

/// The facts that databases have about an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressFacts {
    pub autonomous_system: Option<u32>,
    /// City and country.
    pub place: Option<String>,
}

/// A database of the folder.
#[derive(Debug)]
pub struct AddressDatabase {
    pub name: String,
    reader: Reader<Vec<u8>>,
}

/// The folder of imported databases.
#[derive(Debug, Clone)]
pub struct AddressDataFolder(PathBuf);

impl AddressDataFolder {
    /// Returns the folder that belongs to the archive of the command.
    pub fn new(args: &ArchiveArgs) -> Result<AddressDataFolder, CommandFailure> {
        let archive = command_output::archive_path(args)?;
        let parent = archive.parent().unwrap_or(Path::new(""));
        Ok(AddressDataFolder(parent.join(FOLDER)))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.{EXTENSION}"))
    }

    /// Copies a database into the folder; replaces one of the same name. Returns it.
    pub fn import(&self, file: &Path) -> Result<AddressDatabase, CommandFailure> {
        let refuse = |why: String| {
            CommandFailure::new(USAGE, format!("cannot import {}", file.display()))
                .cause(&why)
                .hint(Some("import a database in MaxMind's format, such as GeoLite2-ASN.mmdb"))
        };
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            return Err(refuse("the file name may contain letters, digits, - _ . only".to_owned()));
        }
        let database = open_database(&name, file).map_err(refuse)?;
        let names = self.names()?;
        if names.len() >= MAX_DATABASES && !names.contains(&name) {
            return Err(refuse(format!("there are {MAX_DATABASES} databases already")));
        }
        let partial = self.0.join(format!(".{name}.{}", std::process::id()));
        fs::create_dir_all(&self.0)
            .and_then(|()| fs::copy(file, &partial))
            .and_then(|_| fs::File::open(&partial)?.sync_all())
            .and_then(|()| fs::rename(&partial, self.file(&name)))
            .map_err(|error| {
                let _ = fs::remove_file(&partial);
                io_failure("write", &self.file(&name), &error)
            })?;
        Ok(database)
    }

    /// Returns the names of all databases, sorted.
    fn names(&self) -> Result<Vec<String>, CommandFailure> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_failure("read", &self.0, &error)),
        };
        let name = |file: String| Some(file.strip_suffix(EXTENSION)?.strip_suffix('.')?.to_owned());
        let mut names: Vec<String> = entries
            .filter_map(|entry| name(entry.ok()?.file_name().into_string().ok()?))
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable();
        names.truncate(MAX_DATABASES);
        Ok(names)
    }

    /// Opens all databases; returns those that can be used, and an error for each other one.
    pub fn open_all(&self) -> (Vec<AddressDatabase>, Vec<String>) {
        let names = match self.names() {
            Ok(names) => names,
            Err(failure) => return (Vec::new(), vec![failure.message]),
        };
        let (mut databases, mut errors) = (Vec::new(), Vec::new());
        for name in names {
            match open_database(&name, &self.file(&name)) {
                Ok(database) => databases.push(database),
                Err(why) => errors.push(format!("address database {name}: {why}")),
            }
        }
        (databases, errors)
    }
}

fn io_failure(verb: &str, path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::new(HOST, format!("cannot {verb} {}", path.display()))
        .cause(error)
        .hint(Some("choose another folder with `--archive FILE`"))
}

fn open_database(name: &str, file: &Path) -> Result<AddressDatabase, String> {
    let size = fs::metadata(file).map_err(|e| e.to_string())?.len();
    if size > MAX_DATABASE_BYTES {
        return Err(format!("larger than {}", longhaul_model::units::Bytes(MAX_DATABASE_BYTES)));
    }
    let bytes = fs::read(file).map_err(|e| e.to_string())?;
    let reader = Reader::from_source(bytes).map_err(|e| format!("not a valid .mmdb file: {e}"))?;
    Ok(AddressDatabase { name: name.to_owned(), reader })
}

impl AddressDatabase {
    /// Returns the type that the maker gave the database, such as `GeoLite2-ASN`.
    pub fn database_type(&self) -> String {
        sanitize_line(&self.reader.metadata().database_type, MAX_TEXT_CHARS)
    }

    /// Returns the time at which the database was built, in seconds since 1970.
    pub fn build_epoch_s(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    fn find(&self, address: IpAddr) -> Option<AddressFacts> {
        let record: Option<Value> = self.reader.lookup(address).ok()?.decode().ok()?;
        record.as_ref().map(read_facts)
    }
}

/// Returns each fact from the first database that has it.
pub fn find_address_facts(databases: &[AddressDatabase], address: IpAddr) -> AddressFacts {
    let mut facts = AddressFacts::default();
    for more in databases.iter().filter_map(|database| database.find(address)) {
        facts.autonomous_system = facts.autonomous_system.or(more.autonomous_system);
        facts.place = facts.place.or(more.place);
    }
    facts
}

/// Reads a record, in the keys of several makers.
fn read_facts(record: &Value) -> AddressFacts {
    let text = |pointers: &[&str]| {
        let texts = pointers.iter().filter_map(|pointer| record.pointer(pointer)?.as_str());
        texts.map(|text| sanitize_line(text, MAX_TEXT_CHARS)).find(|text| !text.is_empty())
    };
    let city = text(&["/city/names/en", "/city"]);
    let country =
        text(&["/country/iso_code", "/country_code", "/registered_country/iso_code", "/country"]);
    let place = match (city, country) {
        (Some(city), Some(country)) => Some(format!("{city}, {country}")),
        (city, country) => city.or(country),
    };
    AddressFacts { autonomous_system: read_as_number(record).filter(|number| *number != 0), place }
}

fn read_as_number(record: &Value) -> Option<u32> {
    let number = record.get("autonomous_system_number").or(record.get("asn"))?;
    match number {
        Value::String(text) => text.trim_start_matches("AS").parse().ok(),
        number => number.as_u64().and_then(|number| u32::try_from(number).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_of_several_makers_are_read_alike() {
        let facts = |place: Option<&str>| AddressFacts {
            autonomous_system: Some(64500),
            place: place.map(str::to_owned),
        };
        let record = json!({"autonomous_system_number": 64500});
        assert_eq!(read_facts(&record), facts(None));
        let record = json!({"asn": "AS64500", "country_code": "SE", "country": "Sweden"});
        assert_eq!(read_facts(&record), facts(Some("SE")));
        let record = json!({"city": {"names": {"en": "Lulea", "sv": "Luleå"}},
            "country": {"iso_code": "SE"}});
        assert_eq!(read_facts(&record).place.as_deref(), Some("Lulea, SE"));
        assert_eq!(read_facts(&json!({"subdivisions": []})), AddressFacts::default());
    }

    #[test]
    fn control_characters_of_a_database_never_reach_the_terminal() {
        let place = |city: &str| read_facts(&json!({ "city": city })).place;
        assert_eq!(place("Lulea\u{1b}[2J\u{202e}").as_deref(), Some("Lulea\u{fffd}[2J\u{fffd}"));
        assert_eq!(place(&"x".repeat(500)).map(|place| place.len()), Some(MAX_TEXT_CHARS));
    }
}
