//! Every form in which a report is shown, and the places of its values, for tests with hostile
//! reports.

use longhaul_model::report::v1::AnyReport;
use longhaul_report::{iperf3_report_json, plot, scan_text, summary_lines};
use serde_json::Value;

/// Returns the JSON pointers of all values of this kind, containers before their contents.
pub fn find_pointers(value: &Value, is_wanted: fn(&Value) -> bool) -> Vec<String> {
    fn visit(value: &Value, pointer: &str, is_wanted: fn(&Value) -> bool, found: &mut Vec<String>) {
        if is_wanted(value) {
            found.push(pointer.to_owned());
        }
        if let Value::Array(items) = value {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{pointer}/{index}"), is_wanted, found);
            }
        }
        for (key, field) in value.as_object().into_iter().flatten() {
            let key = key.replace('~', "~0").replace('/', "~1");
            visit(field, &format!("{pointer}/{key}"), is_wanted, found);
        }
    }
    let mut found = Vec::new();
    visit(value, "", is_wanted, &mut found);
    found
}

/// A report in all forms.
pub struct RenderedReport {
    /// Text, Markdown and figures: lines for readers.
    pub texts: Vec<String>,
    pub html: String,
    /// JSON for programs.
    pub json: String,
    /// The JSON of iperf3, which joins texts.
    pub iperf3_json: Option<String>,
}

/// Renders a report in all forms.
pub fn render_report(report: &AnyReport) -> RenderedReport {
    let document = longhaul_report::build_document(report);
    let mut texts = vec![
        document.text(),
        document.brief_text(14),
        document.answer_text(),
        document.markdown(),
        summary_lines::summarize_report(report),
    ];
    let mut iperf3_json = None;
    match report {
        AnyReport::Load(load) => texts.push(plot::draw_load_chart(load).svg()),
        AnyReport::Predict(prediction) => texts.push(plot::draw_prediction(prediction).svg()),
        AnyReport::Scan(scan) => {
            texts.extend([plot::draw_heat_map(scan).svg(), scan_text::render_scan_csv(scan)]);
        }
        AnyReport::Throughput(run) => {
            texts.push(plot::draw_goodput_chart(run).svg());
            iperf3_json = Some(iperf3_report_json::to_iperf3_json(run, 1_000_000).to_string());
        }
        _ => {}
    }
    let json = serde_json::to_string(report).unwrap_or_default();
    RenderedReport { texts, html: document.html(), json, iperf3_json }
}
