//! A TOML document that is read into structs, and that knows the line of every value.
//!
//! Serde stops at the first error. To find all of them, the refused value is noted and removed, and
//! the document is read again without it. What remains is checked by the caller, who reports
//! further problems by the dotted path of a value (`measure.3.every`, lists count from 0).

use crate::config_problem::{ConfigProblem, ConfigProblems, quote_value, suggest_known};
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use std::cell::RefCell;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, ValueDeserializer};

/// The maximum number of reported syntax errors.
const MAX_SYNTAX_ERRORS: usize = 20;
/// The maximum number of times that a document is read, each time without one more wrong value.
const MAX_READS: usize = 200;
/// The distance of the offsets of two sources; all offsets below are in the file itself.
const SOURCE_STRIDE: usize = 1 << 32;

/// Rules for the texts of problems.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConfigRules {
    /// The keys that name a table of a list in problems; the others have a number.
    pub labels: &'static [&'static str],
    /// Advice for required keys that are missing, by `table.key`.
    pub required: &'static [(&'static str, &'static str)],
}

/// A TOML document.
pub struct ConfigDocument<'t> {
    file: &'t str,
    text: &'t str,
    rules: ConfigRules,
    /// The origins of values other than the file itself.
    sources: Vec<ValueSource<'t>>,
    /// The document as written.
    written: DeValue<'t>,
    /// The document without the refused values.
    rest: Spanned<DeValue<'t>>,
    problems: RefCell<Vec<ConfigProblem>>,
    /// Parts of the text were not understood: keys may be missing, or in the wrong table.
    is_partial: bool,
}

/// An origin of values other than the file itself.
#[derive(Debug, Clone, Copy)]
enum ValueSource<'t> {
    /// The text of a `--set` edit.
    Edit(&'t str),
    Included {
        name: &'t str,
        text: &'t str,
    },
}

/// The origin of the values of an edit.
#[derive(Debug, Clone, Copy)]
pub struct EditOrigin(usize);

impl EditOrigin {
    /// Returns a value whose problems name the edit.
    pub fn mark(self, value: DeValue<'_>) -> Spanned<DeValue<'_>> {
        let value = match value {
            DeValue::Array(list) => {
                let marked = list.into_iter().map(|it| self.mark_offset(it));
                DeValue::Array(marked.collect())
            }
            DeValue::Table(table) => {
                let marked = table.into_iter().map(|(key, it)| {
                    let key = Spanned::new(self.0..self.0, key.into_inner());
                    (key, self.mark_offset(it))
                });
                DeValue::Table(marked.collect())
            }
            scalar => scalar,
        };
        Spanned::new(self.0..self.0, value)
    }

    /// Elements of a list keep different spans.
    fn mark_offset(self, value: Spanned<DeValue<'_>>) -> Spanned<DeValue<'_>> {
        let offset = value.span().start % SOURCE_STRIDE;
        EditOrigin(self.0 - self.0 % SOURCE_STRIDE + offset).mark(value.into_inner())
    }

    /// Returns a key that belongs to the edit.
    pub fn mark_key(self, key: &str) -> Spanned<DeString<'static>> {
        Spanned::new(self.0..self.0, DeString::Owned(key.to_owned()))
    }
}

/// A value found by its path.
struct ValuePosition<'d, 't> {
    offset: usize,
    key: String,
    /// Absent: the value is missing, and the offset is that of its table.
    value: Option<&'d DeValue<'t>>,
    /// True: the value is an element of a list.
    is_element: bool,
}

impl<'t> ConfigDocument<'t> {
    /// Parses TOML text. Problems call the file `file`.
    ///
    /// # Errors
    /// The syntax errors of the text.
    pub fn parse(file: &'t str, text: &'t str, rules: ConfigRules) -> Result<Self, ConfigProblems> {
        let (document, errors) = ConfigDocument::parse_recoverable(file, text, rules);
        for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
            document.push_syntax_error(0, error);
        }
        document.into_result(Some(())).map(|((), document)| document)
    }

