//! Sanitizes the program descriptions that peers exchange: before sending, and again on receipt,
//! since the peer is untrusted.

use longhaul_model::report::v1::observation::Program;

/// The maximum number of log lines.
pub(crate) const MOST_LINES: usize = 64;
const MOST_VERSION: usize = 64;
const MOST_COMMAND: usize = 2000;
const MOST_LINE: usize = 400;

/// Limits the description's length and reduces each text to one line.
pub(crate) fn tamed(told: Program) -> Program {
    Program {
        longhaul: one_line(&told.longhaul, MOST_VERSION),
        command: told.command.map(|text| one_line(&text, MOST_COMMAND)),
        log: told
            .log
            .iter()
            .take(MOST_LINES)
            .map(|line| one_line(line, MOST_LINE))
            .collect(),
    }
}

/// Replaces control and bidirectional formatting characters with spaces.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let steers = |c: char| {
        let of_direction = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}');
        c.is_control() || of_direction
    };
    let still = text.chars().map(|c| if steers(c) { ' ' } else { c });
    still.take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_tells_is_bounded_and_stays_on_its_line() {
        let told = tamed(Program {
            longhaul: "1".repeat(1000),
            command: Some("longhaul\u{1b}[2J serve\n\u{202e}evres".repeat(1000)),
            log: vec!["a\r\nb".repeat(1000); 1000],
        });
        assert_eq!(told.longhaul.len(), MOST_VERSION);
        let command = told.command.expect("a command");
        assert!(
            command.starts_with("longhaul [2J serve  evres"),
            "{command}"
        );
        assert_eq!(command.chars().count(), MOST_COMMAND);
        assert_eq!(told.log.len(), MOST_LINES);
        assert!(told.log.iter().all(|line| line.len() <= MOST_LINE));
        assert!(told.log.iter().all(|line| !line.contains(['\r', '\n'])));
    }
}
