//! A Rust file with its comments and its strings set aside.
//!
//! Two views of the same lines: `code` has blanks where comments and the insides of string and
//! character literals were, so that a rule about code does not fire on prose; `lines` is the text
//! as written.

/// The two views, line by line.
#[derive(Debug)]
pub struct Source {
    pub lines: Vec<String>,
    pub code: Vec<String>,
}

impl Source {
    pub fn new(text: &str) -> Self {
        Source {
            lines: text.lines().map(str::to_owned).collect(),
            code: Mask::new(text).run().lines().map(str::to_owned).collect(),
        }
    }

    /// Lines of code with their numbers, from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .iter()
            .enumerate()
            .map(|(index, line)| (index + 1, line.as_str()))
    }
}

/// Identifiers and keywords of a line, with the place where each starts.
pub fn identifiers(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = line.char_indices().filter(move |&(at, c)| {
        is_word(c) && !c.is_ascii_digit() && !line[..at].chars().next_back().is_some_and(is_word)
    });
    starts.map(move |(at, _)| {
        let rest = &line[at..];
        (
            at,
            &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())],
        )
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Copies a text, blanking what is not code.
struct Mask {
    text: Vec<char>,
    at: usize,
    out: String,
}

impl Mask {
    fn new(text: &str) -> Self {
        Mask {
            text: text.chars().collect(),
            at: 0,
            out: String::with_capacity(text.len()),
        }
    }

    fn run(mut self) -> String {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.blank_until(|m| m.peek(0) == Some('\n')),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                'r' if !self.after_word() && self.raw_hashes().is_some() => self.raw_string(),
                '\'' if self.is_char_literal() => self.char_literal(),
                _ => self.keep(),
            }
        }
        self.out
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn after_word(&self) -> bool {
        // `br"…"` is a raw string too; any other letter before `r` makes it part of a name.
        self.at > 0 && is_word(self.text[self.at - 1]) && self.text[self.at - 1] != 'b'
    }

    fn keep(&mut self) {
        self.out.extend(self.peek(0));
        self.at += 1;
    }

    fn blank(&mut self) {
        if let Some(c) = self.peek(0) {
            self.out.push(if c == '\n' { '\n' } else { ' ' });
            self.at += 1;
        }
    }

    fn blank_until(&mut self, ended: impl Fn(&Self) -> bool) {
        while self.peek(0).is_some() && !ended(self) {
            self.blank();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.peek(0).is_some() {
            let pair = (self.peek(0), self.peek(1));
            if pair == (Some('/'), Some('*')) {
                depth += 1;
                self.blank();
            } else if pair == (Some('*'), Some('/')) {
                depth -= 1;
                self.blank();
            }
            self.blank();
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep();
        while let Some(c) = self.peek(0) {
            match c {
                '\\' => {
                    self.blank();
                    self.blank();
                }
                '"' => return self.keep(),
                _ => self.blank(),
            }
        }
    }

    /// How many `#` a raw string that starts here has; `None` when none starts here.
    fn raw_hashes(&self) -> Option<usize> {
        let hashes = self.text[self.at + 1..]
            .iter()
            .take_while(|&&c| c == '#')
            .count();
        (self.peek(1 + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().unwrap_or(0);
        for _ in 0..hashes + 2 {
            self.keep();
        }
        self.blank_until(|m| {
            m.peek(0) == Some('"') && (1..=hashes).all(|ahead| m.peek(ahead) == Some('#'))
        });
        for _ in 0..=hashes {
            self.keep();
        }
    }

    /// `'a'` and `'\n'` are literals, `'a` is a lifetime.
    fn is_char_literal(&self) -> bool {
        self.peek(1) == Some('\\') || self.peek(2) == Some('\'')
    }

    fn char_literal(&mut self) {
        self.keep();
        if self.peek(0) == Some('\\') {
            self.blank();
        }
        self.blank();
        self.blank_until(|m| m.peek(0) == Some('\''));
        self.keep();
    }
}
