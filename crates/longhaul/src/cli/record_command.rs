//! `longhaul record`: bundles a record with its evidence, checks claims and verifies bundles.
//!
//! `longhaul_record` makes and checks records; this module measures, reads the archive, and renders.
//!
//! - [`record_measurement`], [`archived_runs`]: the sources of runs; [`record_captures`]: their captures
//! - [`bundle_contents`]: the files of a bundle

mod archived_runs;
mod bundle_contents;
mod record_captures;
mod record_measurement;

use super::args::{
    BundleArgs, RecordArgs, RecordCommand, RecordMakeArgs, RecordVerifyArgs, ReportOutputArgs,
    TestArgs,
};
use super::command_output;
use super::report_archiving;
use super::report_command::report_output;
use crate::command_failure::{BUG, CommandFailure, EXPECTATION_MISSED, HOST, USAGE};
use bundle_contents::BundleContents;
use jiff::Timestamp;
use longhaul_model::report::v1::host;
use longhaul_record::airport_table::AirportTable;
use longhaul_record::bundle_folder::{self, BundleFolder};
use longhaul_record::legs_file::{self, RecordLegs};
use longhaul_record::published_claim::CheckedClaim;
use longhaul_record::record_assembly::{self, RecordRuns};
use longhaul_record::signing_keys::{self, BundleSigner};
use longhaul_record::speed_record::RuleSet;
use longhaul_record::{
    RecordError, RecordErrorKind, bundle_verification, claim_check, claims_file, rule_sets,
};
use longhaul_report::record_text::build_record_document;
use record_captures::RecordCapture;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

impl From<RecordError> for CommandFailure {
    fn from(error: RecordError) -> Self {
        let code = match error.kind {
            RecordErrorKind::Input => USAGE,
            RecordErrorKind::Host => HOST,
            RecordErrorKind::Internal => BUG,
        };
        let mut fail = CommandFailure::new(code, error.message);
        fail.causes = error.causes;
        fail.hint(error.hint)
    }
}

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
    legs: Option<RecordLegs>,
    rules: RuleSet,
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
        legs: legs.map(legs_file::read_legs_file).transpose()?,
        rules: rule_sets::find_rule_set(args.rules.as_deref())?,
        signer: signer.map(BundleSigner::read).transpose()?,
    })
}

fn measure_and_bundle(test: &TestArgs, args: &BundleArgs) -> Result<ExitCode, CommandFailure> {
    let inputs = check_bundle_inputs(args)?;
    let measured = record_measurement::measure_for_record(test)?;
    write_bundle(args, inputs, &measured, &test.report_output())
}

fn bundle_archived_run(make: &RecordMakeArgs) -> Result<ExitCode, CommandFailure> {
    let inputs = check_bundle_inputs(&make.bundle)?;
    let runs = archived_runs::load_archived_runs(&make.run, make.path.as_deref(), &make.archive)?;
    let evidence = RecordEvidence { runs, host: None, captures: Vec::new() };
    write_bundle(&make.bundle, inputs, &evidence, &make.written)
}

/// The runs, and the evidence that only the measuring process has.
struct RecordEvidence {
    runs: RecordRuns,
    /// This host's settings; absent if they were not read during the run.
    host: Option<host::AuditObservation>,
    captures: Vec<RecordCapture>,
}

fn write_bundle(
    args: &BundleArgs,
    inputs: BundleInputs,
    evidence: &RecordEvidence,
    written: &ReportOutputArgs,
) -> Result<ExitCode, CommandFailure> {
    let record = record_assembly::assemble_record(
        &evidence.runs,
        inputs.legs,
        &inputs.rules,
        record_captures::select_payload(&evidence.captures),
        report_archiving::format_rfc3339(Timestamp::now()),
    )?;
    let place = args.out.clone().unwrap_or_else(|| {
        let id = &record.observation.throughput_run;
        PathBuf::from(format!("record-{id}"))
    });
    let mut folder = BundleFolder::begin(&place)?;
    let contents = BundleContents { record: &record, evidence, attached: &args.attach };
    bundle_contents::write_bundle_files(&mut folder, &contents)?;
    let files = folder.finish(inputs.signer.as_ref())?;
    let value = serde_json::to_value(&record).map_err(|e| CommandFailure::from_error(BUG, &e))?;
    report_output::write_report(written, &value, |_| {
        build_record_document(&record, &place, files.len())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn run_verify(args: &RecordVerifyArgs) -> Result<ExitCode, CommandFailure> {
    let key = args.key.as_deref().map(signing_keys::parse_public_key).transpose()?;
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
        command_output::print_document(
            &longhaul_report::record_text::build_verification_document(&args.folder, &found),
        )?;
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
        for claim in claims_file::read_claims(file)? {
            let checked = claim_check::check_claim(&claim, &airports);
            all.push(checked.map_err(|fail| RecordError {
                message: format!("{}: {}", file.display(), fail.message),
                ..fail
            })?);
        }
    }
    if as_json {
        command_output::print_json(&json!(all))?;
    } else {
        command_output::print_document(&longhaul_report::claim_text::build_claims_document(&all))?;
    }
    Ok(if all.iter().any(CheckedClaim::has_wrong_figure) {
        ExitCode::from(EXPECTATION_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}
