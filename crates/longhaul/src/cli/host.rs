//! `longhaul host`: audits this host, changes settings on request, archives and shows the report.
//!
//! - [`paths`]: the paths that the host is audited for
//! - [`mod@change`]: writes and reverts settings
//! - [`prove`]: test runs before and after the changes

mod change;
mod paths;
mod prove;

use super::args::HostArgs;
use super::{filing, output};
use crate::fail::{Fail, HOST, USAGE};
use crate::render;
use change::Hand;
use jiff::Timestamp;
use longhaul_analysis::audit;
use longhaul_model::report::v1::host::{Change, Plan};
use longhaul_model::report::v1::{Caveat, Host, Kind, Party, SCHEMA};
use longhaul_model::units::Rate;
use longhaul_probe::host::observe_for;
use prove::Proven;
use serde_json::json;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The minimum and maximum buffer size requested on a test socket, within what a host can spare.
const TRIED_BYTES: (u64, u64) = (1 << 20, 64 << 20);

pub fn run(args: &HostArgs) -> Result<ExitCode, Fail> {
    if args.revert {
        return revert(args);
    }
    let started = Timestamp::now();
    let began = Instant::now();
    let known = paths::known(args)?;
    let plan = Plan {
        paths: known.paths,
        interface: args.interface.clone(),
        apply: args.apply,
        prove_with: args.prove.clone(),
    };
    let towards = match &args.prove {
        Some(host) => Some(address(host, args.port)?),
        None => known.latest,
    };
    let mut observation = observe_for(plan.interface.as_deref(), towards, tried_bytes(&plan));
    let id = filing::run_id(started);
    let mut proven = Proven::default();
    if args.apply {
        let (analysis, _, _) = audit::audit(&plan, &observation);
        let interface = observation.readings.get("interface.name").cloned();
        proven = change(args, &id, &change::wanted(&analysis), interface.as_deref())?;
        observation.changes.clone_from(&proven.changes);
        observation.trials = std::mem::take(&mut proven.trials);
    }
    let (analysis, findings, mut caveats) = audit::audit(&plan, &observation);
    caveats.extend(unwritten(&observation.changes));
    let mut report = Host {
        schema: SCHEMA.to_owned(),
        kind: Kind::Host,
        run: filing::run(
            (id, started),
            began.elapsed(),
            (
                own_party(&observation.host),
                proven
                    .responder
                    .unwrap_or_else(|| own_party(&observation.host)),
            ),
        ),
        plan,
        observation,
        analysis,
        findings,
        caveats,
    };
    if !args.no_save {
        filing::keep(&args.archive, &mut report);
    }
    let all = args.all;
    output::report(&report, |report| render::host::page(report, all), args.json)?;
    ended(&report, proven.cut_off)
}

/// Returns the exit code after the report has been shown.
fn ended(report: &Host, cut_off: Option<Fail>) -> Result<ExitCode, Fail> {
    if let Some(fail) = cut_off {
        return Err(fail.hint(Some("every setting is put back as it was")));
    }
    let changes = &report.observation.changes;
    if !changes.is_empty() && !changes.iter().any(change::written) {
        let mut fail = Fail::new(HOST, "cannot change this host; nothing was changed");
        let why = changes.iter().filter_map(|change| change.error.clone());
        fail.causes.extend(why.take(1));
        return Err(fail.hint(Some(
            "run as root, or have the commands of the report run by somebody who may",
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the settings. With a server, keeps only the changes that help.
fn change(
    args: &HostArgs,
    id: &str,
    settings: &[change::Setting],
    interface: Option<&str>,
) -> Result<Proven, Fail> {
    let journal = change::journal(args)?;
    if args.prove.is_some() {
        prove::refuse_second_apply(&journal)?;
    }
    if settings.is_empty() {
        return Ok(Proven::default());
    }
    let mut hand = Hand::new(&journal, interface);
    if let Some(host) = &args.prove {
        return prove::run(args, id, (host, settings), &mut hand);
    }
    let changes = hand.apply(settings)?;
    hand.keep();
    Ok(Proven {
        changes,
        ..Proven::default()
    })
}

fn revert(args: &HostArgs) -> Result<ExitCode, Fail> {
    let journal = change::journal(args)?;
    let changes = change::reverted(&journal)?;
    if args.json {
        output::json(&json!({ "reverted": changes }))?;
    } else {
        output::text(&render::host::reverted(&changes))?;
    }
    change::missing(&journal, &changes).map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Returns the server's first address, so that the route to it is audited.
fn address(host: &str, port: u16) -> Result<IpAddr, Fail> {
    let unknown = |why: String| {
        let mut fail = Fail::new(USAGE, format!("cannot find the address of {host}"));
        fail.causes.push(why);
        fail.hint(Some("check the name"))
    };
    let mut found = (host, port)
        .to_socket_addrs()
        .map_err(|e| unknown(e.to_string()))?;
    let first = found.next().map(|address| address.ip());
    first.ok_or_else(|| unknown(String::from("the name has none")))
}

fn tried_bytes(plan: &Plan) -> u64 {
    let in_flight = plan.paths.iter().map(|path| {
        Rate::bits_per_second(path.rate_bps).bytes_in(Duration::from_micros(path.rtt_us))
    });
    let (least, most) = TRIED_BYTES;
    in_flight.max().unwrap_or(least).clamp(least, most)
}

fn own_party(host: &longhaul_model::report::v1::observation::Host) -> Party {
    Party {
        host: host.name.clone(),
        address: None,
        longhaul: Some(env!("CARGO_PKG_VERSION").to_owned()),
        kernel: Some(host.kernel.clone()).filter(|kernel| !kernel.is_empty()),
        cores: Some(host.cores).filter(|cores| *cores > 0),
    }
}

/// Returns a caveat about the settings that could not be written, if any.
fn unwritten(changes: &[Change]) -> Option<Caveat> {
    let failed: Vec<&str> = changes
        .iter()
        .filter(|change| !change::written(change))
        .map(|change| change.name.as_str())
        .collect();
    if failed.is_empty() {
        return None;
    }
    let text = format!(
        "not written: {}; a setting of the whole machine can be written only outside of its \
         network namespaces and containers",
        failed.join(", ")
    );
    Some(Caveat::new("not_written", text))
}
