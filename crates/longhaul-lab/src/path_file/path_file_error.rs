//! Errors of path files.

use std::fmt;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// The line of the file, from 1.
    Line(usize),
    /// The text of a `--set`.
    Set(String),
    /// The file as a whole: it is unreadable or incomplete.
    File,
}

/// An error in a path file: what is wrong, where, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFileError {
    pub file: String,
    pub origin: ValueOrigin,
    /// The dotted path of the value: `hops.3.rate`; empty if the text is not TOML.
    pub key: String,
    pub problem: String,
    /// The allowed values, if the problem does not name them already.
    pub allowed: Option<String>,
}

impl PathFileError {
    pub(crate) fn new(place: ValueOrigin, key: &str, problem: impl Into<String>) -> Self {
        PathFileError {
            file: String::new(),
            origin: place,
            key: key.to_owned(),
            problem: problem.into(),
            allowed: None,
        }
    }

    pub(crate) fn allowing(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }

    pub(crate) fn in_file(mut self, file: &str) -> Self {
        file.clone_into(&mut self.file);
        self
    }
}

impl fmt::Display for PathFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            ValueOrigin::Line(line) => write!(f, "{}:{line}: ", self.file)?,
            ValueOrigin::Set(text) => write!(f, "--set {text}: ")?,
            ValueOrigin::File => write!(f, "{}: ", self.file)?,
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)?;
        match &self.allowed {
            Some(allowed) => write!(f, "; allowed: {allowed}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PathFileError {}

/// Returns the known word nearest to `word`, if it is near enough to be a typing error.
pub(crate) fn find_nearest_word<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let reach = word.chars().count().min(8).div_ceil(3) + 1;
    known
        .iter()
        .map(|candidate| (edit_distance(word, candidate), *candidate))
        .filter(|(far, _)| *far <= reach)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance between the first 64 characters of each word; keys are short.
fn edit_distance(left: &str, right: &str) -> usize {
    let short = |word: &str| word.chars().take(64).collect::<String>();
    strsim::levenshtein(&short(left), &short(right))
}
