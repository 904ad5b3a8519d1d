//! Validation of untrusted file names from peers, and names of an unfinished copy's files.

use std::path::{Component, Path, PathBuf};

/// The kernel's limits (`PATH_MAX`, `NAME_MAX`).
const MAX_PATH_BYTES: usize = 4095;
const MAX_NAME_BYTES: usize = 255;
/// Prefix and suffixes of the files of an unfinished copy.
const HIDDEN: &str = ".longhaul-";
const PART: &str = ".part";
const JOURNAL: &str = ".journal";

/// Parses a path below a folder; the empty path, `.` and `./` are the folder itself. The error
/// describes the problem.
pub(crate) fn parse_relative_path(text: &str) -> Result<PathBuf, String> {
    let wrong = |why: &str| {
        let shown: String = text.chars().take(80).collect();
        Err(format!("{shown:?}: {why}"))
    };
    if text.len() > MAX_PATH_BYTES {
        return wrong("the name is too long");
    }
    if text.contains('\0') {
        return wrong("a name must not contain NUL");
    }
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(part) if part.len() > MAX_NAME_BYTES => {
                return wrong("a part of the name is too long");
            }
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => return wrong("`..` is not allowed"),
            Component::RootDir | Component::Prefix(_) => {
                return wrong("names are relative to a served folder and must not start with `/`");
            }
        }
    }
    Ok(path)
}

/// Joins `path` to `base`; either may be empty.
pub(super) fn join_paths(base: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        return base.to_owned();
    }
    base.join(path)
}

/// Returns the path of an incomplete copy: in the same folder, hidden, always the same.
pub(super) fn partial_path(path: &Path) -> PathBuf {
    hidden_path(path, PART)
}

/// Returns the path of an incomplete copy's journal.
pub(super) fn journal_path(path: &Path) -> PathBuf {
    hidden_path(path, JOURNAL)
}

/// Returns whether this is a file of an unfinished copy, which is not part of a folder's content.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with(HIDDEN) && (name.ends_with(PART) || name.ends_with(JOURNAL))
}

fn hidden_path(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    // The name may have the maximum length, so the hidden name uses a short hash of it.
    let sum = blake3::hash(name.as_encoded_bytes());
    path.with_file_name(format!("{HIDDEN}{}{ending}", &sum.to_hex()[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_plain_names_below_are_taken() {
        for (text, path) in [("", ""), (".", ""), ("a/b", "a/b"), ("./a//b/", "a/b")] {
            assert_eq!(parse_relative_path(text), Ok(PathBuf::from(path)));
        }
        let long = "x".repeat(256);
        for text in ["/", "/etc/passwd", "..", "a/../..", "a\0b", long.as_str()] {
            assert!(parse_relative_path(text).is_err(), "{text:?}");
        }
        assert!(parse_relative_path(&"x/".repeat(3000)).is_err());
    }

    #[test]
    fn what_is_unfinished_stands_beside_its_name() {
        let path = Path::new("a/b");
        assert_eq!(partial_path(path).parent(), Some(Path::new("a")));
        assert_ne!(partial_path(path), partial_path(Path::new("a/c")));
        for hidden in [partial_path(path), journal_path(path)] {
            assert!(is_hidden(hidden.file_name().and_then(|n| n.to_str()).expect("plain")));
        }
        assert!(!is_hidden(".longhaul-x"));
    }

    proptest! {
        #[test]
        fn no_text_gives_a_name_that_leaves(text in "[a./\\\\\0]{0,12}|.{0,40}") {
            if let Ok(path) = parse_relative_path(&text) {
                prop_assert!(path.components().all(|c| matches!(c, Component::Normal(_))));
            }
        }
    }
}
