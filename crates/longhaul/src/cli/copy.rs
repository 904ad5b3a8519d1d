//! `longhaul copy SRC DST`: copies files, then analyses, archives and shows the result.
//!
//! - [`end`]: SRC and DST as typed; `asked`: the request from options and the result of `tune`
//! - `progress`: rate and remaining time on stderr

mod asked;
pub mod end;
mod progress;

use super::args::CopyArgs;
use super::{filing, interrupt, output};
use crate::fail::{Fail, HOST, INTERRUPTED, PEER};
use crate::render;
use asked::Asked;
use jiff::Timestamp;
use longhaul_analysis::copy::conclude;
use longhaul_model::report::v1::{Copied, Kind, SCHEMA};
use longhaul_probe::transfer::{self, CopyError, CopyOutcome};
use progress::Told;
use std::io::Write;
use std::process::ExitCode;

pub fn run(args: &CopyArgs) -> Result<ExitCode, Fail> {
    let asked = asked::asked(args)?;
    let stop = interrupt::stop_flag()?;
    let mut told = Told::new(args);
    let copied = transfer::copy(&asked.peer, &asked.request, &stop, &mut |now| {
        told.show(now);
    });
    told.leave();
    let outcome = copied.map_err(|error| fail(&error, &asked))?;
    let report = filed(args, &asked, outcome);
    if asked.to_stdout {
        // The file is on standard output, so the report goes to stderr.
        let text = render::copy::report(&report);
        if !args.output.quiet {
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
        return Ok(ExitCode::SUCCESS);
    }
    output::report(&report, render::copy::report, args.output.json)?;
    Ok(ExitCode::SUCCESS)
}

fn filed(args: &CopyArgs, asked: &Asked, outcome: CopyOutcome) -> Copied {
    let started = Timestamp::try_from(outcome.started_at).unwrap_or_else(|_| Timestamp::now());
    let (analysis, findings) = conclude(&asked.plan, &outcome.observation);
    let mut report = Copied {
        schema: SCHEMA.to_owned(),
        kind: Kind::Copy,
        run: filing::run(
            (filing::run_id(started), started),
            outcome.duration,
            (outcome.initiator, outcome.responder),
        ),
        plan: asked.plan.clone(),
        observation: outcome.observation,
        analysis,
        findings,
        caveats: outcome.caveats,
    };
    if !args.output.no_save {
        filing::keep(&args.output.archive, &mut report);
    }
    report
}

fn fail(error: &CopyError, asked: &Asked) -> Fail {
    let taken_up = "what has arrived is kept hidden at the target; the same command takes it up";
    let hint = asked.resumable().then_some(taken_up);
    match error {
        CopyError::Session(inner) => Fail::from_error(inner.exit_code(), inner).hint(inner.hint()),
        CopyError::Near(_) => Fail::from_error(HOST, error).hint(hint_of(error)),
        CopyError::Far { .. } => Fail::from_error(PEER, error).hint(hint_of(error)),
        CopyError::Network { .. } => Fail::from_error(PEER, error).hint(hint),
        CopyError::Stopped => Fail::from_error(INTERRUPTED, error).hint(hint),
    }
}

/// Returns a hint for an error, unless its message already says what to do.
fn hint_of(error: &CopyError) -> Option<&'static str> {
    let text = error.to_string();
    let knows = |part: &str| text.contains(part);
    if knows("No space left") {
        return Some("make room at the target; the same command goes on where it stopped");
    }
    if knows("token may write") {
        return Some("give the token that `longhaul serve` printed: `--token-file`");
    }
    if knows("--overwrite") || knows("--files") || knows("--direct") {
        // The message names the option.
        return None;
    }
    Some("check the name and its permissions; `longhaul copy --help` says how names are read")
}
