//! The table of a route: one line per hop, a second one for details, and the other next hops of a
//! load balancer below.

use super::{format_ms, protocol_name};
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    ABSENT, count_of, format_micros, format_percent, join_parts, non_empty, or_absent,
};
use longhaul_model::report::v1::path::{HopDelay, HopReply, ObservedHop, ObservedRoute};

/// The maximum length of addresses beside which AS numbers fit.
const MAX_ADDRESS_WITH_NETWORK: usize = 30;
/// Width of the column of AS numbers with its gap.
const NETWORK: usize = 9;
/// Width for address, AS number and name.
const WHO: usize = 40;
/// The minimum number of consecutive silent hops that are folded into one line.
const SILENT_FOLDED: usize = 3;

/// Writes `ROUTE 3: 43 hops by ICMP, reached in 1.2 s with 129 probes`.
pub fn write_route_heading(
    page: &mut ReportDocument,
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
    page.heading(
        3,
        format!(
            "{name}{number}: {} by {}, {end}",
            count_of(route.hops.len() as u64, "hop"),
            protocol_name(route.protocol)
        ),
    );
    let discarded = count_of(u64::from(route.discarded), "invalid answer");
    let sure = |ratio| format!("confidence in alternatives {}", format_percent(ratio));
    let parts = [
        Some(format!("{} -> {}", route.from, route.to)),
        Some(count_of(u64::from(route.probes_sent), "probe")),
        Some(format_micros(route.duration_us)),
        (route.discarded > 0).then(|| format!("{discarded} discarded")),
        route.confidence_ratio.map(sure),
    ];
    page.details(|page| page.faint(join_parts(", ", parts)));
}

/// Writes the hops, with the delays that the analysis derived, and explains their marks.
pub fn write_hop_table(page: &mut ReportDocument, route: &ObservedRoute, delays: &[HopDelay]) {
    let rows = list_hop_rows(route, delays);
    let answers = || rows.iter().filter_map(|row| row.answer);
    let longest = |length: fn(&HopReply) -> usize| answers().map(length).max().unwrap_or(0);
    let address = longest(|answer| answer.address.len());
    let name = longest(|answer| answer.name.as_ref().map_or(0, |name| name.chars().count()));
    let networks = address <= MAX_ADDRESS_WITH_NETWORK
        && answers().any(|answer| answer.autonomous_system.is_some());
    let rest = if networks { NETWORK } else { 0 };
    let names = name > 0 && address + rest + 2 + name <= WHO;
    let mut table = DocumentTable::from_rows(&rows)
        .text("hop", |row| row.label.clone())
        .text("address", |row| row.address.clone());
    if networks {
        table = table.text("network", |row| row.network().unwrap_or_default());
    }
    if names {
        table = table.text("name", |row| row.name().unwrap_or_default());
    }
    let links = delays.iter().any(|delay| delay.link_ns.is_some());
    let figures = ["loss", "min", "median", "max", "link"].into_iter().zip(0..);
    for (title, place) in figures.take(if links { 5 } else { 4 }) {
        table = table.number(title, move |row| row.figures[place].clone());
    }
    let details = |row: &HopRow| {
        let name = row.name().filter(|_| !names);
        let network = row.network().filter(|_| !networks);
        let parts = name.into_iter().chain(network).chain(row.list_remarks());
        non_empty(parts.collect::<Vec<_>>().join(", "))
    };
    page.table(table.details(details).finish());
    let marks: Vec<char> = rows.iter().map(|row| row.mark).collect();
    super::explain_marks(page, &marks);
}

/// A line of the table: an address that answered at a hop, or hops without an answer.
#[derive(Default)]
struct HopRow<'a> {
    label: String,
    mark: char,
    /// The address, or that there was no answer.
    address: String,
    ttl: u8,
    answer: Option<&'a HopReply>,
    /// Loss, minimum, median, maximum, and the delay of the link before the hop.
    figures: [String; 5],
}

impl HopRow<'_> {
    fn name(&self) -> Option<String> {
        self.answer?.name.clone()
    }

    fn network(&self) -> Option<String> {
        self.answer?.autonomous_system.map(|number| format!("AS{number}"))
    }

    fn list_remarks(&self) -> Vec<String> {
        let place = self.answer.and_then(|answer| answer.place.clone());
        let remarks = self.answer.map(|answer| super::list_remarks(answer, self.ttl));
        place.into_iter().chain(remarks.unwrap_or_default()).collect()
    }
}

