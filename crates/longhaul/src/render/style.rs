//! The few emphases of the text output. Colour only repeats what the words say.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;

/// Headings and the number to quote.
pub const STRONG: Style = Style::new().bold();
/// Labels and second-rank detail.
pub const FAINT: Style = Style::new().dimmed();
/// A command that can be pasted.
pub const COMMAND: Style = AnsiColor::Cyan.on_default();
pub const CAVEAT: Style = AnsiColor::Yellow.on_default();
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const HINT: Style = AnsiColor::Cyan.on_default();

/// `text` in `style`; padding must be done before, for it counts the escapes.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}
