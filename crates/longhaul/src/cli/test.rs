//! `longhaul test HOST`: measures throughput, then analyses, archives and shows the result.

use super::args::{TestArgs, TestFormat};
use super::{capture, filing, output, resolve};
use crate::fail::{EXPECTATION_MISSED, Fail};
use crate::render::live::{Flow, Live, Moment};
use crate::render::style::{CAVEAT, paint};
use crate::render::{iperf3, text};
use jiff::Timestamp;
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::report::v1::{Caveat, Throughput};
use longhaul_probe::error::ProbeError;
use longhaul_probe::iperf3::client::{self, Login, Wish};
use longhaul_probe::throughput::{self, FlowProgress, Outcome, Progress, Target};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// The caveat of a run that fell back to iperf3's protocol.
const FOUND: &str = "an iperf3 server answered there, so that the run was made on its wire; `--iperf3` \
                     says so from the start";

pub fn run(args: &TestArgs) -> Result<ExitCode, Fail> {
    let report = measured(args)?;
    match args.shape() {
        TestFormat::Text => output::report(&report, text::report, false)?,
        TestFormat::Json => output::report(&report, text::report, true)?,
        TestFormat::Iperf3 => output::json(&iperf3::shape(&report))?,
    }
    Ok(judge(args, &report))
}

/// Measures and builds the report, and archives it unless `--no-save` is given.
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
    let login = args.iperf3_user.login()?;
    let for_people = args.shape() == TestFormat::Text;
    let lines = !args.quiet && for_people && std::io::stderr().is_terminal();
    let mut live = Live::new(lines);
    let far = (&target, login.as_ref());
    let mut outcome = outcome(args, far, &plan, &mut |now| live.show(moment(now)))?;
    live.finish();
    let captures = std::mem::take(&mut outcome.captures);
    let mut report = filing::throughput(plan, outcome, None);
    capture::files::keep(&args.capture, captures, &mut report);
    if !args.no_save {
        filing::keep(&args.archive, &mut report);
    }
    Ok(report)
}

/// Runs the test with the server's protocol. A server that speaks iperf3's ignores the token.
fn outcome(
    args: &TestArgs,
    (target, login): (&Target, Option<&Login>),
    plan: &Plan,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ProbeError> {
    let wish = Wish {
        login,
        ..Wish::default()
    };
    if args.iperf3 {
        return client::run(target, plan, &wish, Duration::ZERO, watch);
    }
    match throughput::run(target, plan, watch) {
        Err(ProbeError::Iperf3There { .. }) if target.token.is_none() => {
            // The iperf3 server stays busy until it notices that our first connection is closed.
            let mut outcome = client::run(target, plan, &wish, target.connect_timeout, watch)?;
            outcome.caveats.push(Caveat::new("iperf3_found", FOUND));
            Ok(outcome)
        }
        other => other,
    }
}

fn moment(progress: &Progress) -> Moment {
    // Retransmits and RTT under load are known only where this host sends.
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

/// Reports every missed expectation.
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
