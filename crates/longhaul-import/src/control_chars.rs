//! Replaces control, bidirectional and invisible characters of untrusted text.

/// Returns the character, or `instead` if it [`is_control_or_bidi`].
pub fn replace_control_char(c: char, instead: char) -> char {
    if is_control_or_bidi(c) { instead } else { c }
}

/// Reports whether a character is a terminal control, a Unicode bidirectional control, or
/// invisible.
pub fn is_control_or_bidi(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{061c}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}
