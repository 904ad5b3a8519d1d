//! The server's part of copies: any requests about files in any order, and any blocks on the data
//! connections. No panic, every copy ends with its connections, and nothing outside the served
//! folders is read or changed.

#![no_main]

use blake3::hazmat::HasherExt;
use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use longhaul_copy::block_header::{BLOCK_HEADER_BYTES, BlockHeader, BlockKey, BlockKind};
use longhaul_copy::{FilesRoot, ServerFiles};
use longhaul_fuzz::json_edits::edit_value;
use longhaul_model::foreign_text::ForeignDeserializer;
use longhaul_probe::wire::{FilesReply, FilesRequest, MAX_RESULT_BYTES, encode_frame};
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

const KEY: BlockKey = [7; 32];
/// A copy whose connections have ended takes no longer, even on a busy machine.
const MAX_ENDING: Duration = Duration::from_secs(30);
const CANARY: &[u8] = b"outside";

fuzz_target!(|bytes: &[u8]| {
    read_header(bytes);
    let mut input = Unstructured::new(bytes);
    let folders = &*FOLDERS;
    folders.empty_target();
    let over = Arc::default();
    let mut files = ServerFiles::new(folders.roots(), true, KEY, Arc::clone(&over));
    // A session stops where the input ends.
    let _ = run_session(&mut files, &mut input);
    files.end_copy();
    folders.check_outside();
});

fn read_header(bytes: &[u8]) {
    if let Some(front) = bytes.first_chunk::<BLOCK_HEADER_BYTES>()
        && let Some((head, tag)) = BlockHeader::decode(front)
    {
        let again = head.encode(&KEY, &[0; 32]);
        assert_eq!(BlockHeader::decode(&again).map(|(head, _)| head), Some(head));
        head.verify_tag(&KEY, &[0; 32], &tag);
    }
}

static FOLDERS: LazyLock<ScratchFolders> = LazyLock::new(ScratchFolders::new);

/// A folder to read from and one to write to, both with a link that leads out.
struct ScratchFolders {
    base: PathBuf,
}

impl ScratchFolders {
    fn new() -> ScratchFolders {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let base = place.join(format!("longhaul-fuzz-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        let source = base.join("source");
        fs::create_dir_all(source.join("folder")).expect("a folder");
        fs::create_dir_all(base.join("outside")).expect("a folder");
        fs::write(base.join("outside/canary"), CANARY).expect("a file");
        for (name, length) in [("small", 5), ("folder/empty", 0), ("folder/long", (1 << 20) + 3)] {
            fs::write(source.join(name), vec![b'x'; length]).expect("a file");
        }
        std::os::unix::fs::symlink("../outside", source.join("link")).expect("a link");
        ScratchFolders { base }
    }

    fn roots(&self) -> Vec<FilesRoot> {
        let root = |name: &str, writable| FilesRoot {
            name: name.to_owned(),
            path: self.base.join(name),
            writable,
            anonymous: false,
            user: None,
        };
        vec![root("source", false), root("target", true)]
    }

    fn empty_target(&self) {
        let target = self.base.join("target");
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).expect("a folder");
        fs::write(target.join("there"), b"there").expect("a file");
        std::os::unix::fs::symlink("../outside", target.join("link")).expect("a link");
    }

    fn check_outside(&self) {
        let outside = self.base.join("outside");
        assert_eq!(fs::read(outside.join("canary")).expect("a file"), CANARY);
        assert_eq!(outside.read_dir().expect("a folder").count(), 1, "a file outside");
        assert_eq!(self.base.read_dir().expect("a folder").count(), 3, "a file outside");
    }
}

/// Requests of every kind.
const REQUESTS: [&str; 17] = [
    r#"{"source":{"path":"source","direct":false,"in_order":false}}"#,
    r#"{"source":{"path":"source/folder/long","direct":false,"in_order":true}}"#,
    r#"{"source":{"path":"source/link/canary","direct":false,"in_order":false}}"#,
    r#"{"list":{"from":0}}"#,
    r#"{"hold":{"file":0,"sums":""}}"#,
    r#"{"skip":{"files":[0]}}"#,
    r#"{"target":{"path":"target/new","folder":false,"overwrite":false,"direct":false}}"#,
    r#"{"target":{"path":"target","name":"new","folder":true,"overwrite":true,"direct":false}}"#,
    r#"{"target":{"path":"target/link","folder":true,"overwrite":true,"direct":false}}"#,
    r#"{"enter":{"entries":[{"path":"","folder":false,"size_bytes":5,"mode":420,"modified_ns":1}]}}"#,
    r#"{"enter":{"entries":[{"path":"","folder":true,"mode":493,"modified_ns":1},{"path":"a","folder":false,"size_bytes":5,"mode":420,"modified_ns":1},{"path":"b","folder":false,"mode":420,"modified_ns":1}]}}"#,
    r#"{"enter":{"entries":[{"path":"","folder":false,"size_bytes":1048579,"mode":420,"modified_ns":1}]}}"#,
    r#"{"held":{"file":0,"from":0}}"#,
    r#""status""#,
    r#"{"open":{"forward":true,"streams":1}}"#,
    r#"{"resize":{"opened_streams":2,"streams":2,"disk_threads":3}}"#,
    r#"{"enter":{"entries":[{"path":"../outside/new","folder":false,"size_bytes":5,"mode":420,"modified_ns":1}]}}"#,
];

fn run_session(files: &mut ServerFiles, input: &mut Unstructured<'_>) -> Result<()> {
    while !input.is_empty() {
        let number = usize::from(u8::arbitrary(input)?) % (REQUESTS.len() + 2);
        let Some(text) = REQUESTS.get(number) else {
            transfer(files, input)?;
            continue;
        };
        let mut value: Value = serde_json::from_str(text).expect("a request");
        if input.ratio(1, 4)? {
            edit_value(&mut value, input)?;
        }
        if let Ok(request) = FilesRequest::deserialize(ForeignDeserializer(&value)) {
            let answer = files.handle_request(request, Vec::new());
            encode_frame(&answer.ok(), MAX_RESULT_BYTES).expect("an answer fits into a frame");
        }
    }
    Ok(())
}

/// Begins the copy with some connections, whose far ends send blocks and then close.
fn transfer(files: &mut ServerFiles, input: &mut Unstructured<'_>) -> Result<()> {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..input.int_in_range(1..=2)? {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        near.push(TcpStream::from(OwnedFd::from(one)));
        far.push((other, choose_blocks(input)?));
    }
    let begun = files.handle_request(FilesRequest::Begin {}, near).is_ok();
    let peers = far.into_iter().map(|(socket, blocks)| thread::spawn(|| play_peer(socket, blocks)));
    let peers: Vec<_> = peers.collect();
    let started = Instant::now();
    while begun && !is_over(files) {
        assert!(started.elapsed() < MAX_ENDING, "a copy that never ends");
        thread::sleep(Duration::from_micros(200));
    }
    files.end_copy();
    peers.into_iter().for_each(|peer| peer.join().expect("a peer"));
    Ok(())
}

