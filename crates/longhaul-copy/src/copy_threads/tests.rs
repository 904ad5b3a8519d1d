//! Both ends of a copy in one process, over sockets, while their threads come and go.

use super::*;
use crate::copy_receiver::start_receiving;
use crate::copy_sender::{TargetBlocks, start_sending};
use crate::copy_source::CopySource;
use crate::copy_target::CopyTarget;
use longhaul_probe::wire::TargetRequest;
use longhaul_sys::confined_dir::ConfinedDir;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const KEY: BlockKey = [3; 32];
const FILE_BYTES: usize = (40 << 20) + 17;

struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> TestFolder {
        let name = format!("longhaul-copy-threads-{name}-{}", std::process::id());
        let folder = TestFolder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).expect("a folder");
        folder
    }

    fn open(&self) -> ConfinedDir {
        ConfinedDir::open(&self.0).expect("the folder")
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns both ends of so many connections.
fn connect_pairs(count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let pair = |_| {
        let near = TcpStream::connect(address).expect("a connection");
        (near, listener.accept().expect("its other end").0)
    };
    (0..count).map(pair).unzip()
}

/// Starts a copy of the file `source` to `target` over two connections.
fn start_both(folder: &TestFolder) -> (RunningCopy, RunningCopy) {
    let cancelled = AtomicBool::new(false);
    let source =
        CopySource::list(folder.open(), Path::new("source"), "source".into(), false, &cancelled)
            .expect("the source");
    let wish = TargetRequest { name: Some("source".into()), ..TargetRequest::default() };
    let mut target = CopyTarget::resolve(folder.open(), Path::new("target"), wish, Arc::default())
        .expect("the target");
    target.add_entries(source.entries().to_vec()).expect("one file");
    let (near, far) = connect_pairs(2);
    let receiving = start_receiving(target, far, KEY).expect("threads");
    let sending = start_sending(source, TargetBlocks::default(), near, KEY).expect("threads");
    (sending, receiving)
}

fn wait_for_end(ends: &[&RunningCopy]) {
    for end in ends {
        while !end.status().over {
            std::thread::yield_now();
        }
        assert_eq!(end.status().failed, None);
    }
}

#[test]
fn threads_and_connections_come_and_go_without_losing_a_block() {
    let folder = TestFolder::new("resized");
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 4096) as u8 ^ at as u8).collect();
    std::fs::write(folder.0.join("source"), &bytes).expect("a file");
    let (mut sending, mut receiving) = start_both(&folder);
    for round in 0..6 {
        let (near, far) = connect_pairs(2);
        // Even rounds add, odd ones end what was added.
        let (streams, disk_threads) = if round % 2 == 0 { (4, 7) } else { (2, 1) };
        let (near, far) = if round % 2 == 0 { (near, far) } else { (Vec::new(), Vec::new()) };
        let receivers = receiving.resize(streams, disk_threads, far).expect("threads");
        receivers.into_iter().for_each(WaitingStream::begin);
        let senders = sending.resize(streams, disk_threads, near).expect("threads");
        senders.into_iter().for_each(WaitingStream::begin);
    }
    wait_for_end(&[&sending, &receiving]);
    assert!(std::fs::read(folder.0.join("target")).expect("the copy") == bytes);
}

#[test]
fn a_connection_that_the_peer_did_not_take_changes_nothing() {
    let folder = TestFolder::new("refused");
    std::fs::write(folder.0.join("source"), vec![7; FILE_BYTES]).expect("a file");
    let (mut sending, mut receiving) = start_both(&folder);
    let (near, far) = connect_pairs(1);
    drop(sending.resize(3, 2, near).expect("a thread"));
    drop(receiving.resize(3, 2, far).expect("a thread"));
    wait_for_end(&[&sending, &receiving]);
    assert_eq!(receiving.status().moved_bytes, FILE_BYTES as u64);
}