    /// Parses what can be understood of a text whose syntax errors are known. Only wrong values are
    /// then problems, neither missing nor unknown keys.
    pub fn parse_partial(file: &'t str, text: &'t str, rules: ConfigRules) -> Self {
        let (document, _) = ConfigDocument::parse_recoverable(file, text, rules);
        ConfigDocument { is_partial: true, ..document }
    }

    fn parse_recoverable(
        file: &'t str,
        text: &'t str,
        rules: ConfigRules,
    ) -> (Self, Vec<toml::de::Error>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let document = ConfigDocument {
            file,
            text,
            rules,
            sources: Vec::new(),
            written: DeValue::Boolean(false),
            rest: Spanned::new(0..0, DeValue::Table(table.into_inner())),
            problems: RefCell::default(),
            is_partial: false,
        };
        (document, errors)
    }

    /// Changes the document before it is read. Problems of values that the origin marks show `edit`.
    pub fn edit<T>(
        &mut self,
        edit: &'t str,
        change: impl FnOnce(&mut Spanned<DeValue<'t>>, EditOrigin) -> T,
    ) -> T {
        self.sources.push(ValueSource::Edit(edit));
        change(&mut self.rest, EditOrigin(self.sources.len() * SOURCE_STRIDE))
    }

    /// Adds the tables of an included file, which may have only these lists of tables. Problems of
    /// its values name the file and its lines.
    pub fn include(&mut self, name: &'t str, text: &'t str, lists: &[&str]) {
        let (table, errors) = DeTable::parse_recoverable(text);
        self.sources.push(ValueSource::Included { name, text });
        let base = self.sources.len() * SOURCE_STRIDE;
        for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
            self.push_syntax_error(base, error);
        }
        for (key, value) in table.into_inner() {
            let offset = base + key.span().start;
            let name = key.get_ref().to_string();
            let DeValue::Array(tables) = shift_value(value, base).into_inner() else {
                let advice = format!("an included file may have [[{}]]", lists.join("]], [["));
                self.push(offset, name, "is not allowed in an included file", advice);
                continue;
            };
            if !lists.contains(&name.as_str()) {
                let advice = suggest_known(&name, lists.iter().copied());
                self.push(offset, name, "unknown key", advice);
                continue;
            }
            let DeValue::Table(document) = self.rest.get_mut() else {
                continue;
            };
            match document.get_mut(name.as_str()).map(Spanned::get_mut) {
                Some(DeValue::Array(list)) => {
                    let all = list.clone().into_iter().chain(tables);
                    *list = all.collect();
                }
                // The problem of the file itself is reported when it is read.
                Some(_) => {}
                None => {
                    let key = Spanned::new(offset..offset, key.into_inner());
                    let tables = Spanned::new(offset..offset, DeValue::Array(tables));
                    document.insert(key, tables);
                }
            }
        }
    }

    /// Reads the document. Wrong values are noted and left out; returns `None` if nothing remains.
    pub fn read<T: DeserializeOwned>(&mut self) -> Option<T> {
        self.written = self.rest.get_ref().clone();
        for _ in 0..MAX_READS {
            let rest = ValueDeserializer::from(self.rest.clone());
            let error = match serde_path_to_error::deserialize(rest) {
                Ok(value) => return Some(value),
                Err(error) => error,
            };
            let steps = error.path().iter().filter_map(|step| match step {
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Map { key } => Some(key.clone()),
                Segment::Enum { .. } | Segment::Unknown => None,
            });
            self.refuse(steps.collect(), error.inner().message())?;
        }
        None
    }

