//! `serve --files` and `copy` together, over loopback: what is copied, what is taken up again, and
//! what is refused.

use crate::loopback::FarEnd;
use crate::support::{self, Folder, longhaul};
use assert_cmd::Command;
use longhaul_sys::file_user::is_machine_root;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const MIB: usize = 1 << 20;

/// A far end that serves `folder`, and copies against it.
pub struct Served {
    pub far: FarEnd,
    pub folder: PathBuf,
}

impl Served {
    pub fn new(scene: &Folder, mode: &str) -> Served {
        let folder = scene.file("served");
        fs::create_dir_all(&folder).expect("a folder");
        let files = format!("{}:{mode}", folder.display());
        let user = if is_machine_root() { &["--files-user", "root"][..] } else { &[] };
        Served { far: FarEnd::start(&[&["--files", &files], user].concat()), folder }
    }

    pub fn copy(&self, source: &str, target: &str) -> Command {
        self.copy_by(&self.far.port, source, target)
    }

    pub fn copy_by(&self, port: &str, source: &str, target: &str) -> Command {
        let mut command = longhaul();
        command.args(["copy", source, target, "-p", port, "-q", "--no-save"]);
        if let Some(token) = &self.far.token {
            command.env("LONGHAUL_TOKEN", token);
        }
        command
    }
}

pub fn report(mut command: Command) -> Value {
    let done = command.arg("--json").assert().success();
    serde_json::from_slice(&done.get_output().stdout).expect("a report")
}

/// Debian's and most others' user without rights.
const NOBODY: u32 = 65534;

#[test]
fn root_reads_and_writes_served_files_with_the_rights_of_their_owner() {
    if !is_machine_root() {
        return;
    }
    let scene = Folder::new("copy_as_owner");
    // Not below the scene: other users may have no access there.
    let folder = std::env::temp_dir().join(format!("copy_as_owner_{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let files = format!("{}:rw", folder.display());
    let refusal = longhaul().args(["serve", "--files", &files]).assert().code(2);
    let text = String::from_utf8_lossy(&refusal.get_output().stderr).into_owned();
    assert!(text.contains("belongs to root") && text.contains("--files-user"), "{text}");

    chown(&folder, Some(NOBODY), Some(NOBODY)).expect("root");
    fs::write(folder.join("secret"), "root's").expect("written");
    fs::set_permissions(folder.join("secret"), fs::Permissions::from_mode(0o600)).expect("mode");
    let served = Served { far: FarEnd::start(&["--files", &files]), folder };
    let target = scene.file("copied").display().to_string();
    let why = refused(served.copy("127.0.0.1:secret", &target), 3);
    assert!(why.contains("ermission denied"), "{why}");
    let source = scene.file("source");
    fs::write(&source, "anybody's").expect("written");
    served.copy(&source.display().to_string(), "127.0.0.1:written").assert().success();
    assert_eq!(served.folder.join("written").metadata().expect("a file").uid(), NOBODY);
    served.copy("127.0.0.1:written", &target).assert().success();
    fs::remove_dir_all(&served.folder).expect("removed");
}

/// What a copy says that must not work.
pub fn refused(mut command: Command, code: i32) -> String {
    let done = command.assert().code(code);
    let text = String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8");
    assert!(support::skip_lab_warning(&text).starts_with("error: "), "{text}");
    text
}

/// Bytes that repeat nowhere near a block.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(next).collect()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn a_folder_of_odd_files_goes_there_and_back() {
    let scene = Folder::new("copy-folder");
    let served = Served::new(&scene, "rw");
    let source = scene.file("odd");
    fs::create_dir_all(source.join("inner/empty")).expect("folders");
    for length in [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7] {
        fs::write(source.join(format!("inner/{length}")), noise(length)).expect("a file");
    }
    let sparse = fs::File::create(source.join("sparse")).expect("a file");
    sparse.write_at(b"end", 9 * MIB as u64).expect("written");
    let script = source.join("inner/1");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).expect("a mode");
    let then = std::time::SystemTime::UNIX_EPOCH + Duration::from_nanos(981_173_106_987_654_321);
    let file = fs::File::options().write(true).open(&script).expect("open");
    file.set_modified(then).expect("a time");
    symlink("/etc/passwd", source.join("link")).expect("a link");

    let there = report(served.copy(text(&source), "127.0.0.1:"));
    assert_eq!(there["kind"], "copy");
    assert_eq!(there["observation"]["files"], 7);
    assert_eq!(there["caveats"][0]["code"], "left_out");
    let back = scene.file("back");
    let seen = report(served.copy("127.0.0.1:odd", text(&back)));
    assert_eq!(seen["plan"]["forward"], false);
    for copy in [served.folder.join("odd"), back.clone()] {
        for name in ["inner/0", "inner/1048575", "inner/1048576", "inner/1048577", "sparse"] {
            let same =
                fs::read(copy.join(name)).expect(name) == fs::read(source.join(name)).expect(name);
            assert!(same, "{name}");
        }
        let sparse = fs::metadata(copy.join("sparse")).expect("there");
        assert!(sparse.blocks() * 512 < 2 * MIB as u64, "{} blocks", sparse.blocks());
        let about = fs::metadata(copy.join("inner/1")).expect("there");
        assert_eq!(about.mode() & 0o777, 0o750);
        assert_eq!((about.mtime(), about.mtime_nsec()), (981_173_106, 987_654_321));
        assert!(copy.join("inner/empty").is_dir());
        assert!(!copy.join("link").exists());
    }
    // Once more: all is there.
    let again = report(served.copy(text(&source), "127.0.0.1:"));
    assert_eq!(again["observation"]["skipped_files"], 7);
    assert_eq!(again["observation"]["sent_bytes"], 0);
}

