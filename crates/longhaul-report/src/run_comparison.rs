//! Reports that compare archived runs, as documents.
//!
//! - [`mod@case_document`]: two periods; [`site_document`]: all paths; [`asymmetry_document`]: two directions; [`comparison_document`]:
//!   two sets of runs
//! - [`change_format`]: formatting of values, changes and periods

pub mod asymmetry_document;
pub mod case_document;
pub mod change_format;
pub mod comparison_document;
pub mod site_document;
