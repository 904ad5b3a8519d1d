//! One flow of a capture as text.

use crate::render::figures::{count_of, duration, grouped, millis, or_absent};
use crate::render::page::Page;
use longhaul_model::report::v1::capture::{Flow, Handshake, Offer, RoundTrip, TcpWay, Way};
use longhaul_model::units::Bytes;
use std::fmt::Write;

pub fn flow(page: &mut Page, flow: &Flow) {
    page.heading(&format!(
        "{} {} > {}",
        flow.protocol, flow.opener, flow.listener
    ));
    match &flow.handshake {
        Some(handshake) => self::handshake(page, handshake),
        None if flow.protocol == "tcp" => {
            page.labelled(
                "handshake",
                "not in the capture: windows have an unknown scale",
            );
        }
        None => {}
    }
    page.labelled("duration", &duration(flow.duration_us));
    way(page, "to listener", &flow.forward);
    way(page, "to opener", &flow.reverse);
}

fn handshake(page: &mut Page, handshake: &Handshake) {
    page.labelled("opener offers", &offer(&handshake.opener));
    match &handshake.listener {
        Some(listener) => page.labelled("listener offers", &offer(listener)),
        None => page.labelled(
            "listener offers",
            "nothing: its answer is not in the capture",
        ),
    }
    if let Some(agreed) = handshake.agreed {
        let options = [
            (agreed.window_scaling, "window scaling"),
            (agreed.sack, "SACK"),
            (agreed.timestamps, "timestamps"),
            (agreed.ecn, "ECN"),
        ];
        let pick = |wanted: bool| {
            let names = options.iter().filter(|(holds, _)| *holds == wanted);
            names.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
        };
        let (with, without) = (pick(true), pick(false));
        let text = match (with.as_str(), without.as_str()) {
            (with, "") => with.to_owned(),
            ("", without) => format!("without {without}"),
            (with, without) => format!("{with}; without {without}"),
        };
        page.labelled("agreed", &text);
    }
    let time = |us: Option<u64>, what: &str| us.map(|us| format!("{what} after {} ms", millis(us)));
    let times = [
        time(handshake.answered_us, "answered"),
        time(handshake.acknowledged_us, "acknowledged"),
    ];
    let times: Vec<String> = times.into_iter().flatten().collect();
    if !times.is_empty() {
        page.labelled("handshake", &times.join(", "));
    }
}

fn offer(offer: &Offer) -> String {
    let mss = offer.mss_bytes.map(|mss| format!("MSS {mss} B"));
    let shift = offer
        .window_shift
        .map(|shift| format!("window shift {shift}"));
    let has = |there: bool, name: &str| there.then(|| name.to_owned());
    let parts = [
        mss,
        shift,
        has(offer.sack, "SACK"),
        has(offer.timestamps, "timestamps"),
        has(offer.ecn, "ECN"),
        Some(format!("window {}", Bytes(u64::from(offer.window_bytes)))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn way(page: &mut Page, label: &str, way: &Way) {
    let mut text = format!(
        "{}, {} of payload",
        count_of(way.packets, "packet"),
        Bytes(way.payload_bytes)
    );
    if way.largest_payload_bytes > 0 {
        let _ = write!(
            text,
            " (up to {} B each)",
            grouped(u64::from(way.largest_payload_bytes))
        );
    }
    if way.marked_packets > 0 {
        let _ = write!(text, ", {} marked by ECN", grouped(way.marked_packets));
    }
    page.labelled(label, &text);
    if let Some(tcp) = &way.tcp {
        page.labelled("", &sent_again(tcp));
        page.labelled("", &windows(tcp));
        for (how, rtt) in [("", tcp.rtt), (" by timestamps", tcp.timestamp_rtt)] {
            if let Some(rtt) = rtt {
                page.labelled("", &round_trip(how, &rtt));
            }
        }
    }
}

fn sent_again(tcp: &TcpWay) -> String {
    let mut parts = vec![
        format!(
            "{} sent again ({})",
            count_of(tcp.retransmitted_packets, "packet"),
            Bytes(tcp.retransmitted_bytes)
        ),
        format!("{} overtaken", grouped(tcp.reordered_packets)),
        count_of(tcp.duplicate_ack_packets, "duplicate ack"),
    ];
    if tcp.unseen_bytes > 0 {
        parts.push(format!("{} not in the capture", Bytes(tcp.unseen_bytes)));
    }
    parts.join(", ")
}

fn windows(tcp: &TcpWay) -> String {
    let bytes = |bytes: Option<u64>| or_absent(bytes, |bytes| Bytes(bytes).to_string());
    let mut text = format!(
        "most in flight {}; advertises {} to {}",
        Bytes(tcp.most_in_flight_bytes),
        bytes(tcp.smallest_window_bytes),
        bytes(tcp.largest_window_bytes)
    );
    if tcp.zero_window_packets > 0 {
        let _ = write!(text, ", {} times none", grouped(tcp.zero_window_packets));
    }
    text
}

fn round_trip(how: &str, rtt: &RoundTrip) -> String {
    format!(
        "RTT{how} {} / {} / {} ms (least, median, most of {})",
        millis(rtt.least_us),
        millis(rtt.median_us),
        millis(rtt.most_us),
        grouped(rtt.samples)
    )
}