#[test]
fn streams_go_in_and_come_out_in_order() {
    let scene = Folder::new("copy-stream");
    let served = Served::new(&scene, "rw");
    let bytes = noise(5 * MIB + 3);
    let mut command = served.copy("-", "127.0.0.1:piped");
    command.write_stdin(bytes.clone());
    let seen = report(command);
    let sum = seen["observation"]["blake3"].as_str().expect("a sum");
    assert_eq!(sum.len(), 64);
    assert_eq!(fs::read(served.folder.join("piped")).expect("there"), bytes);
    let out = served.copy("127.0.0.1:piped", "-").output().expect("it runs");
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{why}");
    assert!(out.stdout == bytes);
}

#[test]
fn what_may_not_be_reached_or_replaced_is_not() {
    let scene = Folder::new("copy-refused");
    let served = Served::new(&scene, "rw");
    let file = scene.file("file");
    fs::write(&file, b"new").expect("a file");
    fs::write(served.folder.join("file"), b"old").expect("a file");
    symlink("/", served.folder.join("root")).expect("a link");
    let why = refused(served.copy(text(&file), "127.0.0.1:"), 3);
    assert!(why.contains("--overwrite"), "{why}");
    for name in ["../file", "/etc/passwd", "a/../../b", "root/etc/passwd", "root"] {
        let name = format!("127.0.0.1:{name}");
        refused(served.copy(&name, text(&scene.file("got"))), 3);
        refused(served.copy(text(&file), &name), 3);
        println!("attack: tried 2");
    }
    assert!(!scene.file("got").exists());
    assert_eq!(fs::read(served.folder.join("file")).expect("there"), b"old");
    served.copy(text(&file), "127.0.0.1:").arg("--overwrite").assert().success();
    assert_eq!(fs::read(served.folder.join("file")).expect("there"), b"new");

    let mut stranger = served.copy(text(&file), "127.0.0.1:other");
    stranger.env_remove("LONGHAUL_TOKEN");
    assert!(refused(stranger, 3).contains("token"));
    let got = text(&scene.file("got")).to_owned();
    for (mode, code) in [("rw", 3), ("ro", 3), ("anonymous", 0)] {
        let served = Served::new(&scene, mode);
        let mut stranger = served.copy("127.0.0.1:file", &got);
        stranger.env_remove("LONGHAUL_TOKEN").assert().code(code);
        assert_eq!(scene.file("got").exists(), code == 0, "{mode}");
    }
    let closed = FarEnd::start(&[]);
    let mut stranger = served.copy_by(&closed.port, "127.0.0.1:x", "y");
    stranger.env_remove("LONGHAUL_TOKEN");
    let why = refused(stranger, 3);
    assert!(why.contains("--files"), "{why}");
    let read_only = Served::new(&scene, "ro");
    assert!(refused(read_only.copy(text(&file), "127.0.0.1:other"), 3).contains("read-only"));
}

#[test]
fn many_small_files_arrive_whole_and_keep_their_times() {
    let scene = Folder::new("copy-many");
    let served = Served::new(&scene, "rw");
    let source = scene.file("many");
    for number in 0..300_u32 {
        let folder = source.join(format!("{}", number % 7));
        fs::create_dir_all(&folder).expect("a folder");
        let bytes = noise(number as usize * 13 % 5000);
        fs::write(folder.join(format!("{number}")), bytes).expect("a file");
    }
    let seen = report(served.copy(text(&source), "127.0.0.1:"));
    assert_eq!(seen["observation"]["files"], 300);
    for number in 0..300_u32 {
        let name = format!("{}/{number}", number % 7);
        let (from, to) = (source.join(&name), served.folder.join("many").join(&name));
        assert_eq!(fs::read(&from).expect("there"), fs::read(&to).expect(&name));
        let times = [&from, &to].map(|path| fs::metadata(path).expect("there").mtime_nsec());
        assert_eq!(times[0], times[1], "{name}");
    }
    let left = fs::read_dir(served.folder.join("many/3")).expect("there");
    let hidden = left.flatten().filter(|it| text(&it.path()).contains(".longhaul-"));
    assert_eq!(hidden.count(), 0, "left over");
}

#[test]
fn every_run_splits_its_time() {
    let scene = Folder::new("copy-split");
    let served = Served::new(&scene, "rw");
    let source = scene.file("file");
    fs::write(&source, noise(6 * MIB)).expect("a file");
    let mut real = served.copy(text(&source), "127.0.0.1:");
    real.args(["-P", "2"]);
    let real = report(real);
    assert_eq!(real["plan"]["setting_from"], "option");
    assert!(real["observation"]["target"]["disk"]["busy_us"].as_u64() > Some(0));
}
