//! Draws the live table from the state alone, so that tests can check it.

use super::watch_state::{WatchHopStats, WatchState};
use longhaul_report::number_format::{ABSENT, or_absent};
use longhaul_report::path_text::format_ms;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use std::collections::VecDeque;

/// Column widths; columns are one space apart. The label is an address or a name.
const TTL: usize = 3;
const MIN_LABEL: usize = 15;
const MAX_LABEL: usize = 40;
const LOSS: usize = 7;
const TIME: usize = 7;
const MIN_HISTORY: usize = 8;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "q quit   p pause   up/down scroll";

/// The times of a hop; a narrow terminal has room for the first ones only.
const TIMES: [(&str, TimeOfHop); 5] = [
    ("last", |hop| hop.history.back().copied().flatten()),
    ("avg", WatchHopStats::avg_ns),
    ("min", |hop| hop.min_ns),
    ("max", |hop| hop.max_ns),
    ("jitter", WatchHopStats::jitter_ns),
];

type TimeOfHop = fn(&WatchHopStats) -> Option<u64>;

/// The display options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableView {
    /// Target and protocol: the first line.
    pub title: String,
    pub names: bool,
    /// The number of hops scrolled past.
    pub scroll: usize,
}

pub fn draw_watch_table(
    frame: &mut Frame,
    state: &WatchState,
    view: &TableView,
    labels: &[String],
) {
    let rows = [1, 1].map(Constraint::Length);
    let rows = rows.into_iter().chain([Constraint::Fill(1), Constraint::Length(1)]);
    let [title, _, table, keys] = Layout::vertical(rows).areas(frame.area());
    let pause = if state.paused { "PAUSED  " } else { "" };
    let round = Line::raw(format!("{pause}round {}", state.rounds)).right_aligned();
    frame.render_widget(Line::raw(view.title.as_str()).style(Style::new().bold()), title);
    frame.render_widget(round.style(Style::new().bold()), title);
    frame.render_widget(build_hop_table(state, view, labels, table), table);
    frame.render_widget(Line::raw(KEYS).style(Style::new().dim()), keys);
}

fn build_hop_table(
    state: &WatchState,
    view: &TableView,
    labels: &[String],
    area: Rect,
) -> Table<'static> {
    let hops = state.shown_hops();
    let longest = labels.iter().map(|label| label.chars().count()).max();
    let label = longest.unwrap_or(0).clamp(MIN_LABEL, MAX_LABEL);
    let room = usize::from(area.width).saturating_sub(TTL + label + LOSS + 3);
    let times = &TIMES[..(room.saturating_sub(MIN_HISTORY) / (TIME + 1)).min(TIMES.len())];
    let history = room.saturating_sub(times.len() * (TIME + 1));
    let build_row = |(place, (hop, label)): (usize, (&WatchHopStats, &String))| {
        let loss = or_absent(hop.loss_ratio(), |ratio| format!("{:.1} %", ratio * 100.0));
        let mut cells = vec![(place + 1).to_string(), label.clone(), loss];
        cells.extend(times.iter().map(|(_, read)| or_absent(read(hop), format_ms)));
        align_row(cells, format_history_bars(&hop.history, history))
    };
    let first = hops.len().saturating_sub(usize::from(area.height).saturating_sub(1));
    let rows = hops.iter().zip(labels).enumerate();
    let rows = rows.skip(view.scroll.min(first)).map(build_row);
    let mut head = vec!["hop", if view.names { "name" } else { "address" }, "loss"];
    head.extend(times.iter().map(|(name, _)| *name));
    let head = align_row(head.into_iter().map(str::to_owned).collect(), "history".to_owned());
    let widths = [TTL, label, LOSS].into_iter().chain(times.iter().map(|_| TIME));
    let widths = widths.chain([history]).map(|width| Constraint::Length(width as u16));
    Table::new(rows, widths).header(head.style(Style::new().bold()))
}

/// Aligns all cells to the right, except for the label in the second one and the history.
fn align_row(cells: Vec<String>, history: String) -> Row<'static> {
    let cells = cells.into_iter().enumerate().map(|(place, text)| match place {
        1 => Line::raw(text),
        _ => Line::raw(text).right_aligned(),
    });
    Row::new(cells.chain([Line::raw(history)]))
}

