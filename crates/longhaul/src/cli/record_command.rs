//! `longhaul record`: bundles a record with its evidence, checks claims and verifies bundles.
//!
//! `longhaul_record` makes and checks records; this module measures, reads the archive, and renders.
//! [`bundle_contents`] are the files of a bundle.

mod bundle_contents;

use crate::cli::args::{ArchiveArgs, PathArgs, ReportOutputArgs, TestArgs};
use crate::cli::capture_command::capture_files::far_capture_path;
use crate::cli::{
    capture_command, command_output, path_command, report_archiving, report_command, test_command,
};
use crate::command_failure::{self, BUG, CommandFailure, HOST, PEER, USAGE};
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use jiff::Timestamp;
use longhaul_model::report::v1::capture::CaptureReading;
use longhaul_model::report::v1::{AnyReport, PathReport, ReportKind, RunInfo, host};
use longhaul_probe::host::observe_host;
use longhaul_record::airport_table::AirportTable;
use longhaul_record::bundle_folder::{self, BundleFolder};
use longhaul_record::legs_file::{self, RecordLegs};
use longhaul_record::published_claim::CheckedClaim;
use longhaul_record::record_assembly::{self, RecordRuns, RecordTransfer};
use longhaul_record::signing_keys::{self, BundleSigner};
use longhaul_record::speed_record::{CapturedPayload, RuleSet};
use longhaul_record::{
    RecordError, RecordErrorKind, bundle_verification, claim_check, claims_file, rule_sets,
};
use longhaul_report::record_text::{self, build_record_document};
use longhaul_store::Archive;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/record-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/record-details.txt").trim_ascii_end();

/// The number of packets shown, as in the submissions of 2004.
const SHOWN_PACKETS: u64 = 100;

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = [EXAMPLES, DETAILS].join("\n\n"),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
)]
pub struct RecordArgs {
    #[command(subcommand)]
    pub command: Option<RecordCommand>,
    #[command(flatten)]
    pub bundle: BundleArgs,
    #[command(flatten)]
    pub measure: RecordMeasureArgs,
}

/// The options of `longhaul test`; absent with a subcommand of `record`, which names no server.
#[derive(Debug)]
pub struct RecordMeasureArgs(pub Option<TestArgs>);

