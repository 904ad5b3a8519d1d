//! A report of kind `available` as text.

use super::page::Page;
use super::text;
use longhaul_model::report::v1::Available;

pub fn report(report: &Available) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    text::caveats(&mut page, &report.caveats);
    page.finish()
}
