//! Explains transfers of other programs: what limits each, in the words of a test run.
//!
//! A transfer is judged as a run of which one end was observed ([`crate::throughput`]). Then the
//! process behind an application limit is looked at: a disk, a CPU quota, or requests that wait for
//! answers, with the options of well-known programs that lift them ([`program_options`]).
//!
//! Source: `limit`; /proc of the process. Units: shares of time, bytes, bit/s.
//! Error: that of the run; a thread's state is read once per sample.
//! Wrong when: the far end's program is slow; this end then sees only that its own waits.

mod both_ends;
mod capture_findings;
pub mod program_options;

use crate::limit::receiver_side::is_receiver_watched;
use crate::limit::request_pattern::find_requests;
use crate::throughput::{
    TransferEvidence, conclude_transfer_throughput, format_whole_percent, to_rate,
};
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::{Limiter, RateBound, ThroughputAnalysis};
use longhaul_model::report::v1::flows::{
    FlowsAnalysis, FlowsObservation, ObservedTransfer, ProcessActivity, RequestPattern,
    TransferAnalysis,
};
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::net::SocketAddr;
use std::time::Duration;

/// The parameters of the causes.
struct CauseTuning;

impl CauseTuning {
    /// A thread that waits for a disk for this share of the time, or threads in this share of the samples.
    const DISK_RATIO: f64 = 0.3;
    /// A control group some task of which waits for memory for this share of the time is short of it.
    const MEMORY_RATIO: f64 = 0.2;
    /// A process that was throttled for this share of the time is limited by its quota.
    const THROTTLED_RATIO: f64 = 0.15;
    /// A thread that uses this share of a core is short of CPU.
    const BUSY_THREAD_RATIO: f64 = 0.85;
    const MIN_SAMPLES: u32 = 10;
    /// The confidence in a limit at the far end, where nothing was observed.
    const FAR_END_CONFIDENCE: f64 = 0.6;
    /// The error of the requests per round trip: a tenth of a request.
    const REQUEST_TOLERANCE: f64 = 0.1;
    /// The part of the confidence that is left if the capture was taken far from both ends.
    const BETWEEN_RATIO: f64 = 0.7;
}

/// Draws all conclusions from watched flows. Never fails; a transfer without evidence has an unknown
/// limiter.
pub fn conclude_flows(observation: &FlowsObservation) -> RunConclusion<FlowsAnalysis> {
    conclude_transfers(&observation.transfers)
}

/// Draws all conclusions from transfers, in their order.
pub fn conclude_transfers(transfers: &[ObservedTransfer]) -> RunConclusion<FlowsAnalysis> {
    let several = transfers.len() > 1;
    let mut all = RunConclusion { analysis: FlowsAnalysis::default(), ..Default::default() };
    all.analysis.version = VERSION;
    let mut views: Vec<_> = transfers.iter().map(conclude_transfer).collect();
    both_ends::join_views(transfers, &mut views);
    for (transfer, concluded) in transfers.iter().zip(views) {
        let name = if several { format!("{}: ", name_transfer(transfer)) } else { String::new() };
        let named = |mut found: ReportFinding| {
            found.summary = format!("{name}{}", found.summary);
            found
        };
        let first = all.findings.len() as u32;
        all.findings.extend(concluded.findings.into_iter().map(named));
        all.caveats.extend(concluded.caveats);
        let finding_index = (first..all.findings.len() as u32).collect();
        all.analysis.transfers.push(TransferAnalysis { finding_index, ..concluded.analysis });
    }
    all
}

/// Names a transfer: `rclone (4711) to 192.0.2.7 port 22`.
pub fn name_transfer(transfer: &ObservedTransfer) -> String {
    let process = transfer.process.as_ref().map_or_else(
        || find_local_address(transfer).unwrap_or_else(|| String::from("unknown process")),
        |process| match &process.parent {
            Some(parent) => format!("{parent}, {} ({})", process.name, process.pid),
            None if process.pid == 0 => process.name.clone(),
            None => format!("{} ({})", process.name, process.pid),
        },
    );
    let way = if transfer.sends { "to" } else { "from" };
    let port = transfer.service_port;
    format!("{process} {way} {} port {port}{}", transfer.peer, name_observer(transfer))
}

/// Names the host that watched a transfer, to follow the name of the transfer; empty if that is the host
/// of the report.
pub fn name_observer(transfer: &ObservedTransfer) -> String {
    transfer.watched_at.as_ref().map_or(String::new(), |host| format!(" (at {host})"))
}

