//! A report of the flows of other programs as text: a table of transfers, then what limits each.

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    count_of, format_micros, format_millis, format_percent, format_rate, or_absent,
};
use crate::run_answer;
use longhaul_analysis::flow_analysis::{
    find_local_address, find_trip_us, is_sender_side, name_observer, name_transfer,
};
use longhaul_analysis::throughput::{limiter_label, name_limiter};
use longhaul_model::report::v1::flows::flow_grouping::MIN_TRANSFER_BYTES;
use longhaul_model::report::v1::flows::{
    DailyTransfers, FlowsObservation, LimitedBytes, ObservedTransfer, TransferAnalysis,
};
use longhaul_model::report::v1::{FlowsReport, ReportFinding};
use longhaul_model::units::Bytes;

/// Summarizes the result in a few words.
pub fn summarize_flows(report: &FlowsReport) -> String {
    let transfers = report.observation.transfers.iter().zip(&report.analysis.transfers);
    let mut lines = transfers.map(|(seen, concluded)| {
        format!("{} limited by {}", format_short_name(seen), label_limit(seen, concluded))
    });
    lines.next().unwrap_or_else(|| "no transfers".to_owned())
}

/// Names a transfer in a few words: `rclone to 192.0.2.7`.
pub fn format_short_name(transfer: &ObservedTransfer) -> String {
    let process = transfer.process.as_ref().map(|process| process.name.clone());
    let near = process.or_else(|| find_local_address(transfer)).unwrap_or_else(|| "?".to_owned());
    let way = if transfer.sends { "to" } else { "from" };
    format!("{near} {way} {}{}", transfer.peer, name_observer(transfer))
}

/// Returns the limiter in two words, for a column. What a receiver cannot explain is at the sender.
pub fn label_limit(seen: &ObservedTransfer, concluded: &TransferAnalysis) -> String {
    if is_sender_side(seen, &concluded.run) {
        return "sender's side".to_owned();
    }
    limiter_label(concluded.run.limited_by).to_owned()
}

/// Renders the whole report.
pub fn build_flows_document(report: &FlowsReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_flows(&mut page, report);
    let (plan, seen) = (&report.plan, &report.observation);
    let watched: u64 = seen.transfers.iter().map(|it| u64::from(it.plan.streams)).sum();
    page.fact(
        "watched",
        format!(
            "{} for {}: {} in {}, of {} that match",
            plan.selector,
            format_micros(seen.elapsed_us),
            count_of(watched, "flow"),
            count_of(seen.transfers.len() as u64, "transfer"),
            seen.matching_flows,
        ),
    );
    let transfers: Vec<_> = seen.transfers.iter().zip(&report.analysis.transfers).collect();
    if !transfers.is_empty() {
        page.gap();
        page.table(build_transfer_table(&transfers));
    }
    page.details(|page| {
        for (seen, concluded) in &transfers {
            page.gap();
            page.heading(3, name_transfer(seen));
            write_limits(page, concluded);
        }
        page.gap();
        page.findings(&report.findings);
    });
    page.caveats(&report.caveats);
    page
}

/// Renders one transfer: shares, bounds, evidence and advice.
pub fn build_transfer_details(
    seen: &ObservedTransfer,
    concluded: &TransferAnalysis,
    findings: &[ReportFinding],
) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(3, name_transfer(seen));
    write_limits(&mut page, concluded);
    page.findings(findings);
    page
}

/// Returns the reason why there is no transfer: nothing matches, or too few bytes moved.
pub fn describe_no_transfers(observation: &FlowsObservation) -> String {
    let connections = count_of(observation.matching_flows, "matching connection");
    let least = Bytes(MIN_TRANSFER_BYTES);
    match observation.small_flow_bytes {
        _ if observation.matching_flows == 0 => "none: no connection matches".to_owned(),
        Some(0) => format!("none: {connections} moved no payload"),
        Some(bytes) => format!(
            "none: {connections} moved at most {} of payload in one direction; a limit is named from {least} on",
            Bytes(bytes)
        ),
        None => format!(
            "none: {connections} moved less than {least} of payload in each direction, too little to name a limit"
        ),
    }
}

/// Returns a row for each transfer.
pub fn build_transfer_table(transfers: &[(&ObservedTransfer, &TransferAnalysis)]) -> DocumentTable {
    DocumentTable::from_rows(transfers.iter().copied())
        .text("transfer", |(seen, _)| format_short_name(seen))
        .number("port", |(seen, _)| seen.service_port.to_string())
        .number("flows", |(seen, _)| seen.plan.streams.to_string())
        .number("rate", |(_, it)| or_absent(it.run.goodput_bps, format_rate))
        .number("RTT", |(seen, it)| or_absent(find_trip_us(seen, it), format_micros))
        .text("limited by", |(seen, it)| label_limit(seen, it))
        .number("sure", |(_, it)| format_percent(it.run.confidence_ratio))
        .finish()
}

/// Renders the sums of transfers, a row for each day, name and peer.
pub fn build_daily_document(rows: &[DailyTransfers]) -> ReportDocument {
    let mut page = ReportDocument::default();
    let several_hosts = rows.iter().any(|row| row.host != rows[0].host);
    let name = |row: &DailyTransfers| {
        let near = if several_hosts { format!("{}: ", row.host) } else { String::new() };
        let way = if row.sends { "to" } else { "from" };
        format!("{near}{} {way} {}", row.program, row.peer)
    };
    let table = DocumentTable::from_rows(rows)
        .text("day (UTC)", |row| row.day.clone())
        .text("transfers", name)
        .number("bytes", |row| Bytes(row.bytes).to_string())
        .text("limited by", |row| list_limits(&row.limits));
    page.table(table.finish());
    page.faint(
        "limited by: the share of the bytes in transfers with this limiter. Of a schedule, the bytes \
         are those of the time that it watched.",
    );
    page
}

/// The maximum number of limiters in a row.
const MAX_NAMED_LIMITS: usize = 3;

/// Lists the largest shares: `receive window 75 %, loss 25 %`.
fn list_limits(limits: &[LimitedBytes]) -> String {
    let shares = limits
        .iter()
        .take(MAX_NAMED_LIMITS)
        .map(|it| format!("{} {}", limiter_label(it.limiter), format_percent(it.share_ratio)));
    shares.collect::<Vec<_>>().join(", ")
}

pub(crate) fn write_limits(page: &mut ReportDocument, concluded: &TransferAnalysis) {
    let run = &concluded.run;
    let sure = format_percent(run.confidence_ratio);
    let limiter = run.limited_by;
    page.fact("limited by", format!("{} [{limiter}, confidence {sure}]", name_limiter(limiter)));
    for share in &run.shares {
        let text = format!("{} of the time", format_percent(share.share_ratio));
        page.fact(share.state.as_str(), text);
    }
    for bound in &run.bounds {
        let (limiter, rate) = (limiter_label(bound.limiter), format_rate(bound.rate_bps));
        page.fact("bound", format!("{limiter}, {rate}: {}", bound.why));
    }
    if let Some(count) = run.totals.retransmitted_segments {
        page.fact("retransmits", count_of(count, "segment"));
    }
    if let Some(rtt) = run.rtt_us {
        page.fact("RTT", format!("{} to {} ms", format_millis(rtt.min), format_millis(rtt.max)));
    }
}
