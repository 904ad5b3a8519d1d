//! The table of a route: one line per hop, a second one for details, and the other next hops of a
//! load balancer below.

use super::{format_ms, hop_marks, protocol_name};
use crate::render::number_format::{ABSENT, count_of, format_micros, format_percent, or_absent};
use crate::render::style::{FAINT, STRONG, paint};
use crate::render::text_page::{TextPage, WIDTH};
use longhaul_model::report::v1::path::{HopDelay, HopReply, ObservedHop, ObservedRoute};
use std::fmt::Write;

/// Widths of TTL and mark, of the loss, and of each time.
const TTL: usize = 5;
const LOSS: usize = 5;
const TIME: usize = 7;
/// Remaining width for the address: the longest IPv6 address fits, with a space after it.
const WHO: usize = WIDTH - TTL - LOSS - 4 * TIME;
/// Width of the heading of AS numbers.
const NETWORK: usize = 7;
/// The minimum number of consecutive silent hops that are folded into one line.
const SILENT_FOLDED: usize = 3;

/// Writes `ROUTE 3: 43 hops by ICMP, reached in 1.2 s with 129 probes`.
pub fn write_route_heading(
    page: &mut TextPage,
    name: &str,
    number: Option<u32>,
    route: &ObservedRoute,
) {
    let number = number.map_or_else(String::new, |n| format!(" {n}"));
    let end = match route.ended_by.as_str() {
        "reached" => "destination reached",
        "most_hops" => "destination not reached: hop limit",
        "silent" => "destination not reached: no further answers",
        "unreachable" => "destination not reached: ICMP unreachable",
        "loop" => "destination not reached: routing loop",
        "time" => "destination not reached in time",
        _ if route.reached => "destination reached",
        _ => "destination not reached",
    };
    page.heading(&format!(
        "{name}{number}: {} by {}, {end}",
        count_of(route.hops.len() as u64, "hop"),
        protocol_name(route.protocol)
    ));
    let mut parts = vec![
        format!("{} -> {}", route.from, route.to),
        count_of(u64::from(route.probes_sent), "probe"),
        format_micros(route.duration_us),
    ];
    if route.discarded > 0 {
        let answers = count_of(u64::from(route.discarded), "invalid answer");
        parts.push(format!("{answers} discarded"));
    }
    if let Some(confidence) = route.confidence_ratio {
        parts.push(format!(
            "confidence in alternatives {}",
            format_percent(confidence)
        ));
    }
    page.hanging_paragraph_styled("", &parts.join(", "), FAINT);
}

/// Writes at least one line per hop, and explains the marks below.
pub fn write_hop_table(page: &mut TextPage, route: &ObservedRoute, delays: &[HopDelay]) {
    let columns = HopColumns::for_route(route, delays);
    page.line(&paint(STRONG, columns.heading()));
    let mut used = hop_marks::UsedMarks::default();
    let mut rest = route.hops.as_slice();
    while let [hop, after @ ..] = rest {
        let silent = rest.iter().take_while(|hop| is_silent(hop)).count();
        if silent >= SILENT_FOLDED {
            write_silent_hops(page, &rest[..silent]);
            rest = &rest[silent..];
            continue;
        }
        let delay = delays.iter().find(|delay| delay.ttl == hop.ttl);
        let mark = hop_marks::choose_mark(hop, delay);
        used.note(mark);
        columns.write_hop(page, route, hop, (mark, delay));
        rest = after;
    }
    used.explain(page);
}

fn is_silent(hop: &ObservedHop) -> bool {
    hop.answers.is_empty() && !hop.rate_limited
}

fn write_silent_hops(page: &mut TextPage, hops: &[ObservedHop]) {
    let (first, last) = (hops[0].ttl, hops[hops.len() - 1].ttl);
    let sent: u64 = hops.iter().map(|hop| u64::from(hop.sent)).sum();
    let text = format!("*   no answer to {}", count_of(sent, "probe"));
    page.line(&format!("{:<10}{text}", format!("{first:>3}-{last}")));
}

/// The columns of one table.
pub struct HopColumns {
    address: usize,
    /// Width of the AS in the first line of a hop; 0: it is not in that line.
    network: usize,
    /// Link delays are known for some hop.
    links: bool,
}

impl HopColumns {
    pub fn for_route(route: &ObservedRoute, delays: &[HopDelay]) -> HopColumns {
        let answers = || route.hops.iter().flat_map(|hop| &hop.answers);
        let longest = answers().map(|answer| answer.address.chars().count()).max();
        let address = longest.unwrap_or(0).clamp(15, WHO - 1);
        let numbers = answers().filter_map(|answer| answer.autonomous_system);
        let network = numbers.map(|number| format!("AS{number}").len()).max();
        let network = network.map_or(0, |width| width.max(NETWORK));
        HopColumns {
            address,
            network: if address + 1 + network < WHO {
                network
            } else {
                0
            },
            links: delays.iter().any(|delay| delay.link_ns.is_some()),
        }
    }

