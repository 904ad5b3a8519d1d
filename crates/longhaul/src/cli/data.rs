//! `longhaul data`: sets of address ranges, imported once and searched offline.
//!
//! - [`table`]: the ranges as they are kept and searched
//! - [`lines`], [`mmdb`]: the forms in which others give them away
//! - [`folder`]: where they are kept

pub mod folder;
mod lines;
mod mmdb;
pub mod table;

use super::args::{ArchiveArgs, DataCommand};
use super::{command_output, report_archiving};
use crate::command_failure::{CommandFailure, USAGE};
use crate::render::number_format::{count_of, format_grouped};
use crate::render::text_page::TextPage;
use folder::{Folder, Known, SETS_MOST};
use jiff::Timestamp;
use longhaul_model::units::Bytes;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use table::{Builder, Overlap, Table};

/// The largest set of cities that is given away is half as large.
const FILE_MOST: u64 = 1 << 30;
/// Sets that are given away have a slip or two; more is another kind of file.
const OVERLAPS_LEAST: usize = 10;
const OVERLAPS_SHARE: usize = 100;
/// A licence is a page or ten.
const LICENCE_MOST: u64 = 128 * 1024;

pub fn run(command: DataCommand) -> Result<ExitCode, CommandFailure> {
    match command {
        DataCommand::Import { files, archive } => import(&files, &archive),
        DataCommand::List { json, archive } => list(json, &archive),
        DataCommand::Find { address, archive } => find(address, &archive),
        DataCommand::Remove { names, archive } => remove(&names, &archive),
    }
}

fn import(files: &[std::path::PathBuf], args: &ArchiveArgs) -> Result<ExitCode, CommandFailure> {
    let folder = Folder::of(args)?;
    let mut page = TextPage::default();
    for file in files {
        let name = name_of(file)?;
        let names = folder.names()?;
        if names.len() >= SETS_MOST && !names.contains(&name) {
            return Err(CommandFailure::new(
                USAGE,
                format!("{SETS_MOST} sets are imported already"),
            )
            .hint(Some("`longhaul data remove NAME` makes room")));
        }
        let (bytes, overlaps) = converted(file)?;
        let table = Table::new(bytes).map_err(|why| refused(file, &why))?;
        page.label_line("imported", &format!("{name}: {}", size(&table)));
        if let Some(first) = overlaps.first() {
            let text = format!(
                "{} with another ({}); the one that begins later holds",
                count_of(overlaps.len() as u64, "overlap"),
                claims(*first)
            );
            page.label_line("", &text);
        }
        folder.write(&name, table.as_bytes())?;
    }
    page.label_line("kept in", &folder.path().display().to_string());
    command_output::print_text(&page.finish())?;
    Ok(ExitCode::SUCCESS)
}

/// A name for the set that can be typed and can be a file's.
fn name_of(file: &Path) -> Result<String, CommandFailure> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = stem.chars().filter(|c| fine(*c)).take(48).collect();
    let name = name.trim_start_matches('.').to_owned();
    if name.is_empty() {
        return Err(CommandFailure::new(
            USAGE,
            format!("{} gives the set no name", file.display()),
        )
        .hint(Some("give the file a name of letters and digits")));
    }
    Ok(name)
}

/// The file as a table, with whence it came.
fn converted(file: &Path) -> Result<(Vec<u8>, Vec<Overlap>), CommandFailure> {
    let unreadable = |e: std::io::Error| {
        let mut fail = CommandFailure::new(USAGE, format!("cannot read {}", file.display()));
        fail.causes.push(e.to_string());
        fail
    };
    let mut opened = File::open(file).map_err(unreadable)?;
    let size = opened.metadata().map_err(unreadable)?.len();
    if size > FILE_MOST {
        return Err(refused(
            file,
            &format!("it is larger than {}", Bytes(FILE_MOST)),
        ));
    }
    let mut builder = Builder::default();
    let mut head = [0; 4];
    let begins = opened
        .by_ref()
        .take(4)
        .read(&mut head)
        .map_err(unreadable)?;
    if begins >= 2 && head[..2] == [0x1f, 0x8b] {
        let fail = refused(file, "it is packed");
        return Err(fail.hint(Some(format!("unpack it first: gunzip {}", file.display()))));
    }
    if file
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("mmdb"))
    {
        let bytes = fs::read(file).map_err(unreadable)?;
        if !mmdb::is_one(&bytes) {
            return Err(refused(file, "it is not in MaxMind's format"));
        }
        mmdb::read(&bytes, &mut builder).map_err(|why| refused(file, &why))?;
    } else {
        let whole = BufReader::new(File::open(file).map_err(unreadable)?.take(FILE_MOST));
        lines::read(whole, &mut builder)
            .map_err(|t| refused(file, &format!("line {}: {}", t.line, t.why)))?;
    }
    if builder.len() == 0 {
        return Err(refused(file, "it holds no range of addresses"));
    }
    let ranges = builder.len();
    let (bytes, overlaps) = builder.finish(&notes(file));
    match overlaps.first() {
        Some(first) if overlaps.len() > OVERLAPS_LEAST.max(ranges / OVERLAPS_SHARE) => {
            let many = count_of(overlaps.len() as u64, "overlap");
            Err(refused(
                file,
                &format!("{many}, the first: {}", claims(*first)),
            ))
        }
        _ => Ok((bytes, overlaps)),
    }
}