    /// Notes the error of the value at `path`, and removes the value. Returns `None` if that is the
    /// whole document.
    fn refuse(&mut self, mut path: Vec<String>, message: &str) -> Option<()> {
        let (refused, known) = split_known_names(message);
        if refused.starts_with("unknown field ") {
            path.pop();
            self.refuse_unknown_keys(&path, &known);
            return Some(());
        }
        if let Some(field) = refused.strip_prefix("missing field ") {
            self.add_missing(&path, field.trim_matches('`'));
        } else {
            let position = self.find(&path);
            let (what, advice) = describe_error(message, &position);
            self.push(position.offset, position.key, what, advice);
        }
        let last = path.pop()?;
        match find_mut(self.rest.get_mut(), &path)? {
            DeValue::Table(table) => drop(table.remove(last.as_str())),
            DeValue::Array(list) => {
                let index: usize = last.parse().ok()?;
                let kept = list.iter().enumerate().filter(|(at, _)| *at != index);
                *list = kept.map(|(_, value)| value.clone()).collect();
            }
            _ => return None,
        }
        Some(())
    }

    fn add_missing(&self, table: &[String], field: &str) {
        let name = table.iter().rfind(|it| it.parse::<usize>().is_err());
        let at = name.map_or(field.to_owned(), |name| format!("{name}.{field}"));
        let position = self.find(&[table, &[field.to_owned()]].concat());
        // A value that is there was refused before.
        if position.value.is_none() && !self.is_partial {
            let advice = self.rules.required.iter().find(|(key, _)| *key == at);
            let advice = advice.map_or("", |(_, advice)| advice);
            self.push(position.offset, position.key, "missing", advice);
        }
    }

    fn refuse_unknown_keys(&mut self, path: &[String], known: &[&str]) {
        let Some(DeValue::Table(table)) = find_mut(self.rest.get_mut(), path) else {
            return;
        };
        let unknown: Vec<_> = table
            .iter()
            .map(|(key, value)| (value.span().start, key.get_ref().to_string()))
            .filter(|(_, name)| !known.contains(&name.as_str()))
            .collect();
        for (_, name) in &unknown {
            table.remove(name.as_str());
        }
        let table = self.find(path).key;
        let unknown = unknown.into_iter().filter(|_| !self.is_partial);
        for (offset, name) in unknown {
            let name = quote_value(&name);
            let name = name.trim_matches('`');
            let advice = suggest_known(name, known.iter().copied());
            self.push(offset, join_key(&table, name), "unknown key", advice);
        }
    }

    /// Finds the value at a path. The index in a list counts the values that were not refused.
    fn find(&self, path: &[impl AsRef<str>]) -> ValuePosition<'_, 't> {
        let mut position = ValuePosition {
            offset: 0,
            key: String::new(),
            value: Some(&self.written),
            is_element: false,
        };
        let mut rest = Some(self.rest.get_ref());
        for step in path.iter().map(AsRef::as_ref) {
            position.is_element = matches!(position.value, Some(DeValue::Array(_)));
            match position.value {
                Some(DeValue::Array(list)) => {
                    let index = step.parse::<usize>().unwrap_or(usize::MAX);
                    let left = rest.and_then(|it| it.get(index));
                    let number = left
                        .and_then(|it| list.iter().position(|written| written.span() == it.span()))
                        .unwrap_or(index);
                    rest = left.map(Spanned::get_ref);
                    let Some(element) = list.get(number) else {
                        break;
                    };
                    position.offset = element.span().start;
                    position.value = Some(element.get_ref());
                    if let DeValue::Table(table) = element.get_ref() {
                        position.key = join_key(&position.key, &self.label_table(table, number));
                    }
                }
                Some(DeValue::Table(table)) => {
                    position.key = join_key(&position.key, step);
                    rest = rest.and_then(|it| it.get(step)).map(Spanned::get_ref);
                    let entry = table.get_key_value(step);
                    position.value = entry.map(|(_, value)| value.get_ref());
                    // The span of a table may start at its first key; users look for its name.
                    position.offset = match entry {
                        Some((key, value)) if value.get_ref().is_table() => key.span().start,
                        Some((_, value)) => value.span().start,
                        None => break,
                    };
                }
                // A single value may stand for a list of one.
                _ => break,
            }
        }
        position
    }

