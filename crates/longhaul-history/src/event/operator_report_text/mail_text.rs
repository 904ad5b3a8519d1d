//! Lays out plain text for mail in 78 columns: headings, paragraphs, items.

use longhaul_model::sanitize::sanitize;

/// The columns that every mail reader shows without wrapping.
const COLUMNS: usize = 78;

/// The lines written so far.
#[derive(Debug, Default)]
pub struct MailText {
    lines: Vec<String>,
}

impl MailText {
    pub fn title(&mut self, text: &str) {
        self.push_wrapped(text, "", "");
        let longest = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        self.lines.push("=".repeat(longest));
    }

    pub fn section(&mut self, heading: &str) {
        self.lines.push(String::new());
        self.push_wrapped(heading, "", "");
    }

    pub fn text(&mut self, text: &str) {
        self.push_wrapped(text, "  ", "  ");
    }

    pub fn item(&mut self, text: &str) {
        self.push_wrapped(text, "  - ", "    ");
    }

    /// Adds a table row, truncated instead of wrapped.
    pub fn row(&mut self, text: &str) {
        let line: String = sanitize(text).chars().take(COLUMNS).collect();
        self.lines.push(line.trim_end().to_owned());
    }

    /// Wraps at spaces; words longer than a line are broken.
    fn push_wrapped(&mut self, text: &str, first: &str, rest: &str) {
        let mut line = first.to_owned();
        let mut empty = true;
        for word in sanitize(text).split_whitespace() {
            let mut word: Vec<char> = word.chars().collect();
            let room = COLUMNS - line.chars().count();
            if !empty && word.len() + 1 > room {
                self.lines.push(std::mem::replace(&mut line, rest.to_owned()));
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            while word.len() > COLUMNS - line.chars().count() {
                let left = word.split_off(COLUMNS - line.chars().count());
                line.extend(word);
                self.lines.push(std::mem::replace(&mut line, rest.to_owned()));
                word = left;
            }
            line.extend(word);
            empty = false;
        }
        self.lines.push(line.trim_end().to_owned());
    }

    pub fn finish(self) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_text_leaves_its_columns_or_its_lines(text in "\\PC{0,400}|[a-z\u{1b}\n\r\u{9b} ]{0,200}") {
            let mut mail = MailText::default();
            mail.title(&text);
            mail.item(&text);
            mail.row(&text);
            let plain = mail.finish();
            for line in plain.lines() {
                proptest::prop_assert!(line.chars().count() <= COLUMNS, "{line}");
                proptest::prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn items_hang_under_their_first_word() {
        let mut mail = MailText::default();
        mail.item(&"word ".repeat(30));
        let text = mail.finish();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  - word") && lines[1].starts_with("    word"));
    }
}
