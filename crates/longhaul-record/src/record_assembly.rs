//! Assembles a record from a transfer, a path measurement and a legs file.

use crate::legs_file::RecordLegs;
use crate::record_conclusion::conclude_record;
use crate::speed_record::{
    CapturedPayload, FibreLimit, RecordObservation, RuleSet, SCHEMA, SpeedRecord,
};
use crate::{RecordError, rule_sets};
use longhaul_analysis::imported::{CountedTransfer, find_counted_bytes};
use longhaul_model::report::v1::path::ObservedRoute;
use longhaul_model::report::v1::plan::{ReceiveMode, RunDirection, RunTransport};
use longhaul_model::report::v1::{
    ImportedReport, PathReport, ReportCaveat, RunInfo, ThroughputReport,
};
use longhaul_model::units::count_of;
use std::net::{IpAddr, SocketAddr};

/// The runs of a record.
#[derive(Debug)]
pub struct RecordRuns {
    pub transfer: RecordTransfer,
    pub path: Option<PathReport>,
}

/// The transfer, by the program that measured it.
#[derive(Debug)]
pub enum RecordTransfer {
    Measured(Box<ThroughputReport>),
    Imported(Box<ImportedReport>),
}

impl RecordTransfer {
    pub fn run(&self) -> &RunInfo {
        match self {
            RecordTransfer::Measured(run) => &run.run,
            RecordTransfer::Imported(run) => &run.run,
        }
    }

    fn forward(&self) -> bool {
        match self {
            RecordTransfer::Measured(run) => run.observation.forward,
            RecordTransfer::Imported(run) => run.observation.forward != Some(false),
        }
    }
}

impl RecordRuns {
    /// Returns true if both ends are one machine, whatever path is between them.
    fn on_one_machine(&self) -> bool {
        match &self.transfer {
            RecordTransfer::Measured(run) => {
                let seen = &run.observation;
                seen.same_host || seen.same_boot == Some(true)
            }
            RecordTransfer::Imported(_) => false,
        }
    }

    /// Returns the route of the data, or else the route against it.
    fn route(&self) -> Option<&ObservedRoute> {
        let seen = &self.path.as_ref()?.observation;
        let (own, other) = (seen.route.as_ref(), seen.route_reverse.as_ref());
        if self.transfer.forward() { own.or(other) } else { other.or(own) }
    }
}

/// Fails unless the run has one direction and received bytes.
fn check_recordable(run: &ThroughputReport) -> Result<(), RecordError> {
    let no = |why: &str| {
        let message = format!("cannot make a record of run {}: {why}", run.run.id);
        Err(RecordError::input(message).hint("use a run in one direction"))
    };
    if run.plan.direction == RunDirection::Both {
        return no("it has both directions");
    }
    if sum_received_bytes(run) == 0 || run.observation.elapsed_us == 0 {
        return no("no bytes were received");
    }
    Ok(())
}

fn sum_received_bytes(run: &ThroughputReport) -> u64 {
    let streams = run.observation.streams.iter();
    streams.fold(0, |sum, it| sum.saturating_add(it.receiver.bytes))
}

pub fn assemble_record(
    runs: &RecordRuns,
    legs: Option<RecordLegs>,
    rules: &RuleSet,
    payload: Option<CapturedPayload>,
    made_at: String,
) -> Result<SpeedRecord, RecordError> {
    let mut observation = observe_transfer(runs, payload)?;
    let legs = legs.unwrap_or_default();
    let mut caveats = record_caveats(runs);
    set_min_rtt(runs, &mut observation);
    observation.path_run = runs.path.as_ref().map(|path| path.run.id.clone());
    observation.answered_hops = runs.route().map(count_answered_hops);
    if legs.stops.is_empty() {
        let text = "no distance is known, and therefore no score; give the cities with --legs FILE";
        caveats.push(ReportCaveat::new("no_distance", text));
    }
    observation.stops = legs.stops;
    let history = rule_sets::load_mark_history();
    let analysis = conclude_record(&observation, rules, &history);
    let distance = analysis.light.and_then(|light| check_distance(light, analysis.legs.len()));
    caveats.splice(0..0, distance);
    Ok(SpeedRecord {
        schema: SCHEMA.to_owned(),
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        made_at,
        about: legs.about,
        observation,
        analysis,
        caveats,
    })
}

/// A round trip that takes this many times that of light, and this much longer, does not follow
/// the legs: cables are up to twice as long as the geodesic, and hosts and routers take time too.
const MAX_STRETCH_RATIO: f64 = 3.0;
const MIN_DETOUR_MS: f64 = 10.0;

/// Returns a caveat if light contradicts the distance.
fn check_distance(light: FibreLimit, legs: usize) -> Option<ReportCaveat> {
    let least_ms = light.least_rtt_ns as f64 / 1e6;
    let rtt_ms = least_ms * light.stretch_ratio;
    let legs = count_of(legs as u64, "leg");
    if !light.possible {
        let text = format!(
            "the distance is impossible: light in fibre takes {least_ms:.1} ms over the {legs}, \
             and the RTT is {rtt_ms:.1} ms"
        );
        return Some(ReportCaveat::new("impossible_distance", text));
    }
    let is_detour = light.stretch_ratio > MAX_STRETCH_RATIO && rtt_ms - least_ms > MIN_DETOUR_MS;
    is_detour.then(|| {
        let text = format!(
            "the path takes another way than the {legs}: its RTT of {rtt_ms:.1} ms is {:.2} times \
             that of light in fibre ({least_ms:.1} ms); give the cities that it passes",
            light.stretch_ratio
        );
        ReportCaveat::new("detour", text)
    })
}

