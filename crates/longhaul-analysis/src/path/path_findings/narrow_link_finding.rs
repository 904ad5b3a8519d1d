//! Reports the narrow link, if the queue under load showed it.

use super::PathFindingInput;
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
                "This host's own interface is the bottleneck: use a faster one, or pace below its rate",
            ),
        ),
        "return_path" => (
            "return_path_queue",
            ("path", "Check for load in the direction of the acknowledgements, or prioritise them"),
        ),
        _ => return None,
    };
    let mut found = ReportFinding::new(cause, link.confidence_ratio, capitalize_text(&link.text));
    found.supports.extend(describe_rise(link));
    if case.asymmetric {
        found.contradict(
            "forward and reverse paths differ, so a hop's answers may pass other queues",
        );
    }
    let (place, text) = advised;
    found.advise(place, text.to_owned());
    Some(found)
}

fn describe_rise(link: &NarrowLink) -> Option<String> {
    let (after, before) = (link.after_ttl?, link.before_ttl?);
    Some(match after {
        0 => format!("the RTT grew from hop {before} on, and no earlier hop was unaffected"),
        _ => format!("the RTT up to hop {after} was unchanged and grew from hop {before} on"),
    })
}

fn advise_at_link(link: &NarrowLink) -> (&'static str, &'static str) {
    match link.after_ttl {
        Some(0) => {
            ("initiator", "The first link is the bottleneck: check this site's access link first")
        }
        _ => (
            "path",
            "Ask the operator of these hops; if a measurement at another hour names the same link, \
             the bottleneck is permanent",
        ),
    }
}

fn capitalize_text(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}