    /// Returns the name of a table in a list, or its number from 1.
    fn label_table(&self, table: &DeTable<'_>, number: usize) -> String {
        let mut names = self.rules.labels.iter().filter_map(|key| table.get(*key));
        let name = names.next().and_then(|it| it.get_ref().as_str());
        let is_plain = |it: &&str| crate::config_values::is_name(it);
        name.filter(is_plain).map_or_else(|| (number + 1).to_string(), str::to_owned)
    }

    fn push_syntax_error(&self, base: usize, error: &toml::de::Error) {
        let offset = base + error.span().map_or(0, |span| span.start);
        let what = error.message().trim().replace('\n', ", ");
        self.push(offset, String::new(), what, "correct the TOML syntax of this line");
    }

    /// Returns the source of an offset, if that is not the file itself.
    fn find_source(&self, offset: usize) -> Option<ValueSource<'t>> {
        self.sources.get((offset / SOURCE_STRIDE).checked_sub(1)?).copied()
    }

    fn push(&self, offset: usize, key: String, what: impl Into<String>, advice: impl Into<String>) {
        let (file, edit) = match self.find_source(offset) {
            None => (None, None),
            Some(ValueSource::Edit(edit)) => (None, Some(edit.to_owned())),
            Some(ValueSource::Included { name, .. }) => (Some(name.to_owned()), None),
        };
        self.problems.borrow_mut().push(ConfigProblem {
            file,
            line: self.find_line(offset),
            edit,
            key,
            what: what.into(),
            advice: advice.into(),
        });
    }

    /// Adds a problem at the value with this dotted path, or at its table if there is no value.
    pub fn add(&self, path: &str, what: impl Into<String>, advice: impl Into<String>) {
        let position = self.find_dotted(path);
        self.push(position.offset, position.key, what, advice);
    }

    /// Adds a problem that quotes the value.
    pub fn reject(&self, path: &str, why: &str, advice: impl Into<String>) {
        let position = self.find_dotted(path);
        let value = position.value.map_or_else(String::new, describe_value);
        self.push(position.offset, position.key, format!("{value} {why}"), advice);
    }

    /// Returns whether the file has a value with this dotted path, be it right or wrong.
    pub fn has(&self, path: &str) -> bool {
        self.find_dotted(path).value.is_some()
    }

    /// Describes the place of the value with this dotted path, or of its table: `line 3`, or
    /// `line 3 of hosts.toml` in an included file.
    pub fn describe_place(&self, path: &str) -> String {
        let offset = self.find_dotted(path).offset;
        let line = self.find_line(offset);
        match self.find_source(offset) {
            Some(ValueSource::Included { name, .. }) => format!("line {line} of {name}"),
            Some(ValueSource::Edit(_)) | None => format!("line {line}"),
        }
    }

    fn find_line(&self, offset: usize) -> usize {
        let (text, offset) = match self.find_source(offset) {
            Some(ValueSource::Included { text, .. }) => (text, offset % SOURCE_STRIDE),
            Some(ValueSource::Edit(_)) | None => (self.text, offset),
        };
        let line_ends = text.match_indices('\n');
        1 + line_ends.take_while(|(end, _)| *end < offset).count()
    }

    fn find_dotted(&self, path: &str) -> ValuePosition<'_, 't> {
        self.find(&path.split('.').collect::<Vec<&str>>())
    }

    /// Returns whether no problem was found so far.
    pub fn is_valid(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Returns `value` and the document if there are no problems.
    ///
    /// # Errors
    /// All problems.
    pub fn into_result<T>(self, value: Option<T>) -> Result<(T, Self), ConfigProblems> {
        let list = self.problems.take();
        match value {
            Some(value) if list.is_empty() => Ok((value, self)),
            _ => Err(ConfigProblems::new(self.file, list)),
        }
    }
}

