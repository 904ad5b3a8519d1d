use super::*;
use proptest::prelude::*;

/// A document that says this in every part.
fn everywhere(said: &str) -> ReportDocument {
    let own = || said.to_owned();
    let row = vec![own(), own()];
    let mut document =
        ReportDocument { title: own(), subtitle: own(), foot: own(), ..ReportDocument::default() };
    document.answer(own(), own());
    document.answer_command(own(), own());
    document.heading(2, own());
    document.paragraph(own());
    document.note(own());
    document.list([own()]);
    document.fact(own(), own());
    document.command(own());
    let mut table = DocumentTable::new([left(own()), right("value")]);
    table.row(row);
    table.detail(own());
    table.marked.push(0);
    document.table(table);
    document.verbatim(own());
    document
}

#[test]
fn names_from_elsewhere_do_nothing_in_any_form() {
    let name = "x\u{1b}[2J<img src=x onerror=alert(1)>|[a](http://evil.example)@all\u{202e}`\n# h";
    let document = everywhere(name);
    for text in [document.text(), document.markdown(), document.html()] {
        // The program's own colours are put away on the way out where they are not wanted.
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    }
    let html = document.html();
    assert!(!html.contains("<img"), "{html}");
    let markdown = document.markdown();
    for line in markdown.lines().filter(|line| !line.starts_with("    ")) {
        assert!(!line.contains("<img") && !line.contains("://"), "{line}");
        // A bracket behind a stroke closes nothing.
        let open = line.replace("\\]", "");
        assert!(!open.contains("](") && !open.contains("@all"), "{line}");
    }
    assert_eq!(markdown.lines().filter(|line| line.starts_with("# ")).count(), 1);
}

#[test]
fn a_table_fits_80_columns_by_cutting_words_and_never_numbers() {
    let mut document = ReportDocument::default();
    let mut table = DocumentTable::new([left("path"), left("why"), right("before")]);
    table.row(vec!["p".repeat(90), "w".repeat(60), String::from("250 Mbit/s")]);
    document.table(table);
    let text = document.unstyled_text();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("250 Mbit/s") && text.contains('…'), "{text}");
}

#[test]
fn words_of_a_last_column_without_room_go_below_it() {
    let mut document = ReportDocument::default();
    let why = "the capacity of the path; the window that the receiver grants";
    let mut table = DocumentTable::new([right("before"), left("limited by")]);
    table.row(vec!["258.3 Mbit/s, and more of it".to_owned(), why.to_owned()]);
    document.table(table);
    let text = document.unstyled_text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|it| it.chars().count() <= 80), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(!text.contains('…') && words.contains(&"grants"), "{text}");
    let below = lines.iter().find(|it| it.contains("grants"));
    let column = lines.iter().find_map(|it| it.find("limited by"));
    let begin = below.map(|it| it.len() - it.trim_start().len());
    assert_eq!(begin, column, "{text}");
}

#[test]
fn numbers_stay_readable_in_markdown() {
    assert_eq!(markdown_writer::escape_line("fell by 40 %, p 0.002"), "fell by 40 %, p 0.002");
    assert_eq!(markdown_writer::escape_line("-40 %"), "\\-40 %");
    assert_eq!(markdown_writer::escape_line("1. first"), "1\\. first");
    assert_eq!(markdown_writer::escape_line("route: same"), "route: same");
}

proptest! {
    #[test]
    fn no_text_escapes_its_place(said in any::<String>()) {
        let document = everywhere(&said);
        let text = document.unstyled_text();
        prop_assert!(text.chars().all(|c| c == '\n' || !longhaul_model::sanitize::is_unsafe_char(c)));
        let markdown = document.markdown();
        prop_assert!(markdown.chars().all(|c| c == '\n' || !longhaul_model::sanitize::is_unsafe_char(c)));
        let tables = markdown.lines().filter(|line| line.starts_with("| "));
        // Head, rule, one row, and its detail: nothing opens another cell or line.
        prop_assert_eq!(tables.count(), 4);
    }
}
