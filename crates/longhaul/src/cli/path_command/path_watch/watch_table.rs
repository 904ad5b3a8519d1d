//! Draws the live table from the state alone, so that tests can check it.

use super::watch_state::{WatchHopStats, WatchState};
use crate::render::number_format::{ABSENT, or_absent};
use crate::render::path_text::format_ms;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use std::collections::VecDeque;

/// Column widths: of the TTL, of the shortest and the longest address or name, of a time.
const TTL: usize = 4;
const LABEL_WIDTHS: (usize, usize) = (15, 40);
const TIME: usize = 8;
const LOSS: usize = 7;
/// The minimum width of the history.
const MIN_HISTORY_COLUMNS: usize = 8;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The number of lines that are not hops: title, header, keys.
const FRAME: usize = 4;

const KEYS: &str = "q quit   p pause   r reset   n names   up/down scroll   h help";
const HELP: [&str; 11] = [
    "",
    "  q, Esc, Ctrl-C   quit and show the report",
    "  p, space         pause or resume",
    "  r                reset all counters, keep the route",
    "  n                show names or addresses",
    "  up, down         scroll by 1; PageUp, PageDown by 10",
    "  h, ?             show or hide this help",
    "",
    "  Times are RTTs in ms. Jitter is the mean difference of successive RTTs.",
    "  Loss at a hop but not at later hops means that its answers are rate-limited.",
    "  History: one bar per round, taller for a higher RTT, blank for a lost probe.",
];

/// The display options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableView {
    /// Target and protocol: the first line.
    pub title: String,
    pub help: bool,
    pub names: bool,
    /// The number of hops scrolled past.
    pub scroll: usize,
}

/// Returns the address or name of a hop.
pub type HopLabel<'a> = &'a dyn Fn(&WatchHopStats, bool) -> String;

pub fn draw_watch_table(
    frame: &mut Frame,
    state: &WatchState,
    view: &TableView,
    who: HopLabel<'_>,
) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let strong = Style::new().add_modifier(Modifier::BOLD);
    let faint = Style::new().add_modifier(Modifier::DIM);
    let pause = if state.paused { "PAUSED  " } else { "" };
    let right = format!("{pause}round {}", state.rounds);
    let gap = width.saturating_sub(right.chars().count() + 1);
    let title = format!("{:<gap$} {right}", shorten_label(&view.title, gap));
    let mut lines = vec![Line::styled(title, strong), Line::raw("")];
    if view.help {
        lines.extend(HELP.map(Line::raw));
    } else {
        let rows = format_hop_rows(state, view, who, width);
        let room = height.saturating_sub(FRAME);
        let first = view.scroll.min(rows.len().saturating_sub(room));
        lines.push(Line::styled(
            format_table_header(state, view, who, width),
            strong,
        ));
        lines.extend(rows.into_iter().skip(first).take(room).map(Line::raw));
    }
    frame.render_widget(Paragraph::new(Text::from(lines)), area);
    let foot = Rect {
        y: area.y + area.height.saturating_sub(1),
        height: area.height.min(1),
        ..area
    };
    frame.render_widget(Paragraph::new(Line::styled(KEYS, faint)), foot);
}

/// The columns that fit, in the order of the table.
struct TableColumns {
    who: usize,
    times: Vec<&'static str>,
    history: usize,
}

impl TableColumns {
    /// Chooses the columns that fit, the most important ones first.
    fn fit(state: &WatchState, view: &TableView, who: HopLabel<'_>, width: usize) -> TableColumns {
        let longest = state
            .hops
            .iter()
            .map(|hop| who(hop, view.names).chars().count());
        let name = longest
            .max()
            .unwrap_or(0)
            .clamp(LABEL_WIDTHS.0, LABEL_WIDTHS.1);
        let mut room = width.saturating_sub(TTL + name + 1 + LOSS + MIN_HISTORY_COLUMNS);
        let mut fit = Vec::new();
        for time in ["last", "avg", "min", "max", "jitter"] {
            if room >= TIME {
                room -= TIME;
                fit.push(time);
            }
        }
        let order = ["last", "min", "avg", "max", "jitter"];
        TableColumns {
            who: name,
            times: order
                .into_iter()
                .filter(|time| fit.contains(time))
                .collect(),
            history: MIN_HISTORY_COLUMNS + room,
        }
    }
}

