//! A throughput report as text.

use super::figures::{count_of, duration, rate};
use super::page::{Page, WIDTH};
use super::style::{CAVEAT, FAINT, STRONG, paint};
use super::{ends, streams, verdict};
use longhaul_model::report::v1::analysis::Analysis;
use longhaul_model::report::v1::observation::{Buffer, Observation, Stream};
use longhaul_model::report::v1::plan::{Direction, Plan, Stop, Transport};
use longhaul_model::report::v1::{Caveat, Finding, Party, Run, Throughput};
use longhaul_model::units::Bytes;
use std::collections::BTreeMap;

/// The maximum number of caveats of one kind that are shown in full.
const SAME_CAVEATS_MAX: usize = 2;

/// Renders the report, from the hosts to the caveats.
pub fn report(report: &Throughput) -> String {
    let mut page = Page::default();
    title(&mut page, &report.run);
    page.labelled("asked", &asked(&report.plan));
    let findings = verdict::findings_of(&report.findings, false);
    direction(
        &mut page,
        report,
        (&report.observation, &report.analysis),
        &findings,
    );
    if let (Some(observation), Some(analysis)) =
        (&report.observation.reverse, &report.analysis.reverse)
    {
        let findings = verdict::findings_of(&report.findings, true);
        direction(&mut page, report, (observation, analysis), &findings);
    }
    super::capture::of_run(&mut page, &report.observation);
    caveats(&mut page, &report.caveats);
    footer(&mut page, &report.run);
    page.finish()
}

/// Writes the run id, by which the report can be found again.
pub fn footer(page: &mut Page, run: &Run) {
    page.blank();
    page.line(&paint(
        FAINT,
        format!("run {}, longhaul {}", run.id, run.longhaul),
    ));
}

/// Writes the hosts and the time of the measurement.
pub fn title(page: &mut Page, run: &Run) {
    let who = format!("{} -> {}", party(&run.initiator), party(&run.responder));
    let when = run.started_at.replace('T', " ").replace('Z', " UTC");
    let gap = WIDTH.saturating_sub(who.chars().count() + when.chars().count());
    if gap >= 2 {
        let who = paint(STRONG, &who);
        page.line(&format!("{who}{:gap$}{}", "", paint(FAINT, &when)));
    } else {
        page.hanging_in("", &who, STRONG);
        page.line(&paint(FAINT, &when));
    }
}

/// Formats a host name, with the address if it differs.
fn party(party: &Party) -> String {
    match &party.address {
        Some(address) if *address != party.host => format!("{} ({address})", party.host),
        _ => party.host.clone(),
    }
}

/// Describes the plan in one sentence, without kernel defaults.
pub fn asked(plan: &Plan) -> String {
    let mut parts = vec![match plan.transport {
        Transport::Tcp => count_of(u64::from(plan.streams), "TCP stream"),
        Transport::Udp { rate_bps } => format!(
            "{} at {}",
            count_of(u64::from(plan.streams), "UDP stream"),
            rate(rate_bps)
        ),
    }];
    parts.push(
        match plan.direction {
            Direction::Forward => "forward (this end sends)",
            Direction::Reverse => "reverse (the far end sends)",
            Direction::Both => "both directions at once",
        }
        .to_owned(),
    );
    parts.push(match plan.stop {
        Stop::TimeUs(us) => duration(us),
        Stop::Bytes(bytes) => Bytes(bytes).to_string(),
        Stop::Blocks(blocks) => count_of(blocks, "write"),
    });
    let size = |name: &str, bytes: Option<u64>| bytes.map(|n| format!("{name} {}", Bytes(n)));
    let speed = |name: &str, bps: Option<u64>| bps.map(|n| format!("{name} {}", rate(n)));
    parts.extend(
        [
            plan.congestion_control.clone(),
            plan.write_bytes.map(|n| match plan.transport {
                Transport::Tcp => format!("writes of {}", Bytes(n)),
                Transport::Udp { .. } => format!("datagrams of {n} B"),
            }),
            size("reads of", plan.read_bytes),
            speed("paced at", plan.pacing_bps),
            speed("writing at", plan.write_rate_bps),
            speed("reading at", plan.read_rate_bps),
            plan.mss_bytes.map(|n| format!("MSS {n} B")),
            plan.dscp.map(|n| format!("DSCP {n}")),
            plan.scavenger.then(|| "yielding to others".to_owned()),
            plan.no_delay.then(|| "no delay".to_owned()),
            plan.zero_copy.then(|| "zero-copy writes".to_owned()),
            plan.warm_up_us
                .map(|us| format!("first {} left out", duration(us))),
        ]
        .into_iter()
        .flatten(),
    );
    parts.join(", ")
}

