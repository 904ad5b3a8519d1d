//! `longhaul data`: databases that name the autonomous system and the place of an address.

use super::address_data::{AddressDataFolder, AddressDatabase, find_address_facts};
use super::args::{ArchiveArgs, DataCommand};
use super::{command_output, report_archiving};
use crate::command_failure::CommandFailure;
use jiff::Timestamp;
use longhaul_report::document::ReportDocument;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

pub fn run(command: DataCommand) -> Result<ExitCode, CommandFailure> {
    let text = match command {
        DataCommand::Import { files, archive } => import(&files, &archive)?,
        DataCommand::List { json, archive } => return list(json, &archive),
        DataCommand::Find { address, archive } => find(address, &archive)?,
        DataCommand::Remove { names, archive } => remove(&names, &archive)?,
    };
    command_output::print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn import(files: &[PathBuf], args: &ArchiveArgs) -> Result<String, CommandFailure> {
    let folder = AddressDataFolder::new(args)?;
    let mut page = ReportDocument::default();
    for file in files {
        let database = folder.import(file)?;
        page.fact("imported", format!("{}: {}", database.name, describe(&database)));
    }
    page.fact("folder", folder.path().display().to_string());
    Ok(page.text())
}

fn build_time(database: &AddressDatabase) -> Option<String> {
    let seconds = i64::try_from(database.build_epoch_s()).ok()?;
    Timestamp::from_second(seconds).ok().map(report_archiving::format_rfc3339)
}

fn describe(database: &AddressDatabase) -> String {
    let built = build_time(database).map(|time| format!(", built {time}"));
    format!("{}{}", database.database_type(), built.unwrap_or_default())
}

fn list(as_json: bool, args: &ArchiveArgs) -> Result<ExitCode, CommandFailure> {
    let folder = AddressDataFolder::new(args)?;
    let (databases, errors) = folder.open_all();
    if as_json {
        let database = |it: &AddressDatabase| json!({"name": it.name, "type": it.database_type(), "built_at": build_time(it)});
        let unusable = errors.iter().map(|error| json!({"unusable": error}));
        let all = databases.iter().map(database).chain(unusable);
        command_output::print_json(&Value::Array(all.collect()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = ReportDocument::default();
    for database in &databases {
        page.fact(&database.name, describe(database));
    }
    for error in &errors {
        page.item("unusable: ", error);
    }
    if databases.is_empty() && errors.is_empty() {
        let folder = folder.path().display();
        let text = format!("no database in {folder}; add one with `longhaul data import FILE`");
        page.paragraph(&text);
    }
    command_output::print_text(&page.text())?;
    Ok(ExitCode::SUCCESS)
}

fn find(address: IpAddr, args: &ArchiveArgs) -> Result<String, CommandFailure> {
    let (databases, errors) = AddressDataFolder::new(args)?.open_all();
    let facts = find_address_facts(&databases, address);
    let mut page = ReportDocument::default();
    if let Some(number) = facts.autonomous_system {
        let organisation = facts.organisation.map(|name| format!(", {name}"));
        page.fact("network", format!("AS{number}{}", organisation.unwrap_or_default()));
    }
    if let Some(place) = &facts.place {
        page.fact("place", place);
    }
    if facts.autonomous_system.is_none() && facts.place.is_none() {
        page.paragraph(format!("no database has {address}"));
    }
    for error in errors {
        page.item("caveat: ", &error);
    }
    Ok(page.text())
}

fn remove(names: &[String], args: &ArchiveArgs) -> Result<String, CommandFailure> {
    let folder = AddressDataFolder::new(args)?;
    for name in names {
        folder.remove(name)?;
    }
    Ok(format!("removed {}\n", names.join(", ")))
}
