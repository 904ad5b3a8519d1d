//! Parses a served folder: `DIR`, `DIR:ro` or `DIR:rw`.

use longhaul_copy::FilesRoot;
use std::path::PathBuf;

pub fn parse_served_folder(text: &str) -> Result<FilesRoot, String> {
    let (path, writable) = match text.rsplit_once(':') {
        Some((path, "rw")) => (path, true),
        Some((path, "ro")) => (path, false),
        _ => (text, false),
    };
    let absolute = std::path::absolute(path).map_err(|_| "expected DIR, DIR:ro or DIR:rw")?;
    let last = absolute.file_name().and_then(|name| name.to_str());
    Ok(FilesRoot {
        name: last.unwrap_or("files").to_owned(),
        path: PathBuf::from(&absolute),
        writable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_only_unless_it_says_otherwise() {
        for (text, path, writable) in [
            ("/data", "/data", false),
            ("/data:ro", "/data", false),
            ("/data:rw", "/data", true),
            ("/data:x", "/data:x", false),
        ] {
            let root = parse_served_folder(text).expect("a folder");
            assert_eq!((root.path, root.writable), (PathBuf::from(path), writable));
        }
        assert_eq!(parse_served_folder("/a/b/").map(|root| root.name), Ok("b".to_owned()));
        assert!(parse_served_folder("").is_err());
    }
}
