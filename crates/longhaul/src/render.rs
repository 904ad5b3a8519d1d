//! Turns reports into what people read and programs parse.
//!
//! Nothing here computes a statistic: it formats what the report holds, so that text, JSON and
//! archive cannot disagree. Text fits 80 columns and reads without colour.
//!
//! - [`text`]: a whole report; [`streams`], [`ends`], [`verdict`]: its parts
//! - [`live`]: the lines while a run is going on
//! - [`shape`]: the course of a run, drawn
//! - [`runs`]: the list of archived runs
//! - [`page`], [`figures`], [`style`]: lines, numbers and emphasis

pub mod ends;
pub mod figures;
pub mod live;
pub mod page;
pub mod runs;
pub mod shape;
pub mod streams;
pub mod style;
pub mod text;
pub mod verdict;
