//! Uses a transfer measured by another program for a record.

use crate::RecordError;
use crate::speed_record::RecordObservation;
use longhaul_analysis::imported::{CountedTransfer, find_counted_bytes};
use longhaul_model::report::v1::{ImportedReport, ReportCaveat};
use std::net::IpAddr;

/// Builds the observation, or fails with all missing data.
pub fn observe_imported(run: &ImportedReport) -> Result<RecordObservation, RecordError> {
    let seen = &run.observation;
    let counted = find_counted_bytes(seen);
    let streams = run.analysis.streams;
    let transport = seen.protocol.as_deref();
    let transport = transport.filter(|it| ["tcp", "udp"].contains(it));
    let (Some(counted), Some(streams), Some(transport), Some(forward)) =
        (counted, streams, transport, seen.forward)
    else {
        let lacks = [
            (counted.is_none(), "bytes and duration of one end"),
            (streams.is_none(), "number of streams"),
            (transport.is_none(), "transport (TCP or UDP)"),
            (seen.forward.is_none(), "direction"),
        ];
        let lacks = lacks.into_iter().filter(|(lacks, _)| *lacks);
        return Err(missing_fields_failure(run, lacks.map(|(_, what)| what)));
    };
    let address = run.run.responder.address.as_ref();
    let address = address.and_then(|it| it.parse::<IpAddr>().ok());
    let version = |it: IpAddr| if it.to_canonical().is_ipv4() { 4 } else { 6 };
    Ok(RecordObservation {
        throughput_run: run.run.id.clone(),
        started_at: run.run.started_at.clone(),
        initiator: run.run.initiator.clone(),
        responder: run.run.responder.clone(),
        forward,
        transport: transport.to_owned(),
        ip_version: address.map(version),
        streams,
        received_bytes: counted.bytes,
        elapsed_us: counted.duration_us,
        ..RecordObservation::default()
    })
}

fn missing_fields_failure<'a>(
    run: &ImportedReport,
    lacks: impl Iterator<Item = &'a str>,
) -> RecordError {
    let fail = RecordError::input(format!(
        "cannot make a record of run {}: the output of {} is incomplete",
        run.run.id, run.observation.tool
    ));
    lacks
        .fold(fail, |fail, what| fail.cause(format!("missing: {what}")))
        .hint("import the output of the other end, or a more detailed output")
}

/// Returns the minimum round-trip time of the transfer, as printed.
pub fn imported_min_rtt(run: &ImportedReport) -> Option<(u64, String)> {
    let us = run.analysis.rtt_min_us?;
    let text = format!("min RTT printed by {}", run.observation.tool);
    Some((us.saturating_mul(1000), text))
}

pub fn imported_caveats(run: &ImportedReport) -> Vec<ReportCaveat> {
    let tool = &run.observation.tool;
    let text = format!(
        "the transfer was measured by {tool} and imported; longhaul observed neither its bytes \
         nor its hosts"
    );
    let mut caveats = vec![ReportCaveat::new("imported", text)];
    if let Some(CountedTransfer { by, .. }) = find_counted_bytes(&run.observation)
        && by != "receiver"
    {
        let text = "bytes and duration are not those of the receiver, which the output lacks";
        caveats.push(ReportCaveat::new("not_counted_by_receiver", text));
    }
    let ours = |it: &&ReportCaveat| it.code != "not_counted_by_receiver";
    caveats.extend(run.caveats.iter().filter(ours).cloned());
    caveats
}