/// Returns the address of this end of a captured transfer.
pub fn find_local_address(transfer: &ObservedTransfer) -> Option<String> {
    let stream = transfer.run.streams.first().filter(|_| !transfer.captured_flows.is_empty())?;
    let end = if transfer.sends { &stream.sender } else { &stream.receiver };
    let local: SocketAddr = end.local.as_ref()?.parse().ok()?;
    Some(local.ip().to_string())
}

/// A cause that refines an application limit.
type DiagnoseApplication = fn(&ObservedTransfer, &TransferAnalysis) -> Option<ReportFinding>;

/// The first that holds is given, in place of the finding that an application limits.
const APPLICATION_CAUSES: [DiagnoseApplication; 5] =
    [diagnose_quota, diagnose_memory, diagnose_disk, diagnose_busy_thread, diagnose_requests];

fn conclude_transfer(transfer: &ObservedTransfer) -> RunConclusion<TransferAnalysis> {
    let evidence = TransferEvidence {
        is_captured: !transfer.captured_flows.is_empty(),
        policer: transfer.captured_flows.iter().find_map(|flow| flow.policer),
        is_ssh: is_ssh(transfer),
    };
    let run = conclude_transfer_throughput(&transfer.plan, &transfer.run, evidence);
    let mut analysis =
        TransferAnalysis { requests: None, run: run.analysis, finding_index: Vec::new() };
    if analysis.run.steady.is_none() {
        analysis.run.goodput_bps = analysis.run.mean_goodput_bps;
    }
    let mut findings = run.findings;
    findings.retain(|found| found.cause != "short_run");
    findings.extend(diagnose_far_end(transfer, &analysis));
    // Their commands repeat a test, which this was not.
    for advice in findings.iter_mut().flat_map(|found| &mut found.advice) {
        advice.command = advice.command.take().filter(|it| !it.starts_with("longhaul "));
    }
    analysis.requests = find_request_pattern(transfer, &analysis);
    if let Some(requests) = analysis.requests {
        add_request_bound(&mut analysis, requests, transfer);
    }
    let of_program = |limiter| {
        matches!(limiter, Limiter::Application | Limiter::CpuSender | Limiter::CpuReceiver)
    };
    // The processes of a sender do not explain a reader at the far end.
    let is_far = transfer.sends && findings.iter().any(|it| it.cause == "receiver_application");
    if of_program(analysis.run.limited_by) && !is_far {
        let cause = APPLICATION_CAUSES.iter().find_map(|cause| cause(transfer, &analysis));
        if let Some(cause) = cause {
            findings.retain(|found| !REFINED_CAUSES.contains(&found.cause.as_str()));
            findings.insert(0, cause);
        }
    }
    findings.extend(capture_findings::diagnose_capture(transfer));
    let mut caveats = run.caveats;
    caveats.retain(|caveat| !TEST_CAVEATS.contains(&caveat.code.as_str()));
    caveats.extend(capture_findings::list_capture_caveats(transfer));
    if capture_findings::is_between(transfer) {
        analysis.run.confidence_ratio *= CauseTuning::BETWEEN_RATIO;
    }
    RunConclusion { analysis, findings, caveats }
}

/// The programs that speak SSH themselves. The rclone of a transfer that answers small requests uses SFTP.
const SSH_PROGRAMS: [&str; 4] = ["ssh", "sshd", "sshd-session", "rclone"];
const SSH_PORT: u16 = 22;

/// Returns true if a transfer moves over SSH, by its first payload, its port or its program.
fn is_ssh(transfer: &ObservedTransfer) -> bool {
    let is_program = |name: &str| SSH_PROGRAMS.contains(&name);
    transfer.service_port == SSH_PORT
        || transfer.captured_flows.iter().any(|flow| flow.ssh)
        || transfer.process.as_ref().is_some_and(|process| is_program(&process.name))
}

/// Returns true if nothing at the receiver that was watched explains the rate.
pub fn is_sender_side(transfer: &ObservedTransfer, run: &ThroughputAnalysis) -> bool {
    run.limited_by == Limiter::Unknown && !transfer.sends && is_receiver_watched(&transfer.run)
}

