//! The live table of `longhaul explain --watch`: its state, its keys, and its screen.
//!
//! Source: the whole windows of a watch. It does no I/O.

use longhaul_analysis::flow_analysis::{conclude_transfers, find_trip_us, name_transfer};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::flows::{FlowsObservation, ObservedTransfer, TransferAnalysis};
use longhaul_report::flow_text::{
    build_transfer_details, describe_no_transfers, format_short_name, label_limit,
};
use longhaul_report::number_format::{
    count_of, format_micros, format_percent, format_rate, or_absent,
};
use longhaul_report::text_page;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Table, TableState, Wrap};
use std::cmp::Reverse;
use std::slice;

use crate::cli::command_output::fit_locale;

/// A watched transfer with its conclusions.
#[derive(Debug, Clone)]
pub struct ConcludedTransfer {
    pub seen: ObservedTransfer,
    pub concluded: TransferAnalysis,
    findings: Vec<ReportFinding>,
}

impl ConcludedTransfer {
    /// Draws the conclusions; `None` if there are none.
    fn conclude(seen: ObservedTransfer) -> Option<ConcludedTransfer> {
        let run = conclude_transfers(slice::from_ref(&seen));
        let concluded = run.analysis.transfers.into_iter().next()?;
        Some(ConcludedTransfer { seen, concluded, findings: run.findings })
    }

    fn is_fixable(&self) -> bool {
        let limiter = self.concluded.run.limited_by;
        !matches!(limiter, Limiter::PathCapacity | Limiter::Unknown | Limiter::Ramp)
    }

    fn goodput_bps(&self) -> u64 {
        self.concluded.run.goodput_bps.unwrap_or(0)
    }

    fn retransmits(&self) -> Option<u64> {
        self.concluded.run.totals.retransmitted_segments
    }

    /// Returns the first advice, or else the first finding, or else the evidence of the limiter.
    fn describe_remedy(&self) -> String {
        let run = &self.concluded.run;
        let advice = self.findings.iter().flat_map(|found| &found.advice).next();
        let bound = run.bounds.iter().find(|bound| bound.limiter == run.limited_by);
        None.or(advice.map(|it| it.text.clone()))
            .or(self.findings.first().map(|found| found.summary.clone()))
            .or(bound.map(|bound| bound.why.clone()))
            .unwrap_or_default()
    }
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransferOrder {
    /// Those that can be made faster first, then by rate.
    #[default]
    Fixable,
    Rate,
    Retransmits,
}

impl TransferOrder {
    fn next(self) -> TransferOrder {
        match self {
            TransferOrder::Fixable => TransferOrder::Rate,
            TransferOrder::Rate => TransferOrder::Retransmits,
            TransferOrder::Retransmits => TransferOrder::Fixable,
        }
    }

    fn name(self) -> &'static str {
        match self {
            TransferOrder::Fixable => "fixable first",
            TransferOrder::Rate => "by rate",
            TransferOrder::Retransmits => "by retransmits",
        }
    }

    fn sort(self, rows: &mut [ConcludedTransfer]) {
        rows.sort_by_key(|row| {
            let first = match self {
                TransferOrder::Fixable => u64::from(row.is_fixable()),
                TransferOrder::Rate => 0,
                TransferOrder::Retransmits => row.retransmits().unwrap_or(0),
            };
            Reverse((first, row.goodput_bps()))
        });
    }
}

/// Returns the transfers of a window with their conclusions, those that can be made faster first.
pub fn conclude_window(observation: &FlowsObservation) -> Vec<ConcludedTransfer> {
    let transfers = observation.transfers.iter().cloned();
    let mut rows: Vec<_> = transfers.filter_map(ConcludedTransfer::conclude).collect();
    TransferOrder::default().sort(&mut rows);
    rows
}

/// The result of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOutcome {
    Continue,
    Quit,
}

/// A column, and the width of the screen from which on it is shown.
struct LiveColumn {
    title: &'static str,
    width: Constraint,
    alignment: Alignment,
    screen_width: u16,
    cell: fn(&ConcludedTransfer) -> String,
}