    pub fn heading(&self) -> String {
        let who = if self.network > 0 {
            format!("{:<width$} network", "address", width = self.address)
        } else {
            "address".to_owned()
        };
        let link = if self.links { "link" } else { "" };
        let times = ["min", "median", "max", link].map(|head| format!("{head:>TIME$}"));
        let times = times.concat();
        format!("{:>3}  {who:<WHO$}{:>LOSS$}{times}", "hop", "loss")
    }

    fn write_hop(
        &self,
        page: &mut TextPage,
        route: &ObservedRoute,
        hop: &ObservedHop,
        (mark, delay): hop_marks::MarkedDelay<'_>,
    ) {
        let Some((first, others)) = hop.answers.split_first() else {
            let sent = count_of(u64::from(hop.sent), "probe");
            page.line(&format!("{:>3}{mark} *   no answer to {sent}", hop.ttl));
            return;
        };
        let link = delay.and_then(|delay| delay.link_ns);
        let link = if self.links {
            format!("{:>TIME$}", or_absent(link, format_ms))
        } else {
            String::new()
        };
        let line = self.format_answer(first, &(format_answer_figures(hop, first) + &link));
        page.line(&format!("{:>3}{mark} {line}", hop.ttl));
        self.write_details(page, "      ", first, hop.ttl);
        for (place, other) in others.iter().enumerate() {
            let last = place + 1 == others.len();
            let (head, under) = if last {
                ("   └ ", "      ")
            } else {
                ("   ├ ", "   │  ")
            };
            let line = self.format_answer(other, &format_other_figures(route, hop, other));
            page.line(&format!("{head}{line}"));
            self.write_details(page, under, other, hop.ttl);
        }
    }

    fn format_answer(&self, answer: &HopReply, figures: &str) -> String {
        let mut who = format!("{:<width$}", answer.address, width = self.address);
        if let Some(number) = answer.autonomous_system.filter(|_| self.network > 0) {
            let _ = write!(
                who,
                " {:<width$}",
                format!("AS{number}"),
                width = self.network
            );
        }
        if let Some(name) = self.inline_name(answer) {
            let _ = write!(who, " {name}");
        }
        format!("{who:<WHO$}{figures}")
    }

    /// Returns the name if it fits into the line of the address.
    fn inline_name<'a>(&self, answer: &'a HopReply) -> Option<&'a str> {
        // An answer without an AS leaves that column empty.
        let network = match (self.network, answer.autonomous_system) {
            (0, _) | (_, None) => 0,
            (width, Some(_)) => width + 1,
        };
        let name = answer.name.as_deref()?;
        (self.address + network + 1 + name.chars().count() < WHO).then_some(name)
    }

    /// Writes the details that do not fit into the line of the address.
    fn write_details(&self, page: &mut TextPage, head: &str, answer: &HopReply, ttl: u8) {
        let name = answer.name.iter();
        let name = name.filter(|_| self.inline_name(answer).is_none());
        let mut parts: Vec<String> = name.cloned().collect();
        let number = answer.autonomous_system.filter(|_| self.network == 0);
        parts.extend(number.map(|number| format!("AS{number}")));
        parts.extend(answer.place.clone());
        parts.extend(hop_marks::list_remarks(answer, ttl));
        if !parts.is_empty() {
            page.hanging_paragraph(head, &parts.join(", "));
        }
    }
}

/// Formats the loss and the times of a few answers, as rank statistics.
fn format_answer_figures(hop: &ObservedHop, answer: &HopReply) -> String {
    let answered: usize = hop.answers.iter().map(|answer| answer.rtts_ns.len()).sum();
    let lost = (f64::from(hop.sent) - answered as f64).max(0.0);
    let loss = (hop.sent > 0).then(|| format!("{:.0} %", lost / f64::from(hop.sent) * 100.0));
    let loss = loss.unwrap_or_else(|| ABSENT.to_owned());
    format!("{loss:>LOSS$}{}", format_times(&answer.rtts_ns))
}

fn format_times(rtts_ns: &[u64]) -> String {
    let mut sorted = rtts_ns.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len().saturating_sub(1) / 2);
    [sorted.first(), median, sorted.last()]
        .map(|rtt| format!("{:>TIME$}", or_absent(rtt.copied(), format_ms)))
        .concat()
}

/// Formats a hop reached only by other flows: its times if there are any, otherwise the number of
/// flows.
fn format_other_figures(route: &ObservedRoute, hop: &ObservedHop, answer: &HopReply) -> String {
    if !answer.rtts_ns.is_empty() {
        return format!("{:>LOSS$}{}", "", format_times(&answer.rtts_ns));
    }
    let into = route
        .links
        .iter()
        .filter(|link| link.ttl.checked_add(1) == Some(hop.ttl) && link.to == answer.address);
    let flows: u64 = into.map(|link| u64::from(link.flows)).sum();
    let width = LOSS + 4 * TIME;
    let text = match flows {
        0 => "other flows".to_owned(),
        flows => format!("on {}", count_of(flows, "flow")),
    };
    format!("{text:>width$}")
}
