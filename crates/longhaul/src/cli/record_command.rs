//! `longhaul record`: bundles a record with its evidence, checks claims and verifies bundles.
//!
//! Read in this order: [`record_assembly`] (from runs to a record), [`bundle_contents`] (files of a bundle),
//! [`bundle_verification`].
//!
//! - [`record_measurement`], [`archived_runs`], [`imported_transfer`]: the sources of runs; [`record_captures`]: their captures
//! - [`legs_file`], [`city_points`], [`airport_table`], [`wgs84_geodesic`]: the route
//!   of the data and its length
//! - [`rule_sets`]: rule sets and earlier marks
//! - [`mod@bundle_folder`], [`bundle_manifest`], [`signing_keys`]: writing, listing and signing a bundle
//! - [`record_recomputation`]: recomputes the figures
//! - [`claim_file`]: files of published claims

mod airport_table;
mod archived_runs;
mod bundle_contents;
mod bundle_folder;
mod bundle_manifest;
pub mod bundle_verification;
mod city_points;
mod claim_file;
mod imported_transfer;
mod legs_file;
mod record_assembly;
mod record_captures;
mod record_measurement;
mod record_recomputation;
mod rule_sets;
mod signing_keys;
#[cfg(test)]
mod tests;
mod wgs84_geodesic;

use super::args::{
    BundleArgs, RecordArgs, RecordCommand, RecordMakeArgs, RecordVerifyArgs, TestArgs, TestFormat,
};
use super::command_output;
use crate::command_failure::{BUG, CommandFailure, EXPECTATION_MISSED, USAGE};
use crate::render;
use airport_table::AirportTable;
use bundle_contents::BundleContents;
use bundle_folder::BundleFolder;
use longhaul_analysis::claim_check;
use longhaul_model::report::v1::claim::{CheckedClaim, ClaimVerdict};
use longhaul_model::report::v1::host;
use record_assembly::RecordRuns;
use record_captures::RecordCapture;
use serde_json::json;
use signing_keys::BundleSigner;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &RecordArgs) -> Result<ExitCode, CommandFailure> {
    match &args.command {
        Some(RecordCommand::Check { files, json }) => check_claims(files, *json),
        Some(RecordCommand::Make(make)) => bundle_archived_run(make),
        Some(RecordCommand::Verify(verify)) => run_verify(verify),
        Some(RecordCommand::Key { file }) => create_key(file),
        None => match &args.measure.0 {
            Some(test) => measure_and_bundle(test, &args.bundle),
            // clap requires one of the two.
            None => Err(CommandFailure::new(
                USAGE,
                "cannot make a record: no server and no command is given",
            )),
        },
    }
}

/// The inputs of a bundle besides the runs. All of them are checked before a measurement.
struct BundleInputs {
    legs: Option<legs_file::RecordLegs>,
    rules: longhaul_model::report::v1::record::RuleSet,
    signer: Option<BundleSigner>,
}

fn check_bundle_inputs(args: &BundleArgs) -> Result<BundleInputs, CommandFailure> {
    if let Some(out) = &args.out {
        bundle_folder::check_bundle_target(out)?;
    }
    for file in &args.attach {
        if !file.is_file() {
            let fail = CommandFailure::new(USAGE, format!("cannot attach {}", file.display()));
            return Err(fail.hint(Some("name an existing regular file")));
        }
    }
    let legs = args.legs.as_deref();
    let signer = args.sign.as_deref();
    Ok(BundleInputs {
        legs: legs
            .map(|file| legs_file::read_legs_file(file, &AirportTable::read()))
            .transpose()?,
        rules: rule_sets::find_rule_set(args.rules.as_deref())?,
        signer: signer.map(BundleSigner::read).transpose()?,
    })
}

/// Evidence that only the measuring process has.
#[derive(Default)]
struct LocalEvidence {
    host: Option<host::AuditObservation>,
    captures: Vec<RecordCapture>,
}

