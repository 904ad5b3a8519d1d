//! The answer of a run: the result, what limited it, and what to do, in at most six lines.
//!
//! Every document of a run has one. A line is a fact or a command that works when it is copied.

use crate::document::ReportDocument;
use crate::number_format::{
    RateUnit, count_of, format_interval, format_micros, format_millis, format_percent, format_rate,
    join_parts, or_absent,
};
use crate::scan_text::setting_format::{describe_setting, format_test_command, format_window};
use crate::{copy_text, flow_text, load_text, path_text, prediction_text, summary_lines};
use longhaul_analysis::flow_analysis::is_sender_side;
use longhaul_analysis::throughput::{limiter_label, name_limiter};
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::host::AuditGrade;
use longhaul_model::report::v1::observation::{EndObservation, ThroughputObservation};
use longhaul_model::report::v1::path::RouteChangeKind;
use longhaul_model::report::v1::plan::ReceiveMode;
use longhaul_model::report::v1::predict::PredictionCell;
use longhaul_model::report::v1::scan::ScanConclusion;
use longhaul_model::report::v1::{
    AvailableReport, CopyReport, FindingAdvice, FlowsReport, HostReport, LoadReport, PathReport,
    PredictionReport, ReportFinding, RunInfo, ScanReport, ThroughputReport,
};
use longhaul_model::units::Bytes;

/// The maximum number of commands of an answer.
const MAX_COMMANDS: usize = 2;

/// Answers with the goodput, the limiter and the advice of each direction.
pub fn answer_throughput(page: &mut ReportDocument, report: &ThroughputReport) {
    let (observation, analysis) = (&report.observation, &report.analysis);
    let reverse = observation.reverse.as_deref().zip(analysis.reverse.as_deref());
    let both = reverse.is_some();
    for (seen, found) in std::iter::once((observation, analysis)).chain(reverse) {
        let label = match (both, seen.forward) {
            (false, _) => "goodput",
            (true, true) => "forward",
            (true, false) => "reverse",
        };
        page.answer(label, describe_goodput(found, report.plan.mode));
        page.answer("limited by", describe_limiter(seen, found));
    }
    if !both {
        page.answer("RTT", describe_rtt(observation, analysis));
    }
    answer_advice(page, &report.run, &report.findings, Some(observation));
}

/// Describes the goodput with its interval and the mean that includes slow start.
fn describe_goodput(analysis: &ThroughputAnalysis, mode: ReceiveMode) -> String {
    let Some(goodput) = analysis.goodput_bps.or(analysis.mean_goodput_bps) else {
        return "nothing was received".to_owned();
    };
    let unit = RateUnit::for_max(goodput);
    let interval = analysis.goodput_interval_bps.map(|it| format_confidence(it, unit));
    // Only TCP, which has no loss ratio of its own, starts slowly.
    let is_tcp = analysis.totals.loss_ratio.is_none();
    let mean = analysis.mean_goodput_bps.filter(|mean| is_tcp && *mean != goodput);
    let mean = mean.map(|mean| format!("{} with slow start", unit.short(mean)));
    let wire = (mode == ReceiveMode::Wire).then(|| "wire".to_owned());
    let lost = analysis.totals.loss_ratio.map(|ratio| format!("{} lost", format_percent(ratio)));
    match join_parts("; ", [interval, mean, wire, lost]).as_str() {
        "" => format_rate(goodput),
        details => format!("{} ({details})", format_rate(goodput)),
    }
}

/// Formats a 95 % interval without its unit.
fn format_confidence([low, high]: [u64; 2], unit: RateUnit) -> String {
    format!("95 %: {} to {}", unit.short(low), unit.short(high))
}

