//! Checks that packets leave evenly, and that queues are long enough.
//!
//! Source: see each rule. Units: bit/s, packets.
//! Error: no reading shows how often a queue was full; the drop counters do.
//! Wrong when: a queue on the path paces or drops first.

use super::{
    AuditCase, AuditRule, FAST_BPS, ReadingResult, RuleJudgement, VERY_FAST_BPS, judge_advice,
    judge_good, judge_limits, judge_unless, remedy_by_command, remedy_by_sysctl,
};
use longhaul_model::report::v1::host::AuditRemedy;
use longhaul_model::units::Rate;

const QDISC: &str = "interface.qdisc";
const DEFAULT_QDISC: &str = "net.core.default_qdisc";
const MAXRATE: &str = "interface.qdisc.maxrate_bps";
const QUEUE: &str = "interface.txqueuelen";
const BACKLOG: &str = "net.core.netdev_max_backlog";
const CONTROL: &str = "net.ipv4.tcp_congestion_control";
/// From this rate on, bursts at the interface's speed begin to overrun queues on the path.
const BURSTY_BPS: u64 = 1_000_000_000;

pub const RULES: &[AuditRule] = &[
    // Replacing the queue loses the packets in it.
    AuditRule::of_path("queueing_discipline", judge_queueing_discipline)
        .title("packets of a stream are paced")
        .source(
            "ESnet fasterdata-tuning (2025); Linux tc-fq(8) (2015); Linux 4.13, internal \
                 pacing (2017)",
        ),
    // It changes no existing interface, so a measurement could not show its effect.
    AuditRule::of_host("default_queueing_discipline", judge_default_queueing_discipline)
        .title("queueing discipline of new interfaces")
        .source("ESnet fasterdata-tuning (2025)"),
    AuditRule::of_path("flow_ceiling", judge_flow_ceiling)
        .title("rate limit per stream at the interface")
        .source("Linux tc-fq(8), maxrate (2015)"),
    AuditRule::of_path("transmit_queue", judge_transmit_queue)
        .title("length of the transmit queue")
        .source("ESnet fasterdata-tuning (2025)"),
    AuditRule::of_path("receive_backlog", judge_receive_backlog)
        .title("length of the receive backlog")
        .source("ESnet fasterdata (2010s); Linux sysctl/net, netdev_max_backlog (2025)"),
];

/// Returns the queueing disciplines that hold packets: the leaves, or the root if it has none.
fn list_leaf_qdiscs<'a>(case: &AuditCase<'a>) -> ReadingResult<Vec<&'a str>> {
    let root = case.readings.text(QDISC)?;
    let leaves = case.readings.text("interface.qdisc.leaves").ok();
    Ok(match leaves.filter(|kinds| !kinds.is_empty()) {
        Some(kinds) => kinds.split_whitespace().collect(),
        None => vec![root],
    })
}

fn judge_queueing_discipline(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let kinds = list_leaf_qdiscs(case)?;
    let told = kinds.join(", ");
    if kinds.iter().all(|kind| *kind == "fq") {
        return Ok(judge_good("fq paces each stream"));
    }
    if kinds.iter().all(|kind| *kind == "noqueue") {
        return Ok(judge_good("no queue at this interface"));
    }
    let control = case.readings.text(CONTROL).unwrap_or_default();
    if control.starts_with("bbr") {
        let text = format!("{told}; BBR paces with its own timers, which costs more CPU than fq");
        return Ok(judge_good(text));
    }
    if !case.is_at_least(BURSTY_BPS) {
        return Ok(judge_good(format!("{told}; bursts matter little at this rate")));
    }
    let text = format!(
        "{told} sends a stream in bursts at the speed of the interface, which queues on the path \
         must absorb"
    );
    let why = "Pace each stream; packets in the old queue are lost";
    Ok(judge_advice(text).remedy(remedy_by_fq(case, why)))
}

fn remedy_by_fq(case: &AuditCase, why: &str) -> AuditRemedy {
    remedy_by_command(format!("tc qdisc replace dev {} root fq", case.device()), why)
}

fn judge_default_queueing_discipline(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let present = case.readings.text(DEFAULT_QDISC)?;
    if present == "fq" {
        return Ok(judge_good("fq"));
    }
    let text = format!("{DEFAULT_QDISC} is {present}: new interfaces do not pace");
    let why = "Set fq; this affects only interfaces set up afterwards";
    Ok(judge_advice(text).remedy(remedy_by_command(format!("sysctl -w {DEFAULT_QDISC}=fq"), why)))
}

fn judge_flow_ceiling(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    case.readings.text(QDISC)?;
    if case.readings.text(MAXRATE).is_err() {
        return Ok(judge_good("no limit is set"));
    }
    let ceiling = case.readings.number(MAXRATE)?;
    let text =
        format!("{} limits each stream to {}", case.device(), Rate::bits_per_second(ceiling));
    if ceiling >= case.path.rate_bps {
        return Ok(judge_good(text));
    }
    let remedy = remedy_by_fq(case, "Remove the limit, unless it is intended");
    Ok(judge_limits(text).bound(Some(ceiling)).remedy(remedy))
}

fn judge_transmit_queue(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    const WANTED: u64 = 10_000;
    let present = case.readings.number(QUEUE)?;
    let used = list_leaf_qdiscs(case)
        .is_ok_and(|kinds| kinds.iter().any(|kind| matches!(*kind, "pfifo_fast" | "pfifo")));
    if present >= WANTED || !used || !case.is_at_least(FAST_BPS) {
        return Ok(judge_good(format!("{present} packets")));
    }
    let text = format!(
        "{present} packets last {:.1} ms at this rate, less than a burst of a large window",
        (present * 1500 * 8) as f64 / (case.path.rate_bps as f64 / 1e3)
    );
    let remedy = remedy_by_command(
        format!("ip link set dev {} txqueuelen {WANTED}", case.device()),
        "Use ESnet's value; fq does not need it",
    );
    Ok(judge_advice(text).remedy(remedy))
}

fn judge_receive_backlog(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let present = case.readings.number(BACKLOG)?;
    let wanted = match case.path.rate_bps {
        VERY_FAST_BPS.. => 250_000,
        FAST_BPS.. => 30_000,
        _ => 1_000,
    };
    let what = format!("{BACKLOG} is {present} packets");
    let trouble = "; bursts at this rate overrun it where packets wait for another core";
    let why = format!("Set {wanted}, as ESnet recommends");
    let remedy = remedy_by_sysctl(BACKLOG, wanted.to_string(), why);
    Ok(judge_unless(present >= wanted, &what, trouble, remedy))
}
