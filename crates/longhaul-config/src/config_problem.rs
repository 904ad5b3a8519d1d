//! Errors of a configuration file: line, key, what is wrong, and advice.

use longhaul_model::sanitize::sanitize_line;
use std::fmt;

/// The maximum number of listed problems.
const MAX_PROBLEMS: usize = 100;
/// The maximum number of characters of a quoted value.
const MAX_QUOTED_CHARS: usize = 40;
/// The maximum number of listed alternatives.
const MAX_SUGGESTIONS: usize = 24;

/// A problem of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// The included file that the value comes from, if it is not from the file itself.
    pub file: Option<String>,
    /// The line number from 1; 0 means the file as a whole.
    pub line: usize,
    /// The `--set` that the value comes from, if it is not from the file.
    pub edit: Option<String>,
    /// The dotted path of the value; tables of a list may be named: `measure.bulk.every`.
    pub key: String,
    pub what: String,
    /// The correct form of the value.
    pub advice: String,
}

/// All problems of a file, in the order of lines; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblems {
    pub file: String,
    pub list: Vec<ConfigProblem>,
    /// The number of problems that are not listed.
    pub left_out: usize,
}

impl ConfigProblems {
    pub(crate) fn new(file: &str, mut list: Vec<ConfigProblem>) -> Self {
        list.sort();
        list.dedup();
        let left_out = list.len().saturating_sub(MAX_PROBLEMS);
        list.truncate(MAX_PROBLEMS);
        ConfigProblems { file: file.to_owned(), list, left_out }
    }

    /// Returns these problems and those of another look at the same file.
    #[must_use]
    pub fn merge(mut self, more: ConfigProblems) -> Self {
        let left_out = self.left_out + more.left_out;
        self.list.extend(more.list);
        let merged = ConfigProblems::new(&self.file, self.list);
        ConfigProblems { left_out: merged.left_out + left_out, ..merged }
    }

    /// Returns the one problem of an edit that cannot be applied.
    pub fn of_edit(file: &str, edit: &str, what: impl Into<String>) -> Self {
        let mut problems = ConfigProblems::of_file(file, what, "");
        problems.list[0].edit = Some(edit.to_owned());
        problems
    }

    /// Returns the one problem that concerns the file as a whole.
    pub fn of_file(file: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        let problem = ConfigProblem {
            file: None,
            line: 0,
            edit: None,
            key: String::new(),
            what: what.into(),
            advice: advice.into(),
        };
        ConfigProblems::new(file, vec![problem])
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            let file = problem.file.as_ref().unwrap_or(&self.file);
            match (&problem.edit, problem.line) {
                (Some(edit), _) => write!(f, "--set {edit}: ")?,
                (None, 0) => write!(f, "{file}: ")?,
                (None, line) => write!(f, "{file}:{line}: ")?,
            }
            if !problem.key.is_empty() {
                write!(f, "{}: ", problem.key)?;
            }
            write!(f, "{}", problem.what)?;
            if !problem.advice.is_empty() {
                write!(f, "; {}", problem.advice)?;
            }
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\n{}: {more} more", self.file),
        }
    }
}

impl std::error::Error for ConfigProblems {}

/// Quotes a value in backticks, sanitized and truncated.
pub fn quote_value(text: &str) -> String {
    let clean = sanitize_line(text, MAX_QUOTED_CHARS);
    let is_long = text.chars().count() > MAX_QUOTED_CHARS;
    format!("`{clean}{}`", if is_long { "…" } else { "" })
}

/// Returns `did you mean …? known: …`, or as much of it as applies. Known words may be names of the
/// file, and are sanitized.
pub fn suggest_known<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let clean = |known: &str| sanitize_line(known, MAX_QUOTED_CHARS);
    let known: Vec<String> = known.into_iter().map(clean).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if known.is_empty() {
        return String::new();
    }
    let meant = find_nearest_word(word, &known)
        .map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
    let listed = known[..known.len().min(MAX_SUGGESTIONS)].join(", ");
    let more = if known.len() > MAX_SUGGESTIONS { ", …" } else { "" };
    format!("{meant}known: {listed}{more}")
}

/// Returns the known word nearest to `word`, if it is near enough to be a typing error.
pub fn find_nearest_word<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let reach = word.chars().count().min(8).div_ceil(3) + 1;
    // Words are short; a long one is no typing error.
    let short = |word: &str| word.chars().take(64).collect::<String>();
    known
        .iter()
        .map(|known| (strsim::levenshtein(&short(word), &short(known)), *known))
        .filter(|(distance, _)| *distance <= reach)
        .min()
        .map(|(_, known)| known)
}
