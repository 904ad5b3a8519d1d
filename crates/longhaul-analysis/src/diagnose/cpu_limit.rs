//! Limited by the CPU of an end.
//!
//! We would see: its stream thread running, or waiting for a core, nearly all of the time; at the
//! receiver also unread data or a zero window. Refuted by: a thread asleep in its call.
//! Needs: thread CPU time and the scheduler's run delay. To do: more streams over more cores,
//! larger segments, offloads, or less competing work on the cores.
//!
//! Source: /proc/thread-self/schedstat. Units: shares of time. Error: one interval.
//! Wrong when: interrupts, not threads, fill the core; then the cores' softirq share shows it.

use super::{
    DiagnosisCase, build_finding, describe_state_share, format_whole_percent, name_of_host,
};
use crate::limit::interval_state::IntervalState;
use crate::limit::stream_intervals::{SampleInterval, ThreadActivity};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::{CoreUsage, EndObservation};

/// The ratio of core wait to CPU time above which other work is the cause.
const CROWDED_RATIO: f64 = 1.0;
/// The minimum softirq share of a core that counts as busy with packets.
const SOFTIRQ_RATIO: f64 = 0.5;

pub fn diagnose_sender_cpu(case: &DiagnosisCase) -> Option<ReportFinding> {
    diagnose_cpu(case, case.sender(), "sender", IntervalState::SenderCpu, |i| i.sender)
}

pub fn diagnose_receiver_cpu(case: &DiagnosisCase) -> Option<ReportFinding> {
    diagnose_cpu(case, case.receiver(), "receiver", IntervalState::ReceiverCpu, |i| i.receiver)
}

fn diagnose_cpu(
    case: &DiagnosisCase,
    end: &EndObservation,
    place: &str,
    state: IntervalState,
    thread: fn(&SampleInterval) -> ThreadActivity,
) -> Option<ReportFinding> {
    let mean = |of: fn(ThreadActivity) -> Option<f64>| {
        let readings: Vec<f64> =
            case.scene.judged_intervals().filter_map(|i| of(thread(i))).collect();
        (!readings.is_empty()).then(|| readings.iter().sum::<f64>() / readings.len() as f64)
    };
    let cpu = mean(|t| t.cpu)?;
    let wait = mean(|t| t.core_wait).unwrap_or(0.0);
    let host = name_of_host(&end.host, place);
    let crowded = wait > CROWDED_RATIO * cpu;
    let why = if crowded {
        "other processes use its cores"
    } else {
        "moving the data takes a whole core"
    };
    let summary = format!(
        "CPU-bound on {host} ({place}): stream threads running {}, runnable but waiting {}; {why}",
        format_whole_percent(cpu),
        format_whole_percent(wait),
    );
    let mut found = build_finding(case, &format!("cpu_{place}"), summary);
    found.support(describe_state_share(case, state));
    found.supports.extend(describe_busiest_core(&end.cores));
    let text = if crowded {
        format!("On {host}: reserve cores for the test (`--affinity`), or stop other processes")
    } else {
        format!(
            "On {host}: use more streams on more cores, a larger MTU (9000), and segmentation and receive offloads"
        )
    };
    found.advise(place, text);
    Some(found)
}

fn describe_busiest_core(cores: &[CoreUsage]) -> Option<String> {
    let share = |c: &CoreUsage| c.softirq_us as f64 / c.elapsed_us.max(1) as f64;
    let worst = cores.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let softirq = share(worst);
    (softirq >= SOFTIRQ_RATIO)
        .then(|| format!("core {} spent {} in softirq", worst.index, format_whole_percent(softirq)))
}
