//! Why a path file was refused.

use std::fmt;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Line of the file, from 1.
    Line(usize),
    /// The text of a `--set`.
    Set(String),
    /// The file as a whole: it could not be read, or something is missing in it.
    File,
}

/// What is wrong with a path file, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFileError {
    pub file: String,
    pub place: Place,
    /// Dotted path of the value: `hops.3.rate`; empty when the text is not TOML at all.
    pub key: String,
    pub problem: String,
    /// What is allowed there, when the problem does not say it already.
    pub allowed: Option<String>,
}

impl PathFileError {
    pub(crate) fn new(place: Place, key: &str, problem: impl Into<String>) -> Self {
        PathFileError {
            file: String::new(),
            place,
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
        match &self.place {
            Place::Line(line) => write!(f, "{}:{line}: ", self.file)?,
            Place::Set(text) => write!(f, "--set {text}: ")?,
            Place::File => write!(f, "{}: ", self.file)?,
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

/// The known word nearest to `word`, when it is near enough to be a slip of the hand.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let reach = word.chars().count().min(8).div_ceil(3) + 1;
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(far, _)| *far <= reach)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to add, drop or replace; of the first 64 of each, as keys are short.
fn distance(left: &str, right: &str) -> usize {
    let short = |word: &str| word.chars().take(64).collect::<String>();
    strsim::levenshtein(&short(left), &short(right))
}
