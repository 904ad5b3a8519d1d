//! Measures of the code's names, comments and size, for `cargo xtask names`.
//!
//! Test code is left out: files in test folders, modules with `#[cfg(test)]`, functions with
//! `#[test]`.
//!
//! Wrong when: items are made by macros; `syn` reads the sources and expands nothing.

use crate::TaskResult;
use crate::checkout::{self, SourceFile};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Words that begin a riddle instead of a description.
const QUESTION_WORDS: [&str; 9] =
    ["What", "How", "Which", "Whether", "Who", "Whom", "Whose", "Where", "When"];
/// File names that every folder may have.
const COMMON_FILES: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

/// A name or a text that is not test code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CensusEntry {
    pub path: String,
    pub line: usize,
    pub text: String,
    pub kind: EntryKind,
}

/// The kinds of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    Type,
    FreeFunction,
    /// A string literal.
    Literal,
    /// A named field of the struct `owner`.
    Field {
        owner: String,
        type_text: String,
    },
}

/// All names, texts and lines of the workspace.
#[derive(Debug, Default)]
pub struct CodeCensus {
    pub entries: Vec<CensusEntry>,
    /// Lines of code by crate, without blank lines, comments and tests.
    pub code_lines: BTreeMap<String, usize>,
    /// Files that are not tests.
    files: Vec<String>,
    doc_paragraphs: usize,
    /// Those that begin with a question word.
    riddles: usize,
}

/// One measure with its limit, both in percent.
#[derive(Debug, Clone, PartialEq)]
pub struct NameMeasure {
    pub name: &'static str,
    pub percent: f64,
    pub max_percent: f64,
}

/// Prints the measures; fails if one is beyond its limit.
pub fn run() -> TaskResult {
    let census = CodeCensus::read(&checkout::list_files(&checkout::find_root())?)?;
    let total: usize = census.code_lines.values().sum();
    println!("| crate | lines of code |\n| --- | ---: |");
    for (name, lines) in &census.code_lines {
        println!("| {name} | {lines} |");
    }
    println!("| total | {total} |\n\n| measure | now | limit |\n| --- | ---: | ---: |");
    let measures = census.measures();
    for measure in &measures {
        let NameMeasure { name, percent, max_percent } = measure;
        println!("| {name} | {percent:.1} % | {max_percent} % |");
    }
    let beyond = measures.iter().filter(|it| it.percent > it.max_percent);
    let beyond: Vec<&str> = beyond.map(|it| it.name).collect();
    if beyond.is_empty() {
        return Ok(());
    }
    Err(format!("beyond the limit: {}", beyond.join(", ")))
}

impl CodeCensus {
    /// Reads all Rust files of the checkout.
    pub fn read(files: &[SourceFile]) -> Result<CodeCensus, String> {
        let files: Vec<&SourceFile> =
            files.iter().filter(|file| file.has_extension("rs")).collect();
        let mut parsed = Vec::new();
        for file in &files {
            let tree = syn::parse_file(&file.text).map_err(|e| format!("{}: {e}", file.path))?;
            parsed.push(FileVisitor::visit(&file.path, &tree));
        }
        let test_modules: BTreeSet<String> =
            parsed.iter().flat_map(|it| it.test_modules.clone()).collect();
        let mut census = CodeCensus::default();
        for (file, visitor) in files.iter().zip(parsed) {
            census.count_comments(&file.text);
            if !is_test_file(file, &test_modules) {
                census.add_file(file, visitor);
            }
        }
        Ok(census)
    }

    fn add_file(&mut self, file: &SourceFile, visitor: FileVisitor) {
        let in_tests = |line: usize| visitor.test_lines.iter().any(|range| range.contains(&line));
        let lines = file.text.lines().enumerate().filter(|(index, text)| {
            let text = text.trim();
            !text.is_empty() && !text.starts_with("//") && !in_tests(index + 1)
        });
        *self.code_lines.entry(crate_name(&file.path)).or_default() += lines.count();
        self.entries.extend(visitor.entries);
        self.files.push(file.path.clone());
    }

    fn count_comments(&mut self, text: &str) {
        let mut inside = false;
        for line in text.lines() {
            let line = line.trim();
            let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
            let text = doc.map(|it| it.strip_prefix(' ').unwrap_or(it));
            let markup = ["#", "-", "|", "```", "*"];
            if let Some(text) = text
                && !inside
                && !text.is_empty()
                && !markup.iter().any(|mark| text.starts_with(mark))
            {
                self.doc_paragraphs += 1;
                let word = text.split(|c: char| !c.is_alphabetic()).next();
                let is_riddle = word.is_some_and(|it| QUESTION_WORDS.contains(&it));
                self.riddles += usize::from(is_riddle);
            }
            inside = doc.is_some();
        }
    }

    /// Returns the measures of names and comments, with their limits.
    pub fn measures(&self) -> Vec<NameMeasure> {
        let names = |kind: EntryKind| -> Vec<&str> {
            let of_kind = self.entries.iter().filter(|entry| entry.kind == kind);
            of_kind.map(|entry| entry.text.as_str()).collect()
        };
        let types = names(EntryKind::Type);
        let functions = names(EntryKind::FreeFunction);
        let basenames: Vec<&str> = self
            .files
            .iter()
            .filter_map(|path| path.rsplit('/').next())
            .filter(|name| !COMMON_FILES.contains(name))
            .collect();
        let one_word_types = types.iter().filter(|name| words_in_type(name) == 1).count();
        let one_word_functions = functions.iter().filter(|name| !name.contains('_')).count();
        let measure = |name, count: usize, of: usize, max_percent| NameMeasure {
            name,
            percent: 100.0 * count as f64 / of.max(1) as f64,
            max_percent,
        };
        let riddles = "doc comments that begin with a question word";
        let one_word = "free functions with a name of one word";
        let same_files = shared(&basenames);
        vec![
            measure("type names of one word", one_word_types, types.len(), 30.0),
            measure("types that share their name", shared(&types), types.len(), 20.0),
            measure(one_word, one_word_functions, functions.len(), 25.0),
            measure(riddles, self.riddles, self.doc_paragraphs, 4.0),
            measure("files that share their name", same_files, basenames.len(), 15.0),
        ]
    }
}

