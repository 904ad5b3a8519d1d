//! Where the server writes: the terminal or a log file, lines of several tests told apart.
//!
//! A test that begins while no other one is under way is shown as it goes. What others say is held
//! until they end, and shown whole. Whenever the lines of another test come than before, the line
//! `AcceptedTest connection from …` stands above them, so that each line belongs to the test that was
//! last named.

use crate::cli::iperf3::value::Timestamps;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is held of one test before it is shown in parts.
const MOST_HELD_BYTES: usize = 64 << 10;

/// What a test needs to be told from others.
#[derive(Debug)]
pub struct ScreenSlot {
    number: u64,
    /// The line that names it; empty where nothing has to be told apart.
    name: String,
    held: String,
}

#[derive(Debug)]
pub struct ServerScreen {
    /// Absent: standard output and error.
    file: Option<File>,
    timestamps: Option<Timestamps>,
    state: Mutex<ScreenState>,
}

#[derive(Debug, Default)]
struct ScreenState {
    next: u64,
    running: u32,
    /// The test that is shown as it goes.
    live: Option<u64>,
    /// The test whose lines came last.
    shown: Option<u64>,
    ended: u64,
}

impl ServerScreen {
    /// # Errors
    /// The file cannot be appended to.
    pub fn new(file: Option<&Path>, timestamps: Option<&Timestamps>) -> io::Result<ServerScreen> {
        let file = file.map(|path| OpenOptions::new().append(true).create(true).open(path));
        Ok(ServerScreen {
            file: file.transpose()?,
            timestamps: timestamps.cloned(),
            state: Mutex::default(),
        })
    }

    /// Of the test that begins now, from 1.
    pub fn number(&self) -> u64 {
        self.lock().ended + 1
    }

    /// A test is under way.
    pub fn enter(&self, name: String) -> ScreenSlot {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        if state.running == 0 {
            state.live = Some(number);
            state.shown = Some(number);
            self.write(&name);
        }
        state.running += 1;
        ScreenSlot {
            number,
            name,
            held: String::new(),
        }
    }

    /// What a test says, its own name left out.
    pub fn say(&self, place: &mut ScreenSlot, text: &str) {
        let mut state = self.lock();
        place.held += text;
        if state.live == Some(place.number) || place.held.len() > MOST_HELD_BYTES {
            self.show(&mut state, place);
        }
    }

    /// The test is over: `error` is its last word. `next` is what is said when no other one is
    /// under way, with the number of the next test.
    pub fn leave(
        &self,
        mut place: ScreenSlot,
        error: Option<&str>,
        next: impl FnOnce(u64) -> String,
    ) {
        let mut state = self.lock();
        self.show(&mut state, &mut place);
        if let Some(error) = error {
            self.complain(error);
        }
        state.running -= 1;
        state.live = state.live.filter(|live| *live != place.number);
        self.count(&mut state, next);
    }

    /// A client that had no test: it counts as one.
    pub fn passed(&self, error: Option<&str>, next: impl FnOnce(u64) -> String) {
        let mut state = self.lock();
        if let Some(error) = error {
            self.complain(error);
        }
        self.count(&mut state, next);
    }

    fn count(&self, state: &mut ScreenState, next: impl FnOnce(u64) -> String) {
        state.ended += 1;
        if state.running == 0 {
            let text = next(state.ended + 1);
            state.shown = None;
            self.write(&text);
        }
    }

    fn show(&self, state: &mut ScreenState, place: &mut ScreenSlot) {
        if place.held.is_empty() {
            return;
        }
        if state.shown != Some(place.number) {
            self.write(&place.name);
        }
        state.shown = Some(place.number);
        self.write(&place.held);
        place.held.clear();
    }

    /// Lines of no test.
    pub fn write(&self, text: &str) {
        let text = self.stamped(text);
        // A closed terminal or a full disk costs the text, not the tests.
        let _ = if let Some(file) = &self.file {
            (&*file).write_all(text.as_bytes())
        } else {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
    }

    /// An error, with a line end: where errors go.
    pub fn complain(&self, error: &str) {
        let text = self.stamped(&format!("iperf3: {error}\n"));
        let _ = match &self.file {
            Some(file) => (&*file).write_all(text.as_bytes()),
            None => io::stderr().lock().write_all(text.as_bytes()),
        };
    }

    fn stamped(&self, text: &str) -> String {
        let Some(timestamps) = &self.timestamps else {
            return text.to_owned();
        };
        let now = timestamps.now();
        text.split_inclusive('\n')
            .flat_map(|line| [now.as_str(), line])
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A screen on a file, and what stands in it at the end.
    fn shown(name: &str, play: impl FnOnce(&ServerScreen)) -> String {
        let name = format!("longhaul-screen-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        play(&ServerScreen::new(Some(&path), None).expect("a file"));
        let text = fs::read_to_string(&path).expect("written");
        fs::remove_file(&path).expect("removed");
        text
    }

    fn next(count: u64) -> String {
        format!("next {count}\n")
    }

    #[test]
    fn one_test_at_a_time_is_shown_as_it_goes() {
        let text = shown("one", |screen| {
            let mut first = screen.enter("A\n".to_owned());
            screen.say(&mut first, "a1\n");
            screen.say(&mut first, "a2\n");
            screen.leave(first, None, next);
            let mut second = screen.enter("B\n".to_owned());
            screen.say(&mut second, "b1\n");
            screen.leave(second, Some("gone"), next);
        });
        assert_eq!(text, "A\na1\na2\nnext 2\nB\nb1\niperf3: gone\nnext 3\n");
    }

    #[test]
    fn beside_another_test_one_is_shown_whole_and_each_line_is_below_its_name() {
        let text = shown("two", |screen| {
            let mut first = screen.enter("A\n".to_owned());
            screen.say(&mut first, "a1\n");
            let mut second = screen.enter("B\n".to_owned());
            screen.say(&mut second, "b1\n");
            screen.say(&mut first, "a2\n");
            screen.say(&mut second, "b2\n");
            screen.leave(second, None, next);
            screen.say(&mut first, "a3\n");
            screen.leave(first, None, next);
        });
        assert_eq!(text, "A\na1\na2\nB\nb1\nb2\nA\na3\nnext 3\n");
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let text = shown("bound", |screen| {
            let first = screen.enter("A\n".to_owned());
            let mut second = screen.enter("B\n".to_owned());
            let long = format!("{}\n", "b".repeat(MOST_HELD_BYTES));
            screen.say(&mut second, &long);
            assert!(second.held.is_empty());
            screen.leave(first, None, next);
            screen.leave(second, None, next);
        });
        assert!(text.starts_with("A\nB\nbbb") && text.ends_with("bbb\nnext 3\n"));
    }
}