/// Describes the limiter with its host, the confidence, and the bound.
fn describe_limiter(observation: &ThroughputObservation, analysis: &ThroughputAnalysis) -> String {
    let limiter = analysis.limited_by;
    let name = name_limiter(limiter).trim_start_matches("the ");
    let end = match limiter {
        Limiter::ReceiveWindow => Some(&observation.ends.receiver),
        Limiter::SendBuffer => Some(&observation.ends.sender),
        _ => None,
    };
    let host = end.map(|end| end.host.name.as_str()).filter(|name| !name.is_empty());
    let host = host.map_or_else(String::new, |host| format!(" of {host}"));
    let sure = format_percent(analysis.confidence_ratio);
    let own = analysis.bounds.iter().find(|bound| bound.limiter == limiter);
    let explains = end.is_some() || matches!(limiter, Limiter::Loss | Limiter::Pacing);
    let why = own.filter(|_| explains).map_or_else(String::new, |bound| {
        let why = bound.why.replacen(" receive window", "", 1).replacen(" send buffer", "", 1);
        format!(", {why}")
    });
    format!("{name}{host}{why} (confidence {sure})")
}

fn describe_rtt(observation: &ThroughputObservation, analysis: &ThroughputAnalysis) -> String {
    let idle = observation.idle_rtt_us.map(|us| format!("{} ms idle", format_millis(us)));
    let loaded = analysis.rtt_us.map(|rtt| format!("{} ms under load", format_millis(rtt.mean)));
    let resent = analysis.totals.retransmitted_segments;
    let resent = resent.map(|count| count_of(count, "retransmit"));
    let jitter = analysis.totals.jitter_us.map(|us| format!("jitter {}", format_micros(us)));
    join_parts(", ", [idle, loaded, resent, jitter])
}

/// Answers with the first command for another program and the first one for longhaul, or else with
/// the first advice.
fn answer_advice(
    page: &mut ReportDocument,
    run: &RunInfo,
    findings: &[ReportFinding],
    observation: Option<&ThroughputObservation>,
) {
    let advice = || findings.iter().flat_map(|finding| &finding.advice);
    let is_own = |it: &&FindingAdvice| it.command.as_ref().is_some_and(|c| c.starts_with(OWN));
    let is_other = |it: &&FindingAdvice| it.command.is_some() && !is_own(it);
    let commands = [advice().find(is_other), advice().find(is_own)];
    for it in commands.into_iter().flatten() {
        let command = it.command.as_deref().unwrap_or_default();
        let expected = it.expected_bps.map(|bps| format!("  # about {}", format_rate(bps)));
        let label = label_command(it, run, observation);
        page.answer_command(label, format!("{command}{}", expected.unwrap_or_default()));
    }
    match (commands, advice().next(), findings.first()) {
        ([None, None], Some(first), _) => page.answer("do", first.text.as_str()),
        ([None, None], None, Some(finding)) => page.answer("finding", finding.summary.as_str()),
        _ => {}
    }
}

/// The beginning of a command that runs on this host.
const OWN: &str = "longhaul ";

/// Returns the label of a command: the host on which it has to run, or `run`.
fn label_command(
    advice: &FindingAdvice,
    run: &RunInfo,
    observation: Option<&ThroughputObservation>,
) -> String {
    if advice.command.as_ref().is_some_and(|command| command.starts_with(OWN)) {
        return "run".to_owned();
    }
    let name = |end: &EndObservation| end.host.name.clone();
    let host = match advice.place.as_str() {
        "sender" => observation.map(|it| name(&it.ends.sender)).unwrap_or_default(),
        "receiver" => observation.map(|it| name(&it.ends.receiver)).unwrap_or_default(),
        "initiator" => run.initiator.host.clone(),
        "responder" => run.responder.host.clone(),
        _ => String::new(),
    };
    if host.is_empty() { "do".to_owned() } else { format!("on {host}") }
}

/// Answers with the recommended setting of each direction, its command, and the host settings that
/// it requires.
pub fn answer_scan(page: &mut ReportDocument, report: &ScanReport) {
    let directions = &report.analysis.directions;
    for conclusion in directions {
        let label = match (directions.len(), conclusion.forward) {
            (1, _) => "recommended",
            (_, true) => "forward",
            (_, false) => "reverse",
        };
        let Some(choice) = &conclusion.recommended else {
            page.answer(label, "no setting: too few measurements");
            continue;
        };
        let unit = RateUnit::for_max(choice.goodput_bps);
        let interval = choice.goodput_interval_bps;
        let interval = interval.map(|it| format!(" ({})", format_confidence(it, unit)));
        let interval = interval.unwrap_or_default();
        let goodput = format_rate(choice.goodput_bps);
        page.answer(label, format!("{}: {goodput}{interval}", describe_setting(&choice.setting)));
        if directions.len() == 1 {
            answer_gain(page, conclusion);
        }
        let server = report.run.responder.command_words();
        let command = format_test_command(&server, &choice.setting, conclusion.forward);
        page.answer_command("run", command);
    }
    let needs = directions.iter().flat_map(|conclusion| &conclusion.needs);
    for need in needs.take(MAX_COMMANDS) {
        let command = format!("sysctl -w {}=\"{}\"", need.name, need.wanted);
        page.answer_command(format!("on {}", need.host), command);
    }
}