/// Returns the value with all positions moved by `base`.
fn shift_value(value: Spanned<DeValue<'_>>, base: usize) -> Spanned<DeValue<'_>> {
    let span = value.span().start + base..value.span().end + base;
    let shifted = match value.into_inner() {
        DeValue::Array(list) => {
            DeValue::Array(list.into_iter().map(|it| shift_value(it, base)).collect())
        }
        DeValue::Table(table) => {
            let shifted = table.into_iter().map(|(key, it)| {
                let span = key.span().start + base..key.span().end + base;
                (Spanned::new(span, key.into_inner()), shift_value(it, base))
            });
            DeValue::Table(shifted.collect())
        }
        scalar => scalar,
    };
    Spanned::new(span, shifted)
}

fn find_mut<'d, 't>(root: &'d mut DeValue<'t>, path: &[String]) -> Option<&'d mut DeValue<'t>> {
    path.iter().try_fold(root, |value, step| match value {
        DeValue::Table(table) => Some(table.get_mut(step.as_str())?.get_mut()),
        DeValue::Array(list) => Some(list.get_mut(step.parse::<usize>().ok()?)?.get_mut()),
        _ => None,
    })
}

fn join_key(table: &str, key: &str) -> String {
    match table {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    }
}

fn describe_value(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quote_value(text),
        DeValue::Integer(number) => quote_value(&number.to_string()),
        DeValue::Float(number) => quote_value(&number.to_string()),
        DeValue::Boolean(value) => format!("`{value}`"),
        DeValue::Datetime(moment) => quote_value(&moment.to_string()),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Splits a message of serde at the names that it knows, which are in backticks. The refused name
/// before them is one of the file and may have backticks, too.
fn split_known_names(message: &str) -> (&str, Vec<&str>) {
    let (refused, known) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    (refused, known.split('`').skip(1).step_by(2).collect())
}

/// Returns what is wrong, and the advice, for a message of serde or of a value's own type. Those
/// have the form `is …; advice`.
fn describe_error(message: &str, position: &ValuePosition<'_, '_>) -> (String, String) {
    let value = position.value.map_or_else(String::new, describe_value);
    let (refused, known) = split_known_names(message);
    if let Some(word) = refused.strip_prefix("unknown variant ") {
        let key = position.key.rsplit('.').next().unwrap_or_default();
        let advice = suggest_known(word.trim_matches('`'), known);
        let key = if position.is_element { "entry" } else { key };
        return (format!("unknown {key} {value}"), advice);
    }
    let expected = message.split_once(", expected ").map(|(_, expected)| expected);
    let expected = match message {
        "wanted string or table" => Some("a string"),
        _ => expected.filter(|_| message.starts_with("invalid ")),
    };
    let (why, advice) = match expected {
        Some("a string") => ("is not a string", "put it in quotes"),
        Some("a boolean") => ("is neither true nor false", "write true or false"),
        Some("a sequence") => ("is not a list", "write [[…]] for tables, or [\"one\", \"two\"]"),
        Some(it) if it.starts_with("struct ") || it == "a map" => {
            let advice = format!("write [{}] and its keys below it", position.key);
            return (format!("{value} is not a table"), advice);
        }
        Some(other) => {
            return (format!("{value} is not allowed here"), format!("write {other}"));
        }
        None => message.split_once("; ").unwrap_or((message, "")),
    };
    let what = if why.starts_with("is ") { format!("{value} {why}") } else { why.to_owned() };
    (what, advice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_values;
    use serde::Deserialize;
    use std::time::Duration;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct FileKeys {
        #[serde(default)]
        host: Vec<HostKeys>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct HostKeys {
        name: String,
        #[serde(deserialize_with = "config_values::duration::<_, _, 1, 60>")]
        every: Duration,
    }

    const RULES: ConfigRules =
        ConfigRules { labels: &["name"], required: &[("host.every", "write \"5 s\"")] };

    fn read(text: &str) -> (Option<FileKeys>, ConfigDocument<'_>) {
        let mut document = ConfigDocument::parse("f", text, RULES).expect("TOML");
        (document.read(), document)
    }

    #[test]
    fn all_errors_of_a_document_are_found_and_each_once() {
        let (keys, document) = read(
            "[[host]]\nname = \"a\"\nevery = \"2 min\"\n[[host]]\nname = \"b\"\n[[host]]\n\
             name = 3\nevery = \"1 s\"\nevry = 1\n[[host]]\nname = \"c\"\nevery = 2\n",
        );
        let right = HostKeys { name: "c".to_owned(), every: Duration::from_secs(2) };
        assert_eq!(keys.expect("what is right").host, [right]);
        let problems = document.into_result(Some(())).err().expect("errors");
        assert_eq!(
            problems.to_string(),
            "f:3: host.a.every: `2 min` is out of range; allowed: 1 s to 60 s\n\
             f:4: host.b.every: missing; write \"5 s\"\n\
             f:7: host.3.name: `3` is not a string; put it in quotes\n\
             f:9: host.3.evry: unknown key; did you mean `every`? known: name, every"
        );
    }

    #[test]
    fn backticks_in_a_key_or_word_of_the_file_are_not_those_of_known_names() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        struct KindKeys {
            kind: PathKind,
        }
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum PathKind {
            Long,
            Short,
        }
        let read = |text| {
            let mut document = ConfigDocument::parse("f", text, RULES).expect("TOML");
            let keys = document.read::<KindKeys>();
            (keys, document.into_result(Some(())).err().expect("an error").to_string())
        };
        let (_, problems) = read("kind = \"lon`, expected one of `\\u0007\"\n");
        assert!(problems.ends_with("known: long, short"), "{problems}");
        let (keys, problems) = read("\"a`b\" = 1\nkind = \"long\"\n");
        assert!(matches!(keys.expect("what is right").kind, PathKind::Long));
        assert_eq!(problems, "f:1: a`b: unknown key; known: kind");
    }

    #[test]
    fn problems_of_an_included_file_name_it_and_its_lines() {
        let text = "[[host]]\nname = \"a\"\nevery = \"1 s\"\n";
        let mut document = ConfigDocument::parse("f", text, RULES).expect("TOML");
        let more = "[[host]]\nname = \"b\"\nevery = \"2 min\"\n\n[[host]]\nname = \"c\"\nevery = \"1 s\"\n";
        document.include("more.toml", more, &["host"]);
        document.include("other.toml", "\nhost = 1\n[[hst]]\n[agent]\n", &["host"]);
        let keys: FileKeys = document.read().expect("what is right");
        let names: Vec<&str> = keys.host.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(document.describe_place("host.1.name"), "line 6 of more.toml");
        document.reject("host.1.name", "is taken", "write another");
        let problems = document.into_result(Some(())).err().expect("errors");
        assert_eq!(
            problems.to_string(),
            "more.toml:3: host.b.every: `2 min` is out of range; allowed: 1 s to 60 s\n\
             more.toml:6: host.c.name: `c` is taken; write another\n\
             other.toml:2: host: is not allowed in an included file; an included file may have [[host]]\n\
             other.toml:3: hst: unknown key; did you mean `host`? known: host\n\
             other.toml:4: agent: is not allowed in an included file; an included file may have [[host]]"
        );
    }

    #[test]
    fn a_place_counts_the_values_that_are_left_and_is_shown_as_written() {
        let (_, document) =
            read("[[host]]\nname = 1\nevery = 1\n[[host]]\nname = \"b c\"\nevery = 1\n");
        assert!(document.has("host.0.every") && !document.has("host.0.rate"));
        assert_eq!(document.describe_place("host.0.every"), "line 6");
        document.reject("host.0.name", "is not a name", "write one word");
        let problems = document.into_result(Some(())).err().expect("errors");
        assert!(
            problems.to_string().ends_with("f:5: host.2.name: `b c` is not a name; write one word"),
            "{problems}"
        );
    }
}
