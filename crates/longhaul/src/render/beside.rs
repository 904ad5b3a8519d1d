//! Reports that compare archived runs, as documents.
//!
//! - [`mod@case`]: two periods; [`site`]: all paths; [`asymmetry`]: two directions; [`comparison`]:
//!   two sets of runs
//! - [`words`]: formatting of values, changes and periods

pub mod asymmetry;
pub mod case;
pub mod comparison;
mod routes;
pub mod site;
pub mod words;

use super::document::Document;
use longhaul_model::report::v1::Caveat;

/// Adds the caveats of a report.
fn caveats(document: &mut Document, caveats: &[Caveat]) {
    for caveat in caveats {
        document.note(format!("{}.", caveat.text.trim_end_matches('.')));
    }
}
