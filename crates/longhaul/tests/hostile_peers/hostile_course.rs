//! One course: a session in memory and on virtual time with a peer that is honest up to a step.

use crate::field_extremes::FieldAttack;
use longhaul_model::splitmix::SplitMix64;
use std::time::Duration;

/// The time between two messages of an honest peer.
const HONEST_GAP: Duration = Duration::from_millis(20);
/// The time between two readings of the engine of straw.
const ENGINE_POLL: Duration = Duration::from_millis(250);

/// The end of a session that is under test, with its driver.
pub trait CourseVictim {
    /// Returns the number of its state.
    fn state(&self) -> u8;
    fn next_deadline(&self) -> Option<Duration>;
    /// Payload flows, so that the engine must be read from time to time.
    fn is_moving(&self) -> bool;
    fn receive(&mut self, now: Duration, bytes: &[u8]);
    fn lose_peer(&mut self, now: Duration);
    fn pass_time(&mut self, now: Duration);
    /// Returns the reason for which the session ended; `None` before.
    fn reason(&self) -> Option<String>;
}

/// The messages of an honest peer, each with the state of the victim in which it is due.
pub type PeerScript = Vec<(u8, Vec<u8>)>;

/// The behaviour of a peer after its hostile message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAttack {
    /// Goes on with the honest message that the hostile one came before.
    Insert,
    /// Goes on with the honest message after it.
    Replace,
    Silence,
    Cut,
    /// Sends the hostile message again and again.
    Repeat(Duration),
    /// Sends the hostile message byte by byte.
    Drip(Duration),
}

/// A hostile message, and the number of honest ones before it.
#[derive(Debug)]
pub struct PeerAttack {
    pub after: usize,
    pub bytes: Vec<u8>,
    pub then: AfterAttack,
}

/// The peer of a course.
struct HostilePeer<'a> {
    script: &'a PeerScript,
    attack: &'a PeerAttack,
    next: usize,
    /// The hostile message has been sent.
    attacked: bool,
    dripped: usize,
    last: Duration,
}

/// Drives one course to its end, and returns when that was.
pub fn run_course(
    victim: &mut dyn CourseVictim,
    script: &PeerScript,
    attack: &PeerAttack,
    bound: Duration,
) -> Duration {
    let (mut now, last) = (Duration::ZERO, Duration::ZERO);
    let mut peer = HostilePeer { script, attack, next: 0, attacked: false, dripped: 0, last };
    while victim.reason().is_none() {
        let deadline = victim.next_deadline().expect("an open session has a deadline");
        let poll = victim.is_moving().then(|| now + ENGINE_POLL);
        let send = peer.next_send(victim.state());
        let next = [Some(deadline), poll, send].into_iter().flatten().min();
        now = next.unwrap_or(deadline).max(now);
        assert!(now <= bound, "state {} lasts beyond {bound:?}", victim.state());
        if send.is_some_and(|at| at <= now) {
            peer.send(victim, now);
        }
        victim.pass_time(now);
    }
    now
}

impl HostilePeer<'_> {
    fn next_send(&self, state: u8) -> Option<Duration> {
        match self.attack.then {
            AfterAttack::Silence | AfterAttack::Cut if self.attacked => None,
            AfterAttack::Repeat(gap) if self.attacked => Some(self.last + gap),
            AfterAttack::Drip(gap) if self.next >= self.attack.after => {
                (self.dripped < self.attack.bytes.len()).then(|| self.last + gap)
            }
            _ => {
                let due = match self.script.get(self.next) {
                    Some((due, _)) => *due == state,
                    // After its last message it still may say what it wants.
                    None => !self.attacked,
                };
                due.then(|| self.last + HONEST_GAP)
            }
        }
    }

    fn send(&mut self, victim: &mut dyn CourseVictim, now: Duration) {
        self.last = now;
        let attacks = self.next >= self.attack.after;
        if let (AfterAttack::Drip(_), true) = (self.attack.then, attacks) {
            let byte = &self.attack.bytes[self.dripped..=self.dripped];
            self.dripped += 1;
            return victim.receive(now, byte);
        }
        let repeats = matches!(self.attack.then, AfterAttack::Repeat(_));
        if attacks && (!self.attacked || repeats) {
            self.attacked = true;
            victim.receive(now, &self.attack.bytes);
            match self.attack.then {
                AfterAttack::Cut => victim.lose_peer(now),
                AfterAttack::Replace => self.next += 1,
                _ => {}
            }
        } else if let Some((_, bytes)) = self.script.get(self.next) {
            self.next += 1;
            victim.receive(now, bytes);
        }
    }
}

/// Returns a peer that never attacks.
pub fn honest_peer(script: &PeerScript) -> PeerAttack {
    PeerAttack { after: script.len(), bytes: Vec::new(), then: AfterAttack::Silence }
}

/// Chooses what a peer does after its hostile message.
pub fn choose_sequel(random: &mut SplitMix64) -> AfterAttack {
    let gaps_ms = [1000, 1000, 1000, 4000, 9000, 9000, 14_000, 100];
    let gap = Duration::from_millis(gaps_ms[random.below(gaps_ms.len())]);
    match random.below(16) {
        0..5 => AfterAttack::Insert,
        5..11 => AfterAttack::Replace,
        11 | 12 => AfterAttack::Silence,
        13 => AfterAttack::Cut,
        14 => AfterAttack::Repeat(gap),
        _ => AfterAttack::Drip(gap),
    }
}

/// Returns the frame of a message with an extreme field, or something that is no frame.
pub fn write_attack(attack: &FieldAttack, random: &mut SplitMix64) -> Vec<u8> {
    // Long enough for every limit of a text or a list, for that of a frame, and beyond it.
    let room = match random.below(100) {
        0..30 if attack.is_long() => 60_000,
        30..33 if attack.is_long() => 1 << 20,
        33 if attack.is_long() => 4_100_000,
        _ => 5000,
    };
    let text = attack.write(room, random);
    let mut frame = frame_text(text.as_bytes());
    match random.below(40) {
        0 => frame.truncate(frame.len() / 2),
        1 => frame = vec![0xff; 64],
        2 => frame = frame_text(b"[]"),
        3 => frame = frame_text(&[0xff, 0xfe, 0]),
        4 => frame.truncate(random.below(5)),
        5 => frame.extend_from_within(..),
        6 => {
            let place = random.below(frame.len());
            frame[place] ^= 1 << random.below(8);
        }
        _ => {}
    }
    frame
}

pub fn frame_text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text].concat()
}
