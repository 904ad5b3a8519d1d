//! A text page of 80 columns: labelled lines, wrapped sentences, unwrapped commands.

use super::style::{COMMAND, FAINT, paint};
use anstyle::Style;

/// Page width that fits every terminal and mail.
pub const WIDTH: usize = 80;
/// Width of the label of a labelled line.
pub const LABEL: usize = 16;

/// The text written so far.
#[derive(Debug, Default)]
pub struct TextPage {
    text: String,
}

impl TextPage {
    pub fn finish(self) -> String {
        self.text
    }

    /// Writes a blank line, unless there is one already.
    pub fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Writes a formatted line.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Writes `label           value`, with the value wrapped and aligned.
    pub fn label_line_styled(&mut self, label: &str, value: &str, style: Style) {
        for (number, part) in wrap_text(value, WIDTH - LABEL).iter().enumerate() {
            let head = format_label(if number == 0 { label } else { "" });
            self.line(&format!("{head}{}", paint(style, part)));
        }
    }

    /// Writes `label           command`; the command is never wrapped.
    pub fn label_command(&mut self, label: &str, command: &str) {
        self.line(&format!("{}{}", format_label(label), paint(COMMAND, command)));
    }

    /// Writes a wrapped paragraph after `first`, with later lines indented by its width.
    pub fn hanging_paragraph(&mut self, first: &str, text: &str, style: Style) {
        let indent = first.chars().count();
        for (number, part) in wrap_text(text, WIDTH - indent).iter().enumerate() {
            let head = if number == 0 { first } else { "" };
            self.line(&paint(style, format!("{head:<indent$}{part}")));
        }
    }

    /// Writes a command to paste, which is never wrapped.
    pub fn command(&mut self, indent: usize, command: &str) {
        self.line(&format!("{:indent$}{}", "", paint(COMMAND, command)));
    }
}

/// Formats a label in its column, with a space after one that fills it.
fn format_label(label: &str) -> String {
    let gap = if label.chars().count() < LABEL { "" } else { " " };
    paint(FAINT, format!("{label:<LABEL$}{gap}"))
}

/// Wraps text at spaces to at most `width` columns; a longer word gets its own line.
pub fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a last line");
        let used = line.chars().count();
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if used > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_at_spaces_and_long_words_stand_alone() {
        assert_eq!(wrap_text("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap_text("a sysctl-is-long b", 5), ["a", "sysctl-is-long", "b"]);
        assert_eq!(wrap_text("", 5), [""]);
    }
}
