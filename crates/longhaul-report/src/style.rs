//! Text styles. Colour only repeats what the words say.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;

/// Headings and the number to quote.
pub const STRONG: Style = Style::new().bold();
/// Labels and secondary detail.
pub const FAINT: Style = Style::new().dimmed();
/// A command to paste.
pub const COMMAND: Style = AnsiColor::Cyan.on_default();
pub const CAVEAT: Style = AnsiColor::Yellow.on_default();
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const HINT: Style = AnsiColor::Cyan.on_default();

/// Returns `text` in `style`; pad it first, because escape sequences count as width.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}
