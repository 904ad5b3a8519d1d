//! Replaces control, bidirectional and invisible characters of untrusted text.

/// Returns the character, or `instead` if it [`steers`].
pub fn still(c: char, instead: char) -> char {
    if steers(c) { instead } else { c }
}

/// Reports whether a character is a terminal control, a Unicode bidirectional control, or
/// invisible.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{061c}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}