/// Returns how many of these names occur more than once.
fn shared(names: &[&str]) -> usize {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.values().filter(|count| **count > 1).sum()
}

/// Counts the words of a name in camel case.
fn words_in_type(name: &str) -> usize {
    name.chars().filter(|c| c.is_uppercase()).count()
}

fn crate_name(path: &str) -> String {
    let inner = path.strip_prefix("crates/").unwrap_or(path);
    inner.split('/').next().unwrap_or(inner).to_owned()
}

fn is_test_file(file: &SourceFile, test_modules: &BTreeSet<String>) -> bool {
    let stem = file.path.trim_end_matches(".rs");
    file.is_test()
        || test_modules.iter().any(|module| {
            let rest = stem.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

/// Collects what one file declares.
#[derive(Default)]
struct FileVisitor {
    path: String,
    entries: Vec<CensusEntry>,
    /// Files or folders, without extension, of modules with `#[cfg(test)]`.
    test_modules: Vec<String>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl FileVisitor {
    fn visit(path: &str, tree: &syn::File) -> FileVisitor {
        let mut visitor = FileVisitor { path: path.to_owned(), ..FileVisitor::default() };
        visitor.visit_file(tree);
        visitor
    }

    fn add(&mut self, kind: EntryKind, text: String, place: &impl Spanned) {
        let line = place.span().start().line;
        if !self.test_lines.iter().any(|range| range.contains(&line)) {
            self.entries.push(CensusEntry { path: self.path.clone(), line, text, kind });
        }
    }

    fn declare(&mut self, kind: EntryKind, name: &syn::Ident) {
        self.add(kind, name.to_string(), name);
    }

    /// Collects the string literals in the arguments of a macro.
    fn add_macro_texts(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.add_macro_texts(group.stream()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.visit_lit_str(&text);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    /// Notes the lines of an item that is a test.
    fn note_test(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) {
        if attributes.iter().any(is_test_attribute) {
            let span = item.span();
            self.test_lines.push(span.start().line..=span.end().line);
        }
    }
}

impl<'a> Visit<'a> for FileVisitor {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        self.note_test(&module.attrs, module);
        if module.content.is_none() && module.attrs.iter().any(is_test_attribute) {
            let stem = self.path.trim_end_matches(".rs");
            let root = COMMON_FILES.iter().find_map(|name| self.path.strip_suffix(name));
            let folder = root.map_or(format!("{stem}/"), str::to_owned);
            self.test_modules.push(format!("{folder}{}", module.ident));
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.note_test(&function.attrs, function);
        self.declare(EntryKind::FreeFunction, &function.sig.ident);
        visit::visit_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        self.note_test(&item.attrs, item);
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.note_test(&function.attrs, function);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.declare(EntryKind::Type, &item.ident);
        for field in &item.fields {
            if let Some(name) = &field.ident {
                let owner = item.ident.to_string();
                let type_text = field.ty.to_token_stream().to_string();
                self.declare(EntryKind::Field { owner, type_text }, name);
            }
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_lit_str(&mut self, literal: &'a syn::LitStr) {
        self.add(EntryKind::Literal, literal.value(), literal);
    }

    /// Doc comments are not texts for people.
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.add_macro_texts(call.tokens.clone());
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.declare(EntryKind::Type, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.declare(EntryKind::Type, &item.ident);
        visit::visit_item_trait(self, item);
    }
}

fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    attribute.path().is_ident("cfg")
        && attribute.meta.require_list().is_ok_and(|list| {
            let tokens = list.tokens.to_string();
            tokens.contains("test") && !tokens.contains("not (test") && !tokens.contains("not(test")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(files: &[(&str, &str)]) -> CodeCensus {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        CodeCensus::read(&files).expect("Rust")
    }

    #[test]
    fn tests_comments_and_blank_lines_are_no_code() {
        let text = "//! Doc.\n\nfn add_one() {\n    // why\n}\n#[cfg(test)]\nmod tests {\n    \
                    struct Row;\n}\n";
        let census =
            census(&[("crates/a/src/lib.rs", text), ("crates/a/tests/b.rs", "struct Row;")]);
        assert_eq!(census.code_lines["a"], 2);
        assert_eq!(census.entries.len(), 1, "{:?}", census.entries);
    }

    #[test]
    fn a_module_file_behind_cfg_test_is_a_test() {
        let census = census(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod bed;"),
            ("crates/a/src/bed.rs", "struct Row;"),
            ("crates/a/src/bed/more.rs", "struct Row;"),
        ]);
        assert_eq!(census.entries, []);
    }

    #[test]
    fn names_are_measured_in_shares() {
        let census = census(&[
            ("crates/a/src/path.rs", "/// What it is.\nstruct Row;\nfn told() {}"),
            ("crates/b/src/path.rs", "/// A row.\nstruct Row;\nfn read_row() {}"),
        ]);
        let percents: Vec<f64> = census.measures().iter().map(|it| it.percent).collect();
        assert_eq!(percents, [100.0, 100.0, 50.0, 50.0, 100.0]);
    }
}
