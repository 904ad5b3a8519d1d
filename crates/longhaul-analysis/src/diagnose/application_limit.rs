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

use super::{DiagnosisCase, build_finding, format_whole_percent, name_of_host, to_rate};
use crate::limit::interval_state::IntervalState;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::Bytes;

/// The minimum share of a state for a finding.
const MIN_STATE_SHARE: f64 = 0.3;

pub fn diagnose_sender_application(case: &DiagnosisCase) -> Option<ReportFinding> {
    let share = case.verdict.shares.state(IntervalState::SenderApp);
    if !case.is_limited_by(Limiter::Application) || share < MIN_STATE_SHARE {
        return None;
    }
    let host = name_of_host(&case.sender().host, "the sender");
    let datagrams = match case.scene.plan.transport {
        RunTransport::Udp { rate_bps } => Some(rate_bps),
        RunTransport::Tcp => None,
    };
    let asked = describe_requested_rate(case.scene.plan.write_rate_bps.or(datagrams), "write");
    let summary = format!(
        "Application-limited: {host} wrote {}{asked}, and the network waited for data",
        case.goodput()
    );
    let mut found = build_finding(case, "sender_application", summary);
    found.support(format!(
        "the sender had no more data to send for {} of the bytes",
        format_whole_percent(share)
    ));
    let text = if datagrams.is_some() {
        "Request a higher rate with -b to find the capacity of the path"
    } else {
        "No network change helps: the application must supply data faster"
    };
    found.advise("sender", String::from(text));
    Some(found)
}

pub fn diagnose_receiver_application(case: &DiagnosisCase) -> Option<ReportFinding> {
    let share = case.verdict.shares.state(IntervalState::ReceiverApp);
    if !case.is_limited_by(Limiter::Application) || share < MIN_STATE_SHARE {
        return None;
    }
    let host = name_of_host(&case.receiver().host, "the receiver");
    let asked = describe_requested_rate(case.scene.plan.read_rate_bps, "read");
    let summary = format!(
        "Application-limited: {host} read {}{asked}, and data waited in its receive buffer",
        case.goodput()
    );
    let mut found = build_finding(case, "receiver_application", summary);
    found.support(format!(
        "the reader was not reading for {} of the bytes",
        format_whole_percent(share)
    ));
    let unread = case.scene.judged_intervals().filter_map(|i| i.unread_bytes).max();
    found
        .supports
        .extend(unread.map(|n| format!("up to {} unread in the receive buffer", Bytes(n))));
    found.advise("receiver", "A larger window does not help: the reader (disk, decoding, requested rate) must become faster");
    Some(found)
}

fn describe_requested_rate(rate_bps: Option<u64>, verb: &str) -> String {
    rate_bps.map_or(String::new(), |bps| format!(" (requested {verb} rate {})", to_rate(bps)))
}