/// Draws the latest round trips as bars, scaled between the minimum and maximum shown.
fn format_history_bars(history: &VecDeque<Option<u64>>, width: usize) -> String {
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
    use super::*;
    use longhaul_probe::path::probe_reply::ReplyKind;
    use longhaul_probe::path::route_trace::HopEcho;
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
                state.record_sent(ttl, 1, now);
                let address: IpAddr = if six {
                    let text = format!("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ff{ttl:02x}");
                    text.parse().expect("an address")
                } else {
                    IpAddr::from([192, 0, 2, ttl])
                };
                let echo = HopEcho {
                    number: 1,
                    ttl,
                    flow: 0,
                    rtt: Duration::from_nanos(u64::from(ttl) * 10_200_000),
                    address,
                    reply_ttl: None,
                    quoted_ttl: None,
                    kind: ReplyKind::EchoReply,
                    mpls: Vec::new(),
                    rewritten: Vec::new(),
                };
                if ttl <= hops && ttl != 2 {
                    state.record_answer(&echo, ttl == hops);
                }
            }
            state.expire(now + Duration::from_secs(2));
        }
        state
    }

    fn who(hop: &WatchHopStats, names: bool) -> String {
        match hop.answers.last() {
            Some(_) if names => "a-router-with-a-long-name.of-some.example.net".to_owned(),
            Some(answer) => answer.address.clone(),
            None => "*".to_owned(),
        }
    }

    fn picture(state: &WatchState, view: &TableView, (width, height): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let hops = state.shown_hops().iter();
        let labels: Vec<String> = hops.map(|hop| who(hop, view.names)).collect();
        terminal.draw(|frame| draw_watch_table(frame, state, view, &labels)).expect("a picture");
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
        let view =
            TableView { title: "far (192.0.2.5) by ICMP".to_owned(), ..TableView::default() };
        let lines = picture(&state, &view, (80, 24));
        assert!(lines[0].starts_with("far (192.0.2.5) by ICMP"), "{lines:#?}");
        assert!(lines[0].ends_with("round 3"), "{lines:#?}");
        let head = ["loss", "last", "min", "avg", "max", "jitter", "history"];
        assert!(head.iter().all(|word| lines[2].contains(word)), "{lines:#?}");
        assert!(lines[3].contains("192.0.2.1") && lines[3].contains("10.2"), "{lines:#?}");
        assert!(lines[4].contains('*') && lines[4].contains("100.0 %"), "{lines:#?}");
        assert!(lines[7].contains("51.0"), "{lines:#?}");
        assert!(lines[23].starts_with("q quit"), "{lines:#?}");
    }

    #[test]
    fn long_addresses_and_names_leave_room_for_times_and_history() {
        let state = watched(5, 30, true);
        for names in [false, true] {
            let view = TableView { names, ..TableView::default() };
            let lines = picture(&state, &view, (80, 24));
            assert!(lines[2].contains("last") && lines[2].contains("history"), "{lines:#?}");
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
            let view = TableView { scroll, ..TableView::default() };
            picture(&state, &view, (80, 24))
        };
        assert!(at(0)[3].starts_with("  1 "));
        assert!(at(10)[3].starts_with(" 11 "));
        let end = at(1000);
        assert!(end[22].starts_with(" 43 "), "{end:#?}");
    }

    #[test]
    fn the_smallest_terminals_are_drawn_too() {
        let state = watched(3, 1, false);
        for size in [(1, 1), (10, 2), (20, 5), (300, 100)] {
            picture(&state, &TableView::default(), size);
        }
    }

    #[test]
    fn bars_rise_with_the_round_trip_and_lost_ones_are_blank() {
        let history = VecDeque::from([Some(10), Some(20), None, Some(10)]);
        assert_eq!(format_history_bars(&history, 10), "▁█ ▁");
        assert_eq!(format_history_bars(&history, 2), " ▁");
        assert_eq!(format_history_bars(&VecDeque::from([Some(1000), Some(1001)]), 4), "▁▁");
    }
}