fn direction(
    page: &mut Page,
    report: &Throughput,
    (observation, analysis): (&Observation, &Analysis),
    findings: &[&Finding],
) {
    let both = report.observation.reverse.is_some();
    if both {
        page.blank();
        page.heading(if observation.forward {
            "FORWARD: this end sends"
        } else {
            "REVERSE: the far end sends"
        });
    }
    buffers(page, &report.plan, observation);
    page.blank();
    streams::table(page, observation, analysis);
    page.blank();
    ends::block(page, observation, analysis);
    page.blank();
    verdict::result(page, observation, analysis, report.plan.mode);
    page.blank();
    verdict::verdict(page, analysis, findings);
}

/// Writes requested and granted buffers of TCP streams.
fn buffers(page: &mut Page, plan: &Plan, observation: &Observation) {
    let granted = |pick: fn(&Stream) -> Option<Buffer>| {
        let all = observation.streams.iter().filter_map(pick);
        all.collect::<Vec<Buffer>>()
    };
    let send = granted(|s| s.sender.send_buffer);
    if let Some(text) = buffer_text(plan.send_buffer_bytes, &send) {
        page.labelled("send buffer", &text);
    }
    let receive = granted(|s| s.receiver.receive_buffer);
    if let Some(text) = buffer_text(plan.receive_buffer_bytes, &receive) {
        page.labelled("receive buffer", &text);
    }
    let first = observation.streams.first();
    if let Some(name) = first.and_then(|s| s.sender.congestion_control.as_ref()) {
        let mss = first.and_then(|s| s.sender.mss_bytes);
        let mss = mss.map_or_else(String::new, |mss| format!(", MSS {mss} B"));
        page.labelled("TCP", &format!("{name}{mss}"));
    }
}

/// Describes one buffer over all streams; `None` if no stream has one.
fn buffer_text(planned_bytes: Option<u64>, all: &[Buffer]) -> Option<String> {
    let least = all.iter().map(|b| b.granted_bytes).min()?;
    let most = all.iter().map(|b| b.granted_bytes).max()?;
    let granted = if least == most {
        Bytes(most).to_string()
    } else {
        format!("{} to {}", Bytes(least), Bytes(most))
    };
    Some(match (planned_bytes, all[0].asked_bytes) {
        (Some(asked), _) if most < asked => {
            format!("{} asked, only {granted} granted", Bytes(asked))
        }
        (Some(asked), _) => format!("{} asked, {granted} granted", Bytes(asked)),
        (None, Some(_)) => format!("chosen by longhaul, {granted} granted"),
        (None, None) => format!("left to the kernel, {granted} at the end"),
    })
}

/// Writes the caveats; many of one kind are shortened.
pub fn caveats(page: &mut Page, caveats: &[Caveat]) {
    if !caveats.is_empty() {
        page.blank();
    }
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    for caveat in caveats {
        let count = told.entry(&caveat.code).or_default();
        *count += 1;
        if *count <= SAME_CAVEATS_MAX {
            let text = format!("{} [{}]", caveat.text, caveat.code);
            page.hanging_in("caveat: ", &text, CAVEAT);
        }
    }
    for (code, count) in told {
        if count > SAME_CAVEATS_MAX {
            let more = count - SAME_CAVEATS_MAX;
            let text = format!("{more} more of the kind [{code}]; --json has every one");
            page.hanging_in("caveat: ", &text, CAVEAT);
        }
    }
}
