//! Problems of a watch file: line, key, what is wrong, and advice.

use std::cell::RefCell;
use std::fmt;

/// The maximum number of reported problems.
const PROBLEMS_MAX: usize = 100;
/// The maximum number of characters of a quoted value.
const SHOWN_CHARS: usize = 40;

/// A problem of a watch file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchFileProblem {
    /// Line number from 1; 0 is the file as a whole.
    pub line: usize,
    /// Dotted path of the value; tables of a list are named where possible: `measure.bulk.every`.
    pub key: String,
    pub what: String,
    /// The correct form of the value.
    pub advice: String,
}

/// All problems of a file, in the order of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchFileProblems {
    pub file: String,
    pub list: Vec<WatchFileProblem>,
    /// The number of problems that are not listed.
    pub left_out: usize,
}

impl fmt::Display for WatchFileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}: ", self.file, problem.line.max(1))?;
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

impl std::error::Error for WatchFileProblems {}

/// Collects problems, so that parsing continues after each.
#[derive(Debug, Default)]
pub struct ProblemCollector {
    list: RefCell<Vec<WatchFileProblem>>,
}

impl ProblemCollector {
    pub fn add(
        &self,
        line: usize,
        key: impl Into<String>,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.list.borrow_mut().push(WatchFileProblem {
            line,
            key: key.into(),
            what: what.into(),
            advice: advice.into(),
        });
    }

    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Returns `value` if there are no problems.
    ///
    /// # Errors
    /// All problems.
    pub fn into_result<T>(self, file: &str, value: Option<T>) -> Result<T, WatchFileProblems> {
        let mut list = self.list.into_inner();
        match value {
            Some(value) if list.is_empty() => Ok(value),
            _ => {
                list.sort();
                list.dedup();
                let left_out = list.len().saturating_sub(PROBLEMS_MAX);
                list.truncate(PROBLEMS_MAX);
                Err(WatchFileProblems {
                    file: file.to_owned(),
                    list,
                    left_out,
                })
            }
        }
    }
}

/// Quotes a value in backticks, without control characters and truncated.
pub fn quote_value(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(SHOWN_CHARS)
        .collect();
    let more = if text.chars().count() > SHOWN_CHARS {
        "…"
    } else {
        ""
    };
    format!("`{clean}{more}`")
}

/// Returns `did you mean …? known: …`, or as much of it as applies.
pub fn suggest_known<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    const LISTED_MAX: usize = 24;
    let known: Vec<&str> = known.into_iter().collect();
    let meant = find_nearest(word, &known).map(|meant| format!("did you mean `{meant}`? "));
    let listed: Vec<&str> = known.iter().copied().take(LISTED_MAX).collect();
    let more = if known.len() > LISTED_MAX {
        ", …"
    } else {
        ""
    };
    match (meant, known.is_empty()) {
        (None, true) => String::new(),
        (meant, _) => format!(
            "{}known: {}{more}",
            meant.unwrap_or_default(),
            listed.join(", ")
        ),
    }
}

/// Returns the known word nearest to `word`, if it may be a typing error.
pub fn find_nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let reach = word.chars().count().min(8).div_ceil(3);
    known
        .iter()
        .map(|candidate| (measure_edit_distance(word, candidate), *candidate))
        .filter(|(far, _)| *far <= reach)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance of the first 64 characters of each word.
fn measure_edit_distance(left: &str, right: &str) -> usize {
    let short = |word: &str| word.chars().take(64).collect::<String>();
    strsim::levenshtein(&short(left), &short(right))
}