const COLUMNS: [LiveColumn; 7] = [
    LiveColumn {
        title: "transfer",
        width: Constraint::Fill(1),
        alignment: Alignment::Left,
        screen_width: 0,
        cell: |row| format_short_name(&row.seen),
    },
    LiveColumn {
        title: "rate",
        width: Constraint::Length(12),
        alignment: Alignment::Right,
        screen_width: 0,
        cell: |row| or_absent(row.concluded.run.goodput_bps, format_rate),
    },
    LiveColumn {
        title: "RTT",
        width: Constraint::Length(8),
        alignment: Alignment::Right,
        screen_width: 64,
        cell: |row| or_absent(find_trip_us(&row.seen, &row.concluded), format_micros),
    },
    LiveColumn {
        title: "retr",
        width: Constraint::Length(6),
        alignment: Alignment::Right,
        screen_width: 72,
        cell: |row| or_absent(row.retransmits(), |count| count.to_string()),
    },
    LiveColumn {
        title: "limited by",
        width: Constraint::Length(14),
        alignment: Alignment::Left,
        screen_width: 0,
        cell: |row| label_limit(&row.seen, &row.concluded),
    },
    LiveColumn {
        title: "sure",
        width: Constraint::Length(5),
        alignment: Alignment::Right,
        screen_width: 56,
        cell: |row| format_percent(row.concluded.run.confidence_ratio),
    },
    LiveColumn {
        title: "what helps",
        width: Constraint::Fill(2),
        alignment: Alignment::Left,
        screen_width: 120,
        cell: ConcludedTransfer::describe_remedy,
    },
];

const KEYS: &str = "q quit  jk select  Enter details  s sort";
const DETAIL_KEYS: &str = "q quit  jk scroll  Esc back";
/// The number of rows or lines of Page Up and Page Down.
const PAGE_LINES: isize = 10;
/// The lines for the selected transfer, and those on a screen that is lower than this.
const PANE_LINES: u16 = 5;
const LOW_PANE_LINES: u16 = 3;
const LOW_SCREEN: u16 = 16;

/// The state of the live table.
#[derive(Debug, Default)]
pub struct LiveTable {
    /// The flows to watch, as typed.
    pub what: String,
    /// The state of the present window, for the upper right corner.
    pub progress: String,
    /// Stands in place of the rows if there are none.
    empty_text: String,
    rows: Vec<ConcludedTransfer>,
    order: TransferOrder,
    selected: usize,
    /// The first line of the details of the selected transfer, while these are shown.
    scroll: Option<u16>,
}

impl LiveTable {
    pub fn new(what: &str) -> LiveTable {
        let empty_text = "the first window has not ended".to_owned();
        LiveTable { what: what.to_owned(), empty_text, ..LiveTable::default() }
    }

    /// Replaces the rows by those of a new window. The selected transfer stays selected; the details of
    /// one that has ended are closed.
    pub fn update(&mut self, observation: &FlowsObservation) {
        self.empty_text = describe_no_transfers(observation);
        self.replace_rows(conclude_window(observation));
    }

    fn replace_rows(&mut self, mut rows: Vec<ConcludedTransfer>) {
        self.order.sort(&mut rows);
        let name = self.rows.get(self.selected).map(|row| name_transfer(&row.seen));
        self.rows = rows;
        let place = self.rows.iter().position(|row| Some(name_transfer(&row.seen)) == name);
        match place {
            Some(place) => self.selected = place,
            None => self.scroll = None,
        }
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
    }

