//! The far end's half of a watch: a server watches its connections with this host.

use crate::plan_limits::MAX_WATCH_SAMPLES;
use crate::probe_error::ProbeError;
use crate::probing::ProbeControl;
use crate::supervise::StopFlag;
use crate::throughput::TargetHost;
use crate::wire::{
    Base64Bytes, FlowWatchRequest, ProbeBounds, SessionReply, SessionRequest, parse_json_body,
};
use longhaul_model::report::v1::flows::{FlowsObservation, FlowsPlan, ObservedTransfer};

/// The time of a session besides the watch.
const SESSION_US: u64 = 60_000_000;

/// Asks a server to watch its connections with this host for the time of the plan, and waits.
///
/// # Errors
/// The server does not answer, refuses (it needs the token), or cannot watch.
pub fn watch_far_end(
    target: &TargetHost,
    plan: &FlowsPlan,
    stop: &StopFlag,
) -> Result<FlowsObservation, ProbeError> {
    let bounds = ProbeBounds {
        flows: 0,
        most_bytes: 0,
        most_time_us: plan.duration_us.saturating_add(SESSION_US),
        dscp: None,
    };
    let mut control = ProbeControl::open(target, bounds, stop)?;
    let watch = FlowWatchRequest {
        duration_us: plan.duration_us,
        interval_us: plan.interval_us.max(plan.duration_us.div_ceil(MAX_WATCH_SAMPLES)),
    };
    match control.request(SessionRequest::Flows(watch))? {
        SessionReply::Flows(Base64Bytes(bytes)) => {
            let observed = parse_json_body(&bytes);
            let observed = observed.map_err(|error| control.peer_failure(&error.to_string()))?;
            control.close();
            Ok(observed)
        }
        other => Err(control.unexpected_answer(&other)),
    }
}

/// Adds the far end's view of the transfers that were watched at this end.
pub fn add_far_end(near: &mut FlowsObservation, far: FlowsObservation) {
    let is_shared =
        |transfer: &ObservedTransfer| near.transfers.iter().any(|it| it.shares_flow_with(transfer));
    let shared: Vec<_> = far.transfers.into_iter().filter(is_shared).collect();
    let watched_at = Some(far.host.name);
    near.transfers.extend(
        shared
            .into_iter()
            .map(|transfer| ObservedTransfer { watched_at: watched_at.clone(), ..transfer }),
    );
}
