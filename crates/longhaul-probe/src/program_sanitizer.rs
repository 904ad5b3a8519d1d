//! Sanitizes the program descriptions that peers exchange: before sending, and again on receipt,
//! since the peer is untrusted.

use longhaul_model::report::v1::observation::ProgramInfo;
use longhaul_model::sanitize::sanitize_line;

/// The maximum number of log lines.
pub(crate) const MAX_LINES: usize = 64;
const MAX_VERSION_CHARS: usize = 64;
const MAX_COMMAND_CHARS: usize = 2000;
const MAX_LINE_CHARS: usize = 400;

/// Limits the description's length and reduces each text to one line.
pub(crate) fn sanitize_program(told: ProgramInfo) -> ProgramInfo {
    ProgramInfo {
        longhaul: sanitize_line(&told.longhaul, MAX_VERSION_CHARS),
        command: told.command.map(|text| sanitize_line(&text, MAX_COMMAND_CHARS)),
        log: told
            .log
            .iter()
            .take(MAX_LINES)
            .map(|line| sanitize_line(line, MAX_LINE_CHARS))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_tells_is_bounded_and_stays_on_its_line() {
        let told = sanitize_program(ProgramInfo {
            longhaul: "1".repeat(1000),
            command: Some("longhaul\u{1b}[2J serve\n\u{202e}evres".repeat(1000)),
            log: vec!["a\r\nb".repeat(1000); 1000],
        });
        assert_eq!(told.longhaul.len(), MAX_VERSION_CHARS);
        let command = told.command.expect("a command");
        assert!(command.starts_with("longhaul\u{fffd}[2J serve\u{fffd}\u{fffd}evres"), "{command}");
        assert_eq!(command.chars().count(), MAX_COMMAND_CHARS);
        assert_eq!(told.log.len(), MAX_LINES);
        assert!(told.log.iter().all(|line| line.chars().count() <= MAX_LINE_CHARS));
        assert!(told.log.iter().all(|line| !line.contains(['\r', '\n'])));
    }
}
