//! `lab show`: describes a path, what it can carry, and the limits of the lab, 80 columns wide.

use crate::path_spec;
use crate::path_spec::{
    ChangeSpec, EventSpec, HopSpec, IcmpValidity, LinkPlace, LinkSpec, OptionRewrite, PathSpec,
};
use longhaul_model::units::{Bytes, format_duration};

/// The limits of the emulation itself, measured on two cores.
const LIMITS: &str = "\
Limits of the lab on a machine of two cores
  rate        up to 10 Gbit/s with segmentation offload, 5 Gbit/s of plain
              1500-byte UDP, 0.6 million packets/s
  delay       50 to 100 µs more than configured per round trip; at
              times several ms without the real-time class on busy cores
  spacing     segments of one 64 KiB packet leave together, as from a NIC with
              interrupt moderation
  dispersion  packet pairs are accurate to 1 % at 100 Mbit/s; at 1 Gbit/s trains
              of 10 are accurate to 2 to 4 %, and single pairs are not
  memory      the packets in flight and in queues, and about three times the
              bandwidth-delay product in the two TCP ends
Rate and queue stay exact on a busy machine; late releases are reported.
";

/// Returns the whole page.
pub fn describe_path(path: &PathSpec) -> String {
    let mut page = vec![path.key.clone()];
    page.extend(wrap_text(&path.name, 78).iter().map(|line| format!("  {line}")));
    page.push(String::new());
    page.extend(list_figures(path));
    page.extend(["", "Hops"].map(str::to_owned));
    page.extend(list_hops(&path.hops));
    for (name, hops) in &path.routes {
        page.push(format!("\nRoute {name}"));
        page.extend(list_hops(hops));
    }
    if !path.events.is_empty() {
        page.push("\nEvents".to_owned());
        page.extend(path.events.iter().flat_map(list_event_lines));
    }
    let without = if path.machine.required { "refused" } else { "run with a caveat" };
    let machine = format!("the whole machine (root only; otherwise {without})");
    let owners = [("host near", &path.near.sysctl), ("host far", &path.far.sysctl)];
    for (owner, sysctls) in owners.into_iter().chain([(&*machine, &path.machine.sysctl)]) {
        if !sysctls.is_empty() {
            page.push(format!("\nSysctls of {owner}"));
            page.extend(sysctls.iter().map(|(name, value)| format!("  {name} = {value}")));
        }
    }
    format!("{}\n\n{LIMITS}", page.join("\n"))
}

fn list_figures(path: &PathSpec) -> Vec<String> {
    let near = path.near.city.as_deref().unwrap_or("near");
    let far = path.far.city.as_deref().unwrap_or("far");
    let mut lines = vec![
        format!("  ends           {near} (near) to {far} (far)"),
        format!("  RTT            {}", format_duration(path_spec::compute_rtt(path))),
    ];
    if !path.begin_at.is_zero() {
        lines.push(format!("  begins at      {}", format_duration(path.begin_at)));
    }
    lines.push(format!("  MTU            {} bytes", path.mtu));
    for (host, spec) in [("near", &path.near), ("far", &path.far)] {
        if !spec.batch.is_zero() {
            let period = format_duration(spec.batch);
            lines.push(format!("  batches        {host} gets its packets every {period}"));
        }
    }
    for (forward, label) in [(true, "forward"), (false, "reverse")] {
        let narrow = path_spec::find_narrow_link(path, forward);
        let limit = path_spec::compute_goodput_limit(path, forward);
        let Some((narrow, limit)) = narrow.zip(limit) else {
            lines.push(format!("  {label}        no link has a rate"));
            continue;
        };
        let name = truncate_text(&path_spec::resolve_hops_at_begin(path)[narrow.hop].name, 30);
        let (rate, number) = (narrow.rate, narrow.hop + 1);
        lines.push(format!("  {label}        narrow link {rate} (hop {number} {name}),"));
        lines.push(format!("                 goodput limit {limit}"));
    }
    let bdp = path_spec::compute_bdp_bytes(path);
    lines.extend(bdp.map(|bytes| format!("  BDP            {} ({bytes} bytes)", Bytes(bytes))));
    lines
}

fn list_hops(hops: &[HopSpec]) -> Vec<String> {
    let head = " hop  name                            delay       rate          queue";
    let mut lines = vec![head.to_owned()];
    for (index, hop) in hops.iter().enumerate() {
        lines.extend(list_link_lines(&format!("{:4}", index + 1), &hop.name, &hop.forward));
        if hop.reverse != hop.forward {
            lines.extend(list_link_lines("    ", "  reverse", &hop.reverse));
        }
        lines.extend(list_router_notes(hop).iter().map(|note| format!("      {note}")));
    }
    lines
}

