//! Checks that packets leave evenly, and that queues are long enough.
//!
//! Source: see each rule. Units: bit/s, packets.
//! Error: no reading shows how often a queue was full; the drop counters do.
//! Wrong when: a queue on the path paces or drops first.

use super::Rule;
use super::case::{Case, FAST_BPS, VERY_FAST_BPS};
use super::judgement::{Judgement, advice, command, good, limits, sysctl};
use super::readings::Read;
use longhaul_model::units::Rate;

const QDISC: &str = "interface.qdisc";
const DEFAULT_QDISC: &str = "net.core.default_qdisc";
const MAXRATE: &str = "interface.qdisc.maxrate_bps";
const QUEUE: &str = "interface.txqueuelen";
const BACKLOG: &str = "net.core.netdev_max_backlog";
const CONTROL: &str = "net.ipv4.tcp_congestion_control";
/// From this rate on, bursts at the interface's speed begin to overrun queues on the path.
const BURSTY_BPS: u64 = 1_000_000_000;

pub const RULES: &[Rule] = &[
    Rule {
        name: "queueing_discipline",
        title: "packets of a stream leave evenly",
        source: "ESnet fasterdata-tuning (2025); Linux tc-fq(8) (2015); Linux 4.13, internal \
                 pacing (2017)",
        needs: &[QDISC],
        by_path: true,
        // Replacing the queue loses the packets in it.
        applies: false,
        judge: queueing_discipline,
    },
    Rule {
        name: "default_queueing_discipline",
        title: "queueing discipline of interfaces to come",
        source: "ESnet fasterdata-tuning (2025)",
        needs: &[DEFAULT_QDISC],
        by_path: false,
        // It changes no existing interface, so a measurement could not show its effect.
        applies: false,
        judge: default_queueing_discipline,
    },
    Rule {
        name: "flow_ceiling",
        title: "ceiling of each stream at the interface",
        source: "Linux tc-fq(8), maxrate (2015)",
        needs: &[QDISC],
        by_path: true,
        applies: false,
        judge: flow_ceiling,
    },
    Rule {
        name: "transmit_queue",
        title: "length of the interface's queue",
        source: "ESnet fasterdata-tuning (2025)",
        needs: &[QUEUE],
        by_path: true,
        applies: false,
        judge: transmit_queue,
    },
    Rule {
        name: "receive_backlog",
        title: "packets that may wait for a core",
        source: "ESnet fasterdata (2010s); Linux sysctl/net, netdev_max_backlog (2025)",
        needs: &[BACKLOG],
        by_path: true,
        applies: true,
        judge: receive_backlog,
    },
];

/// Returns the queueing disciplines that hold packets: the leaves, or the root if it has none.
fn kinds<'a>(case: &Case<'a>) -> Read<Vec<&'a str>> {
    let root = case.readings.text(QDISC)?;
    let leaves = case.readings.text("interface.qdisc.leaves").ok();
    Ok(match leaves.filter(|kinds| !kinds.is_empty()) {
        Some(kinds) => kinds.split_whitespace().collect(),
        None => vec![root],
    })
}

fn queueing_discipline(case: &Case) -> Read<Judgement> {
    let kinds = kinds(case)?;
    let told = kinds.join(", ");
    if kinds.iter().all(|kind| *kind == "fq") {
        return Ok(good("fq paces each stream"));
    }
    if kinds.iter().all(|kind| *kind == "noqueue") {
        return Ok(good("no queue at this interface"));
    }
    let control = case.readings.text(CONTROL).unwrap_or_default();
    if control.starts_with("bbr") {
        let text = format!("{told}; BBR paces by timers of its own, which fq would do for less");
        return Ok(good(text));
    }
    if !case.at_least(BURSTY_BPS) {
        return Ok(good(format!("{told}; bursts matter little at this rate")));
    }
    let text = format!(
        "{told} lets a stream leave in bursts at the interface's speed, which queues on the way \
         must hold"
    );
    let remedy = command(
        format!("tc qdisc replace dev {} root fq", case.device()),
        "Pace each stream; what waits in the old queue is lost",
    );
    Ok(advice(text).remedy(remedy))
}

fn default_queueing_discipline(case: &Case) -> Read<Judgement> {
    let present = case.readings.text(DEFAULT_QDISC)?;
    if present == "fq" {
        return Ok(good("fq"));
    }
    let text = format!("{DEFAULT_QDISC} is {present}: new interfaces do not pace");
    Ok(advice(text).remedy(sysctl(
        DEFAULT_QDISC,
        "fq",
        "Only for interfaces set up afterwards",
    )))
}

fn flow_ceiling(case: &Case) -> Read<Judgement> {
    if case.readings.text(MAXRATE).is_err() {
        return Ok(good("none is set"));
    }
    let ceiling = case.readings.number(MAXRATE)?;
    let text = format!(
        "{} lets a stream leave at {} at most",
        case.device(),
        Rate::bits_per_second(ceiling)
    );
    if ceiling >= case.path.rate_bps {
        return Ok(good(text));
    }
    let remedy = command(
        format!("tc qdisc replace dev {} root fq", case.device()),
        "Without the ceiling, unless it is there on purpose",
    );
    Ok(limits(text).bound(Some(ceiling)).remedy(remedy))
}

fn transmit_queue(case: &Case) -> Read<Judgement> {
    const WANTED: u64 = 10_000;
    let present = case.readings.number(QUEUE)?;
    let used = kinds(case).is_ok_and(|kinds| {
        kinds
            .iter()
            .any(|kind| matches!(*kind, "pfifo_fast" | "pfifo"))
    });
    if present >= WANTED || !used || !case.at_least(FAST_BPS) {
        return Ok(good(format!("{present} packets")));
    }
    let text = format!(
        "{present} packets are {:.1} ms at this rate, less than a burst of a large window",
        (present * 1500 * 8) as f64 / (case.path.rate_bps as f64 / 1e3)
    );
    let remedy = command(
        format!("ip link set dev {} txqueuelen {WANTED}", case.device()),
        "As ESnet sets; fq does not need it",
    );
    Ok(advice(text).remedy(remedy))
}

fn receive_backlog(case: &Case) -> Read<Judgement> {
    let present = case.readings.number(BACKLOG)?;
    let wanted = if case.at_least(VERY_FAST_BPS) {
        250_000
    } else if case.at_least(FAST_BPS) {
        30_000
    } else {
        1_000
    };
    let what = format!("{BACKLOG} is {present} packets");
    if present >= wanted {
        return Ok(good(what));
    }
    let text =
        format!("{what}; where packets wait for another core, bursts at this rate overrun it");
    let remedy = sysctl(
        BACKLOG,
        wanted.to_string(),
        format!("{wanted}, as ESnet sets"),
    );
    Ok(advice(text).remedy(remedy))
}