/// Answers with the default setting in comparison, and with the limiter of the recommended one.
fn answer_gain(page: &mut ReportDocument, conclusion: &ScanConclusion) {
    let Some(choice) = &conclusion.recommended else {
        return;
    };
    let default = conclusion.default.as_ref().filter(|it| it.setting != choice.setting);
    if let Some(default) = default {
        let limiter = name_limiter(default.limited_by);
        let rate = format_rate(default.goodput_bps);
        page.answer("default", format!("{rate}, limited by {limiter}"));
    }
    page.answer("limited by", name_limiter(choice.limited_by));
}

/// Answers with RTT, loss, route change, narrow link and advice.
pub fn answer_path(page: &mut ReportDocument, report: &PathReport) {
    let analysis = &report.analysis;
    page.answer("path", summary_lines::summarize_path(report));
    let change = analysis.route_change.as_ref().filter(|it| it.kind != RouteChangeKind::Same);
    if let Some(change) = change {
        page.answer("change", path_text::path_facts::describe_change_kind(change.kind));
    }
    if let Some(link) = &analysis.narrow_link {
        page.answer("narrow link", path_text::describe_narrow_link(link));
    }
    let finding = report.findings.iter().find(|finding| finding.cause != "narrow_link");
    if let Some(finding) = finding {
        page.answer("finding", finding.summary.as_str());
    }
    if report.findings.is_empty() && report.observation.hop_load.is_none() {
        let server = report.run.responder.command_words();
        page.answer_command("run", format!("longhaul path {server} --load  # finds the queue"));
    } else {
        answer_advice(page, &report.run, &report.findings, None);
    }
}

/// Answers with available bandwidth and capacity of each direction, and the test that uses them.
pub fn answer_available(page: &mut ReportDocument, report: &AvailableReport) {
    let analysis = &report.analysis;
    let both = analysis.forward.is_some() && analysis.reverse.is_some();
    let directions = [("forward", &analysis.forward), ("reverse", &analysis.reverse)];
    for (name, estimate) in directions {
        if let Some(estimate) = estimate {
            let label = if both { name } else { "available" };
            let interval = estimate.available_bps.and(estimate.available_interval_bps);
            let interval = format_interval(interval, format_rate);
            page.answer(label, summary_lines::summarize_estimate(estimate) + &interval);
        }
    }
    if report.findings.is_empty() {
        let server = report.run.responder.command_words();
        page.answer_command("run", format!("longhaul test {server}"));
    }
    answer_advice(page, &report.run, &report.findings, None);
}

/// Answers with the RTT without and under the load that raises it most.
pub fn answer_load(page: &mut ReportDocument, report: &LoadReport) {
    let analysis = &report.analysis;
    page.answer("result", summary_lines::summarize_load(report));
    let worst = analysis.steps.iter().max_by_key(|step| step.rise_ns);
    if let Some(worst) = worst {
        let step = report.plan.steps.get(worst.step as usize);
        let label = step.map_or_else(|| "load".to_owned(), load_text::describe_step);
        let rise = worst.rise_ns.map(|ns| format!("RTT +{}", load_text::format_nanos(ns)));
        let parts = [
            Some(label),
            worst.goodput_bps.map(format_rate),
            rise,
            worst.round_trips_per_minute.map(|trips| format!("{trips} RPM")),
        ];
        page.answer("worst load", join_parts(", ", parts));
    }
    if let Some(finding) = report.findings.first() {
        page.answer("finding", finding.summary.as_str());
    }
    answer_advice(page, &report.run, &report.findings, None);
}