fn format_table_header(
    state: &WatchState,
    view: &TableView,
    who: HopLabel<'_>,
    width: usize,
) -> String {
    let columns = TableColumns::fit(state, view, who, width);
    let times = columns.times.iter().map(|time| format!("{time:>TIME$}"));
    let times = times.collect::<Vec<_>>().concat();
    let what = if view.names { "name" } else { "address" };
    format!(
        "{:>3} {what:<width$} {:>LOSS$}{times}  history",
        "hop",
        "loss",
        width = columns.who
    )
}

fn format_hop_rows(
    state: &WatchState,
    view: &TableView,
    who: HopLabel<'_>,
    width: usize,
) -> Vec<String> {
    let columns = TableColumns::fit(state, view, who, width);
    let shown = usize::from(state.last_ttl()).min(state.hops.len());
    let hops = state.hops[..shown].iter().enumerate();
    hops.map(|(place, hop)| {
        let name = shorten_label(&who(hop, view.names), columns.who);
        let times = columns.times.iter().map(|time| {
            let ns = match *time {
                "last" => hop.history.back().copied().flatten(),
                "min" => hop.min_ns,
                "avg" => hop.avg_ns(),
                "max" => hop.max_ns,
                _ => hop.jitter_ns(),
            };
            format!("{:>TIME$}", or_absent(ns, format_ms))
        });
        let loss = or_absent(hop.loss_ratio(), |ratio| format!("{:.1} %", ratio * 100.0));
        format!(
            "{:>3} {name:<width$} {loss:>LOSS$}{}  {}",
            place + 1,
            times.collect::<String>(),
            format_history_bars(&hop.history, columns.history.saturating_sub(2)),
            width = columns.who
        )
    })
    .collect()
}

/// Draws the latest round trips as bars, scaled between the minimum and maximum shown.
pub fn format_history_bars(history: &VecDeque<Option<u64>>, width: usize) -> String {
    let from = history.len().saturating_sub(width);
    let shown: Vec<Option<u64>> = history.iter().skip(from).copied().collect();
    let least = shown.iter().flatten().min().copied().unwrap_or(0);
    let most = shown.iter().flatten().max().copied().unwrap_or(0);
    // Differences below a tenth of the time itself stay flat.
    let range = (most - least).max(most / 10).max(1);
    let bar = |rtt: Option<u64>| match rtt {
        Some(rtt) => BARS[((rtt - least) as u128 * 7 / u128::from(range)) as usize],
        None => ' ',
    };
    shown.into_iter().map(bar).collect()
}

