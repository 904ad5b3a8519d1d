//! Checks that the interface and its route can carry the path, with large enough packets.
//!
//! Source: see each rule. Units: bytes, bit/s.
//! Error: the interface speed is that of the wire; headers take 2.5 to 6 % of it.
//! Wrong when: a virtual device reports a speed or an MTU that the underlying device does not have.
//!
//! # The slot of the interface
//!
//! Checks whether the PCI Express slot can carry the interface's speed.
//!
//! Source: PCI Express Base Specification 3.0 (2010): 8b/10b to 5 GT/s, 128b/130b above.
//! Units: GT/s, lanes, bit/s. Error: headers take 10 % with packets of 256 bytes; this is deducted.
//! Wrong when: the slot is shared behind a switch.

use super::{
    AuditCase, AuditRule, FAST_BPS, HostReadings, ReadingResult, RuleJudgement, judge_advice,
    judge_good, judge_limits, judge_unless, remedy_by_command, remedy_by_hand, remedy_by_sysctl,
};
use longhaul_model::units::{Bytes, Rate};

const CARRIER: &str = "interface.carrier";
const SPEED: &str = "interface.speed_bps";
const MTU: &str = "interface.mtu";
const PROBING: &str = "net.ipv4.tcp_mtu_probing";
const NO_DISCOVERY: &str = "net.ipv4.ip_no_pmtu_disc";
const ROUTE: &str = "route.interface";
/// The minimum MTU below which ESnet warns; it recommends 9000.
const MIN_JUMBO_MTU: u64 = 8_000;
const ETHERNET: u64 = 1_500;

pub const RULES: &[AuditRule] = &[
    AuditRule::of_host("carrier", judge_carrier)
        .title("the interface is connected")
        .source("Linux networking/operstates (2025)"),
    AuditRule::of_path("interface_speed", judge_interface_speed)
        .title("speed of the interface")
        .source("Linux ethtool(8) (2024)"),
    // Neighbours with a smaller MTU lose packets.
    AuditRule::of_path("mtu", judge_mtu)
        .title("packet size (MTU)")
        .source("ESnet fasterdata-tuning (2025); Mathis et al. (1997)"),
    AuditRule::of_host("mtu_probing", judge_mtu_probing)
        .title("detection of hops that silently drop large packets")
        .source("RFC 4821 (2007); RFC 8899 (2020); ESnet fasterdata (2010s)"),
    AuditRule::of_host("mtu_discovery", judge_mtu_discovery)
        .title("path MTU discovery")
        .source("RFC 1191 (1990); Linux ip-sysctl, ip_no_pmtu_disc (2025)"),
    AuditRule::of_path("route", judge_route)
        .title("window and MTU set on the route")
        .source("Linux ip-route(8) (2024)"),
];

fn judge_carrier(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    Ok(if case.readings.switch(CARRIER)? {
        judge_good(format!("{} has carrier", case.device()))
    } else {
        judge_limits(format!("{} has no carrier", case.device()))
            .remedy(remedy_by_hand("Check the cable, the optics and the switch port"))
    })
}

fn judge_interface_speed(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let speed = case.readings.number(SPEED)?;
    let text = format!("{} runs at {}", case.device(), Rate::bits_per_second(speed));
    if speed >= case.path.rate_bps {
        return Ok(judge_good(text));
    }
    let text =
        format!("{text}, but the path carries {}", Rate::bits_per_second(case.path.rate_bps));
    let why = "Use a faster interface, or check whether it negotiated less than its maximum";
    Ok(judge_limits(text).bound(Some(speed)).remedy(remedy_by_hand(why)))
}

fn judge_mtu(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let mtu = case.readings.number(MTU)?;
    let what = format!("the MTU of {} is {mtu} bytes", case.device());
    if mtu < ETHERNET {
        return Ok(judge_advice(format!(
            "{what}, less than Ethernet's 1500: more packets and headers for the same data"
        )));
    }
    let packets = case.path.rate_bps / (mtu * 8);
    let trouble = format!(
        ": {packets} packets per second at this rate, and after a loss the window grows by \
         segments of that size"
    );
    let remedy = remedy_by_command(
        format!("ip link set dev {} mtu 9000", case.device()),
        "Raise the MTU, but only if every switch and the peer support it",
    );
    Ok(judge_unless(mtu >= MIN_JUMBO_MTU || !case.is_at_least(FAST_BPS), &what, &trouble, remedy))
}

