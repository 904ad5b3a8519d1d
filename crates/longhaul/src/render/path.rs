//! A report of kind `path` as text.

use super::page::Page;
use super::text;
use longhaul_model::report::v1::Path;

pub fn report(report: &Path) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    text::caveats(&mut page, &report.caveats);
    page.finish()
}
