//! `longhaul record`: bundles a record with its evidence, checks claims and verifies bundles.
//!
//! Read in this order: [`assemble`] (from runs to a record), [`contents`] (files of a bundle),
//! [`verify`].
//!
//! - [`measure`], [`archived`], [`imported`]: the sources of runs; [`packets`]: their captures
//! - [`legs_file`], [`cities`], [`hop_names`], [`route_cities`], [`airports`], [`globe`]: the route
//!   of the data and its length
//! - [`books`]: rule sets and earlier marks
//! - [`mod@folder`], [`manifest`], [`keys`]: writing, listing and signing a bundle
//! - [mod@derive]: recomputes the figures
//! - [`claim_file`]: files of published claims

mod airports;
mod archived;
mod assemble;
mod books;
mod cities;
mod claim_file;
mod contents;
mod derive;
mod folder;
mod globe;
mod hop_names;
mod imported;
mod keys;
mod legs_file;
mod manifest;
mod measure;
mod packets;
mod route_cities;
#[cfg(test)]
mod tests;
pub mod verify;

use super::args::{
    BundleArgs, MakeArgs, RecordArgs, RecordCommand, TestArgs, TestFormat, VerifyArgs,
};
use super::output;
use crate::fail::{BUG, EXPECTATION_MISSED, Fail, USAGE};
use crate::render;
use airports::Airports;
use assemble::Runs;
use contents::Contents;
use folder::Folder;
use keys::Signer;
use longhaul_analysis::claim;
use longhaul_model::report::v1::claim::{Checked, Verdict};
use longhaul_model::report::v1::host;
use packets::Capture;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &RecordArgs) -> Result<ExitCode, Fail> {
    match &args.command {
        Some(RecordCommand::Check { files, json }) => check(files, *json),
        Some(RecordCommand::Make(make)) => from_archive(make),
        Some(RecordCommand::Verify(verify)) => verified(verify),
        Some(RecordCommand::Key { file }) => key(file),
        None => match &args.measure.0 {
            Some(test) => by_measuring(test, &args.bundle),
            // clap requires one of the two.
            None => Err(Fail::new(USAGE, "name a far end, or a command of `record`")),
        },
    }
}

/// The inputs of a bundle besides the runs. All of them are checked before a measurement.
struct Asked {
    legs: Option<legs_file::Legs>,
    rules: longhaul_model::report::v1::record::Rules,
    signer: Option<Signer>,
}

fn asked(args: &BundleArgs) -> Result<Asked, Fail> {
    if let Some(out) = &args.out {
        folder::may_become(out)?;
    }
    for file in &args.attach {
        if !file.is_file() {
            let fail = Fail::new(USAGE, format!("cannot attach {}", file.display()));
            return Err(fail.hint(Some("name regular files that exist")));
        }
    }
    let legs = args.legs.as_deref();
    let signer = args.sign.as_deref();
    Ok(Asked {
        legs: legs
            .map(|file| legs_file::read(file, &Airports::read()))
            .transpose()?,
        rules: books::rules(args.rules.as_deref())?,
        signer: signer.map(Signer::read).transpose()?,
    })
}

/// Evidence that only the measuring process has.
#[derive(Default)]
struct Ours {
    host: Option<host::Observation>,
    captures: Vec<Capture>,
}

fn by_measuring(test: &TestArgs, args: &BundleArgs) -> Result<ExitCode, Fail> {
    let asked = asked(args)?;
    let measured = measure::measure(test)?;
    let ours = Ours {
        host: Some(measured.host),
        captures: measured.captures,
    };
    let json = test.shape() == TestFormat::Json;
    bundle(args, asked, (&measured.runs, ours), json)
}

fn from_archive(make: &MakeArgs) -> Result<ExitCode, Fail> {
    let asked = asked(&make.bundle)?;
    let runs = archived::runs(&make.run, make.path.as_deref(), &make.archive)?;
    bundle(&make.bundle, asked, (&runs, Ours::default()), make.json)
}

fn bundle(
    args: &BundleArgs,
    asked: Asked,
    (runs, ours): (&Runs, Ours),
    as_json: bool,
) -> Result<ExitCode, Fail> {
    let payload = packets::payload(&ours.captures);
    let record = assemble::record(runs, asked.legs, &asked.rules, payload)?;
    let place = args.out.clone().unwrap_or_else(|| {
        let id = &record.observation.throughput_run;
        PathBuf::from(format!("record-{id}"))
    });
    let mut folder = Folder::begin(&place)?;
    let contents = Contents {
        record: &record,
        runs,
        host: ours.host.as_ref(),
        captures: &ours.captures,
        attached: &args.attach,
    };
    contents::write(&mut folder, &contents)?;
    let files = folder.finish(asked.signer.as_ref())?;
    if as_json {
        let value = serde_json::to_value(&record).map_err(|e| Fail::from_error(BUG, &e))?;
        output::json(&value)?;
    } else {
        output::text(&render::record::text(&record, &place, files.len()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verified(args: &VerifyArgs) -> Result<ExitCode, Fail> {
    let key = args.key.as_deref().map(keys::public).transpose()?;
    let found = verify::verify(&args.folder, key.as_deref())?;
    if args.json {
        let differs = found.differs.iter();
        let differs = differs.map(|(what, why)| json!({ "what": what, "why": why }));
        output::json(&json!({
            "schema": "longhaul.verified/1",
            "sound": found.differs.is_empty(),
            "files": found.files,
            "differs": differs.collect::<Vec<_>>(),
            "agrees": found.agrees,
            "signed_by": found.signed_by,
        }))?;
    } else {
        output::text(&render::record::verified(&args.folder, &found))?;
    }
    Ok(if found.differs.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXPECTATION_MISSED)
    })
}

fn key(file: &Path) -> Result<ExitCode, Fail> {
    let public = keys::make(file)?;
    output::text(&format!("{public}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn check(files: &[PathBuf], as_json: bool) -> Result<ExitCode, Fail> {
    let airports = Airports::read();
    let mut all = Vec::new();
    for file in files {
        for claim in claim_file::read(file)? {
            let checked = claim::check(&claim, &airports).map_err(|e| wrong(file, &e))?;
            all.push(checked);
        }
    }
    if as_json {
        output::json(&json!(all))?;
    } else {
        output::text(&render::claim::text(&all))?;
    }
    Ok(if all.iter().any(is_wrong) {
        ExitCode::from(EXPECTATION_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

fn is_wrong(checked: &Checked) -> bool {
    let mut checks = checked.checks.iter();
    checks.any(|check| check.verdict >= Verdict::Differs)
}

fn wrong(file: &Path, error: &claim::Problem) -> Fail {
    let mut fail = Fail::from_error(USAGE, error);
    fail.message = format!("{}: {}", file.display(), fail.message);
    fail.hint(Some(
        "print figures with their unit, as in `4.92 GB`, `1001 s`, `6.25 Gbit/s`",
    ))
}
