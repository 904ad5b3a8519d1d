//! Reports that lay archived runs beside each other, as documents.
//!
//! - [`mod@case`]: two periods; [`site`]: all paths; [`asymmetry`]: two directions;
//!   [`comparison`]: two sets of runs
//! - [`words`]: values, changes, periods as people read them

pub mod asymmetry;
pub mod case;
pub mod comparison;
mod routes;
pub mod site;
pub mod words;

use super::document::Document;
use longhaul_model::report::v1::Caveat;

/// Of every report: what limits it.
fn caveats(document: &mut Document, caveats: &[Caveat]) {
    for caveat in caveats {
        document.note(format!("{}.", caveat.text.trim_end_matches('.')));
    }
}
