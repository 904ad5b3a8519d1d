//! Checks whether the PCI Express slot can carry the interface's speed.
//!
//! Source: PCI Express Base Specification 3.0 (2010): 8b/10b to 5 GT/s, 128b/130b above.
//! Units: GT/s, lanes, bit/s. Error: headers take 10 % with packets of 256 bytes; this is deducted.
//! Wrong when: the slot is shared behind a switch.

use super::AuditRule;
use super::audit_case::AuditCase;
use super::host_readings::{HostReadings, ReadingResult};
use super::rule_judgement::{RuleJudgement, judge_limits, judge_unless, remedy_by_hand};
use longhaul_model::units::Rate;

const SPEED: [&str; 2] = ["interface.pci.speed_gtps", "interface.pci.speed_gtps_max"];
const WIDTH: [&str; 2] = ["interface.pci.width", "interface.pci.width_max"];
const PACKET_RATIO: f64 = 0.9;

pub const RULES: &[AuditRule] = &[AuditRule::of_path("pci_express", judge_pci_express)
    .title("PCI Express slot of the interface")
    .source("PCI Express Base Specification 3.0 (2010)")
    .needs(&[SPEED[0], WIDTH[0]])];

fn compute_slot_bps(gtps: f64, lanes: u64) -> u64 {
    let coding = if gtps > 5.0 { 128.0 / 130.0 } else { 0.8 };
    (gtps * 1e9 * coding * PACKET_RATIO * lanes as f64) as u64
}

fn judge_pci_express(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let gtps = case.readings.decimal(SPEED[0])?;
    let lanes = case.readings.number(WIDTH[0])?;
    let capacity = compute_slot_bps(gtps, lanes);
    let what = format!("{gtps} GT/s × {lanes} lanes carry {}", Rate::bits_per_second(capacity));
    let better = read_card_maximum(case)?.filter(|(_, bps)| *bps > capacity);
    let remedy = |text: &str| {
        remedy_by_hand(better.as_ref().map_or_else(
            || text.to_owned(),
            |(card, _)| format!("The card supports {card}: move it to a slot that does too"),
        ))
    };
    if capacity < case.path.rate_bps {
        let text =
            format!("{what}, but the path carries {}", Rate::bits_per_second(case.path.rate_bps));
        let remedy = remedy("Use a card with more lanes");
        return Ok(judge_limits(text).bound(Some(capacity)).remedy(remedy));
    }
    let speed = case.readings.number("interface.speed_bps").ok();
    let is_good = speed.is_none_or(|speed| capacity >= speed);
    let remedy = remedy(
        "The slot is fast enough for this path, but not for the full speed of the interface",
    );
    judge_unless(is_good, &what, ", less than the speed of the interface", remedy)
}

/// Returns the maximum of the card in a better slot, as text and in bit/s.
fn read_card_maximum(case: &AuditCase) -> ReadingResult<Option<(String, u64)>> {
    if case.readings.text(WIDTH[1]).is_err() {
        return Ok(None);
    }
    let gtps = case.readings.optional(SPEED[1], HostReadings::decimal)?;
    let lanes = case.readings.number(WIDTH[1])?;
    Ok(gtps.map(|gtps| (format!("{gtps} GT/s × {lanes}"), compute_slot_bps(gtps, lanes))))
}
