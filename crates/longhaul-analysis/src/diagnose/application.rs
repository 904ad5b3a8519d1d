//! Limited by an application and not by the network.
//!
//! We would see: the sender's thread neither in write nor running, with nothing left to send; or
//! the receiver's neither in read nor running, with bytes unread or a zero window.
//! Refuted by: threads asleep in their calls. Needs: time in calls, SIOCINQ, `tcpi_notsent_bytes`.
//! To do: nothing on the network. If a rate was requested, that is the rate.
//!
//! Source: our experiments: `tcpi_rwnd_limited` is the same for a slow reader and a small buffer;
//! only the unread bytes distinguish them. Units: shares of time.
//! Wrong when: the application polls without blocking; it then looks busy.

use super::{Case, advice, finding, host_name, percent, rate};
use crate::limit::state::State;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::Transport;

/// The minimum share of a state for a finding.
const LEAST_SHARE: f64 = 0.3;

pub fn sender(case: &Case) -> Option<Finding> {
    let share = case.verdict.shares.state(State::SenderApp);
    if !case.is(Limiter::Application) || share < LEAST_SHARE {
        return None;
    }
    let host = host_name(&case.sender().host, "the sender");
    let datagrams = match case.scene.plan.transport {
        Transport::Udp { rate_bps } => Some(rate_bps),
        Transport::Tcp => None,
    };
    let asked = asked(case.scene.plan.write_rate_bps.or(datagrams), "write");
    let summary = format!(
        "The application on {host} wrote {}{asked}; the network was waiting for it",
        case.goodput()
    );
    let mut found = finding(case, "sender_application", summary);
    found.supports.push(format!(
        "{} of the bytes left while the sender had nothing more to send",
        percent(share)
    ));
    let text = if datagrams.is_some() {
        "Ask for a higher rate with -b to find what the path carries"
    } else {
        "Nothing on the network would help; give more data, or faster"
    };
    found.advice.push(advice("sender", String::from(text)));
    Some(found)
}

pub fn receiver(case: &Case) -> Option<Finding> {
    let share = case.verdict.shares.state(State::ReceiverApp);
    if !case.is(Limiter::Application) || share < LEAST_SHARE {
        return None;
    }
    let host = host_name(&case.receiver().host, "the receiver");
    let asked = asked(case.scene.plan.read_rate_bps, "read");
    let summary = format!(
        "The application on {host} read {}{asked}; data waited for it in the receive buffer",
        case.goodput()
    );
    let mut found = finding(case, "receiver_application", summary);
    found.supports.push(format!(
        "{} of the bytes came while the reader was elsewhere",
        percent(share)
    ));
    let unread = case.scene.judged().filter_map(|i| i.unread_bytes).max();
    found
        .supports
        .extend(unread.map(|n| format!("up to {} lay unread", super::bytes(n))));
    found.advice.push(advice("receiver", String::from("A larger window would not help: the reader (disk, decoding, its own pace) must become faster")));
    Some(found)
}

fn asked(rate_bps: Option<u64>, verb: &str) -> String {
    rate_bps.map_or(String::new(), |bps| {
        format!(" (you asked it to {verb} {})", rate(bps))
    })
}