fn claims(Overlap(a, b): Overlap) -> String {
    format!("line {b} claims addresses of line {a} as well")
}

fn refused(file: &Path, why: &str) -> CommandFailure {
    let mut fail = CommandFailure::new(USAGE, format!("cannot import {}", file.display()));
    fail.causes.push(why.to_owned());
    fail.hint(Some(
        "`longhaul data import --help` names the forms that are understood",
    ))
}

/// Source, time of import, and every licence that lies beside the file.
fn notes(file: &Path) -> String {
    let source = file.file_name().unwrap_or_default().to_string_lossy();
    let source: String = source.chars().filter(|c| !c.is_control()).collect();
    let mut notes = format!(
        "{source}\n{}\n",
        report_archiving::format_rfc3339(Timestamp::now())
    );
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut licences: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| is_licence(path))
        .collect();
    licences.sort_unstable();
    for licence in licences.iter().take(8) {
        let mut text = String::new();
        let taken =
            File::open(licence).and_then(|file| file.take(LICENCE_MOST).read_to_string(&mut text));
        if taken.is_ok() {
            let clean = text.chars().filter(|c| !c.is_control() || *c == '\n');
            notes.extend(clean);
            notes.push('\n');
        }
    }
    notes
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_uppercase();
    ["LICENSE", "LICENCE", "COPYRIGHT"]
        .iter()
        .any(|word| name.contains(word))
}

fn size(table: &Table) -> String {
    format!(
        "{} in {}",
        count_of(table.ranges() as u64, "range"),
        Bytes(table.bytes() as u64)
    )
}

/// Source, time of import, licence.
fn noted(table: &Table) -> (&str, &str, &str) {
    let mut parts = table.notes().splitn(3, '\n');
    let mut part = || parts.next().unwrap_or_default().trim();
    (part(), part(), part())
}

fn list(as_json: bool, args: &ArchiveArgs) -> Result<ExitCode, CommandFailure> {
    let folder = Folder::of(args)?;
    let sets = folder.sets()?;
    if as_json {
        let sets = sets.iter().map(|set| set_json(&set.name, &set.table));
        command_output::print_json(&Value::Array(sets.collect()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = TextPage::default();
    for set in &sets {
        page.heading(&set.name);
        match &set.table {
            Ok(table) => {
                let (source, at, licence) = noted(table);
                page.label_line("  from", &format!("{source}, imported {at}"));
                page.label_line("  size", &size(table));
                page.label_line("  licence", &first_words(licence));
            }
            Err(why) => page.label_line("  unusable", why),
        }
    }
    if sets.is_empty() {
        page.hanging_paragraph(
            "",
            &format!(
                "no set is imported in {} yet; `longhaul data import FILE` does it",
                folder.path().display()
            ),
        );
    }
    command_output::print_text(&page.finish())?;
    Ok(ExitCode::SUCCESS)
}

/// The begin of a licence: who made the set and on which terms, mostly.
fn first_words(licence: &str) -> String {
    const WORDS: usize = 40;
    if licence.is_empty() {
        return "none lay beside the file; see where it came from".to_owned();
    }
    let mut words = licence.split_whitespace();
    let begin: Vec<&str> = words.by_ref().take(WORDS).collect();
    let more = if words.next().is_some() { " …" } else { "" };
    format!("{}{more}", begin.join(" "))
}

fn set_json(name: &str, table: &Result<Table, String>) -> Value {
    match table {
        Ok(table) => {
            let (source, at, licence) = noted(table);
            json!({
                "name": name,
                "source": source,
                "imported_at": at,
                "ranges": table.ranges(),
                "table_bytes": table.bytes(),
                "licence": licence,
            })
        }
        Err(why) => json!({"name": name, "unusable": why}),
    }
}

fn find(address: IpAddr, args: &ArchiveArgs) -> Result<ExitCode, CommandFailure> {
    let (known, unusable) = Known::load(&Folder::of(args)?);
    let says = known.find(address);
    let mut page = TextPage::default();
    if let Some(number) = says.autonomous_system {
        let organisation = says.organisation.map(|name| format!(", {name}"));
        let text = format!("AS{number}{}", organisation.unwrap_or_default());
        page.label_line("network", &text);
    }
    if let Some(place) = &says.place {
        page.label_line("place", place);
    }
    if says.autonomous_system.is_none() && says.place.is_none() {
        page.line(&format!("no imported set says anything of {address}"));
    }
    for why in unusable {
        page.hanging_paragraph("caveat: ", &why);
    }
    command_output::print_text(&page.finish())?;
    Ok(ExitCode::SUCCESS)
}

fn remove(names: &[String], args: &ArchiveArgs) -> Result<ExitCode, CommandFailure> {
    let folder = Folder::of(args)?;
    for name in names {
        folder.remove(name)?;
    }
    command_output::print_text(&format!(
        "removed {} of the imported sets\n",
        format_grouped(names.len() as u64)
    ))?;
    Ok(ExitCode::SUCCESS)
}