/// Finds that the limit is at the other end: nothing at this one explains the rate.
fn diagnose_far_end(
    transfer: &ObservedTransfer,
    analysis: &TransferAnalysis,
) -> Option<ReportFinding> {
    if !is_sender_side(transfer, &analysis.run) {
        return None;
    }
    let summary = format!(
        "The limit is at the sender {}: its program, CPU or send buffer, or a path without a queue",
        transfer.peer
    );
    let mut found = ReportFinding::new("sender_side", CauseTuning::FAR_END_CONFIDENCE, summary);
    found.support("the receive window had room, the reader was prompt, nothing was lost and no queue was seen");
    found.advise("sender", "Run `longhaul explain` there at the same time");
    Some(found)
}

/// Caveats that concern tests only: a transfer may be watched from any moment on, and at one end.
const TEST_CAVEATS: [&str; 4] = ["missing_counters", "ramp_only", "no_course", "no_steady_rate"];

/// The causes that a cause of the process replaces.
const REFINED_CAUSES: [&str; 4] =
    ["sender_application", "receiver_application", "cpu_sender", "cpu_receiver"];

/// Returns the bytes that move per round trip if requests limit the transfer.
fn find_request_pattern(
    transfer: &ObservedTransfer,
    analysis: &TransferAnalysis,
) -> Option<RequestPattern> {
    let run = &analysis.run;
    let streams = transfer.run.streams.len() as u64;
    let requests = transfer.run.streams.iter().map(find_requests).collect::<Option<Vec<_>>>()?;
    let is_waiting = requests.iter().all(|it| it.waits_for_network);
    if run.limited_by != Limiter::Application || !is_waiting || streams == 0 {
        return None;
    }
    let request_bytes = requests.iter().map(|it| it.request_bytes).sum::<u64>() / streams;
    let trip = Duration::from_micros(find_trip_us(transfer, analysis)?);
    let each = Rate::bits_per_second(run.goodput_bps? / streams);
    let round_trip_bytes = count_outstanding(each.bytes_in(trip), request_bytes) * request_bytes;
    let bound_bps = Rate::over(round_trip_bytes.saturating_mul(streams), trip)?.as_bps();
    Some(RequestPattern { request_bytes, round_trip_bytes, bound_bps })
}

/// Returns the whole number of requests that a program keeps outstanding. Each is outstanding until its last
/// byte has come, and so for longer than a round trip: a little less than a whole number arrives per trip.
fn count_outstanding(trip_bytes: u64, request_bytes: u64) -> u64 {
    let per_trip = trip_bytes as f64 / request_bytes.max(1) as f64;
    ((per_trip - CauseTuning::REQUEST_TOLERANCE).ceil() as u64).max(1)
}

/// Returns the RTT of a transfer: the mean under load, or else the smallest.
pub fn find_trip_us(transfer: &ObservedTransfer, analysis: &TransferAnalysis) -> Option<u64> {
    let loaded = analysis.run.rtt_us.map(|rtt| rtt.mean);
    loaded.or_else(|| crate::throughput::find_idle_rtt_us(&transfer.run))
}

fn add_request_bound(
    analysis: &mut TransferAnalysis,
    requests: RequestPattern,
    transfer: &ObservedTransfer,
) {
    let Some(trip_us) = find_trip_us(transfer, analysis) else { return };
    let why = format!(
        "{} per round trip of {}, in answer to requests",
        Bytes(requests.round_trip_bytes),
        format_duration(Duration::from_micros(trip_us))
    );
    let bound = RateBound { limiter: Limiter::Application, rate_bps: requests.bound_bps, why };
    let bounds = &mut analysis.run.bounds;
    bounds.push(bound);
    bounds.sort_by_key(|bound| bound.rate_bps);
}

fn name_process(transfer: &ObservedTransfer) -> &str {
    transfer.process.as_ref().map_or("the program", |process| process.name.as_str())
}

fn place_of(transfer: &ObservedTransfer) -> &'static str {
    if transfer.sends { "sender" } else { "receiver" }
}

fn share_of(us: u64, activity: &ProcessActivity) -> f64 {
    us as f64 / activity.elapsed_us.max(1) as f64
}

fn build_cause(analysis: &TransferAnalysis, cause: &str, summary: String) -> ReportFinding {
    ReportFinding::new(cause, analysis.run.confidence_ratio, summary)
}

