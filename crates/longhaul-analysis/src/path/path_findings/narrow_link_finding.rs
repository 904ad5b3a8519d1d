//! Reports the narrow link, if the queue under load showed it.

use super::PathFindingInput;
use crate::diagnose::{build_advice, build_unproven_finding};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::path::NarrowLink;

pub fn report_narrow_link(case: &PathFindingInput) -> Option<ReportFinding> {
    let link = case.analysis.narrow_link.as_ref()?;
    let (cause, advised) = match link.verdict.as_str() {
        "link" | "span" => ("narrow_link", advise_at_link(link)),
        "own_host" => (
            "narrow_link",
            (
                "sender",
                "This host's own interface is the limit: a faster one, or pacing below its rate",
            ),
        ),
        "return_path" => (
            "return_path_queue",
            (
                "path",
                "Look for load on the way of the acknowledgements, or give them their own queue",
            ),
        ),
        _ => return None,
    };
    let mut found =
        build_unproven_finding(cause, link.confidence_ratio, capitalize_text(&link.text));
    found.supports.extend(describe_rise(link));
    if case.asymmetric {
        found.contradicts.push(String::from(
            "the ways there and back differ, so a hop's answers may pass other queues",
        ));
    }
    let (place, text) = advised;
    found.advice.push(build_advice(place, text.to_owned()));
    Some(found)
}

fn describe_rise(link: &NarrowLink) -> Option<String> {
    let (after, before) = (link.after_ttl?, link.before_ttl?);
    Some(match after {
        0 => format!("round trips from hop {before} on grew, and no hop before it stayed quiet"),
        _ => format!("round trips up to hop {after} stayed, those from hop {before} on grew"),
    })
}

fn advise_at_link(link: &NarrowLink) -> (&'static str, &'static str) {
    match link.after_ttl {
        Some(0) => (
            "initiator",
            "The first link is the limit: look at this site's access before asking others",
        ),
        _ => (
            "path",
            "Ask the operator of these hops; measured again at another hour, the same link says \
             that it is always so",
        ),
    }
}

fn capitalize_text(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}
