//! Findings: the causes of a run's limits, with advice. Each cause states what we would see,
//! what refutes it, the readings it needs, and what to do.
//!
//! # Two limiters
//!
//! Two limiters that shared the run.
//!
//! We would see: two limiters with at least 30 % of the bytes each. Refuted by: one with most of
//! them.
//! Needs: the shares. To do: lift the first; the second then limits at its own bound.
//! Units: shares of bytes. Wrong when: the samples are too sparse to distinguish neighbours.
//!
//! # CPU limit
//!
//! Limited by the CPU of an end.
//!
//! We would see: its stream thread running, or waiting for a core, nearly all of the time; at the
//! receiver also unread data or a zero window. Refuted by: a thread asleep in its call.
//! Needs: thread CPU time and the scheduler's run delay. To do: more streams over more cores,
//! larger segments, offloads, or less competing work on the cores.
//!
//! Source: /proc/thread-self/schedstat. Units: shares of time. Error: one interval.
//! Wrong when: interrupts, not threads, fill the core; then the cores' softirq share shows it.
//!
//! # Token bucket causes
//!
//! A policer on the path drops the excess over a rate.
//!
//! We would see: losses in clusters with no queue before them, and a rate that they limit.
//! Refuted by: RTTs that rise before the losses (a queue, so a shaper or a full link).
//! Needs: retransmits and RTT of all streams. To do: send no faster than the rate allows.
//!
//! Source: Flach et al., SIGCOMM 2016, implemented in `limit`. Units: bit/s, bytes.
//! Wrong when: a link's queue is too short to be seen; it then acts the same.
//!
//! ## Shapers
//!
//! A shaper that passes a burst and then limits the flow to a lower rate.
//!
//! We would see: a lasting step down in the arrivals, level before and after, with a standing queue
//! after it. Refuted by: losses without a queue (a policer), a sloping rate (other traffic).
//! Needs: arrivals at the receiver, RTT. To do: use the sustained rate; short tests overestimate.
//!
//! Source: the shaper test in `limit`. Units: bit/s, bytes. Error: burst accurate to 2 %.
//! Wrong when: competing traffic starts once and continues.
//!
//! # Send buffer limit
//!
//! Limited by the sender's socket buffer.
//!
//! We would see: the sender asleep in write, nothing unsent in its kernel, and less data in flight
//! than both windows allow. Refuted by: unsent bytes. Needs: time blocked in write,
//! `tcpi_notsent_bytes`, `tcpi_unacked`. To do: raise wmem_max (requested) or tcp_wmem (autotuned).
//!
//! Source: our experiments: the kernel's own `tcpi_sndbuf_limited` showed 1 % when this limited the
//! sender all of the time. Units: bytes. Wrong when: the far kernel acknowledges late.

mod bottleneck_queue;
mod loss_causes;
mod path_causes;
mod program_causes;
mod receive_window;
mod tcp_option_causes;

use crate::limit::interval_state::IntervalState;
use crate::limit::limiter_verdict::{RunVerdict, SHARED_RATIO};
use crate::limit::run_reading::RunView;
use crate::limit::stream_intervals::{SampleInterval, ThreadActivity};
use crate::limit::{limit_bounds, window_range};
use crate::repeat_command;
use crate::throughput::{format_whole_percent, name_limiter, to_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{CoreUsage, EndObservation, HostFacts, SocketBuffer};
use longhaul_model::units::{Bytes, Rate, format_duration, format_option_size};
use std::fmt::Display;
use std::time::Duration;

/// The data for all causes: one direction of a run, with its verdict.
pub struct DiagnosisCase<'a> {
    pub scene: RunView<'a>,
    pub verdict: RunVerdict,
    pub analysis: &'a ThroughputAnalysis,
}

type DiagnoseCause = fn(&DiagnosisCase) -> Option<ReportFinding>;

