//! Fallback for hosts without longhaul: bulk TCP to any service that accepts it, then ICMP echoes
//! (docs/methods/available-bandwidth.md).

use super::AvailableMeasurement;
use super::AvailableProgress;
use crate::cli::report_archiving;
use crate::command_failure::CommandFailure;
use longhaul_model::report::v1::available::{
    AvailableObservation, AvailablePlan, DirectionProbing, ProbeTrain, TrainPurpose,
};
use longhaul_model::report::v1::path::{ProbeProtocol, RoundTripPlan, RoundTripSeries};
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_probe::path::{EchoSeriesRequest, ProbeTarget, measure_round_trips};
use longhaul_probe::probing::{BulkOutcome, BulkRequest, send_bulk};
use longhaul_probe::throughput::TargetHost;
use longhaul_report::available_text::format_probe_bytes;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Echoes that measure how often the queues of the round trip are empty: 50 per second, because
/// many hosts answer no faster.
const IDLE_ECHOES: RoundTripPlan = RoundTripPlan {
    protocol: ProbeProtocol::Icmp,
    probes: 100,
    interval_us: 20_000,
    packet_bytes: 64,
    timeout_us: 1_000_000,
};
/// The time to drain the queues after the bulk transfer, before the echoes.
const QUEUE_DRAIN_TIME: Duration = Duration::from_millis(500);

pub fn measure_bulk_tcp(
    target: &TargetHost,
    port: u16,
    plan: AvailablePlan,
    progress: &mut AvailableProgress<'_>,
) -> Result<AvailableMeasurement, CommandFailure> {
    progress.print_budget(&plan);
    let asked = BulkRequest {
        port,
        max_time: Duration::from_micros(plan.most_time_us),
        max_bytes: plan.most_bytes,
        dscp: plan.dscp,
    };
    let outcome = send_bulk(target, &asked, &mut |sample| {
        progress.line.draw(&format!("forward: {} by TCP", format_probe_bytes(sample.bytes)));
    })?;
    let mut caveats = Vec::new();
    if let Some(why) = &outcome.ended_early {
        caveats.push(ReportCaveat::new("ended_early", why));
    }
    progress.line.draw("RTT by ICMP");
    let trains = measure_idle_echoes(target, &outcome, &mut caveats);
    Ok(build_measurement(target, plan, outcome, trains, caveats))
}

fn build_measurement(
    target: &TargetHost,
    plan: AvailablePlan,
    outcome: BulkOutcome,
    trains: Vec<ProbeTrain>,
    caveats: Vec<ReportCaveat>,
) -> AvailableMeasurement {
    let last = outcome.samples.last().copied();
    AvailableMeasurement {
        observation: AvailableObservation {
            idle_rtt_us: outcome.connect_rtt.map(report_archiving::saturating_micros),
            forward: Some(DirectionProbing {
                probe_bytes: last.map_or(0, |sample| sample.bytes)
                    + super::count_train_bytes(&trains),
                duration_us: last.map_or(0, |sample| sample.at_us),
                trains,
                tcp_samples: outcome.samples,
                ..DirectionProbing::default()
            }),
            ..AvailableObservation::default()
        },
        plan,
        initiator: outcome.initiator,
        responder: RunParty {
            host: target.host.clone(),
            address: Some(outcome.address.ip().to_string()),
            ..RunParty::default()
        },
        caveats,
    }
}

/// Measures round trips and returns them as a train whose one-way delays are round-trip times.
fn measure_idle_echoes(
    target: &TargetHost,
    outcome: &BulkOutcome,
    caveats: &mut Vec<ReportCaveat>,
) -> Vec<ProbeTrain> {
    std::thread::sleep(QUEUE_DRAIN_TIME);
    let asked = EchoSeriesRequest {
        target: ProbeTarget {
            destination: outcome.address.ip(),
            source: target.bind.address,
            device: target.bind.device.clone(),
            protocol: IDLE_ECHOES.protocol,
            port: None,
        },
        round_trips: IDLE_ECHOES,
    };
    match measure_round_trips(&asked, &AtomicBool::new(false), &mut |_| {}) {
        Ok(echoes) => vec![convert_echoes(&echoes)],
        Err(error) => {
            let text = format!("cannot measure RTT by ICMP: {error}");
            caveats.push(ReportCaveat::new("no_echoes", text));
            Vec::new()
        }
    }
}

fn convert_echoes(echoes: &RoundTripSeries) -> ProbeTrain {
    let sent = |at_us: u64| at_us.saturating_mul(1000);
    let all = &echoes.echoes;
    ProbeTrain {
        index: 0,
        purpose: TrainPurpose::Idle,
        packet_bytes: echoes.packet_bytes,
        rate_bps: None,
        micro_burst_packets: 1,
        sent_at_ns: 0,
        sent_ns: all.iter().map(|echo| sent(echo.at_us)).collect(),
        received_at_ns: 0,
        received_ns: all
            .iter()
            .map(|echo| Some(sent(echo.at_us).saturating_add(echo.rtt_ns?)))
            .collect(),
        clock_step_ns: None,
        spoilt: None,
    }
}