fn diagnose_quota(
    transfer: &ObservedTransfer,
    analysis: &TransferAnalysis,
) -> Option<ReportFinding> {
    let activity = transfer.activity?;
    let ratio = share_of(activity.throttled_us?, &activity);
    if ratio < CauseTuning::THROTTLED_RATIO {
        return None;
    }
    let cores = activity.quota_core_permille? as f64 / 1000.0;
    let name = name_process(transfer);
    let mut found = build_cause(
        analysis,
        "cpu_quota",
        format!("Limited by the CPU quota of {name}: its control group may use {cores:.2} cores"),
    );
    found.support(format!("throttled for {} of the time", format_whole_percent(ratio)));
    found.advise(place_of(transfer), "Raise the CPU limit of the container or service (cpu.max)");
    Some(found)
}

fn diagnose_memory(
    transfer: &ObservedTransfer,
    analysis: &TransferAnalysis,
) -> Option<ReportFinding> {
    let activity = transfer.activity?;
    let ratio = share_of(activity.memory_stall_us?, &activity);
    if ratio < CauseTuning::MEMORY_RATIO {
        return None;
    }
    let name = name_process(transfer);
    let summary = format!("Limited by memory: the control group of {name} is short of it");
    let mut found = build_cause(analysis, "memory_pressure", summary);
    found.support(format!(
        "some task of its control group waited for memory to be freed for {} of the time",
        format_whole_percent(ratio)
    ));
    found.advise(
        place_of(transfer),
        "Raise the memory limit of the container or service (memory.high, memory.max), or let it use less",
    );
    Some(found)
}

fn diagnose_disk(
    transfer: &ObservedTransfer,
    analysis: &TransferAnalysis,
) -> Option<ReportFinding> {
    let activity = transfer.activity.filter(|it| it.samples >= CauseTuning::MIN_SAMPLES)?;
    let ratio = f64::from(activity.disk_wait_samples) / f64::from(activity.samples);
    let waited = activity.disk_wait_us.map(|us| share_of(us, &activity));
    if ratio.max(waited.unwrap_or(0.0)) < CauseTuning::DISK_RATIO {
        return None;
    }
    let name = name_process(transfer);
    let summary =
        format!("Limited by a disk of this host: {name} waits for it, not for the network");
    let mut found = build_cause(analysis, "slow_disk", summary);
    found.support(format!(
        "a thread of {name} was in uninterruptible sleep in {} of the samples",
        format_whole_percent(ratio)
    ));
    let stalled = activity.io_stall_us.map(|us| share_of(us, &activity));
    let [waited, stalled] = [waited, stalled].map(|ratio| ratio.map(format_whole_percent));
    found.supports.extend(waited.map(|share| {
        format!("a thread of {name} waited for block devices for {share} of the time")
    }));
    found.supports.extend(stalled.map(|share| {
        format!("some task of its control group waited for input or output for {share} of the time")
    }));
    let disk = if transfer.sends { activity.disk_read_bytes } else { activity.disk_write_bytes };
    found.supports.extend(disk.and_then(|bytes| {
        let rate = Rate::over(bytes, Duration::from_micros(activity.elapsed_us))?;
        let verb = if transfer.sends { "read" } else { "wrote" };
        Some(format!("{name} {verb} {rate} of block devices"))
    }));
    found.advise(
        place_of(transfer),
        "No network change helps: use a faster disk, more parallel files, or larger reads and writes",
    );
    Some(found)
}

fn diagnose_busy_thread(
    transfer: &ObservedTransfer,
    analysis: &TransferAnalysis,
) -> Option<ReportFinding> {
    let activity = transfer.activity?;
    let ratio = share_of(activity.busiest_thread_us, &activity);
    if ratio < CauseTuning::BUSY_THREAD_RATIO {
        return None;
    }
    let name = name_process(transfer);
    let mut found = build_cause(
        analysis,
        &format!("cpu_{}", place_of(transfer)),
        format!("CPU-bound: one thread of {name} fills a core"),
    );
    found.support(format!(
        "the busiest of {} threads ran for {} of the time",
        activity.threads,
        format_whole_percent(ratio)
    ));
    found.advise(
        place_of(transfer),
        "Use more processes or streams, a faster cipher (aes128-gcm with AES-NI), or no compression",
    );
    Some(found)
}

