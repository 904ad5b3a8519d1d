//! Copies: no file with a final name has wrong bytes, and copied files survive.

use crate::disk_log::DiskTree;
use crate::recording_file_system::RecordingFileSystem;
use crate::{CUTS, empty_folder};
use longhaul_model::splitmix::SplitMix64;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Power failures after which the copy is resumed.
const RESUMED: usize = 20;
const DEADLINE: Duration = Duration::from_secs(60);
/// The copied folder, with a folder in it, and the single file.
const FOLDER: &str = "files";
const SINGLE: &str = "single";

/// The number of the copy after which all files have their latest contents.
const LAST_COPY: u64 = 2;

/// The contents that a file may have, by its path below the target; the latest is the last.
type Versions = BTreeMap<PathBuf, Vec<Vec<u8>>>;

/// A server of the source.
struct FilesServer {
    child: Child,
    port: String,
}

impl FilesServer {
    fn start(source: &Path) -> FilesServer {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "-B", "127.0.0.1", "-p", "0", "--json", "--files"])
            .arg(format!("{}:anonymous", source.display()))
            .env("XDG_DATA_HOME", empty_folder("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the server");
        let mut line = String::new();
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        log.read_line(&mut line).expect("a line");
        // Without a reader, its log would stop it.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let address = line["addresses"][0].as_str().expect("an address");
        let port = address.rsplit(':').next().expect("a port").to_owned();
        FilesServer { child, port }
    }

    fn copy(&self, name: &str, target: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["copy", &format!("127.0.0.1:{name}")]).arg(target);
        command.args(["-p", &self.port, "-P", "2", "-q", "--no-save", "--overwrite"]);
        command.env("XDG_DATA_HOME", empty_folder("data"));
        command
    }

    fn copy_all(&self, name: &str, target: &Path) {
        let done = self.copy(name, target).output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for FilesServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| random.next_u64().to_be_bytes()).take(length).collect()
}

fn write_source(source: &Path, versions: &mut Versions, path: &str, bytes: Vec<u8>) {
    let place = source.join(path);
    fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
    fs::write(place, &bytes).expect("a file");
    versions.entry(path.into()).or_default().push(bytes);
}

/// Copies a folder, a file over another one, and a file in two parts.
fn copy_files(source: &Path, target: &Path, disk: &RecordingFileSystem) -> Versions {
    let mut versions = Versions::new();
    for (number, length) in [0, 1, MIB - 1, MIB + 1, 3 * MIB + 7].into_iter().enumerate() {
        let path = format!("{FOLDER}/inner/{number}");
        write_source(source, &mut versions, &path, noise(length, number as u64));
    }
    let mut sparse = vec![0; 4 * MIB];
    sparse[2 * MIB..][..9].copy_from_slice(b"not empty");
    write_source(source, &mut versions, "files/sparse", sparse);
    write_source(source, &mut versions, SINGLE, noise(MIB + 3, 10));
    let server = FilesServer::start(source);
    server.copy_all(FOLDER, target);
    disk.record_shown(0);
    server.copy_all(SINGLE, target);
    disk.record_shown(1);
    write_source(source, &mut versions, SINGLE, noise(8 * MIB, 11));
    kill_copy(server.copy(SINGLE, target), disk);
    server.copy_all(SINGLE, target);
    disk.record_shown(LAST_COPY);
    versions
}

/// Kills a copy once some blocks are written.
fn kill_copy(mut copy: Command, disk: &RecordingFileSystem) {
    let before = disk.written_bytes();
    let began = Instant::now();
    let mut child = copy.stderr(Stdio::null()).spawn().expect("it starts");
    while disk.written_bytes() < before + 4 * MIB {
        assert!(began.elapsed() < DEADLINE, "no block came");
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
}

pub fn copied_files_are_whole_after_power_failures() {
    let source = empty_folder("source");
    let mounted = empty_folder("target");
    let disk = RecordingFileSystem::new();
    let session = disk.mount(&mounted).expect("mount");
    fs::create_dir(mounted.join("target")).expect("a folder");
    fs::File::open(&mounted).and_then(|root| root.sync_all()).expect("synced");
    let versions = copy_files(&source, &mounted.join("target"), &disk);
    session.umount_and_join().expect("unmount");
    let log = disk.take_log();
    let mut random = SplitMix64::new(2);
    let server = FilesServer::start(&source);
    for cut in 0..CUTS {
        let count = random.below(log.operations.len() + 1);
        let left = log.fail_power_after(count, &mut random);
        let context = format!("cut {cut}, after {count} of {} operations", log.operations.len());
        check_files(&left, &versions, log.last_shown(count), &context);
        if cut < RESUMED {
            check_resumed(&server, &left, &versions);
        }
    }
    println!("attack: tried {CUTS}");
}

/// Checks that no file has wrong bytes, and that those of finished copies are there.
fn check_files(left: &DiskTree, versions: &Versions, shown: Option<u64>, context: &str) {
    for (path, file) in &left.files {
        let name = path.strip_prefix("target").expect("in the target");
        if is_partial(name) {
            continue;
        }
        let allowed = versions.get(name).expect("a copied file");
        assert!(allowed.contains(&file.data), "{context}: {} has wrong bytes", name.display());
    }
    for (name, contents) in versions {
        let copy = u64::from(name.as_os_str() == OsStr::new(SINGLE));
        let data = left.files.get(&Path::new("target").join(name)).map(|file| &file.data);
        let name = name.display();
        assert!(data.is_some() || shown < Some(copy), "{context}: {name} is lost");
        let is_latest = data == contents.last();
        assert!(is_latest || shown < Some(LAST_COPY), "{context}: {name} is as it was before");
    }
}

fn is_partial(name: &Path) -> bool {
    name.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".longhaul-"))
}

/// Checks that the copies, if they are repeated after the power failure, are complete.
fn check_resumed(server: &FilesServer, left: &DiskTree, versions: &Versions) {
    let folder = empty_folder("resumed");
    left.write_to(&folder).expect("written");
    let target = folder.join("target");
    fs::create_dir_all(&target).expect("a folder");
    server.copy_all(FOLDER, &target);
    server.copy_all(SINGLE, &target);
    for (name, contents) in versions {
        let copied = fs::read(target.join(name)).expect("there");
        assert!(Some(&copied) == contents.last(), "{} has wrong bytes", name.display());
    }
}
