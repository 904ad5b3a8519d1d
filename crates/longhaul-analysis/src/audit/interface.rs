//! Checks that the interface and its route can carry the path, with large enough packets.
//!
//! Source: see each rule. Units: bytes, bit/s.
//! Error: the interface speed is that of the wire; headers take 2.5 to 6 % of it.
//! Wrong when: a virtual device reports a speed or an MTU that the underlying device does not have.

use super::Rule;
use super::case::{Case, FAST_BPS};
use super::judgement::{Judgement, advice, by_hand, command, good, limits, sysctl};
use super::readings::Read;
use longhaul_model::units::{Bytes, Rate};

const CARRIER: &str = "interface.carrier";
const SPEED: &str = "interface.speed_bps";
const MTU: &str = "interface.mtu";
const PROBING: &str = "net.ipv4.tcp_mtu_probing";
const NO_DISCOVERY: &str = "net.ipv4.ip_no_pmtu_disc";
const ROUTE: &str = "route.interface";
/// The minimum MTU below which ESnet warns; it recommends 9000.
const JUMBO_LEAST: u64 = 8_000;
const ETHERNET: u64 = 1_500;

pub const RULES: &[Rule] = &[
    Rule {
        name: "carrier",
        title: "the interface is connected",
        source: "Linux networking/operstates (2025)",
        needs: &[CARRIER],
        by_path: false,
        applies: false,
        judge: carrier,
    },
    Rule {
        name: "interface_speed",
        title: "speed of the interface",
        source: "Linux ethtool(8) (2024)",
        needs: &[SPEED],
        by_path: true,
        applies: false,
        judge: interface_speed,
    },
    Rule {
        name: "mtu",
        title: "size of packets",
        source: "ESnet fasterdata-tuning (2025); Mathis et al. (1997)",
        needs: &[MTU],
        by_path: true,
        // Neighbours with a smaller MTU lose packets.
        applies: false,
        judge: mtu,
    },
    Rule {
        name: "mtu_probing",
        title: "a hop that silently drops large packets is found",
        source: "RFC 4821 (2007); RFC 8899 (2020); ESnet fasterdata (2010s)",
        needs: &[PROBING, MTU],
        by_path: false,
        applies: true,
        judge: mtu_probing,
    },
    Rule {
        name: "mtu_discovery",
        title: "packets as large as the path takes",
        source: "RFC 1191 (1990); Linux ip-sysctl, ip_no_pmtu_disc (2025)",
        needs: &[NO_DISCOVERY],
        by_path: false,
        applies: false,
        judge: mtu_discovery,
    },
    Rule {
        name: "route",
        title: "what the route itself sets",
        source: "Linux ip-route(8) (2024)",
        needs: &[ROUTE],
        by_path: true,
        applies: false,
        judge: route,
    },
];

fn carrier(case: &Case) -> Read<Judgement> {
    Ok(if case.readings.switch(CARRIER)? {
        good(format!("{} has carrier", case.device()))
    } else {
        limits(format!("{} has no carrier", case.device())).remedy(by_hand(
            "Look at the cable, the optics and the port of the switch",
        ))
    })
}

fn interface_speed(case: &Case) -> Read<Judgement> {
    let speed = case.readings.number(SPEED)?;
    let text = format!("{} runs at {}", case.device(), Rate::bits_per_second(speed));
    if speed >= case.path.rate_bps {
        return Ok(good(text));
    }
    let text = format!(
        "{text}, the path at {}",
        Rate::bits_per_second(case.path.rate_bps)
    );
    let remedy = by_hand("A faster interface; or see whether it agreed to less than it can");
    Ok(limits(text).bound(Some(speed)).remedy(remedy))
}

fn mtu(case: &Case) -> Read<Judgement> {
    let mtu = case.readings.number(MTU)?;
    let what = format!("the MTU of {} is {mtu} bytes", case.device());
    if mtu >= JUMBO_LEAST || (mtu >= ETHERNET && !case.at_least(FAST_BPS)) {
        return Ok(good(what));
    }
    let remedy = command(
        format!("ip link set dev {} mtu 9000", case.device()),
        "Only where every switch and the far end have it too",
    );
    if mtu < ETHERNET {
        let text =
            format!("{what}, less than Ethernet's 1500: more packets and headers for the same");
        return Ok(advice(text));
    }
    let packets = case.path.rate_bps / (mtu.max(1) * 8);
    let text = format!(
        "{what}: {packets} packets a second at this rate, and after loss a window grows by \
         segments of that size"
    );
    Ok(advice(text).remedy(remedy))
}

fn mtu_probing(case: &Case) -> Read<Judgement> {
    let (mode, mtu) = (case.readings.number(PROBING)?, case.readings.number(MTU)?);
    let what = format!("{PROBING} is {mode}");
    if mode >= 2 {
        let text =
            format!("{what}: every connection starts with small segments and probes upwards");
        let remedy = command(
            format!("sysctl -w {PROBING}=1"),
            "Probe only where large packets vanish",
        );
        return Ok(advice(text).remedy(remedy));
    }
    if mode == 1 || mtu <= ETHERNET {
        return Ok(good(what));
    }
    let text = format!(
        "{what}, with packets of {mtu} bytes: a hop that drops them without a word stalls every \
         connection"
    );
    Ok(advice(text).remedy(sysctl(
        PROBING,
        "1",
        "Try smaller packets when large ones vanish",
    )))
}

fn mtu_discovery(case: &Case) -> Read<Judgement> {
    let mode = case.readings.number(NO_DISCOVERY)?;
    let what = format!("{NO_DISCOVERY} is {mode}");
    if mode == 0 {
        return Ok(good(what));
    }
    let text = format!("{what}: the host does not follow what routers say about packet sizes");
    let remedy = command(
        format!("sysctl -w {NO_DISCOVERY}=0"),
        "Follow them; mode 3 is for hardened hosts",
    );
    Ok(advice(text).remedy(remedy))
}

/// Checks the window and the MTU set on the route; they override all other settings.
fn route(case: &Case) -> Read<Judgement> {
    let by = case.readings.text(ROUTE)?;
    let set = |name: &str| match case.readings.text(name) {
        Ok(_) => case.readings.number(name).map(Some),
        Err(_) => Ok(None),
    };
    let (window, mtu) = (set("route.window")?, set("route.mtu")?);
    if let Some(window) = window.filter(|w| *w > 0 && *w < case.in_flight_bytes()) {
        let carried = case.carried_bps(window);
        let text = format!(
            "the route by {by} sets a window of {}; {}",
            Bytes(window),
            case.need()
        );
        let remedy = by_hand("Take `window` from that route: `ip route change …`");
        return Ok(limits(text).bound(carried).remedy(remedy));
    }
    let own = case.readings.number(MTU).ok();
    if let (Some(mtu), Some(own)) = (mtu, own)
        && mtu > 0
        && mtu < own
    {
        let text = format!("the route by {by} sets an MTU of {mtu} bytes, the interface has {own}");
        return Ok(advice(text).remedy(by_hand(
            "Right where the path takes no more; else take it away",
        )));
    }
    Ok(good(format!(
        "by {by}, which sets neither window nor a smaller MTU"
    )))
}