fn list_hop_rows<'a>(route: &'a ObservedRoute, delays: &[HopDelay]) -> Vec<HopRow<'a>> {
    let mut rows = Vec::new();
    let mut rest = route.hops.as_slice();
    while let [hop, after @ ..] = rest {
        let silent = rest.iter().take_while(|hop| is_silent(hop)).count();
        if silent >= SILENT_FOLDED {
            let sent = rest[..silent].iter().map(|hop| u64::from(hop.sent)).sum();
            let label = format!("{:>2}-{}", hop.ttl, rest[silent - 1].ttl);
            rows.push(HopRow { label, address: describe_silence(sent), ..HopRow::default() });
            rest = &rest[silent..];
            continue;
        }
        add_hop_rows(&mut rows, route, hop, delays.iter().find(|delay| delay.ttl == hop.ttl));
        rest = after;
    }
    rows
}

fn is_silent(hop: &ObservedHop) -> bool {
    hop.answers.is_empty() && !hop.rate_limited
}

fn describe_silence(sent: u64) -> String {
    format!("*  no answer to {}", count_of(sent, "probe"))
}

/// Adds a row for each address of a hop; the second and further ones hang below the first.
fn add_hop_rows<'a>(
    rows: &mut Vec<HopRow<'a>>,
    route: &ObservedRoute,
    hop: &'a ObservedHop,
    delay: Option<&HopDelay>,
) {
    let mark = super::choose_mark(hop, delay);
    let label = format!("{:>2}{mark}", hop.ttl);
    let first = HopRow { label, mark, ttl: hop.ttl, ..HopRow::default() };
    let Some((answer, others)) = hop.answers.split_first() else {
        rows.push(HopRow { address: describe_silence(hop.sent.into()), ..first });
        return;
    };
    let link = delay.and_then(|delay| delay.link_ns);
    let [min, median, max] = format_times(&answer.rtts_ns);
    let figures = [format_loss(hop), min, median, max, or_absent(link, format_ms)];
    let address = answer.address.clone();
    rows.push(HopRow { address, answer: Some(answer), figures, ..first });
    for (place, other) in others.iter().enumerate() {
        let last = place + 1 == others.len();
        rows.push(HopRow {
            label: if last { " └" } else { " ├" }.to_owned(),
            mark: ' ',
            address: other.address.clone(),
            ttl: hop.ttl,
            answer: Some(other),
            figures: format_other_figures(route, hop, other),
        });
    }
}

/// Formats the share of probes that no router of the hop answered.
fn format_loss(hop: &ObservedHop) -> String {
    let answered: usize = hop.answers.iter().map(|answer| answer.rtts_ns.len()).sum();
    let lost = (f64::from(hop.sent) - answered as f64).max(0.0);
    let loss = (hop.sent > 0).then(|| format!("{:.0} %", lost / f64::from(hop.sent) * 100.0));
    loss.unwrap_or_else(|| ABSENT.to_owned())
}

/// Formats minimum, median and maximum of a few times.
fn format_times(rtts_ns: &[u64]) -> [String; 3] {
    let mut sorted = rtts_ns.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len().saturating_sub(1) / 2);
    [sorted.first(), median, sorted.last()].map(|rtt| or_absent(rtt.copied(), format_ms))
}

/// Formats a hop reached only by other flows: its times if there are any, otherwise the number of
/// flows.
fn format_other_figures(
    route: &ObservedRoute,
    hop: &ObservedHop,
    answer: &HopReply,
) -> [String; 5] {
    if !answer.rtts_ns.is_empty() {
        let [min, median, max] = format_times(&answer.rtts_ns);
        return [String::new(), min, median, max, String::new()];
    }
    let into = route
        .links
        .iter()
        .filter(|link| link.ttl.checked_add(1) == Some(hop.ttl) && link.to == answer.address);
    let flows: u64 = into.map(|link| u64::from(link.flows)).sum();
    let text = match flows {
        0 => "other flows".to_owned(),
        flows => count_of(flows, "flow"),
    };
    [String::new(), String::new(), String::new(), text, String::new()]
}