/// The causes, each with the limiter without which it is out of the question. The limiters come
/// first, then other problems.
const CAUSES: [(Option<Limiter>, DiagnoseCause); 25] = [
    (None, program_causes::diagnose_short_run),
    (None, tcp_option_causes::diagnose_window_scaling),
    (Some(Limiter::ReceiveWindow), receive_window::diagnose_clipped_window),
    (Some(Limiter::ReceiveWindow), receive_window::diagnose_autotuning),
    (Some(Limiter::ReceiveWindow), receive_window::diagnose_window_size),
    (Some(Limiter::SendBuffer), diagnose_send_buffer),
    (Some(Limiter::Application), program_causes::diagnose_sender_application),
    (Some(Limiter::Application), program_causes::diagnose_receiver_application),
    (Some(Limiter::CpuSender), diagnose_sender_cpu),
    (Some(Limiter::CpuReceiver), diagnose_receiver_cpu),
    (Some(Limiter::Pacing), program_causes::diagnose_pacing),
    (None, diagnose_policer),
    (None, diagnose_shaper),
    (Some(Limiter::Loss), loss_causes::diagnose_random_loss),
    (Some(Limiter::PathCapacity), bottleneck_queue::diagnose_full_path),
    (None, path_causes::diagnose_outage),
    (None, path_causes::diagnose_changed_path),
    (None, path_causes::diagnose_full_return_path),
    (None, diagnose_two_limiters),
    (None, bottleneck_queue::diagnose_deep_queue),
    (Some(Limiter::PathCapacity), bottleneck_queue::diagnose_shallow_buffer),
    (None, loss_causes::diagnose_host_drops),
    (None, loss_causes::diagnose_reordering),
    (None, loss_causes::diagnose_timeouts),
    (None, tcp_option_causes::diagnose_stripped_options),
];

pub fn diagnose_run(case: &DiagnosisCase) -> Vec<ReportFinding> {
    let possible =
        CAUSES.iter().filter(|(limiter, _)| limiter.is_none_or(|it| case.is_limited_by(it)));
    let mut findings: Vec<ReportFinding> = possible.filter_map(|(_, cause)| cause(case)).collect();
    for (stronger, weaker) in EXCLUSIONS {
        if findings.iter().any(|found| found.cause == stronger) {
            findings.retain(|found| found.cause != weaker);
        }
    }
    findings
}

/// Pairs of causes that contradict each other; the second one is dropped. A run that is too short
/// shows neither a full path nor a second limiter, and a path with a second limiter is not full. A path
/// that changed, failed, or is full in the other direction is not healthy.
const EXCLUSIONS: [(&str, &str); 9] = [
    ("short_run", "two_limiters"),
    ("short_run", "healthy"),
    ("two_limiters", "healthy"),
    ("timeouts", "healthy"),
    ("outage", "healthy"),
    ("outage", "timeouts"),
    ("path_changed", "healthy"),
    ("return_path_full", "healthy"),
    ("return_path_full", "deep_queue"),
];

