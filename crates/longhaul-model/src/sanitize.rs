//! The sanitizer for text from outside: peers, logs, files, environment and arguments.
//!
//! Text is sanitized once, where it enters the program. Afterwards it cannot steer a terminal,
//! reorder or hide parts of a line, or begin a new one.
//!
//! *Source* Unicode 16.0, general categories Cc, Cf, Zl and Zp, and the variation selectors.

use std::borrow::Cow;

/// The character that stands for each removed one.
pub const REPLACEMENT: char = '\u{fffd}';

/// Reports whether a character controls a terminal, changes the direction of text, or is invisible.
pub const fn is_unsafe_char(c: char) -> bool {
    matches!(c,
        // Cc: C0, DEL and C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Cf: soft hyphen, Arabic marks, zero-width and bidirectional controls.
        | '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        // Zl, Zp, embeddings and overrides; invisible operators and isolates.
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        // Fillers that are drawn as nothing.
        | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{3164}' | '\u{ffa0}'
        // Variation selectors, byte-order mark, annotations.
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        // Format characters of scripts and of music; tags and further variation selectors.
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Replaces unsafe characters of a text, keeping its length in characters.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe_char) {
        return Cow::Borrowed(text);
    }
    let replace = |c| if is_unsafe_char(c) { REPLACEMENT } else { c };
    Cow::Owned(text.chars().map(replace).collect())
}

/// Trims a text, replaces its unsafe characters, and cuts it after `max_chars` characters.
pub fn sanitize_line(text: &str, max_chars: usize) -> String {
    sanitize(truncate_chars(text.trim(), max_chars)).into_owned()
}

/// Cuts a text after `max_chars` characters.
pub fn truncate_chars(text: &str, max_chars: usize) -> &str {
    let end = text.char_indices().nth(max_chars);
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_of_terminals_become_replacement_characters() {
        assert_eq!(sanitize("a\u{1b}[2J\r\nb\u{9b}1m"), "a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd}1m");
    }

    #[test]
    fn characters_that_reorder_or_hide_text_become_replacement_characters() {
        for c in [
            '\u{ad}',
            '\u{200b}',
            '\u{200e}',
            '\u{202e}',
            '\u{2066}',
            '\u{2028}',
            '\u{feff}',
            '\u{61c}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{e0041}',
        ] {
            assert_eq!(sanitize(&format!("a{c}b")), "a\u{fffd}b", "{:x}", c as u32);
        }
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        let text = "Zürich 東京 القاهرة मुंबई £ 😀";
        assert!(matches!(sanitize(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn a_line_is_trimmed_and_cut_between_characters() {
        assert_eq!(sanitize_line("  éé\u{202e}é  ", 3), "éé\u{fffd}");
        assert_eq!(sanitize_line("\n", 3), "");
    }
}
