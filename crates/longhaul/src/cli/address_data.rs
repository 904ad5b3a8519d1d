//! Databases about IP addresses in MaxMind's format (.mmdb), next to the archive.

use super::args::ArchiveArgs;
use super::command_output;
use longhaul_model::sanitize::sanitize_line;
use longhaul_model::units::Bytes;
use maxminddb::Reader;
use serde_json::Value;
use std::fs;
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

/// An open database.
pub type AddressDatabase = Reader<Vec<u8>>;

/// Opens the databases in the folder next to the archive, in the order of their names. Returns those
/// that can be used, and an error for each other one.
pub fn open_address_databases(args: &ArchiveArgs) -> (Vec<AddressDatabase>, Vec<String>) {
    let archive = match command_output::archive_path(args) {
        Ok(archive) => archive,
        Err(failure) => return (Vec::new(), vec![failure.message]),
    };
    let folder = archive.with_file_name(FOLDER);
    // Without the folder there are no databases.
    let entries = fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == EXTENSION));
    files.sort_unstable();
    files.truncate(MAX_DATABASES);
    let (mut databases, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        match open_database(&file) {
            Ok(database) => databases.push(database),
            Err(why) => {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                errors.push(format!(
                    "address database {}: {why}",
                    sanitize_line(&name, MAX_TEXT_CHARS)
                ));
            }
        }
    }
    (databases, errors)
}

fn open_database(file: &Path) -> Result<AddressDatabase, String> {
    let size = fs::metadata(file).map_err(|e| e.to_string())?.len();
    if size > MAX_DATABASE_BYTES {
        return Err(format!("larger than {}", Bytes(MAX_DATABASE_BYTES)));
    }
    let bytes = fs::read(file).map_err(|e| e.to_string())?;
    Reader::from_source(bytes).map_err(|e| format!("not a valid .mmdb file: {e}"))
}

fn look_up_address(database: &AddressDatabase, address: IpAddr) -> Option<AddressFacts> {
    let record: Option<Value> = database.lookup(address).ok()?.decode().ok()?;
    record.as_ref().map(read_facts)
}

/// Returns each fact from the first database that has it.
pub fn find_address_facts(databases: &[AddressDatabase], address: IpAddr) -> AddressFacts {
    let mut facts = AddressFacts::default();
    for more in databases.iter().filter_map(|database| look_up_address(database, address)) {
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
