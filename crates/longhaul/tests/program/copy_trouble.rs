//! Copies that something goes wrong with: an end that is killed, bytes that change, no room and no
//! permission. Each is told, leaves nothing half-written, and goes on where it was.

use crate::copy::{MIB, Served, noise, refused, report, text};
use crate::support::{Folder, HUNG, without_privileges};
use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a proxy does to the data connections that pass it.
#[derive(Clone, Copy)]
enum Trick {
    /// Lets so many bytes through, and no more until it is told to.
    Stall(u64),
    /// Changes one bit of this byte.
    Flip(u64),
}

/// Stands between the two ends.
struct Proxy {
    port: String,
    released: Arc<AtomicBool>,
}

impl Proxy {
    fn start(to: &str, trick: Trick) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port().to_string();
        let to = format!("127.0.0.1:{to}");
        let released = Arc::new(AtomicBool::new(false));
        let passed = Arc::new(AtomicU64::new(0));
        let open = Arc::clone(&released);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&to) else {
                    return;
                };
                let ways = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
                for (from, to) in ways {
                    let (Ok(from), Ok(to)) = (from, to) else {
                        return;
                    };
                    let (passed, open) = (Arc::clone(&passed), Arc::clone(&open));
                    std::thread::spawn(move || pass((from, to), trick, &passed, &open));
                }
            }
        });
        Proxy { port, released }
    }
}

