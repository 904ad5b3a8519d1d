//! Checks that the interface offloads work from the CPU and can buffer enough packets.
//!
//! Source: see each rule. Units: descriptors, µs.
//! Error: the cost of a setting depends on the CPU; these rules show where to look.
//! Wrong when: the device is virtual and the underlying device does the work.

use super::{
    AuditCase, AuditRule, FAST_BPS, ReadingResult, RuleJudgement, VERY_FAST_BPS, judge_advice,
    judge_good, judge_unless, remedy_by_command,
};

/// Readings, the feature names of ethtool, and whether the reading must be known.
const FEATURES: [(&str, &str, bool); 6] = [
    ("interface.feature.tso", "tso", true),
    ("interface.feature.gso", "gso", true),
    ("interface.feature.gro", "gro", true),
    ("interface.feature.tx_checksum", "tx", false),
    ("interface.feature.rx_checksum", "rx", false),
    ("interface.feature.scatter_gather", "sg", false),
];
const RX_RING: [&str; 2] = ["interface.ring.rx", "interface.ring.rx_max"];
const TX_RING: [&str; 2] = ["interface.ring.tx", "interface.ring.tx_max"];
const RX_WAIT: &str = "interface.coalesce.rx_usecs";
/// ESnet's ring size, if the device supports it.
const RING_WANTED: u64 = 8_192;
/// From this rate on, handling single packets takes a good part of a core.
const NOTICEABLE_BPS: u64 = 1_000_000_000;
/// Acknowledgements delayed by more than this make the sender burst.
const LONG_WAIT_US: u64 = 1_000;

pub const RULES: &[AuditRule] = &[
    AuditRule::of_path("offloads", judge_offloads)
        .title("segmentation and receive offloads")
        .source("Linux segmentation-offloads (2025); ESnet fasterdata (2010s)"),
    // Most devices take the link down to change it.
    AuditRule::of_path("receive_ring", |case| judge_ring(case, RX_RING, "rx"))
        .title("size of the receive ring")
        .source("ESnet fasterdata-tuning (2025)"),
    AuditRule::of_path("transmit_ring", |case| judge_ring(case, TX_RING, "tx"))
        .title("size of the transmit ring")
        .source("ESnet fasterdata-tuning (2025)"),
    AuditRule::of_path("coalescing", judge_coalescing)
        .title("interrupt coalescing")
        .source("Prasad et al., PAM (2004); Linux ethtool(8) (2024)"),
    AuditRule::of_path("pause_frames", judge_pause_frames)
        .title("flow control by pause frames")
        .source("IEEE 802.3x (1997)"),
];

fn judge_offloads(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let mut off = Vec::new();
    for (reading, word, required) in FEATURES {
        let known = required || case.readings.text(reading).is_ok();
        if known && !case.readings.switch(reading)? {
            off.push(word);
        }
    }
    if off.is_empty() {
        return Ok(judge_good("all relevant offloads are on"));
    }
    let what = format!("off: {}", off.join(", "));
    if !case.is_at_least(NOTICEABLE_BPS) {
        return Ok(judge_good(format!("{what}; a core handles this rate without them")));
    }
    let text = format!("{what}; the CPU handles each packet of one MTU separately");
    let on: Vec<String> = off.iter().map(|word| format!("{word} on")).collect();
    let remedy = remedy_by_command(
        format!("ethtool -K {} {}", case.device(), on.join(" ")),
        "Turn them on, unless a bridge or a capture needs single packets",
    );
    Ok(judge_advice(text).remedy(remedy))
}

fn judge_ring(
    case: &AuditCase,
    [present, most]: [&str; 2],
    word: &str,
) -> ReadingResult<RuleJudgement> {
    let (present, most) = (case.readings.number(present)?, case.readings.number(most)?);
    let wanted = RING_WANTED.min(most);
    let remedy = remedy_by_command(
        format!("ethtool -G {} {word} {wanted}", case.device()),
        "Use a larger ring; the link may go down for a moment",
    );
    let what = format!("{present} of {most} descriptors");
    let is_good = present >= wanted || !case.is_at_least(FAST_BPS);
    Ok(judge_unless(is_good, &what, "; bursts at this rate overrun a short ring", remedy))
}

fn judge_coalescing(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let wait = case.readings.number(RX_WAIT)?;
    if case.readings.switch("interface.coalesce.adaptive_rx") == Ok(true) {
        return Ok(judge_good("adaptive"));
    }
    let remedy = remedy_by_command(
        format!("ethtool -C {} adaptive-rx on", case.device()),
        "Let the driver choose, or set rx-usecs to a few tens of µs",
    );
    if wait == 0 && case.is_at_least(FAST_BPS) {
        let text = "one interrupt per packet, unless the core is already behind";
        return Ok(judge_advice(text).remedy(remedy));
    }
    let what = format!("an interrupt waits {wait} µs for more packets");
    let trouble = ": acknowledgements arrive in bursts, so the sender sends in bursts";
    Ok(judge_unless(wait <= LONG_WAIT_US, &what, trouble, remedy))
}

fn judge_pause_frames(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let receives = case.readings.switch("interface.pause.rx")?;
    let sends = case.readings.switch("interface.pause.tx")?;
    if receives || sends || !case.is_at_least(VERY_FAST_BPS) {
        let word = |on| if on { "on" } else { "off" };
        return Ok(judge_good(format!(
            "honours pause frames: {}, sends pause frames: {}",
            word(receives),
            word(sends)
        )));
    }
    let text = "off: a switch with shallow buffers cannot pause this host and drops its bursts";
    let remedy = remedy_by_command(
        format!("ethtool -A {} rx on tx on", case.device()),
        "Enable them if the switch does too; they then hide a limit from TCP",
    );
    Ok(judge_advice(text).remedy(remedy))
}
