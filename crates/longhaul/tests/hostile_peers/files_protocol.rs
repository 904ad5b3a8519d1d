//! Copies with a hostile peer. Both ends work with threads and files, so these courses run over
//! loopback, and fewer of them.

use crate::fake::{FakeFarEnd, FakePeer};
use crate::far_end::{FarEnd, options};
use crate::field_extremes::{FieldAttacks, extend_messages};
use crate::hostile_course::write_attack;
use crate::type_samples::make_samples;
use longhaul_copy::{CopyError, CopyRequest, FilesHandler, FilesRoot, LocalLocation, copy_files};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::copy::CopyPlan;
use longhaul_model::splitmix::SplitMix64;
use longhaul_probe::measurement_server::ServeOptions;
use longhaul_probe::wire::{
    Base64Bytes, ControlMessage, CopyEndStatus, ExistingEntries, FileEntry, FilesReply,
    FilesRequest, OpenStreamsReply, OpenStreamsRequest, ProbeBounds, ProbeProposal, ResizeRequest,
    SessionNonce, SessionReply, SessionRequest, SourceListing, SourceRequest, TargetRequest,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const TOKEN: &str = "a token of more than sixteen characters";
/// The requests of one session.
const SESSION_REQUESTS: usize = 20;
/// The answers of a hostile server before it hangs up.
const MAX_ANSWERS: usize = 8;
/// The copies at a time.
const CROWD: usize = 8;

/// A folder with a served one, and a secret beside it.
pub struct ServedFolder(PathBuf);

impl ServedFolder {
    pub fn new(name: &str) -> ServedFolder {
        let name = format!("longhaul-hostile-{name}-{}", std::process::id());
        let folder = ServedFolder(std::env::temp_dir().join(name));
        fs::create_dir_all(folder.served()).expect("folders");
        fs::write(folder.0.join("secret"), "outside").expect("a file");
        fs::write(folder.served().join("file"), "inside").expect("a file");
        folder
    }

    fn served(&self) -> PathBuf {
        self.0.join("served")
    }

    /// Checks that nothing was read from or written to the outside.
    fn check(&self) {
        let names = fs::read_dir(&self.0).expect("the folder").count();
        let secret = fs::read_to_string(self.0.join("secret")).expect("the file beside");
        assert_eq!((names, secret.as_str()), (2, "outside"));
    }
}

impl Drop for ServedFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files_messages(honest: Vec<ControlMessage>, kind: &str) -> FieldAttacks {
    let json = |message| serde_json::to_value(message).expect("JSON");
    let honest = honest.into_iter().map(json).collect();
    let samples = make_samples::<ControlMessage>().into_iter();
    let samples = samples.filter(|it: &Value| it[kind].get("files").is_some()).collect();
    FieldAttacks::new::<ControlMessage>(&extend_messages(honest, samples))
}

fn ask(request: FilesRequest) -> ControlMessage {
    ControlMessage::Ask(SessionRequest::Files(Box::new(request)))
}

fn reply(reply: FilesReply) -> ControlMessage {
    ControlMessage::Answer(Box::new(SessionReply::Files(reply)))
}

fn entry() -> FileEntry {
    FileEntry { path: "new".into(), size_bytes: Some(6), mode: 0o644, ..FileEntry::default() }
}

fn honest_requests() -> Vec<ControlMessage> {
    let source = SourceRequest { path: "file".into(), direct: false, in_order: false };
    let target = TargetRequest { path: "got".into(), folder: true, ..TargetRequest::default() };
    let open = OpenStreamsRequest {
        forward: true,
        streams: 1,
        window_bytes: None,
        congestion_control: None,
    };
    let resize = ResizeRequest { opened_streams: 1, streams: 1, disk_threads: 1 };
    vec![
        ask(FilesRequest::Source(source)),
        ask(FilesRequest::List { from: 0 }),
        ask(FilesRequest::Skip { files: vec![0] }),
        ask(FilesRequest::Hold { file: 0, sums: Base64Bytes(vec![0; 40]) }),
        ask(FilesRequest::Target(target)),
        ask(FilesRequest::Enter { entries: vec![entry()] }),
        ask(FilesRequest::Held { file: 0, from: 0 }),
        ask(FilesRequest::Status),
        ask(FilesRequest::Open(open)),
        ask(FilesRequest::Resize(resize)),
    ]
}

/// Opens a session for requests, as a client with the token.
fn open_session(far: &FarEnd) -> FakePeer {
    let mut peer = FakePeer::connect(far.address);
    peer.prove(TOKEN);
    let bounds = ProbeBounds { flows: 0, most_bytes: 0, most_time_us: 600_000_000, dscp: None };
    let (party, boot_proof) = (RunParty::default(), None);
    peer.say(&ControlMessage::Probe(Box::new(ProbeProposal { bounds, party, boot_proof })));
    peer.hear_until(|message| matches!(message, ControlMessage::Opened));
    peer.say(&ControlMessage::Ping { number: 0 });
    peer.hear_until(|message| matches!(message, ControlMessage::Pong { .. }));
    peer.say(&ControlMessage::Go);
    peer
}

fn is_whole(frame: &[u8]) -> bool {
    let length = frame.first_chunk().map(|prefix| u32::from_be_bytes(*prefix) as usize);
    length == Some(frame.len().wrapping_sub(4))
}

/// Hears the answer, or the end of the session.
fn hear_answer(peer: &mut FakePeer) -> Option<SessionReply> {
    let is_end = |message: &ControlMessage| {
        matches!(message, ControlMessage::Answer(_) | ControlMessage::Bye(_))
    };
    match peer.hear_or_end(is_end) {
        Some(ControlMessage::Answer(answer)) => Some(*answer),
        _ => None,
    }
}

/// Sends requests with extreme fields to a server of files; returns how many it answered.
pub fn attack_server(requests: usize) -> usize {
    let folder = ServedFolder::new("server");
    let root = FilesRoot {
        name: "served".to_owned(),
        path: folder.served(),
        writable: true,
        anonymous: false,
        user: None,
    };
    let far = FarEnd::start(ServeOptions {
        token: Some(TOKEN.to_owned()),
        handlers: vec![Arc::new(FilesHandler::new(vec![root]))],
        ..options()
    });
    let attacks = files_messages(honest_requests(), "ask");
    let (mut session, mut asked, mut answered) = (None, 0, 0);
    for number in 0..requests {
        let random = &mut SplitMix64::new(number as u64);
        // Few of those that no decoder accepts.
        let attack = if random.below(8) == 0 { random.below(10_000) } else { usize::MAX };
        let bytes = write_attack(attacks.choose(attack, random), random);
        let peer = session.get_or_insert_with(|| {
            asked = 0;
            let mut peer = open_session(&far);
            // Half of the sessions have a source and a target already.
            for message in honest_requests().iter().take(if number % 2 == 0 { 8 } else { 0 }) {
                peer.say(message);
                hear_answer(&mut peer).expect("an answer to an honest request");
            }
            peer
        });
        peer.say_bytes(&bytes);
        asked += 1;
        // Half a message has no answer: its sender leaves.
        let answer = if is_whole(&bytes) { hear_answer(peer) } else { None };
        answered += usize::from(answer.is_some());
        let is_open = matches!(answer, Some(SessionReply::Files(FilesReply::Opened(_))));
        if answer.is_none() || is_open || asked == SESSION_REQUESTS {
            session = None;
        }
        folder.check();
    }
    answered
}

fn honest_answer(request: &FilesRequest) -> FilesReply {
    match request {
        FilesRequest::Open(_) => FilesReply::Opened(OpenStreamsReply {
            nonce: SessionNonce([3; 16]),
            key: Base64Bytes(vec![7; 32]),
        }),
        FilesRequest::Source(_) => {
            FilesReply::Listed(SourceListing { entries: 1, ..SourceListing::default() })
        }
        FilesRequest::List { .. } => FilesReply::Entries(vec![entry()]),
        FilesRequest::Enter { .. } => FilesReply::Entered(ExistingEntries::default()),
        FilesRequest::Held { .. } => FilesReply::Held(Base64Bytes(Vec::new())),
        FilesRequest::Status => {
            FilesReply::Status(Box::new(CopyEndStatus { over: true, ..CopyEndStatus::default() }))
        }
        _ => FilesReply::Done,
    }
}

/// Answers honestly `after` times, then once with these bytes, and honestly again.
fn answer_with(peer: &mut FakePeer, after: usize, bytes: &[u8]) {
    peer.accept_probes();
    for number in 0..MAX_ANSWERS {
        let is_next =
            |it: &ControlMessage| matches!(it, ControlMessage::Ask(_) | ControlMessage::Bye(_));
        let Some(ControlMessage::Ask(SessionRequest::Files(request))) = peer.hear_or_end(is_next)
        else {
            return;
        };
        if number == after {
            peer.say_bytes(bytes);
            if !is_whole(bytes) {
                return;
            }
        } else {
            peer.say(&reply(honest_answer(&request)));
        }
    }
}

/// Copies from and to hostile servers; returns how many copies ended with an error.
pub fn attack_client(copies: usize) -> usize {
    let folder = ServedFolder::new("client");
    let honest = [
        honest_answer(&FilesRequest::List { from: 0 }),
        honest_answer(&FilesRequest::Enter { entries: Vec::new() }),
        honest_answer(&FilesRequest::Held { file: 0, from: 0 }),
        honest_answer(&FilesRequest::Status),
        FilesReply::Listed(SourceListing { entries: 1, ..SourceListing::default() }),
        FilesReply::Opened(OpenStreamsReply {
            nonce: SessionNonce([3; 16]),
            key: Base64Bytes(vec![7; 32]),
        }),
    ];
    let attacks = files_messages(honest.into_iter().map(reply).collect(), "answer");
    let run_one = |number: usize| {
        let random = &mut SplitMix64::new(number as u64);
        let bytes = write_attack(attacks.choose(usize::MAX, random), random);
        let after = random.below(6);
        let fake = FakeFarEnd::start(move |peer| answer_with(peer, after, &bytes));
        copy_once(&fake, &folder.served(), random.below(2) == 0).is_err()
    };
    // Each of them mostly waits.
    let share = &|first: usize| (first..copies).step_by(CROWD).filter(|it| run_one(*it)).count();
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CROWD).map(|first| scope.spawn(move || share(first))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    folder.check();
    failed
}

fn copy_once(fake: &FakeFarEnd, folder: &Path, forward: bool) -> Result<(), CopyError> {
    let plan = CopyPlan { forward, streams: 1, ..CopyPlan::default() };
    let local = LocalLocation::Path(folder.join(if forward { "file" } else { "got" }));
    let request = CopyRequest { plan, local, remote_path: "file".to_owned() };
    copy_files(&fake.target(), &request, &AtomicBool::new(false), &mut |_| None).map(drop)
}