/// One way of one connection, until it ends.
fn pass(
    (mut from, mut to): (TcpStream, TcpStream),
    trick: Trick,
    passed: &AtomicU64,
    open: &AtomicBool,
) {
    let mut bytes = vec![0; 64 << 10];
    let mut data = None;
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let is_data = *data.get_or_insert_with(|| bytes.starts_with(b"LHD1"));
        let before = if is_data { passed.fetch_add(count as u64, Ordering::Relaxed) } else { 0 };
        match trick {
            Trick::Stall(after) if is_data && before + count as u64 > after => {
                while !open.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            Trick::Flip(at) if is_data && (before..before + count as u64).contains(&at) => {
                bytes[(at - before) as usize] ^= 4;
            }
            _ => {}
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// A copy to the far end that has come to a stand with some blocks at the target.
fn stalled(served: &Served, source: &Path, proxy: &Proxy) -> std::process::Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"));
    // One stream: of several, each could stand in the middle of its first block.
    command.args(["copy", text(source), "127.0.0.1:", "-p", &proxy.port]);
    command.args(["-P", "1", "-q", "--no-save"]);
    let token = served.far.token.as_deref().unwrap_or_default();
    command.env("LONGHAUL_TOKEN", token).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("a copy");
    let deadline = Instant::now() + HUNG;
    while noted(&served.folder) < 3 {
        assert!(Instant::now() < deadline, "no block came");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Blocks in the journal of an unfinished file: 32 bytes, and 48 for each.
fn noted(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map_while(Result::ok);
    let journal = entries.map(|entry| entry.path()).find(|path| text(path).ends_with(".journal"));
    let length = journal.and_then(|path| fs::metadata(path).ok()).map_or(0, |about| about.len());
    length.saturating_sub(32) / 48
}

#[test]
fn a_killed_copy_is_taken_up_where_it_was() {
    for far_dies in [false, true] {
        let scene = Folder::new(&format!("copy-killed-{far_dies}"));
        let served = Served::new(&scene, "rw");
        let source = scene.file("file");
        fs::write(&source, noise(24 * MIB)).expect("a file");
        let proxy = Proxy::start(&served.far.port, Trick::Stall(6 * MIB as u64));
        let mut child = stalled(&served, &source, &proxy);
        let served = if far_dies {
            drop(served);
            assert!(!child.wait().expect("its end").success());
            Served::new(&scene, "rw")
        } else {
            child.kill().expect("killed");
            child.wait().expect("its end");
            served
        };
        assert!(!served.folder.join("file").exists(), "half-written");
        // Whatever still holds the file at the far end lets go of it, and is waited for.
        let seen = report(served.copy(text(&source), "127.0.0.1:"));
        let held = seen["observation"]["held_bytes"].as_u64().expect("a number");
        let sent = seen["observation"]["sent_bytes"].as_u64().expect("a number");
        assert!(held >= 3 * MIB as u64, "{held}");
        assert_eq!(held + sent, 24 * MIB as u64);
        let same = fs::read(served.folder.join("file")).expect("there") == noise(24 * MIB);
        assert!(same);
        assert_eq!(fs::read_dir(&served.folder).expect("there").count(), 1, "left over");
        println!("attack: tried 1");
    }
}

#[test]
fn a_source_that_changes_under_the_copy_is_refused() {
    let scene = Folder::new("copy-changed");
    let served = Served::new(&scene, "rw");
    let source = scene.file("file");
    fs::write(&source, noise(48 * MIB)).expect("a file");
    let proxy = Proxy::start(&served.far.port, Trick::Stall(4 * MIB as u64));
    let child = stalled(&served, &source, &proxy);
    let file = fs::File::options().append(true).open(&source).expect("open");
    (&file).write_all(b"more").expect("changed");
    proxy.released.store(true, Ordering::Relaxed);
    let done = child.wait_with_output().expect("its end");
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(5), "{why}");
    assert!(why.contains("changed during the copy"), "{why}");
    assert!(!served.folder.join("file").exists());
}

#[test]
fn a_bit_that_changes_on_the_way_ends_the_copy() {
    let scene = Folder::new("copy-flipped");
    let served = Served::new(&scene, "rw");
    let source = scene.file("file");
    fs::write(&source, noise(8 * MIB)).expect("a file");
    let proxy = Proxy::start(&served.far.port, Trick::Flip(3 * MIB as u64));
    let why = refused(served.copy_by(&proxy.port, text(&source), "127.0.0.1:"), 3);
    assert!(why.contains("changed on the path") || why.contains("data connection"), "{why}");
    assert!(!served.folder.join("file").exists());
    served.copy(text(&source), "127.0.0.1:").assert().success();
}

#[test]
fn a_target_without_room_says_so_and_the_copy_goes_on_later() {
    let scene = Folder::new("copy-full");
    let served = Served::new(&scene, "anonymous");
    fs::write(served.folder.join("file"), noise(12 * MIB)).expect("a file");
    let target = scene.file("got");
    // The limit on the length of files stands in for a full disk: both end a write in the middle.
    let limited = r#"trap '' XFSZ; ulimit -f 8192; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_longhaul"), "copy", "127.0.0.1:file"]);
    // One stream, so that whole blocks are there before one finds no room.
    command.args([text(&target), "-p", &served.far.port, "-P", "1"]);
    command.args(["-q", "--no-save"]);
    let why = refused(command, 5);
    assert!(why.contains("cannot write got: File too large"), "{why}");
    assert!(!target.exists(), "half-written");
    let seen = report(served.copy("127.0.0.1:file", text(&target)));
    assert!(seen["observation"]["held_bytes"].as_u64().is_some_and(|held| held > 0));
    assert!(fs::read(&target).expect("there") == noise(12 * MIB));
    println!("attack: tried 1");
}

#[test]
fn what_may_not_be_read_or_written_is_named() {
    let scene = Folder::new("copy-permissions");
    let served = Served::new(&scene, "rw");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let run = |from: &str, to: &str| {
        let mut copy =
            without_privileges(&["copy", from, to, "-p", &served.far.port, "-q", "--no-save"]);
        let token = served.far.token.as_deref().unwrap_or_default();
        copy.env("LONGHAUL_TOKEN", token);
        refused(copy, 5)
    };
    let secret = scene.file("secret");
    fs::write(&secret, "unread").expect("a file");
    mode(&secret, 0o000);
    let why = run(text(&secret), "127.0.0.1:");
    assert!(why.contains("secret") && why.contains("Permission denied"), "{why}");
    assert!(!served.folder.join("secret").exists(), "half-written");

    let closed = scene.file("closed");
    fs::create_dir(&closed).expect("a folder");
    mode(&closed, 0o555);
    fs::write(served.folder.join("file"), noise(3 * MIB)).expect("a file");
    let why = run("127.0.0.1:file", text(&closed));
    assert!(why.contains("cannot write file: Permission denied"), "{why}");
    assert_eq!(fs::read_dir(&closed).expect("there").count(), 0);
    mode(&closed, 0o755);
    served.copy("127.0.0.1:file", text(&closed)).assert().success();
}

#[test]
fn a_full_disk_is_named_and_the_copy_goes_on_once_there_is_room() {
    let scene = Folder::new("copy-no-room");
    let served = Served::new(&scene, "ro");
    fs::write(served.folder.join("file"), noise(24 * MIB)).expect("a file");
    let disk = scene.file("disk");
    fs::create_dir(&disk).expect("a folder");
    // A disk of 8 MiB that nobody else sees; later it has room.
    let script = r#"
        mount -t tmpfs -o size=8m tmpfs "$1" || exit 90
        "$0" copy 127.0.0.1:file "$1" -p "$2" -q --no-save
        test $? = 5 && test ! -e "$1/file" || exit 91
        mount -o remount,size=64m "$1" || exit 92
        "$0" copy 127.0.0.1:file "$1" -p "$2" -q --no-save --json || exit 93
        cmp "$1/file" "$3" || exit 94
    "#;
    let mut command = Command::new("unshare");
    command.timeout(HUNG);
    command.args(["--map-root-user", "--mount", "sh", "-c", script]);
    command.args([
        env!("CARGO_BIN_EXE_longhaul"),
        text(&disk),
        &served.far.port,
        text(&served.folder.join("file")),
    ]);
    let token = served.far.token.as_deref().unwrap_or_default();
    command.env("LONGHAUL_TOKEN", token);
    let done = command.assert().success();
    let output = done.get_output();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("cannot write file: No space left on device"), "{why}");
    assert!(why.contains("free space at the target"), "{why}");
    let seen: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let held = seen["observation"]["held_bytes"].as_u64();
    assert!(held > Some(0), "{held:?}");
    println!("attack: tried 1");
}

/// Puts a link to `outside` in the place of `folder` again and again, and counts how often.
fn swap_for_link(folder: &Path, outside: &Path, over: &AtomicBool) -> u64 {
    let aside = folder.with_extension("aside");
    let mut swaps = 0;
    while !over.load(Ordering::Relaxed) {
        fs::rename(folder, &aside).expect("moved");
        symlink(outside, folder).expect("a link");
        std::thread::yield_now();
        fs::remove_file(folder).expect("the link");
        fs::rename(&aside, folder).expect("moved back");
        swaps += 1;
    }
    swaps
}

#[test]
fn links_swapped_for_folders_meanwhile_lead_no_copy_outside() {
    const COPIES: u64 = 20;
    let scene = Folder::new("copy-swapped");
    let served = Served::new(&scene, "rw");
    let (folder, outside) = (served.folder.join("folder"), scene.file("outside"));
    fs::create_dir(&folder).expect("a folder");
    fs::create_dir(&outside).expect("a folder");
    fs::write(folder.join("file"), "inside").expect("a file");
    fs::write(outside.join("file"), "outside").expect("a file");
    let source = scene.file("source");
    fs::write(&source, "new").expect("a file");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| swap_for_link(&folder, &outside, &over));
        for number in 0..COPIES / 2 {
            let got = scene.file(&format!("got-{number}"));
            // A copy may find the link in its way.
            let _ = served.copy("127.0.0.1:folder/file", text(&got)).output().expect("it runs");
            assert!(!got.exists() || fs::read(&got).expect("a file") == b"inside");
            let name = format!("127.0.0.1:folder/new-{number}");
            let _ = served.copy(text(&source), &name).output().expect("it runs");
        }
        over.store(true, Ordering::Relaxed);
        let swaps = swapper.join().expect("no name is taken");
        println!("{swaps} links were swapped\nattack: tried {COPIES}");
        assert!(swaps > COPIES);
    });
    assert_eq!(fs::read_dir(&outside).expect("the folder").count(), 1);
    assert_eq!(fs::read(outside.join("file")).expect("a file"), b"outside");
}
