//! Markdown tables, and the statistics that the benches show.

/// Rows under a heading, as Markdown.
#[derive(Debug, Clone)]
pub struct MarkdownTable {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        MarkdownTable {
            title: title.into(),
            columns,
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", " --- |".repeat(self.columns.len()));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!(
            "### {}\n\n{}{rule}{rows}\n",
            self.title,
            line(&self.columns)
        )
    }
}

/// Returns the median of `values`; for an even number the mean of the two middle ones; `None` if
/// empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the value below which `share` (0 to 1) of `values` lie; `None` if empty.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(share * last as f64).round() as usize])
}

/// Formats a number with `digits` decimals, or a dash if absent.
pub fn format_number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_whatever_the_order() {
        let cases: [(&[f64], Option<f64>); 4] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 4.0], Some(4.0)),
            (&[4.0, 1.0], Some(2.5)),
        ];
        for (values, expected) in cases {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = MarkdownTable::new("T", &["a", "b"]);
        table.row(vec!["1".to_owned(), format_number(None, 1)]);
        assert_eq!(
            table.markdown(),
            "### T\n\n| a | b |\n| --- | --- |\n| 1 | – |\n\n"
        );
    }
}
