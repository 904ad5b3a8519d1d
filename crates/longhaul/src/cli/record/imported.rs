//! Uses a transfer measured by another program for a record.

use crate::fail::{Fail, USAGE};
use longhaul_analysis::imported::{Counted, counted_bytes};
use longhaul_model::report::v1::record::Observation;
use longhaul_model::report::v1::{Caveat, Imported};
use std::net::IpAddr;

/// Builds the observation, or fails with all missing data.
pub fn observation(run: &Imported) -> Result<Observation, Fail> {
    let seen = &run.observation;
    let counted = counted_bytes(seen);
    let streams = run.analysis.streams;
    let transport = seen.protocol.as_deref();
    let transport = transport.filter(|it| ["tcp", "udp"].contains(it));
    let (Some(counted), Some(streams), Some(transport), Some(forward)) =
        (counted, streams, transport, seen.forward)
    else {
        let lacks = [
            (counted.is_none(), "bytes and seconds of one end"),
            (streams.is_none(), "how many streams there were"),
            (transport.is_none(), "whether it was TCP or UDP"),
            (seen.forward.is_none(), "which end sent"),
        ];
        let lacks = lacks.into_iter().filter(|(lacks, _)| *lacks);
        return Err(lacking(run, lacks.map(|(_, what)| what)));
    };
    let address = run.run.responder.address.as_ref();
    let address = address.and_then(|it| it.parse::<IpAddr>().ok());
    let version = |it: IpAddr| if it.to_canonical().is_ipv4() { 4 } else { 6 };
    Ok(Observation {
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
        ..Observation::default()
    })
}

fn lacking<'a>(run: &Imported, lacks: impl Iterator<Item = &'a str>) -> Fail {
    let text = format!(
        "run {} makes no record: what {} printed does not tell enough",
        run.run.id, run.observation.tool
    );
    let mut fail = Fail::new(USAGE, text);
    fail.causes
        .extend(lacks.map(|what| format!("it does not tell {what}")));
    fail.hint(Some(
        "import the output of the other end, or of the program called with more detail",
    ))
}

/// Returns the minimum round-trip time of the transfer, as printed.
pub fn rtt(run: &Imported) -> Option<(u64, String)> {
    let us = run.analysis.rtt_min_us?;
    let text = format!("least round trip that {} printed", run.observation.tool);
    Some((us.saturating_mul(1000), text))
}

pub fn caveats(run: &Imported) -> Vec<Caveat> {
    let tool = &run.observation.tool;
    let text = format!(
        "the transfer was measured by {tool} and imported: longhaul saw neither its bytes nor its \
         ends"
    );
    let mut caveats = vec![Caveat::new("imported", text)];
    if let Some(Counted { by, .. }) = counted_bytes(&run.observation)
        && by != "receiver"
    {
        let text = "bytes and seconds are not those of the receiver, which it does not tell";
        caveats.push(Caveat::new("not_counted_by_receiver", text));
    }
    let ours = |it: &&Caveat| it.code != "not_counted_by_receiver";
    caveats.extend(run.caveats.iter().filter(ours).cloned());
    caveats
}
