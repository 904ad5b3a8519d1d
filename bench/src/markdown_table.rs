//! Markdown tables, and the statistics that the benches show.

use longhaul_analysis::stats::{quantile, sort_finite};

/// Rows under a heading, as Markdown.
#[derive(Debug, Clone)]
pub struct MarkdownTable {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    /// Creates a table; a bar stands between the names of its columns.
    pub fn new(title: impl Into<String>, columns: &str) -> Self {
        MarkdownTable {
            title: title.into(),
            columns: columns.split(" | ").map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Formats the table; one without rows is empty.
    pub fn markdown(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", " --- |".repeat(self.columns.len()));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("### {}\n\n{}{rule}{rows}\n", self.title, line(&self.columns))
    }
}

/// Returns the median of `values`; `None` if empty.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sort_finite(values.iter().copied()), 0.5)
}

/// Formats a number with `digits` decimals, or a dash if absent.
pub fn format_number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let mut table = MarkdownTable::new("T", "a | b");
        table.row(vec!["1".to_owned(), format_number(None, 1)]);
        assert_eq!(table.markdown(), "### T\n\n| a | b |\n| --- | --- |\n| 1 | – |\n\n");
    }
}