fn diagnose_requests(
    transfer: &ObservedTransfer,
    analysis: &TransferAnalysis,
) -> Option<ReportFinding> {
    let requests = analysis.requests?;
    let trip = format_duration(Duration::from_micros(find_trip_us(transfer, analysis)?));
    let streams = transfer.run.streams.len() as u64;
    let name = name_process(transfer);
    let (each, at_once) =
        (requests.request_bytes, requests.round_trip_bytes / requests.request_bytes.max(1));
    let summary = format!(
        "Limited by requests that wait for answers: {name} moves {} per round trip and flow, at most {} over {trip} with {}",
        Bytes(requests.round_trip_bytes),
        to_rate(requests.bound_bps),
        if streams == 1 { String::from("one flow") } else { format!("{streams} flows") },
    );
    let mut found = build_cause(analysis, "request_response", summary);
    found.support(format!(
        "requests of {} each, about {} outstanding per flow",
        Bytes(each),
        at_once.max(1)
    ));
    found.support("the windows and the send buffer had room, and data or a request was in flight nearly all of the time");
    let parent = transfer.process.as_ref().and_then(|process| process.parent.as_deref());
    let named = [Some(name), parent].into_iter().flatten();
    let options = named.map(program_options::find_options).find(|it| !it.is_empty());
    for option in options.iter().flatten() {
        found.advise("application", format!("Add `{}`: {}", option.command, option.text));
    }
    if options.is_none() {
        found.advise(
            "application",
            "Let the program request more at a time: more parallel files or connections, larger requests, or more requests outstanding",
        );
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{conclude_transfers, count_outstanding};
    use longhaul_model::report::v1::analysis::Limiter;
    use longhaul_model::report::v1::capture::CapturedPolicer;
    use longhaul_model::report::v1::capture::HeaderCapture;
    use longhaul_model::report::v1::flows::FlowsPlan;
    use longhaul_model::report::v1::flows::flow_grouping::{FlowSample, FlowSeries, group_flows};
    use longhaul_model::report::v1::observation::{HostFacts, TcpReading};
    use longhaul_model::splitmix::SplitMix64;

    /// A sender that loses segments at random, about one a second.
    fn watch_lossy_sender() -> FlowSeries {
        let mut random = SplitMix64::new(7);
        let (mut window, mut acked, mut lost) = (20.0, 0, 0);
        let samples = (0..300).map(|number| {
            let is_lost = random.unit() < 0.1;
            lost += u64::from(is_lost);
            window = if is_lost { window * 0.7 } else { window + 0.7 };
            let cwnd_bytes = window as u64 * 1448;
            acked += 2 * cwnd_bytes;
            let tcp = TcpReading {
                mss_bytes: 1448,
                cwnd_bytes,
                unacked_bytes: cwnd_bytes,
                unsent_bytes: Some(100_000),
                rtt_us: 50_000,
                rtt_min_us: Some(50_000),
                retransmitted_segments: lost,
                bytes_acked: Some(acked),
                data_segments_out: Some(acked / 1448 + lost),
                busy_us: Some(number * 100_000),
                receive_window_limited_us: Some(0),
                send_buffer_limited_us: Some(0),
                peer_window_bytes: Some(1 << 20),
                ..TcpReading::default()
            };
            FlowSample::from_tcp_info(number * 100_000, tcp)
        });
        let [local, peer] = [([192, 0, 2, 1], 40_000), ([192, 0, 2, 2], 443)].map(Into::into);
        FlowSeries {
            congestion_control: Some(String::from("cubic")),
            ..FlowSeries::new(local, peer, samples.collect())
        }
    }

    #[test]
    fn a_policer_that_explains_the_lost_packets_is_named_though_counters_say_random_loss() {
        let found = CapturedPolicer {
            rate_bps: 8_000_000,
            is_lower_bound: false,
            burst_bytes: Some(15_000),
        };
        for (policer, limiter) in [(None, Limiter::Loss), (Some(found), Limiter::Policer)] {
            let (plan, host) = (FlowsPlan::default(), HostFacts::default());
            let mut transfers = group_flows([watch_lossy_sender()], &plan, &host);
            transfers[0].run.ends.sender.header_capture =
                Some(HeaderCapture { policer, ..HeaderCapture::default() });
            let concluded = conclude_transfers(&transfers);
            assert_eq!(concluded.analysis.transfers[0].run.limited_by, limiter);
        }
    }

    #[test]
    fn outstanding_requests_are_a_whole_number() {
        // Of four requests of 256 KiB, each is outstanding for 150 ms and the 22 ms in which it arrives.
        let arriving = (4 << 18) * 150 / 172;
        let counts =
            [0, 1 << 17, (1 << 18) + 20_000, arriving].map(|it| count_outstanding(it, 1 << 18));
        assert_eq!(counts, [1, 1, 1, 4]);
    }
}
