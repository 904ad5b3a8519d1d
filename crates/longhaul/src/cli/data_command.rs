//! `longhaul data`: databases that name the autonomous system and the place of an address.

use crate::cli::address_data::AddressDataFolder;
use crate::cli::args::ArchiveArgs;
use crate::cli::{command_output, report_archiving};
use crate::command_failure::CommandFailure;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use longhaul_report::document::ReportDocument;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  longhaul data import GeoLite2-ASN.mmdb GeoLite2-City.mmdb

Databases are files in MaxMind's format (.mmdb) with AS numbers, countries or
cities, from any maker. They are copied to the folder of the archive; importing
the same name again replaces the database. Nothing is downloaded.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DataArgs {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Import databases of networks and places
    Import {
        /// Databases in MaxMind's format (.mmdb)
        #[arg(value_name = "FILE", required = true, num_args = 1..=32)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
}

pub fn run(command: DataCommand) -> Result<ExitCode, CommandFailure> {
    let DataCommand::Import { files, archive } = command;
    command_output::print_document(&import_databases(&files, &archive)?)?;
    Ok(ExitCode::SUCCESS)
}

fn import_databases(
    files: &[PathBuf],
    args: &ArchiveArgs,
) -> Result<ReportDocument, CommandFailure> {
    let folder = AddressDataFolder::new(args)?;
    let mut page = ReportDocument::default();
    for file in files {
        let database = folder.import(file)?;
        let built = i64::try_from(database.build_epoch_s()).ok();
        let built = built.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let built = built.map(|at| format!(", built {}", report_archiving::format_rfc3339(at)));
        let about = format!("{}{}", database.database_type(), built.unwrap_or_default());
        page.fact("imported", format!("{}: {about}", database.name));
    }
    page.fact("folder", folder.path().display().to_string());
    Ok(page)
}