impl DiagnosisCase<'_> {
    fn is_limited_by(&self, limiter: Limiter) -> bool {
        self.verdict.limiter == limiter
    }

    /// Returns true if this limiter decides, or has a share that is named.
    fn is_named(&self, limiter: Limiter) -> bool {
        self.is_limited_by(limiter) || self.verdict.shares.limiter(limiter) >= SHARED_RATIO
    }

    fn sender(&self) -> &EndObservation {
        &self.scene.observation.ends.sender
    }

    fn receiver(&self) -> &EndObservation {
        &self.scene.observation.ends.receiver
    }

    fn streams(&self) -> u64 {
        (self.scene.observation.streams.len() as u64).max(1)
    }

    fn goodput_bps(&self) -> u64 {
        self.analysis.goodput_bps.unwrap_or(0)
    }

    fn goodput(&self) -> Rate {
        Rate::bits_per_second(self.goodput_bps())
    }

    fn idle_rtt(&self) -> Option<Duration> {
        self.scene.idle_rtt_us.map(Duration::from_micros)
    }

    fn rtt_text(&self) -> String {
        self.idle_rtt().map_or_else(|| String::from("an unknown RTT"), format_duration)
    }

    /// The path's capacity, if this run saw the path full.
    fn capacity_bps(&self) -> Option<u64> {
        limit_bounds::find_seen_capacity_bps(&self.scene, &self.verdict)
    }

    /// Returns, for each stream, the window with which all streams together fill the path twice.
    fn double_bdp_per_stream(&self) -> Option<u64> {
        let path = Rate::bits_per_second(self.capacity_bps()?).bytes_in(self.idle_rtt()?);
        Some(path.saturating_mul(2) / self.streams())
    }

    /// Returns a better window for one stream: for the known capacity, or else eight times the
    /// present one, which is enough to reveal the next limit.
    fn better_window(&self, present: u64) -> u64 {
        const STEP: u64 = 8;
        let wanted = self
            .double_bdp_per_stream()
            .map_or(present.saturating_mul(STEP), |bytes| bytes.max(present));
        window_range::round_window(wanted)
    }

    /// Returns a window that the kernel should grant: for the known capacity, or else the requested
    /// one, since more would be a guess.
    fn window_to_grant(&self, asked: u64) -> u64 {
        let wanted = self.double_bdp_per_stream().unwrap_or(asked);
        window_range::round_window(wanted)
    }

    /// Returns the rate that a window of `to_bytes` on every stream allows.
    fn allowed_bps(&self, bytes: u64) -> Option<u64> {
        Rate::over(bytes.saturating_mul(self.streams()), self.idle_rtt()?).map(Rate::as_bps)
    }

    /// Returns the expected goodput after lifting the limiter this far, if the capacity is known.
    fn expected_bps(&self, lifted_to_bps: Option<u64>) -> Option<u64> {
        let capacity = self.capacity_bps()?;
        Some(lifted_to_bps.map_or(capacity, |bps| bps.min(capacity)))
    }

    /// Returns the command that repeats the run with one option changed.
    fn repeat_command(&self, option: &str, value: impl Display) -> String {
        repeat_command::format_repeat_command(self.scene.plan, option, &value.to_string())
    }

    /// Returns `; next limit: …`, or that it has not been measured.
    fn describe_next_limit(&self) -> String {
        self.analysis.next_limit.as_ref().map_or_else(
            || String::from("; the next limit has not been measured"),
            |b| format!("; next limit: {} ({})", name_limiter(b.limiter), b.why),
        )
    }
}

/// Returns a finding with the verdict's own confidence.
fn build_finding(case: &DiagnosisCase, cause: &str, summary: String) -> ReportFinding {
    ReportFinding::new(cause, case.analysis.confidence_ratio, summary)
}

/// Returns the host's name, or the place if it has none.
fn name_of_host<'h>(host: &'h HostFacts, place: &'h str) -> &'h str {
    if host.name.is_empty() { place } else { &host.name }
}

/// Describes the data in flight per stream at the measured rate, for comparison with a window.
fn describe_in_flight(case: &DiagnosisCase) -> Option<String> {
    let rtt = Duration::from_micros(case.analysis.rtt_us?.mean);
    let each = case.goodput().bytes_in(rtt) / case.streams();
    let trip = format_duration(rtt);
    Some(format!(
        "goodput {} × loaded RTT {trip} = {} in flight per stream",
        case.goodput(),
        Bytes(each)
    ))
}

/// Formats the share of bytes in a state as evidence.
fn describe_state_share(case: &DiagnosisCase, state: IntervalState) -> String {
    let share = format_whole_percent(case.verdict.shares.state(state));
    format!("{} for {share} of the bytes", state.describe())
}

fn diagnose_two_limiters(case: &DiagnosisCase) -> Option<ReportFinding> {
    let (second, share) = case.verdict.second?;
    let first = case.verdict.limiter;
    let own = case.verdict.shares.limiter(first);
    if first == second || own < SHARED_RATIO {
        return None;
    }
    let summary = format!(
        "Two limiters: {} for {} of the bytes, {} for {}; {}",
        name_limiter(first),
        format_whole_percent(own),
        name_limiter(second),
        format_whole_percent(share),
        describe_remaining_limit(case, first, second),
    );
    Some(build_finding(case, "two_limiters", summary))
}

