//! Loads runs for a record from the archive.

use super::assemble::{Runs, Transfer};
use crate::cli::args::ArchiveArgs;
use crate::cli::output;
use crate::fail::{ARCHIVE, Fail, USAGE};
use jiff::Timestamp;
use longhaul_model::report::v1::{AnyReport, Kind, Path, Run};
use longhaul_store::Archive;

/// The maximum time between path measurement and transfer; beyond it, the path may have changed.
const SAME_PATH_SECONDS: i64 = 24 * 3600;
/// The maximum number of path runs whose times are compared.
const LOOKS: u32 = 500;

/// Loads the transfer, and the given path run or the one nearest in time.
pub fn runs(id: &str, path: Option<&str>, args: &ArchiveArgs) -> Result<Runs, Fail> {
    let file = output::archive_path(args)?;
    let archive = Archive::open_existing(&file)?.ok_or_else(|| {
        let fail = Fail::new(ARCHIVE, format!("there is no archive {}", file.display()));
        fail.hint(Some(
            "`longhaul record HOST` measures and makes one; `--archive FILE` names another",
        ))
    })?;
    let transfer = match archive.find(id)? {
        AnyReport::Throughput(run) => Transfer::Ours(run),
        AnyReport::Imported(run) => Transfer::Imported(run),
        _ => return Err(another_kind(id, Kind::Throughput)),
    };
    let path = match path {
        None => nearest(&archive, transfer.run())?,
        Some(wanted) => match archive.find(wanted)? {
            AnyReport::Path(path) => Some(*path),
            _ => return Err(another_kind(wanted, Kind::Path)),
        },
    };
    Ok(Runs { transfer, path })
}

fn another_kind(id: &str, kind: Kind) -> Fail {
    let fail = Fail::new(USAGE, format!("`{id}` is no {} run", kind.word()));
    fail.hint(Some(
        "`longhaul report list` shows the runs with their kinds",
    ))
}

fn nearest(archive: &Archive, run: &Run) -> Result<Option<Path>, Fail> {
    let begun = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_second);
    let Some(at) = begun(&run.started_at) else {
        return Ok(None);
    };
    let looks = archive.paths(&run.responder.host, LOOKS)?;
    let between_the_same = looks
        .into_iter()
        .filter(|path| path.run.initiator.host == run.initiator.host);
    let timed = between_the_same.filter_map(|path| {
        let apart = begun(&path.run.started_at)?.abs_diff(at);
        Some((apart, path))
    });
    let near = timed.filter(|(apart, _)| *apart <= SAME_PATH_SECONDS.unsigned_abs());
    Ok(near.min_by_key(|(apart, _)| *apart).map(|(_, path)| path))
}