fn list_link_lines(number: &str, name: &str, link: &LinkSpec) -> Vec<String> {
    let rate = link.rate.map_or("none".to_owned(), |rate| rate.to_string());
    let queue = link.queue.map_or("none".to_owned(), |queue| queue.to_string());
    let delay = format_duration(link.delay);
    let name = truncate_text(name, 30);
    let mut lines = vec![format!("{number}  {name:<30}  {delay:<10}  {rate:<12}  {queue}")];
    lines.extend(list_link_notes(link).iter().map(|note| format!("      {note}")));
    lines
}

/// Lists what a router does besides forwarding.
fn list_router_notes(hop: &HopSpec) -> Vec<String> {
    let labels: Vec<String> = hop.mpls.iter().map(u32::to_string).collect();
    let answers = match hop.icmp {
        IcmpValidity::Honest => None,
        IcmpValidity::Garbage => Some("answers with garbage"),
        IcmpValidity::Forged => Some("answers about packets that were not sent"),
    };
    let notes = [
        hop.silent.then(|| "silent: sends no answers".to_owned()),
        hop.icmp_limit.map(|limit| format!("at most {limit} ICMP messages/s")),
        (!hop.icmp_delay.is_zero())
            .then(|| format!("answers after {}", format_duration(hop.icmp_delay))),
        answers.map(str::to_owned),
        (!labels.is_empty()).then(|| format!("MPLS {}", labels.join(" "))),
        (hop.balance > 1).then(|| format!("{} parallel routers, balanced by flow", hop.balance)),
        format_rewrite_note(hop.rewrite),
    ];
    notes.into_iter().flatten().collect()
}

fn format_rewrite_note(rewrite: OptionRewrite) -> Option<String> {
    let stripped = [
        (rewrite.sack, "sack"),
        (rewrite.window_scale, "window_scale"),
        (rewrite.timestamps, "timestamps"),
    ];
    let stripped: Vec<&str> =
        stripped.iter().filter_map(|(is, name)| is.then_some(*name)).collect();
    let strip = (!stripped.is_empty()).then(|| format!("strips {}", stripped.join(", ")));
    let clamp = rewrite.clamp_mss;
    let clamp = clamp.map(|bytes| format!("clamps the MSS to {bytes} bytes"));
    let parts: Vec<String> = strip.into_iter().chain(clamp).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn list_link_notes(link: &LinkSpec) -> Vec<String> {
    let hole = if link.mtu_black_hole { ", larger ones are dropped silently" } else { "" };
    let notes = [
        (!link.jitter.is_zero()).then(|| format!("jitter ±{}", format_duration(link.jitter))),
        (link.loss > 0.0).then(|| format!("random loss {} %", link.loss * 100.0)),
        link.reorder.map(|it| {
            format!("{} % arrive {} late", it.share * 100.0, format_duration(it.late_by))
        }),
        link.policer.map(|it| format!("policer {}, burst {}", it.rate, it.burst)),
        link.shaper.map(|it| {
            format!("shaper peak {}, sustained {}, burst {}", it.peak, it.sustained, it.burst)
        }),
        link.cross.map(|it| format!("cross traffic {}, {}", it.rate, it.pattern.name())),
        link.mtu.map(|mtu| format!("MTU {mtu} bytes{hole}")),
    ];
    notes.into_iter().flatten().collect()
}

fn list_event_lines(event: &EventSpec) -> Vec<String> {
    let mut at = format_duration(event.at);
    let lines = wrap_text(&describe_change(&event.change), 66);
    lines.iter().map(|line| format!("  {:>8}  {line}", std::mem::take(&mut at))).collect()
}

fn describe_change(change: &ChangeSpec) -> String {
    match change {
        ChangeSpec::Route(route) => format!("route changes to {route}"),
        ChangeSpec::Link { place: LinkPlace { route, hop, forward }, to } => {
            let way = if *forward { "forward" } else { "reverse" };
            let mut what = vec![format!("delay {}", format_duration(to.delay))];
            what.extend(to.rate.map(|rate| format!("rate {rate}")));
            what.extend(list_link_notes(to));
            format!("{route} hop {} {way}: {}", hop + 1, what.join(", "))
        }
    }
}

/// Returns `text`, truncated to `width` characters with an ellipsis if it is longer.
fn truncate_text(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    format!("{kept}…")
}

fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_catalogue;

    #[test]
    fn every_shipped_path_is_shown_in_80_columns_with_its_figures() {
        for (key, _) in path_catalogue::list_shipped_paths() {
            let page = describe_path(&path_catalogue::load_path(key, &[]).expect(key));
            for line in page.lines() {
                assert!(line.chars().count() <= 80, "{key}: {line}");
            }
        }
        let page = describe_path(&path_catalogue::load_path("la-geneva", &[]).expect("la-geneva"));
        let expected = [
            "RTT            172 ms",
            "narrow link 6.25 Gbit/s (hop 9 IIS_IA64)",
            "goodput limit 6.188 Gbit/s",
            "(134375000 bytes)",
            "net.core.rmem_max = 268435456",
        ];
        for text in expected {
            assert!(page.contains(text), "{text} is missing in\n{page}");
        }
    }
}