    pub fn handle_key(&mut self, key: KeyEvent) -> KeyOutcome {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return KeyOutcome::Quit,
            KeyCode::Char('q') => return KeyOutcome::Quit,
            KeyCode::Esc if self.scroll.is_none() => return KeyOutcome::Quit,
            KeyCode::Esc => self.scroll = None,
            KeyCode::Enter => {
                self.scroll =
                    if self.scroll.is_some() { None } else { self.rows.first().map(|_| 0) };
            }
            KeyCode::Char('s') if self.scroll.is_none() => {
                self.order = self.order.next();
                self.replace_rows(self.rows.clone());
            }
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(PAGE_LINES),
            KeyCode::PageUp => self.move_by(-PAGE_LINES),
            _ => {}
        }
        KeyOutcome::Continue
    }

    /// Selects another row, or scrolls the details.
    fn move_by(&mut self, lines: isize) {
        if let Some(scroll) = &mut self.scroll {
            *scroll = scroll.saturating_add_signed(lines as i16);
        } else {
            let last = self.rows.len().saturating_sub(1);
            self.selected = self.selected.saturating_add_signed(lines).min(last);
        }
    }

    /// Draws the table, or the details of the selected transfer.
    pub fn draw(&mut self, frame: &mut Frame) {
        let is_low = frame.area().height < LOW_SCREEN;
        let pane_lines = if is_low { LOW_PANE_LINES } else { PANE_LINES };
        let lines = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)];
        let [title, body, keys] = Layout::vertical(lines).areas(frame.area());
        self.draw_title(frame, title);
        if self.scroll.is_some() {
            self.draw_details(frame, body);
            frame.render_widget(Line::from(DETAIL_KEYS), keys);
            return;
        }
        let [table, pane] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(pane_lines)]).areas(body);
        if self.rows.is_empty() {
            let text = Paragraph::new(fit_locale(&self.empty_text)).wrap(Wrap { trim: true });
            frame.render_widget(text, table);
        } else {
            self.draw_rows(frame, table);
            self.draw_selected(frame, pane);
        }
        frame.render_widget(Line::from(KEYS), keys);
    }

    fn draw_title(&self, frame: &mut Frame, area: Rect) {
        let count = count_of(self.rows.len() as u64, "transfer");
        let text = format!("{}: {count}, {}", self.what, self.order.name());
        let progress = fit_locale(&self.progress);
        let widths = [Constraint::Fill(1), Constraint::Length(progress.chars().count() as u16)];
        let [left, right] = Layout::horizontal(widths).spacing(1).areas(area);
        let is_room = left.width as usize >= text.chars().count();
        let left = if is_room { left } else { area };
        frame.render_widget(Line::styled(fit_locale(&text), Modifier::BOLD), left);
        if is_room {
            frame.render_widget(Line::from(progress), right);
        }
    }

    fn draw_rows(&self, frame: &mut Frame, area: Rect) {
        let shown: Vec<_> = COLUMNS.iter().filter(|it| area.width >= it.screen_width).collect();
        let align = |column: &LiveColumn, text: &str| {
            Line::from(fit_locale(text).into_owned()).alignment(column.alignment)
        };
        let rows = self
            .rows
            .iter()
            .map(|row| Row::new(shown.iter().map(|column| align(column, &(column.cell)(row)))));
        let titles = Row::new(shown.iter().map(|column| align(column, column.title)));
        let table = Table::new(rows, shown.iter().map(|column| column.width))
            .header(titles.style(Modifier::DIM))
            .row_highlight_style(Modifier::REVERSED);
        let mut state = TableState::new().with_selected(self.selected);
        frame.render_stateful_widget(table, area, &mut state);
    }

    /// Draws the name of the selected transfer, and what helps.
    fn draw_selected(&self, frame: &mut Frame, area: Rect) {
        let Some(row) = self.rows.get(self.selected) else { return };
        let name = Line::styled(fit_locale(&name_transfer(&row.seen)).into_owned(), Modifier::BOLD);
        let remedy = Line::from(fit_locale(&row.describe_remedy()).into_owned());
        let gap = (area.height > LOW_PANE_LINES).then(Line::default);
        let text: Text = gap.into_iter().chain([name, remedy]).collect();
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }

    fn draw_details(&mut self, frame: &mut Frame, area: Rect) {
        let Some(row) = self.rows.get(self.selected) else { return };
        let page = build_transfer_details(&row.seen, &row.concluded, &row.findings).text();
        let text = anstream::adapter::strip_str(&page).to_string();
        let text = fit_locale(&text);
        // Lines of a page of 80 columns are wrapped on a narrower screen.
        let parts = text_page::WIDTH.div_ceil((area.width as usize).max(1));
        let last = (text.lines().count() * parts).saturating_sub(1) as u16;
        let scroll = self.scroll.unwrap_or(0).min(last);
        self.scroll = Some(scroll);
        let text = Paragraph::new(text).wrap(Wrap { trim: false }).scroll((scroll, 0));
        frame.render_widget(text, area);
    }
}

#[cfg(test)]
mod tests;
