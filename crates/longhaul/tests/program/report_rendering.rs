//! Every form in which a report is shown, for tests and fuzzing with hostile reports.

use longhaul_model::report::v1::AnyReport;
use longhaul_report::{iperf3_report_json, plot, scan_text, summary_lines};

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