/// Shortens the text to `width`, with an ellipsis.
fn shorten_label(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// Formats a hop without a terminal: `hop address last min avg max loss`.
pub fn format_plain_hop(ttl: usize, hop: &WatchHopStats, name: &str) -> String {
    let last = hop.history.back().copied().flatten();
    let times = [last, hop.min_ns, hop.avg_ns(), hop.max_ns];
    let times = times.map(|time| format!("{:>8}", or_absent(time, format_ms)));
    let times = times.concat();
    let loss = or_absent(hop.loss_ratio(), |ratio| format!("{:.0} %", ratio * 100.0));
    let name = if name.is_empty() { ABSENT } else { name };
    format!("{ttl:>3} {name:<39}{times}{loss:>5}")
}

#[cfg(test)]
mod tests {
    use super::super::watch_state::WatchAnswer;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::net::IpAddr;
    use std::time::Duration;

    fn watched(hops: u8, rounds: u64, six: bool) -> WatchState {
        let mut state = WatchState::new(64, Duration::from_secs(2));
        for now in 0..rounds {
            let now = Duration::from_secs(now);
            state.begin_round();
            while let Some(ttl) = state.next_ttl() {
                state.record_sent(ttl, now);
                let address: IpAddr = if six {
                    let text = format!("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ff{ttl:02x}");
                    text.parse().expect("an address")
                } else {
                    IpAddr::from([192, 0, 2, ttl])
                };
                let rtt_ns = u64::from(ttl) * 10_200_000;
                let reached = ttl == hops;
                let heard = WatchAnswer {
                    ttl,
                    address,
                    rtt_ns,
                    reached,
                };
                if ttl <= hops && ttl != 2 {
                    state.record_answer(&heard, now + Duration::from_nanos(rtt_ns));
                }
            }
            state.expire(now + Duration::from_secs(2));
        }
        state
    }

    fn who(hop: &WatchHopStats, names: bool) -> String {
        match hop.addresses.last() {
            Some(_) if names => "a-router-with-a-long-name.of-some.example.net".to_owned(),
            Some(address) => address.to_string(),
            None => "*".to_owned(),
        }
    }

    fn picture(state: &WatchState, view: &TableView, (width, height): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal
            .draw(|frame| draw_watch_table(frame, state, view, &who))
            .expect("a picture");
        let buffer = terminal.backend().buffer();
        (0..height)
            .map(|y| {
                let cells = (0..width).map(|x| buffer[(x, y)].symbol());
                cells.collect::<String>().trim_end().to_owned()
            })
            .collect()
    }

    #[test]
    fn a_table_of_80_by_24_shows_hops_figures_and_keys() {
        let state = watched(5, 3, false);
        let view = TableView {
            title: "far (192.0.2.5) by ICMP".to_owned(),
            ..TableView::default()
        };
        let lines = picture(&state, &view, (80, 24));
        assert!(
            lines[0].starts_with("far (192.0.2.5) by ICMP"),
            "{lines:#?}"
        );
        assert!(lines[0].ends_with("round 3"), "{lines:#?}");
        let head = ["loss", "last", "min", "avg", "max", "jitter", "history"];
        assert!(
            head.iter().all(|word| lines[2].contains(word)),
            "{lines:#?}"
        );
        assert!(
            lines[3].contains("192.0.2.1") && lines[3].contains("10.2"),
            "{lines:#?}"
        );
        assert!(
            lines[4].contains('*') && lines[4].contains("100.0 %"),
            "{lines:#?}"
        );
        assert!(lines[7].contains("51.0"), "{lines:#?}");
        assert!(lines[23].starts_with("q quit"), "{lines:#?}");
    }

    #[test]
    fn long_addresses_and_names_leave_room_for_times_and_history() {
        let state = watched(5, 30, true);
        for names in [false, true] {
            let view = TableView {
                names,
                ..TableView::default()
            };
            let lines = picture(&state, &view, (80, 24));
            assert!(
                lines[2].contains("last") && lines[2].contains("history"),
                "{lines:#?}"
            );
            assert!(lines[3].contains('▁'), "{lines:#?}");
            if !names {
                assert!(lines[3].contains("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ff01"));
            }
        }
        let wide = picture(&state, &TableView::default(), (160, 24));
        assert!(wide[2].contains("jitter"), "{wide:#?}");
    }

    #[test]
    fn more_hops_than_lines_can_be_scrolled() {
        let state = watched(43, 1, false);
        let at = |scroll| {
            let view = TableView {
                scroll,
                ..TableView::default()
            };
            picture(&state, &view, (80, 24))
        };
        assert!(at(0)[3].starts_with("  1 "));
        assert!(at(10)[3].starts_with(" 11 "));
        let end = at(1000);
        assert!(end[22].starts_with(" 43 "), "{end:#?}");
    }

    #[test]
    fn help_and_the_smallest_terminals_are_drawn_too() {
        let state = watched(3, 1, false);
        let help = TableView {
            help: true,
            ..TableView::default()
        };
        let lines = picture(&state, &help, (80, 24));
        assert!(lines.iter().any(|line| line.contains("Jitter is")));
        for size in [(1, 1), (10, 2), (20, 5), (300, 100)] {
            picture(&state, &TableView::default(), size);
        }
    }

    #[test]
    fn bars_rise_with_the_round_trip_and_lost_ones_are_blank() {
        let history = VecDeque::from([Some(10), Some(20), None, Some(10)]);
        assert_eq!(format_history_bars(&history, 10), "▁█ ▁");
        assert_eq!(format_history_bars(&history, 2), " ▁");
        assert_eq!(
            format_history_bars(&VecDeque::from([Some(1000), Some(1001)]), 4),
            "▁▁"
        );
    }
}