/// Sends the blocks, and reads meanwhile, until the near end closes.
fn play_peer(mut socket: UnixStream, blocks: Vec<u8>) {
    let mut reading = socket.try_clone().expect("a socket");
    let reader = thread::spawn(move || drop(reading.read_to_end(&mut Vec::new())));
    // The near end may close first.
    let _ = socket.write_all(&blocks);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    reader.join().expect("a reader");
}

fn is_over(files: &mut ServerFiles) -> bool {
    match files.handle_request(FilesRequest::Status, Vec::new()) {
        Ok(FilesReply::Status(status)) => status.over,
        _ => true,
    }
}

/// Returns blocks with valid tags, changed ones, and other bytes.
fn choose_blocks(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..input.int_in_range(0..=6)? {
        let kind = *input.choose(&[BlockKind::Data, BlockKind::End, BlockKind::Last])?;
        let mut head = BlockHeader {
            kind,
            file: u32::from(u8::arbitrary(input)? % 4),
            block: u64::from(u8::arbitrary(input)? % 3),
            length: *input.choose(&[5, 1 << 20, 3, 0, (1 << 20) + 3])?,
        };
        let change = u8::arbitrary(input)? % 8;
        if change == 0 {
            head = BlockHeader { kind, ..arbitrary_head(input)? };
        }
        let payload = vec![b'x'; head.length.min(1 << 20) as usize];
        let sum = match kind {
            BlockKind::Data if payload.is_empty() => [0; 32],
            BlockKind::Data => hash_block(head.block, &payload),
            BlockKind::End if change == 2 => input.arbitrary()?,
            BlockKind::End => *blake3::hash(&payload).as_bytes(),
            BlockKind::Last => [0; 32],
        };
        bytes.extend(head.encode(&KEY, &sum));
        match kind {
            BlockKind::Data => bytes.extend(&payload),
            BlockKind::End => bytes.extend(sum),
            BlockKind::Last => {}
        }
        if change == 1 {
            let place = input.arbitrary::<usize>()? % bytes.len();
            bytes[place] ^= input.arbitrary::<u8>()?;
        }
    }
    let rest = input.int_in_range(0..=input.len().min(64))?;
    bytes.extend(input.bytes(rest)?);
    Ok(bytes)
}

/// Returns the hash of a block as a part of a file.
fn hash_block(block: u64, payload: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    // Of numbers far beyond the files here, only the refusal matters.
    hasher.set_input_offset(block % 4 << 20);
    hasher.update(payload).finalize_non_root()
}

fn arbitrary_head(input: &mut Unstructured<'_>) -> Result<BlockHeader> {
    Ok(BlockHeader {
        kind: BlockKind::Data,
        file: input.arbitrary()?,
        block: input.arbitrary()?,
        length: input.arbitrary()?,
    })
}
