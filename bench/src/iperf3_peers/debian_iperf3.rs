//! iperf3 of other Debian releases, each with the libraries of its release, unpacked beside the
//! build output. The machine's own packages are not changed.

use super::{DONE_MARKER, path_text};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::program_runner::{self, find_program};

const LIMIT: Duration = Duration::from_secs(300);

/// A release whose iperf3 is run, and the packages that it needs.
#[derive(Debug, Clone, Deserialize)]
pub struct DebianRelease {
    codename: String,
    packages: Vec<String>,
}

impl DebianRelease {
    /// Returns the command of its iperf3, if it is installed.
    pub fn present(&self, peers: &Path) -> Option<Vec<String>> {
        let root = self.folder(peers).join("root");
        self.folder(peers).join(DONE_MARKER).is_file().then_some(())?;
        let libraries = [root.join("usr/lib"), root.join("lib")];
        let folders = libraries.iter().flat_map(|folder| list_entries(folder));
        let folders: Vec<PathBuf> =
            folders.filter(|folder| folder.to_string_lossy().ends_with("-linux-gnu")).collect();
        // It uses its own loader, because the machine's fits only the machine's libraries.
        let mut files = folders.iter().flat_map(|folder| list_entries(folder));
        let loader = files.find(|file| is_loader(file))?;
        let path: Vec<String> = folders.iter().map(|folder| path_text(folder)).collect();
        Some(vec![
            path_text(&loader),
            "--library-path".to_owned(),
            path.join(":"),
            path_text(&root.join("usr/bin/iperf3")),
        ])
    }

    /// Fetches its iperf3 and returns the command.
    pub fn install(&self, peers: &Path) -> Result<Vec<String>, String> {
        if find_program("apt-get").is_none() {
            return Err("its packages come by apt-get, which is not here".to_owned());
        }
        let folder = self.folder(peers);
        for name in ["lists/partial", "cache/archives/partial", "root"] {
            let name = folder.join(name);
            std::fs::create_dir_all(&name)
                .map_err(|e| format!("cannot make {}: {e}", name.display()))?;
        }
        self.fetch(&folder)?;
        let unpack = |file: &PathBuf| {
            let mut dpkg = Command::new("dpkg-deb");
            dpkg.arg("-x").arg(file).arg(folder.join("root"));
            program_runner::capture_stdout(&mut dpkg, LIMIT).map(drop)
        };
        let packed = list_entries(&folder)
            .into_iter()
            .filter(|file| file.extension().is_some_and(|it| it == "deb"));
        packed.collect::<Vec<_>>().iter().try_for_each(unpack)?;
        std::fs::write(folder.join(DONE_MARKER), &self.codename)
            .map_err(|e| format!("cannot write into {}: {e}", folder.display()))?;
        let missing = || format!("no iperf3 in the packages of {}", self.codename);
        self.present(peers).ok_or_else(missing)
    }

    fn folder(&self, peers: &Path) -> PathBuf {
        peers.join(format!("debian-{}", self.codename))
    }

    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let mirror = find_mirror()?;
        let list = folder.join("sources.list");
        let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let line = format!("deb [signed-by={keyring}] {mirror} {} main\n", self.codename);
        std::fs::write(&list, line).map_err(|e| format!("cannot write {}: {e}", list.display()))?;
        let apt = |words: &[&str]| {
            let mut apt = Command::new("apt-get");
            apt.current_dir(folder).arg("--quiet");
            for (key, value) in [
                ("Dir::Etc::sourcelist", list.clone()),
                ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
                ("Dir::State::lists", folder.join("lists")),
                ("Dir::Cache", folder.join("cache")),
            ] {
                apt.arg("-o").arg(format!("{key}={}", value.display()));
            }
            program_runner::capture_stdout(apt.args(words), LIMIT).map(drop)
        };
        apt(&["update"])?;
        let wanted = self.packages.iter();
        let wanted: Vec<String> = wanted.map(|name| format!("{name}/{}", self.codename)).collect();
        let words = std::iter::once("download").chain(wanted.iter().map(String::as_str));
        apt(&words.collect::<Vec<_>>())
    }
}

/// Returns the mirror from which this machine gets Debian packages.
fn find_mirror() -> Result<String, String> {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(LABEL) $(REPO_URI)"]);
    let said = program_runner::capture_stdout(apt.arg("Created-By: Packages"), LIMIT)?;
    let mirror = said.lines().find_map(|line| line.strip_prefix("Debian "));
    mirror.map(str::to_owned).ok_or_else(|| "apt-get knows no mirror of Debian here".to_owned())
}

fn is_loader(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_file = file.symlink_metadata().is_ok_and(|it| it.is_file());
    // Up to glibc 2.33 the file has its version in its name, and the other name is a link to it.
    is_file && (name.starts_with("ld-linux") || name.starts_with("ld-2."))
}

fn list_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}
