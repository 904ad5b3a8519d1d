//! A report of kind `load` as text.

use super::page::Page;
use super::text;
use longhaul_model::report::v1::Load;

pub fn report(report: &Load) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    text::caveats(&mut page, &report.caveats);
    page.finish()
}
