//! The checks of form that no compiler makes.
//!
//! Every rule is a function from the files of the checkout to [`Breach`]es and knows nothing of
//! the others. `cargo test` runs them too (`tests/tidy.rs`), so one command is enough.
//!
//! Wrong when: code hides in macros; the rules read text, with comments and strings set aside by
//! [`source`], and not a syntax tree.

pub mod docs;
pub mod form;
pub mod source;
pub mod words;

#[cfg(test)]
mod tests;

use crate::TaskResult;
use crate::checkout::{self, SourceFile};
use source::Source;
use std::fmt;
use std::path::Path;

/// A rule broken at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    pub path: String,
    /// From 1; 0 where the whole file is meant.
    pub line: usize,
    pub rule: &'static str,
    pub why: String,
    /// Worth a look, no reason to stop.
    pub warning: bool,
}

impl Breach {
    pub fn error(path: &str, line: usize, rule: &'static str, why: impl Into<String>) -> Self {
        Breach {
            path: path.to_owned(),
            line,
            rule,
            why: why.into(),
            warning: false,
        }
    }

    pub fn warning(path: &str, line: usize, rule: &'static str, why: impl Into<String>) -> Self {
        Breach {
            warning: true,
            ..Self::error(path, line, rule, why)
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        write!(
            f,
            "{}:{}: {kind}{}: {}",
            self.path, self.line, self.rule, self.why
        )
    }
}

type RustRule = fn(&SourceFile, &Source) -> Vec<Breach>;
type TreeRule = fn(&[SourceFile]) -> Vec<Breach>;

/// Rules on one Rust file, with comments and strings set aside.
const RUST_RULES: &[RustRule] = &[
    form::unsafe_stays_in_sys,
    form::unsafe_says_why_it_is_safe,
    form::libc_stays_in_sys,
    form::crate_roots_forbid_unsafe,
    form::modules_say_what_they_answer,
    form::analysis_says_what_it_rests_on,
    form::nothing_is_left_for_later,
    words::modules_have_a_subject,
    words::report_integers_name_their_unit,
];

/// Rules on any text file.
const TEXT_RULES: &[fn(&SourceFile) -> Vec<Breach>] = &[form::no_path_of_one_machine];

/// Rules on the checkout as a whole.
const TREE_RULES: &[TreeRule] = &[
    docs::links_lead_somewhere,
    docs::named_paths_exist,
    docs::named_commands_exist,
    docs::the_house_is_complete,
];

/// All breaches in the checkout at `find_root`, in order of file and line.
pub fn breaches(root: &Path) -> Result<Vec<Breach>, String> {
    let files = checkout::list_files(root)?;
    let mut found: Vec<Breach> = files.iter().flat_map(in_file).collect();
    found.extend(TREE_RULES.iter().flat_map(|rule| rule(&files)));
    found.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    Ok(found)
}

fn in_file(file: &SourceFile) -> Vec<Breach> {
    let mut found: Vec<Breach> = TEXT_RULES.iter().flat_map(|rule| rule(file)).collect();
    if file.is_rust() {
        let source = Source::new(&file.text);
        found.extend(RUST_RULES.iter().flat_map(|rule| rule(file, &source)));
    }
    found
}

/// Prints every breach and fails when one of them is more than a warning.
pub fn run() -> TaskResult {
    let found = breaches(&checkout::find_root())?;
    for breach in &found {
        println!("{breach}");
    }
    let errors = found.iter().filter(|breach| !breach.warning).count();
    println!("tidy: {errors} errors, {} warnings", found.len() - errors);
    if errors == 0 {
        Ok(())
    } else {
        Err(format!("{errors} rules of form are broken (see above)"))
    }
}
