//! `longhaul test HOST`: measure → conclude → archive → show.

use super::args::TestArgs;
use super::{capture, filing, output, resolve};
use crate::fail::{EXPECTATION_MISSED, Fail};
use crate::render::live::{Flow, Live, Moment};
use crate::render::style::{CAVEAT, paint};
use jiff::Timestamp;
use longhaul_model::report::v1::Throughput;
use longhaul_probe::throughput::{self, FlowProgress, Progress};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

pub fn run(args: &TestArgs) -> Result<ExitCode, Fail> {
    let report = measured(args)?;
    output::report(&report, crate::render::text::report, args.json)?;
    Ok(judge(args, &report))
}

/// A finished run, in the archive unless that is not wanted.
pub fn measured(args: &TestArgs) -> Result<Throughput, Fail> {
    let mut plan = resolve::plan(args)?;
    capture::files::check(&args.capture)?;
    let now = Timestamp::now();
    plan.start_at_us = resolve::start_at_us(args, now)?;
    let target = resolve::target(
        (&args.host, args.port),
        &args.local,
        &args.token,
        args.connect_timeout,
    )?;
    let lines = !args.quiet && !args.json && std::io::stderr().is_terminal();
    let mut live = Live::new(lines);
    let mut outcome = throughput::run(&target, &plan, &mut |now| live.show(moment(now)))?;
    live.finish();
    let captures = std::mem::take(&mut outcome.captures);
    let mut report = filing::throughput(plan, outcome, None);
    capture::files::keep(&args.capture, captures, &mut report);
    if !args.no_save {
        filing::keep(&args.archive, &mut report);
    }
    Ok(report)
}

fn moment(progress: &Progress) -> Moment {
    // Only where this end sends does it know what was sent again, and the RTT under load.
    let flow = |flow: &FlowProgress, sends: bool| Flow {
        received_bytes: flow.received_bytes.unwrap_or_default(),
        received_at: flow.received_at.unwrap_or_default(),
        retransmits: flow.retransmits.filter(|_| sends),
        rtt: flow.rtt.filter(|_| sends),
    };
    let directions = [
        ("forward", &progress.forward, true),
        ("reverse", &progress.reverse, false),
    ];
    Moment {
        elapsed: progress.elapsed,
        flows: directions
            .into_iter()
            .filter_map(|(name, of, sends)| Some((name, flow(of.as_ref()?, sends))))
            .collect(),
    }
}

/// Tells every expectation that was missed.
fn judge(args: &TestArgs, report: &Throughput) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for expectation in &args.expect {
        if let Some(found) = expectation.missed(report) {
            let told = format!(
                "{} expected {expectation}; {found}\n",
                paint(CAVEAT, "missed:")
            );
            let _ = anstream::stderr().write_all(told.as_bytes());
            code = ExitCode::from(EXPECTATION_MISSED);
        }
    }
    code
}
