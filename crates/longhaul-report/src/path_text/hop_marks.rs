//! Remarks on a hop: one letter in the table, explained below it.

use crate::document::ReportDocument;
use crate::style::FAINT;
use longhaul_model::report::v1::path::{HopDelay, HopReply, ObservedHop};

/// The minimum difference between forward and reverse hop count that is remarked on.
const MIN_REMARKED_ASYMMETRY: u8 = 4;

/// Returns the mark by the analysis or the trace; a space if nothing is unusual.
pub fn choose_mark(hop: &ObservedHop, delay: Option<&HopDelay>) -> char {
    if hop.rate_limited {
        return 'r';
    }
    match delay.map(|delay| delay.state.as_str()) {
        Some("rate_limited") => 'r',
        Some("slow_answers") => 's',
        Some("stutter") => '=',
        Some("tunnel") => 't',
        _ => ' ',
    }
}

/// Marks of hops, and what they mean.
const MARKS: [(char, &str); 4] = [
    ('=', "answers at more than one TTL"),
    ('r', "limits the rate of its answers: its loss is not path loss"),
    ('s', "answers slowly: its times say nothing about the link"),
    ('t', "inside or behind a tunnel that hides hops"),
];

/// Explains the marks that are used in a table.
pub fn explain_marks(page: &mut ReportDocument, used: &[char]) {
    for (mark, meaning) in MARKS {
        if used.contains(&mark) {
            page.styled_item(format!("  {mark}  "), meaning, FAINT);
        }
    }
}

/// Returns further remarks on an answer.
pub fn list_remarks(answer: &HopReply, ttl: u8) -> Vec<String> {
    let mut remarks = Vec::new();
    let labels: Vec<String> =
        answer.mpls.iter().map(|label| format!("{} (TTL {})", label.label, label.ttl)).collect();
    if !labels.is_empty() {
        remarks.push(format!("MPLS {}", labels.join(" ")));
    }
    remarks.extend(describe_odd_kind(&answer.kind));
    if let Some(reply) = answer.reply_ttl
        && let Some(back) = estimate_hops_back(reply)
        && back.abs_diff(ttl) >= MIN_REMARKED_ASYMMETRY
    {
        remarks.push(format!("return path of about {back} hops (TTL {reply})"));
    }
    match answer.quoted_ttl {
        Some(0) => remarks.push("forwards packets with TTL 0".to_owned()),
        Some(quoted @ 2..) => {
            remarks.push(format!("received the probe with TTL {quoted}: hidden hops"));
        }
        _ => {}
    }
    if !answer.rewritten.is_empty() {
        let what = answer.rewritten.join(", ").replace('_', " ");
        remarks.push(format!("rewritten upstream: {what}"));
    }
    remarks
}

/// Describes kinds of answers that are unusual on a route.
fn describe_odd_kind(kind: &str) -> Option<String> {
    let words = match kind {
        "time_exceeded" | "echo_reply" | "port_unreachable" | "syn_ack" | "reset" => return None,
        "host_unreachable" => "replies: host unreachable",
        "net_unreachable" => "replies: network unreachable",
        "prohibited" => "replies: administratively prohibited",
        other => return Some(format!("replies: {}", other.replace('_', " "))),
    };
    Some(words.to_owned())
}

/// Estimates the hops of an answer from the next initial TTL that hosts use; `None` if that would
/// be a guess.
fn estimate_hops_back(reply_ttl: u8) -> Option<u8> {
    let begin = [64, 128, 255].into_iter().find(|begin| reply_ttl <= *begin)?;
    let hops = begin - reply_ttl + 1;
    (hops < 64).then_some(hops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_back_are_counted_from_what_hosts_begin_with() {
        for (reply, hops) in [(64, Some(1)), (243, Some(13)), (120, Some(9)), (0, None)] {
            assert_eq!(estimate_hops_back(reply), hops, "{reply}");
        }
    }

    #[test]
    fn only_what_is_odd_gets_words() {
        let mut answer = HopReply {
            address: "192.0.2.1".to_owned(),
            name: None,
            autonomous_system: None,
            place: None,
            rtts_ns: vec![1],
            reply_ttl: Some(62),
            quoted_ttl: Some(1),
            kind: "time_exceeded".to_owned(),
            mpls: Vec::new(),
            rewritten: Vec::new(),
        };
        assert!(list_remarks(&answer, 3).is_empty());
        answer.reply_ttl = Some(243);
        answer.kind = "prohibited".to_owned();
        answer.rewritten = vec!["source_address".to_owned()];
        let told = list_remarks(&answer, 3).join("; ");
        assert_eq!(
            told,
            "replies: administratively prohibited; return path of about 13 hops (TTL 243); \
             rewritten upstream: source address"
        );
    }
}
