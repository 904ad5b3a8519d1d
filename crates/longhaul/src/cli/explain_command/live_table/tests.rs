//! Tests of the screen of known transfers, and of its keys.

use super::*;
use longhaul_model::report::v1::FlowsReport;
use longhaul_model::report::v1::flows::ProcessIdentity;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;

/// Transfers made of one that was watched: a program, its peer, limiter, rate and retransmits.
const TRANSFERS: [(&str, &str, Limiter, u64, u64); 3] = [
    ("curl", "2001:db8::7", Limiter::PathCapacity, 941_000_000, 12),
    ("rclone", "10.77.0.2", Limiter::Application, 162_828_162, 0),
    ("scp", "192.0.2.200", Limiter::ReceiveWindow, 3_277_000, 3),
];

fn table() -> LiveTable {
    let stored = include_str!("../../../../../../fixtures/reports/flows-rclone.json");
    let report: FlowsReport = serde_json::from_str(stored).expect("a report");
    let watched = report.observation.transfers[0].clone();
    let rows = TRANSFERS.map(|(name, peer, limiter, goodput_bps, retransmits)| {
        let mut row = ConcludedTransfer::conclude(watched.clone()).expect("conclusions");
        let identity = ProcessIdentity { pid: 12, name: name.to_owned(), parent: None };
        row.seen.process = Some(identity);
        row.seen.peer = peer.to_owned();
        let run = &mut row.concluded.run;
        (run.limited_by, run.goodput_bps) = (limiter, Some(goodput_bps));
        run.totals.retransmitted_segments = Some(retransmits);
        row
    });
    let mut table = LiveTable::new("all");
    table.progress = "3 flows, 1.2 s of 3 s".to_owned();
    table.replace_rows(rows.to_vec());
    table
}

/// Returns the lines of the screen.
fn draw(table: &mut LiveTable, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| table.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(width as usize);
    lines.map(|cells| cells.iter().map(Cell::symbol).collect()).collect()
}

fn press(table: &mut LiveTable, keys: &str) -> KeyOutcome {
    let outcomes = keys.chars().map(|key| {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        table.handle_key(KeyEvent::from(code))
    });
    outcomes.last().expect("a key")
}

fn selected(table: &LiveTable) -> &str {
    let process = table.rows[table.selected].seen.process.as_ref();
    &process.expect("a process").name
}

#[test]
fn a_screen_of_80_columns_shows_all_numbers_and_what_helps_the_selected_transfer() {
    let shown = draw(&mut table(), 80, 24);
    let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    assert_eq!(shown, include_str!("screen-80x24.txt").lines().collect::<Vec<_>>());
}

#[test]
fn a_screen_of_40_columns_keeps_rate_and_limiter() {
    let shown = draw(&mut table(), 40, 10);
    let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    assert_eq!(shown, include_str!("screen-40x10.txt").lines().collect::<Vec<_>>());
}

#[test]
fn any_size_can_be_drawn() {
    for (width, height) in [(1, 1), (2, 5), (20, 3), (39, 7), (80, 2), (300, 100)] {
        let mut table = table();
        draw(&mut table, width, height);
        press(&mut table, "\n");
        draw(&mut table, width, height);
        draw(&mut LiveTable::new("all"), width, height);
    }
}

#[test]
fn s_sorts_by_need_then_rate_then_retransmits_and_the_selection_stays() {
    let mut table = table();
    let names = |table: &LiveTable| {
        let names =
            table.rows.iter().map(|row| row.seen.process.as_ref().expect("one").name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&table), ["rclone", "scp", "curl"]);
    press(&mut table, "s");
    assert_eq!(
        (names(&table), selected(&table)),
        (["curl", "rclone", "scp"].map(str::to_owned).to_vec(), "rclone")
    );
    press(&mut table, "s");
    assert_eq!(names(&table), ["curl", "scp", "rclone"]);
    press(&mut table, "s");
    assert_eq!(names(&table), ["rclone", "scp", "curl"]);
}

#[test]
fn the_selection_moves_within_the_rows_and_follows_its_transfer() {
    let mut table = table();
    press(&mut table, "k");
    assert_eq!(selected(&table), "rclone");
    press(&mut table, "jjjj");
    assert_eq!(selected(&table), "curl");
    let mut rows = table.rows.clone();
    rows.retain(|row| row.seen.process.as_ref().is_some_and(|it| it.name != "scp"));
    table.replace_rows(rows);
    assert_eq!(selected(&table), "curl");
    table.replace_rows(Vec::new());
    press(&mut table, "jk\n");
    assert_eq!(table.scroll, None);
}

#[test]
fn enter_shows_evidence_and_remedy_and_escape_leads_back_and_out() {
    let mut table = table();
    press(&mut table, "\n");
    let shown = draw(&mut table, 80, 50).join("\n");
    for part in ["rclone (12) to 10.77.0.2", "request_response", "evidence", "--transfers 16"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    press(&mut table, &"j".repeat(500));
    let end = draw(&mut table, 80, 50);
    assert!(table.scroll.is_some_and(|line| line < 50) && !end[1].trim().is_empty());
    assert_eq!(press(&mut table, "\x1b"), KeyOutcome::Continue);
    assert_eq!((table.scroll, press(&mut table, "\x1b")), (None, KeyOutcome::Quit));
}

#[test]
fn q_and_control_c_quit_from_everywhere() {
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for keys in ["j", "\n"] {
        let mut table = table();
        assert_eq!(press(&mut table, keys), KeyOutcome::Continue);
        assert_eq!(press(&mut table, "q"), KeyOutcome::Quit);
        assert_eq!(table.handle_key(interrupt), KeyOutcome::Quit);
        assert_eq!(press(&mut table, "c"), KeyOutcome::Continue);
    }
}

#[test]
fn the_details_of_a_transfer_that_ended_are_closed() {
    let mut table = table();
    press(&mut table, "\n");
    let rows = table.rows[1..].to_vec();
    table.replace_rows(rows);
    assert_eq!(table.scroll, None);
}

#[test]
fn no_name_of_a_process_moves_the_cursor_or_another_column() {
    let (mut plain, mut hostile) = (table(), table());
    let rename = |table: &mut LiveTable, name: &str| {
        table.rows[0].seen.process.as_mut().expect("a process").name = name.to_owned();
    };
    rename(&mut plain, "a[2Jb");
    rename(&mut hostile, "a\x1b[2J\r\n\u{8}b");
    let (plain, hostile) = (draw(&mut plain, 80, 24), draw(&mut hostile, 80, 24));
    assert_eq!(hostile[2].split_at(30).1, plain[2].split_at(30).1);
    assert_eq!(hostile[3..20], plain[3..20]);
    assert!(!hostile.concat().contains(char::is_control), "{hostile:?}");
}