/// Describes the limit that remains when the other one of two is lifted. A full path cannot be lifted.
fn describe_remaining_limit(case: &DiagnosisCase, first: Limiter, second: Limiter) -> String {
    let (lifted, left) =
        if first == Limiter::PathCapacity { (second, first) } else { (first, second) };
    let (lifted, name) = (name_limiter(lifted), name_limiter(left));
    let bounds = &case.analysis.bounds;
    let bound = bounds.iter().find(|bound| bound.limiter == left).map(|bound| bound.rate_bps);
    let allowed_bps = if left == Limiter::PathCapacity { case.capacity_bps() } else { bound };
    match allowed_bps {
        Some(bps) if bps > case.goodput_bps() => {
            format!("without {lifted}, {name} limits at about {}", to_rate(bps))
        }
        Some(_) => format!("without {lifted}, {name} limits at nearly the same rate"),
        None => format!("without {lifted}, {name} limits, at a rate that was not measured"),
    }
}

/// The ratio of core wait to CPU time above which other work is the cause.
const CROWDED_RATIO: f64 = 1.0;
/// The minimum softirq share of a core that counts as busy with packets.
const SOFTIRQ_RATIO: f64 = 0.5;

fn diagnose_sender_cpu(case: &DiagnosisCase) -> Option<ReportFinding> {
    diagnose_cpu(case, case.sender(), "sender", IntervalState::SenderCpu, |i| i.sender)
}

