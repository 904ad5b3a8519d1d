//! The server's handling of messages, which trusts no input.

use super::TOKEN_PENALTY;
use super::{
    Action, Aim, Closed, EngineStart, Event, HEARTBEAT, Part, Role, Session, State, Wanted,
};
use crate::limits::{LONGEST_US, LONGEST_WAIT, check_anonymous, check_plan};
use crate::secure::{Token, prove, proves};
use crate::wire::{Accept, AnonymousLimits, Message, Pong, Prepare, Proof, Propose, Welcome};
use std::time::Duration;

/// The maximum RTT that is accepted, since it extends grace period and timeout.
const LONGEST_RTT: Duration = Duration::from_secs(5);
/// The maximum wait for an agreed start of an anonymous client's run.
const ANONYMOUS_WAIT: Duration = Duration::from_secs(60);

/// The admission rules of the server.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The limits of an anonymous client; `None` rejects it.
    pub anonymous: Option<AnonymousLimits>,
    pub most_streams: u32,
    /// The client has proved the token.
    proved: bool,
}

impl Admission {
    pub fn new(anonymous: Option<AnonymousLimits>, most_streams: u32) -> Self {
        Admission {
            anonymous,
            most_streams,
            proved: false,
        }
    }

    fn limits(&self) -> Option<AnonymousLimits> {
        self.anonymous.filter(|_| !self.proved)
    }
}

/// The result of checking a proof.
enum Verdict {
    Proved(Token),
    Stranger,
    Refused(Closed),
}

impl Session {
    fn admission(&self) -> Option<&Admission> {
        match &self.part {
            Part::Responder(admission) => Some(admission),
            Part::Initiator(_) => None,
        }
    }

    fn anonymous(&self) -> Option<AnonymousLimits> {
        self.admission().and_then(Admission::limits)
    }

    pub(super) fn responder_hears(&mut self, now: Duration, message: Message) {
        match message {
            Message::Proof(proof) => self.on_proof(now, &proof),
            Message::Propose(propose) => self.on_propose(*propose),
            Message::Probe(probe) => {
                let anonymous = self.anonymous();
                self.on_probe(*probe, anonymous);
            }
            Message::Ping(ping) => self.send(Message::Pong(Pong {
                number: ping.number,
                at_us: now.as_micros() as u64,
            })),
            Message::Prepare(prepare) => self.on_prepare(now, prepare),
            Message::Go if self.is_probing() => self.start_asking(now),
            Message::Go => self.start_running(now),
            Message::Ask(ask) => self.on_ask(now, ask),
            Message::Interval(_) | Message::Sent | Message::Drained => {
                self.on_flow_message(now, &message);
            }
            _ => {}
        }
    }

    fn judge(&self, proof: &Proof) -> Verdict {
        let strangers = self.admission().is_some_and(|a| a.anonymous.is_some());
        match (&self.setup.token, &proof.token_proof) {
            (Some(token), Some(proof)) => {
                if proves(token, Role::Initiator, &self.setup.exporter, proof) {
                    Verdict::Proved(token.clone())
                } else {
                    Verdict::Refused(Closed::PeerTokenWrong)
                }
            }
            _ if strangers => Verdict::Stranger,
            _ => Verdict::Refused(Closed::PeerTokenMissing),
        }
    }

    fn on_proof(&mut self, now: Duration, proof: &Proof) {
        let token_proof = match self.judge(proof) {
            Verdict::Refused(closed) => {
                self.refusal = Some((now + TOKEN_PENALTY, closed));
                return;
            }
            Verdict::Stranger => None,
            Verdict::Proved(token) => {
                if let Part::Responder(admission) = &mut self.part {
                    admission.proved = true;
                }
                Some(prove(&token, Role::Responder, &self.setup.exporter))
            }
        };
        self.send(Message::Welcome(Welcome {
            token_proof,
            party: self.setup.party.clone(),
            boot_proof: self.setup.boot_proof.clone(),
            limits: self.anonymous(),
        }));
    }

    fn on_propose(&mut self, propose: Propose) {
        let most = self
            .admission()
            .map_or(0, |admission| admission.most_streams);
        let anonymous = self.anonymous();
        let checked = check_plan(&propose.plan, most).and_then(|()| match &anonymous {
            Some(limits) => check_anonymous(&propose.plan, limits),
            None => Ok(()),
        });
        if let Err(error) = checked {
            return self.close(Closed::WeRefused {
                what: error.to_string(),
            });
        }
        self.peer = Some(propose.party.clone());
        self.peer_boot_proof = propose.boot_proof;
        self.plan = Some(propose.plan.clone());
        self.actions.push(Action::Admit(Box::new(Wanted {
            aim: Aim::Run(Box::new(propose.plan)),
            party: propose.party,
            anonymous,
        })));
    }

    pub(super) fn on_admitted(&mut self, now: Duration, accept: Accept) {
        if self.step(Event::Admitted) {
            self.deadline = self.deadline_of_step(now);
            self.start_bounded_time(now);
            self.send(Message::Accept(accept));
        }
    }

    pub(super) fn on_streams_open(&mut self, now: Duration) {
        if self.step(Event::StreamsOpen) && self.role == Role::Responder {
            self.deadline = self.deadline_of_step(now);
            self.send(Message::Opened);
        }
    }

    pub(super) fn on_engine_ready(&mut self, now: Duration) {
        if !self.step(Event::EngineReady) {
            return;
        }
        self.flow.engine_ready = true;
        match self.role {
            Role::Initiator => self.start_when_due(now),
            Role::Responder => self.send(Message::Prepared),
        }
    }

    fn on_prepare(&mut self, now: Duration, prepare: Prepare) {
        let longest = match self.anonymous() {
            Some(_) => ANONYMOUS_WAIT,
            None => LONGEST_WAIT,
        };
        let wait = Duration::from_micros(prepare.wait_us.unwrap_or(0));
        if wait > longest {
            let what = format!(
                "start in {} s, at most {} s",
                wait.as_secs(),
                longest.as_secs()
            );
            return self.close(Closed::WeRefused { what });
        }
        self.flow.wait = wait;
        let rtt = Duration::from_micros(prepare.idle_rtt_us).min(LONGEST_RTT);
        self.idle_rtt = Some(rtt);
        // Both ends must agree on being one host: by the boot proofs and the client's RTT.
        let same_boot =
            self.setup.boot_proof.is_some() && self.setup.boot_proof == self.peer_boot_proof;
        self.same_host = prepare.same_host && same_boot;
        self.heard_at = now;
        self.flow.next_heartbeat = now + HEARTBEAT;
        self.deadline = self.deadline_of_step(now);
        // The origin precedes this message; a later value is a wrong clock.
        self.actions.push(Action::StartEngine(EngineStart {
            origin: Duration::from_micros(prepare.origin_us).min(now),
            idle_rtt: rtt,
            same_host: self.same_host,
        }));
    }

    pub(super) fn on_results(&mut self, results: Vec<Message>) {
        if self.state == State::Exchanging && self.role == Role::Responder {
            for result in results {
                self.send(result);
            }
        }
    }

    /// Returns the maximum duration of a run without a time limit of its own.
    pub(super) fn longest_unlimited(&self) -> Duration {
        match self.anonymous() {
            Some(limits) => Duration::from_secs(limits.seconds),
            None => Duration::from_micros(LONGEST_US),
        }
    }
}
