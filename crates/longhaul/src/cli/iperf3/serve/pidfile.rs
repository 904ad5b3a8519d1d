//! The file that holds the process id of the server.

use crate::cli::iperf3::Refusal;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

/// A file that can be written.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// # Errors
    /// It cannot be written, or names a process that lives.
    pub fn open(path: &Path) -> Result<PidFile, Refusal> {
        let refused = |error: std::io::Error| {
            Refusal::error(format!(
                "unable to write PID file: {}",
                super::plain(&error)
            ))
        };
        if living(path) {
            let text = "Another instance of iperf3 appears to be running";
            return Err(Refusal::error(text));
        }
        // A server in the background lives in another folder.
        let path = std::path::absolute(path).map_err(refused)?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let file = options.open(&path).map_err(refused)?;
        Ok(PidFile { path, file })
    }

    /// Digits and nothing else, as iperf3 writes them.
    pub fn write(&self, pid: u32) -> Result<(), Refusal> {
        let mut file = &self.file;
        let text = pid.to_string();
        let written = file.rewind().and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            Refusal::error(format!(
                "unable to write PID file: {}",
                super::plain(&error)
            ))
        })
    }

    pub fn remove(self) {
        // Whoever has removed it already has done our part.
        let _ = fs::remove_file(self.path);
    }
}

/// Does the file name a process that is there?
fn living(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pid: Option<u32> = text.trim_matches(['\0', '\n', ' ']).parse().ok();
    pid.is_some_and(|pid| pid != 0 && Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_not_over_a_server_that_lives() {
        let path = std::env::temp_dir().join(format!("longhaul-pid-{}", std::process::id()));
        fs::write(&path, "4294967295").expect("written");
        let file = PidFile::open(&path).expect("no such process");
        file.write(std::process::id()).expect("written");
        let text = fs::read_to_string(&path).expect("read");
        assert_eq!(text, std::process::id().to_string());
        let again = PidFile::open(&path).expect_err("this process lives");
        assert!(matches!(again, Refusal::Error(text) if text.starts_with("Another instance")));
        file.remove();
        assert!(!path.exists());
        assert!(PidFile::open(&path.join("below")).is_err());
    }
}