fn diagnose_receiver_cpu(case: &DiagnosisCase) -> Option<ReportFinding> {
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

/// The pacing rate as a ratio of the policed rate: 0.95 cut losses from double digits to near none.
const PACE_RATIO: f64 = 0.95;
/// The ratio of goodput to the random-loss bound that excludes random loss, which gave 1.3.
const BEYOND_CHANCE: f64 = 1.5;

fn diagnose_policer(case: &DiagnosisCase) -> Option<ReportFinding> {
    let policed = case.scene.policer.filter(|_| case.is_named(Limiter::Policer))?;
    let rho = policed.rate_bps as u64;
    let burst = policed.burst_bytes.map(|bytes| Bytes(bytes as u64));
    let passed_first = burst.map_or(String::new(), |burst| format!("; burst about {burst}"));
    // Between rare losses TCP is below the policer's rate most of the time.
    let more = if policed.sparse && !policed.is_lower_bound { ", or somewhat more" } else { "" };
    let about = if policed.is_lower_bound { "at least" } else { "about" };
    let summary = format!(
        "Policed to {about} {}{more}: the excess is dropped ({:.2} % of the segments){passed_first}",
        to_rate(rho),
        policed.loss_ratio * 100.0,
    );
    let mut found = build_finding(case, "policer", summary);
    found.support(format!("{} samples with loss, nearly all at the idle RTT", policed.loss_slots));
    let beyond = format!("goodput is {:.1} × the bound of random loss", policed.over_bound);
    let is_beyond_chance = policed.over_bound >= BEYOND_CHANCE;
    if policed.is_from_packets {
        found.support(
            "the lost packets are those for which a bucket of this rate and burst was empty",
        );
    } else if !is_beyond_chance {
        found.support("loss in nearly every sample, yet the rate is constant");
    }
    found.add_evidence(is_beyond_chance, beyond);
    let threshold = format_duration(Duration::from_micros(case.scene.queue_threshold_us() as u64));
    found.contradict(format!(
        "a full link with a queue shorter than {threshold} would look the same"
    ));
    let (share, then) = if policed.sparse {
        (1.0, ", then raise it until losses return")
    } else {
        (PACE_RATIO, "")
    };
    let all_bps = (policed.rate_bps * share) as u64;
    let each = all_bps / case.streams();
    let advice = found.advise("sender", format!("Pace each stream to {}{then}", to_rate(each)));
    advice.command = Some(case.repeat_command("--pacing", each));
    advice.expected_bps = Some(all_bps);
    found.advise("path", "Ask the operator for the contracted rate and burst; a shaper would queue packets instead of dropping them");
    Some(found)
}

fn diagnose_shaper(case: &DiagnosisCase) -> Option<ReportFinding> {
    let bucket = case.scene.bucket.filter(|_| case.is_named(Limiter::Shaper))?;
    let summary = format!(
        "Shaped: {} for the first {}, then {}; tests shorter than the burst overestimate",
        to_rate(bucket.peak_bps as u64),
        Bytes(bucket.burst_bytes as u64),
        to_rate(bucket.sustained_bps as u64),
    );
    let mut found = build_finding(case, "shaper", summary);
    found.confidence_ratio = found.confidence_ratio.max(0.8);
    let knee = bucket.knee_us.saturating_sub(case.scene.arrivals.from_us()) as f64 / 1e6;
    found.support(format!(
        "the rate stepped down once, {knee:.2} s into the run, and was constant before and after"
    ));
    found.advise(
        "path",
        format!(
            "Plan with {}; the operator's contract should name peak, sustained rate and burst",
            to_rate(bucket.sustained_bps as u64)
        ),
    );
    Some(found)
}

fn diagnose_send_buffer(case: &DiagnosisCase) -> Option<ReportFinding> {
    let host = name_of_host(&case.sender().host, "the sender");
    let mut streams = case.scene.observation.streams.iter();
    let buffer = streams.find_map(|s| s.sender.send_buffer);
    let grant = buffer.map_or(String::new(), |b| describe_granted_buffer(case, b));
    let bounds = &case.analysis.bounds;
    let bound = bounds.iter().find(|b| b.limiter == Limiter::SendBuffer)?;
    let summary = format!(
        "The send buffer of {host}{grant} is too small: {}, {}{}",
        bound.why,
        to_rate(bound.rate_bps),
        case.describe_next_limit(),
    );
    let mut found = build_finding(case, "send_buffer", summary);
    found.support(describe_state_share(case, IntervalState::SendBufferClip));
    found.supports.extend(describe_in_flight(case));
    found.support("the sender blocked in write with no unsent data in the kernel");
    let chosen = buffer.is_some_and(|b| b.asked_bytes.is_some());
    add_buffer_advice(case, host, chosen, &mut found);
    Some(found)
}

/// Describes the buffer's size and the source of that size: the user, longhaul or the kernel.
fn describe_granted_buffer(case: &DiagnosisCase, buffer: SocketBuffer) -> String {
    let (granted, stored) = (Bytes(buffer.granted_bytes), buffer.stored_bytes);
    match (case.scene.plan.send_buffer_bytes, buffer.asked_bytes) {
        (Some(asked), _) => {
            format!(" (requested {}, got {granted}; SO_SNDBUF reads {stored} B)", Bytes(asked))
        }
        (None, Some(_)) => format!(" ({granted}, chosen by longhaul)"),
        (None, None) => format!(" (autotuned to {})", Bytes(stored)),
    }
}

fn add_buffer_advice(case: &DiagnosisCase, host: &str, chosen: bool, found: &mut ReportFinding) {
    let asked = case.scene.plan.send_buffer_bytes;
    let Some(present) = asked.or_else(|| limit_bounds::sum_median_outstanding(&case.scene)) else {
        return;
    };
    let clip = case.scene.send_clip;
    let wanted = clip.map_or_else(
        || case.better_window(present),
        |clip| case.window_to_grant(clip.requested_bytes),
    );
    let (command, text) = if clip.is_some() {
        (
            format!("sysctl -w net.core.wmem_max={wanted}"),
            format!("On {host}: raise net.core.wmem_max to {}", Bytes(wanted)),
        )
    } else if chosen {
        (
            case.repeat_command("--send-buffer", format_option_size(wanted)),
            format!("Request {} or more, or leave it to autotuning", Bytes(wanted)),
        )
    } else {
        let host_now = case.sender().host.tcp_wmem_bytes;
        let [least, usual, _] = host_now.unwrap_or([4096, 16_384, 0]);
        let most = wanted.saturating_mul(2);
        (
            format!("sysctl -w net.ipv4.tcp_wmem=\"{least} {usual} {most}\""),
            format!("On {host}: raise tcp_wmem max to {}", Bytes(most)),
        )
    };
    let advice = found.advise("sender", text);
    advice.command = Some(command);
    advice.expected_bps = case.expected_bps(case.allowed_bps(wanted));
}
