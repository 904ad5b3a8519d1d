//! The table of a route: one line per hop, a second one for details, and the other next hops of a
//! load balancer below.

use super::{format_ms, hop_marks, protocol_name};
use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{ABSENT, count_of, format_micros, format_percent, or_absent};
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
        parts.push(format!("confidence in alternatives {}", format_percent(confidence)));
    }
    page.faint(parts.join(", "));
}

/// Writes a row per hop and other next hop, and explains the marks below.
pub fn write_hop_table(page: &mut ReportDocument, route: &ObservedRoute, delays: &[HopDelay]) {
    let mut table = HopTable::for_route(route, delays);
    let mut used = hop_marks::UsedMarks::default();
    let mut rest = route.hops.as_slice();
    while let [hop, after @ ..] = rest {
        let silent = rest.iter().take_while(|hop| is_silent(hop)).count();
        if silent >= SILENT_FOLDED {
            table.add_silent_hops(&rest[..silent]);
            rest = &rest[silent..];
            continue;
        }
        let delay = delays.iter().find(|delay| delay.ttl == hop.ttl);
        let mark = hop_marks::choose_mark(hop, delay);
        used.note(mark);
        table.add_hop(route, hop, (mark, delay));
        rest = after;
    }
    page.table(table.table);
    used.explain(page);
}

fn is_silent(hop: &ObservedHop) -> bool {
    hop.answers.is_empty() && !hop.rate_limited
}

/// The table of one route, with columns only for what is known of any hop.
struct HopTable {
    table: DocumentTable,
    networks: bool,
    names: bool,
    links: bool,
}

impl HopTable {
    fn for_route(route: &ObservedRoute, delays: &[HopDelay]) -> HopTable {
        let answers = || route.hops.iter().flat_map(|hop| &hop.answers);
        let longest = |length: fn(&HopReply) -> usize| answers().map(length).max().unwrap_or(0);
        let address = longest(|answer| answer.address.len());
        let name = longest(|answer| answer.name.as_ref().map_or(0, |name| name.chars().count()));
        let networks = address <= MAX_ADDRESS_WITH_NETWORK
            && answers().any(|answer| answer.autonomous_system.is_some());
        let rest = if networks { NETWORK } else { 0 };
        let names = name > 0 && address + rest + 2 + name <= WHO;
        let links = delays.iter().any(|delay| delay.link_ns.is_some());
        let columns = [
            Some(left("hop")),
            Some(left("address")),
            networks.then(|| left("network")),
            names.then(|| left("name")),
            Some(right("loss")),
            Some(right("min")),
            Some(right("median")),
            Some(right("max")),
            links.then(|| right("link")),
        ];
        HopTable {
            table: DocumentTable::new(columns.into_iter().flatten()),
            networks,
            names,
            links,
        }
    }

    fn add_silent_hops(&mut self, hops: &[ObservedHop]) {
        let (first, last) = (hops[0].ttl, hops[hops.len() - 1].ttl);
        let sent = hops.iter().map(|hop| u64::from(hop.sent)).sum();
        self.add_silent_row(format!("{first:>2}-{last}"), sent);
    }

    fn add_silent_row(&mut self, hop: String, sent: u64) {
        let text = format!("*  no answer to {}", count_of(sent, "probe"));
        self.table.row([hop, text]);
    }

    fn add_hop(
        &mut self,
        route: &ObservedRoute,
        hop: &ObservedHop,
        (mark, delay): hop_marks::MarkedDelay<'_>,
    ) {
        let name = format!("{:>2}{mark}", hop.ttl);
        let Some((first, others)) = hop.answers.split_first() else {
            self.add_silent_row(name, u64::from(hop.sent));
            return;
        };
        let link = delay.and_then(|delay| delay.link_ns);
        let [min, median, max] = format_times(&first.rtts_ns);
        let figures = [format_loss(hop), min, median, max, or_absent(link, format_ms)];
        self.add_answer(name, first, figures, hop.ttl);
        for (place, other) in others.iter().enumerate() {
            let last = place + 1 == others.len();
            let name = if last { " └" } else { " ├" };
            let figures = format_other_figures(route, hop, other);
            self.add_answer(name.to_owned(), other, figures, hop.ttl);
        }
    }

    fn add_answer(&mut self, hop: String, answer: &HopReply, figures: [String; 5], ttl: u8) {
        let network = answer.autonomous_system.map(|number| format!("AS{number}"));
        let (shown, below) =
            if self.networks { (Some(network.unwrap_or_default()), None) } else { (None, network) };
        let (name, long) = if self.names {
            (Some(answer.name.clone().unwrap_or_default()), None)
        } else {
            (None, answer.name.clone())
        };
        let head = [hop, answer.address.clone()].into_iter().chain(shown);
        let times = if self.links { 5 } else { 4 };
        self.table.row(head.chain(name).chain(figures.into_iter().take(times)));
        let mut parts: Vec<String> = long.into_iter().chain(below).collect();
        parts.extend(answer.place.clone());
        parts.extend(hop_marks::list_remarks(answer, ttl));
        if !parts.is_empty() {
            self.table.detail(parts.join(", "));
        }
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