fn judge_mtu_probing(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let (mode, mtu) = (case.readings.number(PROBING)?, case.readings.number(MTU)?);
    let what = format!("{PROBING} is {mode}");
    if mode >= 2 {
        let text =
            format!("{what}: every connection starts with small segments and probes upwards");
        let command = format!("sysctl -w {PROBING}=1");
        let why = "Probe only if large packets are lost";
        return Ok(judge_advice(text).remedy(remedy_by_command(command, why)));
    }
    let trouble = format!(
        ", with an MTU of {mtu} bytes: a hop that silently drops large packets stalls every \
         connection"
    );
    let remedy = remedy_by_sysctl(PROBING, "1", "Try smaller packets when large ones are lost");
    Ok(judge_unless(mode == 1 || mtu <= ETHERNET, &what, &trouble, remedy))
}

fn judge_mtu_discovery(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let mode = case.readings.number(NO_DISCOVERY)?;
    let remedy = remedy_by_command(
        format!("sysctl -w {NO_DISCOVERY}=0"),
        "Enable path MTU discovery; mode 3 is for hardened hosts",
    );
    let trouble = ": the host ignores the routers' messages about packet sizes";
    Ok(judge_unless(mode == 0, &format!("{NO_DISCOVERY} is {mode}"), trouble, remedy))
}

/// Checks the window and the MTU set on the route; they override all other settings.
fn judge_route(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let by = case.readings.text(ROUTE)?;
    let window = case.readings.optional("route.window", HostReadings::number)?;
    let mtu = case.readings.optional("route.mtu", HostReadings::number)?;
    if let Some(window) = window.filter(|w| *w > 0 && *w < case.in_flight_bytes()) {
        let text = format!(
            "the route through {by} sets a window of {}; {}",
            Bytes(window),
            case.describe_need()
        );
        let remedy = remedy_by_hand("Remove `window` from that route with `ip route change …`");
        return Ok(judge_limits(text).bound(case.max_rate_bps(window)).remedy(remedy));
    }
    let own = case.readings.number(MTU).ok();
    if let Some((mtu, own)) = mtu.zip(own).filter(|(mtu, own)| *mtu > 0 && mtu < own) {
        let text = format!(
            "the route through {by} sets an MTU of {mtu} bytes, but the interface has {own}"
        );
        let why = "Keep it if the path carries no more; otherwise remove it";
        return Ok(judge_advice(text).remedy(remedy_by_hand(why)));
    }
    Ok(judge_good(format!("the route through {by} sets neither a window nor a smaller MTU")))
}

const SLOT_SPEED: [&str; 2] = ["interface.pci.speed_gtps", "interface.pci.speed_gtps_max"];
const SLOT_WIDTH: [&str; 2] = ["interface.pci.width", "interface.pci.width_max"];
const PACKET_RATIO: f64 = 0.9;

pub const BUS_RULES: &[AuditRule] = &[AuditRule::of_path("pci_express", judge_pci_express)
    .title("PCI Express slot of the interface")
    .source("PCI Express Base Specification 3.0 (2010)")];

fn compute_slot_bps(gtps: f64, lanes: u64) -> u64 {
    let coding = if gtps > 5.0 { 128.0 / 130.0 } else { 0.8 };
    (gtps * 1e9 * coding * PACKET_RATIO * lanes as f64) as u64
}

fn judge_pci_express(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let gtps = case.readings.decimal(SLOT_SPEED[0])?;
    let lanes = case.readings.number(SLOT_WIDTH[0])?;
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
    Ok(judge_unless(is_good, &what, ", less than the speed of the interface", remedy))
}

/// Returns the maximum of the card in a better slot, as text and in bit/s.
fn read_card_maximum(case: &AuditCase) -> ReadingResult<Option<(String, u64)>> {
    if case.readings.text(SLOT_WIDTH[1]).is_err() {
        return Ok(None);
    }
    let gtps = case.readings.optional(SLOT_SPEED[1], HostReadings::decimal)?;
    let lanes = case.readings.number(SLOT_WIDTH[1])?;
    Ok(gtps.map(|gtps| (format!("{gtps} GT/s × {lanes}"), compute_slot_bps(gtps, lanes))))
}
