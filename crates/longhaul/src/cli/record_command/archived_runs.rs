//! Loads runs for a record from the archive.

use crate::cli::args::ArchiveArgs;
use crate::cli::command_output;
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use jiff::Timestamp;
use longhaul_model::report::v1::{AnyReport, PathReport, ReportKind, RunInfo};
use longhaul_record::record_assembly::{RecordRuns, RecordTransfer};
use longhaul_store::Archive;

/// The maximum time between path measurement and transfer; beyond it, the path may have changed.
const SAME_PATH_SECONDS: i64 = 24 * 3600;
/// The maximum number of path runs whose times are compared.
const MAX_PATH_RUNS: u32 = 500;

/// Loads the transfer, and the given path run or the one nearest in time.
pub fn load_archived_runs(
    id: &str,
    path: Option<&str>,
    args: &ArchiveArgs,
) -> Result<RecordRuns, CommandFailure> {
    let file = command_output::archive_path(args)?;
    let archive = Archive::open_existing(&file)?.ok_or_else(|| {
        let fail =
            CommandFailure::new(ARCHIVE, format!("cannot find the archive {}", file.display()));
        fail.hint(Some(
            "create one with `longhaul record HOST`, or name another with `--archive FILE`",
        ))
    })?;
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

fn wrong_kind_failure(id: &str, kind: ReportKind) -> CommandFailure {
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
    let looks = archive.recent_reports::<PathReport>(Some(&run.responder.host), MAX_PATH_RUNS)?;
    let between_the_same =
        looks.into_iter().filter(|path| path.run.initiator.host == run.initiator.host);
    let timed = between_the_same.filter_map(|path| {
        let apart = begun(&path.run.started_at)?.abs_diff(at);
        Some((apart, path))
    });
    let near = timed.filter(|(apart, _)| *apart <= SAME_PATH_SECONDS.unsigned_abs());
    Ok(near.min_by_key(|(apart, _)| *apart).map(|(_, path)| path))
}
