//! Loads against a server of another program: its kernel answers the probes, by ICMP echo or, where
//! that is not answered or not permitted, by ICMP errors about UDP datagrams.
//!
//! Units: nanoseconds. Error: that of [`crate::path::round_trips`]. Wrong when: a router on the way
//! treats ICMP unlike the load. There are no one-way delays.

use super::{LoadOutcome, LoadParties, LoadRunProgress, LoadSession, MAX_PROBES, echo_series};
use crate::path::{EchoSeriesRequest, PathError, ProbeTarget, measure_round_trips};
use crate::probe_error::{ProbeError, describe_error_chain};
use crate::throughput::{BulkRun, TargetHost, choose_path_address, initiator_party};
use longhaul_model::report::v1::load::{LoadPlan, LoadProbe};
use longhaul_model::report::v1::path::{ProbeEcho, ProbeProtocol, RoundTripPlan, RoundTripSeries};
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// Number, interval and timeout of the probes that find out which protocol is answered.
const TRIAL_PROBES: u32 = 4;
const TRIAL_INTERVAL_US: u64 = 50_000;
/// The time after which a probe counts as lost.
const TIMEOUT_US: u64 = 2_000_000;

const ICMP_TEXT: &str = "the server answers no probes of longhaul: RTT and loss are those of ICMP \
                         echo, and there are no one-way delays";
const UDP_TEXT: &str = "the server answers no probes of longhaul and no ICMP echo: RTT is that of \
                        ICMP errors about UDP, which most hosts limit to about one a second, so \
                        that losses are not losses of the path";

/// Runs the whole plan with loads by `bulk_run`. The address of the target is chosen if it is not.
///
/// # Errors
/// The name has no address, or no probes are answered. A failed load is an error of its phase.
pub fn run_from_one_end(
    target: &TargetHost,
    bulk_run: Arc<BulkRun>,
    plan: &LoadPlan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadRunProgress),
) -> Result<LoadOutcome, ProbeError> {
    super::check_load_plan(plan)?;
    let started_at = SystemTime::now();
    let chosen = choose_path_address(target)?;
    let address = chosen.address;
    let target = &target.with_address(chosen);
    let prober = KernelProber::find(target, address, stop)?;
    let parties = LoadParties {
        initiator: initiator_party(None),
        responder: RunParty {
            host: target.host.clone(),
            address: Some(address.ip().to_string()),
            failed_addresses: target.failed_addresses(),
            ..RunParty::default()
        },
    };
    let session = LoadSession { target, bulk_run, plan, stop, started_at };
    let mut outcome = session.run(parties, prober.idle_rtt, watch, |probes| {
        let plan = prober.series_plan(plan);
        let mut each = |echo: &ProbeEcho| {
            probes.add(LoadProbe { echo: *echo, forward_ns: None, reverse_ns: None });
        };
        prober.send(plan, None, &probes.over, &mut each).map_err(|error| failed_probes(&error))
    })?;
    // The source address is that of the loads.
    if let Some(run) = outcome.runs.first() {
        outcome.initiator.clone_from(&run.outcome.initiator);
    }
    let text = if prober.target.protocol == ProbeProtocol::Udp { UDP_TEXT } else { ICMP_TEXT };
    outcome.caveats.push(ReportCaveat::new("one_end_probes", text));
    Ok(outcome)
}

fn failed_probes(error: &PathError) -> ProbeError {
    ProbeError::local(describe_error_chain(error), None)
}

/// Sends probes that the kernel of the destination answers.
struct KernelProber {
    target: ProbeTarget,
    idle_rtt: Option<Duration>,
}

impl KernelProber {
    /// Finds a protocol whose probes are answered.
    fn find(
        target: &TargetHost,
        address: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<KernelProber, ProbeError> {
        let mut reasons = Vec::new();
        for protocol in [ProbeProtocol::Icmp, ProbeProtocol::Udp] {
            let target = ProbeTarget {
                destination: address.ip().to_canonical(),
                source: target.bind.address,
                device: target.bind.device.clone(),
                protocol,
                port: None,
                source_id: None,
            };
            let prober = KernelProber { target, idle_rtt: None };
            let trial = RoundTripPlan {
                protocol,
                probes: TRIAL_PROBES,
                interval_us: TRIAL_INTERVAL_US,
                packet_bytes: 64,
                timeout_us: TIMEOUT_US,
            };
            match prober.send(trial, Some(TRIAL_PROBES), stop, &mut |_| {}) {
                Ok(series) => {
                    let least = series.echoes.iter().filter_map(|echo| echo.rtt_ns).min();
                    if let Some(rtt_ns) = least {
                        let idle_rtt = Some(Duration::from_nanos(rtt_ns));
                        return Ok(KernelProber { idle_rtt, ..prober });
                    }
                    reasons.push(format!("{} is not answered", protocol.word()));
                }
                Err(error) => reasons.push(describe_error_chain(&error)),
            }
        }
        let reasons = reasons.join("; ");
        let what = format!("cannot measure the RTT to {}: {reasons}", address.ip());
        let advice = "run `longhaul serve` there, or measure the throughput alone: `longhaul test`";
        Err(ProbeError::OtherProtocol { address, what, advice: Some(advice), is_lost: false })
    }

    fn series_plan(&self, plan: &LoadPlan) -> RoundTripPlan {
        let series = echo_series(plan);
        let probes = series.max_time.as_micros() / series.interval.as_micros().max(1);
        RoundTripPlan {
            protocol: self.target.protocol,
            probes: probes.min(u128::from(MAX_PROBES)) as u32,
            interval_us: plan.probe_interval_us,
            packet_bytes: plan.probe_bytes,
            timeout_us: TIMEOUT_US,
        }
    }

    fn send(
        &self,
        round_trips: RoundTripPlan,
        give_up_after: Option<u32>,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&ProbeEcho),
    ) -> Result<RoundTripSeries, PathError> {
        let request = EchoSeriesRequest { target: self.target.clone(), round_trips, give_up_after };
        Ok(measure_round_trips(&request, stop, each)?.echoes)
    }
}
