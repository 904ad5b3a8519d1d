//! Letters that do something instead of being seen.

/// The character, or another in the place of one that [`steers`].
pub fn still(c: char, instead: char) -> char {
    if steers(c) { instead } else { c }
}

/// Whether a character does something instead of being seen: controls of terminals, and those that
/// turn or hide text (Unicode's bidirectional and invisible ones).
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{061c}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}