/// The derived implementation for `Option<TestArgs>` does not detect that HOST is present.
impl FromArgMatches for RecordMeasureArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let named = matches.contains_id("host");
        let test = named.then(|| TestArgs::from_arg_matches(matches));
        Ok(RecordMeasureArgs(test.transpose()?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = RecordMeasureArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RecordMeasureArgs {
    fn augment_args(command: Command) -> Command {
        // A record has its own form of output.
        let other_forms = ["format", "json_stream", "title", "logfile", "get_server_output"];
        let usual = ["host", "streams", "time", "reverse", "window", "port", "token_file", "json"];
        TestArgs::augment_args(command).mut_args(|arg| {
            let is_rare = !usual.contains(&arg.get_id().as_str());
            let arg = if is_rare { arg.hide_short_help(true) } else { arg };
            if other_forms.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        TestArgs::augment_args_for_update(command)
    }
}

/// What goes into a bundle beside the runs.
#[derive(Debug, Clone, Args)]
pub struct BundleArgs {
    /// Cities that the data passes, as TOML
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub legs: Option<PathBuf>,
    /// New or empty folder for the bundle [default: record-ID of the run]
    #[arg(long, value_name = "DIR", help_heading = "Record")]
    pub out: Option<PathBuf>,
    /// Sign the bundle with this key
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub sign: Option<PathBuf>,
    /// Add this file to the bundle, such as the server's log; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub attach: Vec<PathBuf>,
    /// Rule set to apply [default: internet2-lsr]
    #[arg(long, value_name = "NAME", help_heading = "Record")]
    pub rules: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Write the bundle of an archived run
    Make(Box<RecordMakeArgs>),
    /// Verify that a bundle is unchanged, and recompute its figures
    Verify(RecordVerifyArgs),
    /// Generate a key that signs bundles, and print its public key
    Key {
        /// New file for the private key
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check the figures of published claims for consistency, also with light in fibre
    Check {
        /// Files with one or more claims each
        #[arg(value_name = "FILE", required = true, num_args = 1..=64)]
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct RecordMakeArgs {
    /// Id of the transfer run, its first letters, or `last`
    #[arg(long, value_name = "ID")]
    pub run: String,
    /// Id of the path run [default: the nearest in time, within a day]
    #[arg(long, value_name = "ID")]
    pub path: Option<String>,
    #[command(flatten)]
    pub bundle: BundleArgs,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct RecordVerifyArgs {
    /// Folder of the bundle
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Require a signature by this public key: 64 hexadecimal digits, or a file with them
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
}

impl From<RecordError> for CommandFailure {
    fn from(error: RecordError) -> Self {
        let code = match error.kind {
            RecordErrorKind::Input => USAGE,
            RecordErrorKind::Host => HOST,
            RecordErrorKind::Internal => BUG,
        };
        let fail = CommandFailure::new(code, error.message);
        CommandFailure { causes: error.causes, ..fail }.hint(error.hint)
    }
}

pub fn run(args: &RecordArgs) -> Result<ExitCode, CommandFailure> {
    match &args.command {
        Some(RecordCommand::Check { files, json }) => check_claims(files, *json),
        Some(RecordCommand::Make(make)) => bundle_archived_run(make),
        Some(RecordCommand::Verify(verify)) => run_verify(verify),
        Some(RecordCommand::Key { file }) => create_key(file),
        None => {
            // clap requires a server or a command.
            let text = "cannot make a record: no server and no command is given";
            let missing = || CommandFailure::new(USAGE, text);
            measure_and_bundle(args.measure.0.as_ref().ok_or_else(missing)?, &args.bundle)
        }
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
    let measured = measure_for_record(test)?;
    write_bundle(args, inputs, &measured, &test.output.form)
}

fn bundle_archived_run(make: &RecordMakeArgs) -> Result<ExitCode, CommandFailure> {
    let inputs = check_bundle_inputs(&make.bundle)?;
    let runs = load_archived_runs(&make.run, make.path.as_deref(), &make.archive)?;
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
        select_payload(&evidence.captures),
        report_archiving::format_rfc3339(Timestamp::now()),
    )?;
    let place = args.out.clone().unwrap_or_else(|| {
        let id = &record.observation.throughput_run;
        PathBuf::from(format!("record-{id}"))
    });
    let mut folder = BundleFolder::begin(&place)?;
    bundle_contents::write_bundle_files(&mut folder, &record, evidence, &args.attach)?;
    let files = folder.finish(inputs.signer.as_ref())?;
    let document = build_record_document(&record, &place, files.len());
    report_command::write_report(written, &record, &document)?;
    Ok(ExitCode::SUCCESS)
}

fn run_verify(args: &RecordVerifyArgs) -> Result<ExitCode, CommandFailure> {
    let key = args.key.as_deref().map(signing_keys::parse_public_key).transpose()?;
    let found = bundle_verification::verify_bundle(&args.folder, key.as_deref())?;
    let differs = found.differs.iter();
    let differs: Value = differs.map(|(what, why)| json!({ "what": what, "why": why })).collect();
    command_output::print_json_or_document(
        args.json,
        &json!({
            "schema": "longhaul.verified/1",
            "sound": found.differs.is_empty(),
            "files": found.files,
            "differs": differs,
            "agrees": found.agrees,
            "signed_by": found.signed_by,
        }),
        &record_text::build_verification_document(&args.folder, &found),
    )?;
    Ok(command_failure::met_exit_code(found.differs.is_empty()))
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
    command_output::print_json_or_document(
        as_json,
        &json!(all),
        &longhaul_report::claim_text::build_claims_document(&all),
    )?;
    Ok(command_failure::met_exit_code(!all.iter().any(CheckedClaim::has_wrong_figure)))
}

/// The number of round trips: as in the submissions of 2004, enough for a reliable minimum.
const PATH_ROUND_TRIPS: &str = "20";

/// The default number of bytes captured per packet: the longest headers, and the 64 bytes of
/// payload that the payload rule compares.
const CAPTURE_BYTES: u32 = 192;

/// Reads the captures of `--capture FILE`. One that could not be written is a caveat of the run.
fn read_written_captures(args: &TestArgs) -> Result<Vec<RecordCapture>, CommandFailure> {
    let near = args.capture.capture.iter();
    let both =
        near.flat_map(|near| [("initiator", near.clone()), ("responder", far_capture_path(near))]);
    let written = both.filter(|(_, file)| file.is_file());
    written.map(|(role, file)| RecordCapture::read(role, file)).collect()
}

fn measure_for_record(args: &TestArgs) -> Result<RecordEvidence, CommandFailure> {
    if args.direction.bidir {
        let fail = CommandFailure::new(USAGE, "cannot make a record of both directions");
        return Err(fail.hint(Some("omit --bidir; use -R if the server sends")));
    }
    if args.prints_iperf3_json() || args.json_stream {
        let fail = CommandFailure::new(USAGE, "cannot print a record in the format of iperf3");
        let hint = "omit --format; print a run with `longhaul test HOST --format iperf3`";
        return Err(fail.hint(Some(hint)));
    }
    let path = match path_command::measure_path(&path_args(args)?) {
        Ok(path) => Some(path),
        Err(fail) => {
            // The transfer is still useful; the record says that the path is missing.
            command_output::print_caveat(&format!("cannot measure the path: {}", fail.chain()));
            None
        }
    };
    let mut asked = args.clone();
    let capture = &mut asked.capture;
    if capture.capture.is_some() {
        capture.capture_bytes.get_or_insert(CAPTURE_BYTES);
    }
    let throughput = test_command::measure_throughput(&asked)?;
    if let Some(caveat) = throughput.caveats.iter().find(|caveat| caveat.is_early_end()) {
        let text = format!("no record of run {}, which is not complete", throughput.run.id);
        return Err(CommandFailure::new(PEER, text).cause(&caveat.text));
    }
    let address = throughput.run.responder.address.as_deref();
    let host = observe_host(None, address.and_then(|it| it.parse().ok()));
    Ok(RecordEvidence {
        captures: read_written_captures(args)?,
        runs: RecordRuns { transfer: RecordTransfer::Measured(Box::new(throughput)), path },
        host: Some(host),
    })
}

/// Options to measure the same path: round trips, routes in both directions, path MTU.
fn path_args(args: &TestArgs) -> Result<PathArgs, CommandFailure> {
    let command = PathArgs::augment_args(Command::new("path"));
    let words = ["path", args.peer.host_name(), "--count", PATH_ROUND_TRIPS];
    let parsed = command.try_get_matches_from(words).and_then(|it| PathArgs::from_arg_matches(&it));
    let path = parsed.map_err(|error| CommandFailure::from_error(BUG, &error))?;
    Ok(PathArgs { peer: args.peer.clone(), output: args.output.clone(), ..path })
}

/// The maximum time between path measurement and transfer; beyond it, the path may have changed.
const SAME_PATH_SECONDS: i64 = 24 * 3600;
/// The maximum number of path runs whose times are compared.
const MAX_PATH_RUNS: u32 = 500;

/// Loads the transfer, and the given path run or the one nearest in time.
fn load_archived_runs(
    id: &str,
    path: Option<&str>,
    args: &ArchiveArgs,
) -> Result<RecordRuns, CommandFailure> {
    let archive = command_output::require_archive(args, "longhaul record HOST")?;
    let transfer = match archive.find(id)? {
        AnyReport::Throughput(run) => RecordTransfer::Measured(run),
        AnyReport::Imported(run) => RecordTransfer::Imported(run),
        _ => return Err(wrong_kind_failure(id, ReportKind::Throughput)),
    };
    let path = match path {
        None => find_nearest_path_run(&archive, transfer.run())?,
        Some(wanted) => match archive.find(wanted)? {
            AnyReport::Path(path) => Some(*path),
            _ => return Err(wrong_kind_failure(wanted, ReportKind::Path)),
        },
    };
    Ok(RecordRuns { transfer, path })
}

/// Returns the error for a run of another kind than the required one.
pub fn wrong_kind_failure(id: &str, kind: ReportKind) -> CommandFailure {
    let fail =
        CommandFailure::new(USAGE, format!("cannot use `{id}`: it is not a {} run", kind.word()));
    fail.hint(Some("list the runs and their kinds with `longhaul report list`"))
}

fn find_nearest_path_run(
    archive: &Archive,
    run: &RunInfo,
) -> Result<Option<PathReport>, CommandFailure> {
    let begun = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_second);
    let Some(at) = begun(&run.started_at) else {
        return Ok(None);
    };
    let looks = report_archiving::earlier_runs::<PathReport>(archive, run, MAX_PATH_RUNS)?;
    let between_the_same =
        looks.into_iter().filter(|path| path.run.initiator.host == run.initiator.host);
    let timed = between_the_same.filter_map(|path| {
        let apart = begun(&path.run.started_at)?.abs_diff(at);
        Some((apart, path))
    });
    let near = timed.filter(|(apart, _)| *apart <= SAME_PATH_SECONDS.unsigned_abs());
    Ok(near.min_by_key(|(apart, _)| *apart).map(|(_, path)| path))
}

/// The capture of one end.
struct RecordCapture {
    /// The role of the end: `initiator` or `responder`.
    pub role: &'static str,
    pub file: PathBuf,
    reading: CaptureReading,
    /// The analysis and the first packets.
    pub text: String,
}

impl RecordCapture {
    pub fn read(role: &'static str, file: PathBuf) -> Result<RecordCapture, CommandFailure> {
        let (reading, says) = capture_command::read_capture(&file)?;
        let (extract, _) = capture_command::format_first_packets(&file, SHOWN_PACKETS)?;
        Ok(RecordCapture { role, text: format!("{says}\nfirst packets\n{extract}"), file, reading })
    }
}

/// Returns the variety of payload from the capture with the most payload packets.
fn select_payload(captures: &[RecordCapture]) -> Option<CapturedPayload> {
    let seen = captures.iter().filter_map(|capture| {
        Some(CapturedPayload {
            captured_by: capture.role.to_owned(),
            variety: capture.reading.payload?,
        })
    });
    seen.max_by_key(|payload| payload.variety.packets)
}