/// Counts the routers that answered; the target is not a router.
fn count_answered_hops(route: &ObservedRoute) -> u32 {
    let answers = route.hops.iter().filter_map(|hop| hop.answers.first());
    answers.filter(|it| it.address != route.to).count() as u32
}

/// Builds the observation from the transfer alone, without the path.
fn observe_transfer(
    runs: &RecordRuns,
    payload: Option<CapturedPayload>,
) -> Result<RecordObservation, RecordError> {
    let run = match &runs.transfer {
        RecordTransfer::Measured(run) => run,
        RecordTransfer::Imported(run) => return observe_imported(run),
    };
    check_recordable(run)?;
    let seen = &run.observation;
    Ok(RecordObservation {
        throughput_run: run.run.id.clone(),
        started_at: run.run.started_at.clone(),
        initiator: run.run.initiator.clone(),
        responder: run.run.responder.clone(),
        forward: seen.forward,
        transport: match run.plan.transport {
            RunTransport::Tcp => "tcp",
            RunTransport::Udp { .. } => "udp",
        }
        .to_owned(),
        ip_version: connection_ip_version(run),
        streams: seen.streams.len() as u32,
        received_bytes: sum_received_bytes(run),
        elapsed_us: seen.elapsed_us,
        same_host: runs.on_one_machine(),
        same_boot: seen.same_boot,
        payload,
        ..RecordObservation::default()
    })
}

/// Returns the IP version of the connections, or else of the responder's address.
fn connection_ip_version(run: &ThroughputReport) -> Option<u8> {
    let socket = |text: &String| text.parse::<SocketAddr>().ok().map(|it| it.ip());
    let streams = run.observation.streams.iter();
    let mut peers = streams.filter_map(|it| it.sender.peer.as_ref().and_then(socket));
    let named = run.run.responder.address.as_ref();
    let address = peers.next().or(named.and_then(|it| it.parse().ok()))?;
    Some(match address.to_canonical() {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    })
}

/// Sets the minimum round-trip time measured without load.
fn set_min_rtt(runs: &RecordRuns, to: &mut RecordObservation) {
    let path = runs.path.as_ref();
    let rtts = path.map(|it| [("client", it.analysis.rtt), ("server", it.analysis.rtt_reverse)]);
    let measured = rtts.into_iter().flatten().filter_map(|(who, it)| {
        let it = it?;
        let text = format!("min of {} RTT probes by the {who}", it.answered);
        Some((it.min_ns, text))
    });
    let told = match &runs.transfer {
        RecordTransfer::Measured(run) => run.observation.idle_rtt_us.map(|us| {
            let text = "min RTT of the control connection before the load";
            (us.saturating_mul(1000), text.to_owned())
        }),
        RecordTransfer::Imported(run) => imported_min_rtt(run),
    };
    if let Some((ns, by)) = measured.chain(told).min_by_key(|(ns, _)| *ns) {
        to.rtt_min_ns = Some(ns);
        to.rtt_by = Some(by);
    }
}

fn record_caveats(runs: &RecordRuns) -> Vec<ReportCaveat> {
    let mut caveats = Vec::new();
    if let RecordTransfer::Measured(run) = &runs.transfer {
        caveats.extend(count_caveats(run));
    }
    if runs.on_one_machine() {
        let text = "both ends are one machine: the path is emulated or a loop, and the distance is \
                    that of the path it represents";
        caveats.push(ReportCaveat::new("same_host", text));
    }
    if runs.path.is_none() {
        let text = "the path was not measured: the bundle has no route and no RTT probes";
        caveats.push(ReportCaveat::new("no_path", text));
    }
    caveats.extend(match &runs.transfer {
        RecordTransfer::Measured(run) => run.caveats.clone(),
        RecordTransfer::Imported(run) => imported_caveats(run),
    });
    caveats
}

fn count_caveats(run: &ThroughputReport) -> Vec<ReportCaveat> {
    let mut caveats = Vec::new();
    let totals = &run.observation.ends.receiver;
    let counted = sum_received_bytes(run);
    if totals.bytes != counted {
        let text = format!(
            "the receiver counted {} bytes in total and {counted} in its streams; the record uses \
             the latter",
            totals.bytes
        );
        caveats.push(ReportCaveat::new("counts_differ", text));
    }
    if run.plan.mode == ReceiveMode::Wire {
        let text = "the kernel of the receiver discarded the payload: no program received it";
        caveats.push(ReportCaveat::new("discarded", text));
    }
    caveats
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_conclusion::compare_with_light;

    #[test]
    fn a_distance_that_light_contradicts_is_a_caveat() {
        let code = |km: u64, rtt_ms: u64| {
            let light = compare_with_light(km * 1_000_000, rtt_ms * 1_000_000);
            check_distance(light, 1).map(|caveat| caveat.code)
        };
        assert_eq!(code(8_000, 160), None, "twice the geodesic");
        assert_eq!(code(50, 5), None, "a short path, with the delay of its hosts");
        assert_eq!(code(3_000, 160).as_deref(), Some("detour"));
        assert_eq!(code(12_000, 90).as_deref(), Some("impossible_distance"));
    }
}