/// Answers with the number of limits and the command that changes them.
pub fn answer_audit(page: &mut ReportDocument, report: &HostReport) {
    let verdicts = &report.analysis.verdicts;
    let count = |grade: AuditGrade| verdicts.iter().filter(|it| it.grade == grade).count() as u64;
    let limits = count(AuditGrade::Limits);
    let checked = format!(
        "{}, {}",
        count_of(count(AuditGrade::Good), "rule") + " passed",
        count_of(count(AuditGrade::Advice), "piece") + " of advice"
    );
    page.answer(
        "verdict",
        match limits {
            0 => format!("nothing limits transfers: {checked}"),
            1 => format!("1 setting limits transfers; {checked}"),
            limits => format!("{limits} settings limit transfers; {checked}"),
        },
    );
    if let Some(proof) = &report.analysis.proof {
        page.answer("effect", proof.text.as_str());
    }
    let limiting = verdicts.iter().filter(|it| it.grade == AuditGrade::Limits);
    let settable = limiting.flat_map(|it| &it.remedies).any(|remedy| remedy.name.is_some());
    if settable && report.observation.changes.is_empty() {
        page.answer_command("run", "longhaul host --apply");
    }
}

/// Answers with the best prediction for each congestion control and loss.
pub fn answer_prediction(page: &mut ReportDocument, report: &PredictionReport) {
    for sheet in prediction_text::group_cells(report) {
        if let Some(best) = sheet.cells.iter().max_by_key(|cell| cell.goodput_bps) {
            let near = |it: &&&PredictionCell| {
                it.goodput_bps as f64 >= NEAR_BEST_RATIO * best.goodput_bps as f64
            };
            let least = sheet.cells.iter().filter(near).min_by_key(|cell| {
                let window = cell.setting.window_bytes.unwrap_or(u64::MAX >> 8);
                window.saturating_mul(u64::from(cell.setting.streams))
            });
            let cell = least.unwrap_or(best);
            let (rate, limiter) = (format_rate(cell.goodput_bps), limiter_label(cell.limited_by));
            let streams = count_of(u64::from(cell.setting.streams), "stream");
            let window = format_window(cell.setting.window_bytes);
            let name = sheet.name();
            page.answer("predicted", format!("{name}: {rate}, {streams} x {window} ({limiter})"));
        }
    }
}

/// A setting this near to the best prediction is as good.
const NEAR_BEST_RATIO: f64 = 0.97;

/// Answers with the size, the rate and the stage that limited the copy.
pub fn answer_flows(page: &mut ReportDocument, report: &FlowsReport) {
    let transfers = report.observation.transfers.iter().zip(&report.analysis.transfers);
    for (seen, concluded) in transfers.take(MAX_ANSWERED_TRANSFERS) {
        let run = &concluded.run;
        let limit = if is_sender_side(seen, run) {
            "the sender or its path"
        } else {
            name_limiter(run.limited_by)
        };
        let text = format!("{}, limited by {limit}", or_absent(run.goodput_bps, format_rate));
        page.answer(flow_text::format_short_name(seen), text);
    }
    match report.observation.transfers.len() {
        0 => page.answer("transfers", flow_text::describe_no_transfers(&report.observation)),
        1 => answer_advice(page, &report.run, &report.findings, None),
        _ => {}
    }
}

/// The maximum number of transfers in an answer.
const MAX_ANSWERED_TRANSFERS: usize = 3;

pub fn answer_copy(page: &mut ReportDocument, report: &CopyReport) {
    let seen = &report.observation;
    let rate = report.analysis.goodput_bps.filter(|_| seen.sent_bytes > 0);
    let rate = rate.map(|bps| format!(" at {}", copy_text::format_speed(bps)));
    let what = count_of(seen.files, "file");
    page.answer("copied", format!("{what}, {}{}", Bytes(seen.bytes), rate.unwrap_or_default()));
    if let Some(finding) = report.findings.first() {
        page.answer("limited by", finding.summary.as_str());
    }
    answer_advice(page, &report.run, &report.findings, None);
}