fn measure_and_bundle(test: &TestArgs, args: &BundleArgs) -> Result<ExitCode, CommandFailure> {
    let asked = check_bundle_inputs(args)?;
    let measured = record_measurement::measure_for_record(test)?;
    let ours = LocalEvidence {
        host: Some(measured.host),
        captures: measured.captures,
    };
    let json = test.output_format() == TestFormat::Json;
    write_bundle(args, asked, (&measured.runs, ours), json)
}

fn bundle_archived_run(make: &RecordMakeArgs) -> Result<ExitCode, CommandFailure> {
    let asked = check_bundle_inputs(&make.bundle)?;
    let runs = archived_runs::load_archived_runs(&make.run, make.path.as_deref(), &make.archive)?;
    write_bundle(
        &make.bundle,
        asked,
        (&runs, LocalEvidence::default()),
        make.json,
    )
}

fn write_bundle(
    args: &BundleArgs,
    asked: BundleInputs,
    (runs, ours): (&RecordRuns, LocalEvidence),
    as_json: bool,
) -> Result<ExitCode, CommandFailure> {
    let payload = record_captures::select_payload(&ours.captures);
    let record = record_assembly::assemble_record(runs, asked.legs, &asked.rules, payload)?;
    let place = args.out.clone().unwrap_or_else(|| {
        let id = &record.observation.throughput_run;
        PathBuf::from(format!("record-{id}"))
    });
    let mut folder = BundleFolder::begin(&place)?;
    let contents = BundleContents {
        record: &record,
        runs,
        host: ours.host.as_ref(),
        captures: &ours.captures,
        attached: &args.attach,
    };
    bundle_contents::write_bundle_files(&mut folder, &contents)?;
    let files = folder.finish(asked.signer.as_ref())?;
    if as_json {
        let value =
            serde_json::to_value(&record).map_err(|e| CommandFailure::from_error(BUG, &e))?;
        command_output::print_json(&value)?;
    } else {
        command_output::print_text(&render::record_text::render_record(
            &record,
            &place,
            files.len(),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_verify(args: &RecordVerifyArgs) -> Result<ExitCode, CommandFailure> {
    let key = args
        .key
        .as_deref()
        .map(signing_keys::parse_public_key)
        .transpose()?;
    let found = bundle_verification::verify_bundle(&args.folder, key.as_deref())?;
    if args.json {
        let differs = found.differs.iter();
        let differs = differs.map(|(what, why)| json!({ "what": what, "why": why }));
        command_output::print_json(&json!({
            "schema": "longhaul.verified/1",
            "sound": found.differs.is_empty(),
            "files": found.files,
            "differs": differs.collect::<Vec<_>>(),
            "agrees": found.agrees,
            "signed_by": found.signed_by,
        }))?;
    } else {
        command_output::print_text(&render::record_text::render_verified(&args.folder, &found))?;
    }
    Ok(if found.differs.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXPECTATION_MISSED)
    })
}

fn create_key(file: &Path) -> Result<ExitCode, CommandFailure> {
    let public = signing_keys::create_key_file(file)?;
    command_output::print_text(&format!("{public}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn check_claims(files: &[PathBuf], as_json: bool) -> Result<ExitCode, CommandFailure> {
    let airports = AirportTable::read();
    let mut all = Vec::new();
    for file in files {
        for claim in claim_file::read_claims(file)? {
            let checked =
                claim_check::check_claim(&claim, &airports).map_err(|e| claim_failure(file, &e))?;
            all.push(checked);
        }
    }
    if as_json {
        command_output::print_json(&json!(all))?;
    } else {
        command_output::print_text(&render::claim_text::render_claims(&all))?;
    }
    Ok(if all.iter().any(has_wrong_figure) {
        ExitCode::from(EXPECTATION_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

fn has_wrong_figure(checked: &CheckedClaim) -> bool {
    let mut checks = checked.checks.iter();
    checks.any(|check| check.verdict >= ClaimVerdict::Differs)
}

fn claim_failure(file: &Path, error: &claim_check::ClaimFieldError) -> CommandFailure {
    let mut fail = CommandFailure::from_error(USAGE, error);
    fail.message = format!("{}: {}", file.display(), fail.message);
    fail.hint(Some(
        "write figures with their unit, such as `4.92 GB`, `1001 s`, `6.25 Gbit/s`",
    ))
}
