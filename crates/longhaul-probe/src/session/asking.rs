//! Probe sessions: after the timing of the idle path, the client sends requests and the server
//! answers them, one at a time, until the client ends the session.
//!
//! The size of a request is checked here; its total cost is counted where it is carried out. A
//! request that is impossible gets an answer, and the session continues.

use super::{Action, Aim, Closed, Event, HEARTBEAT, Part, STEP_TIME, Session, State, Wanted};
use crate::limits::{anonymous_bounds, check_bounds, check_survey, check_trains, longest_answer};
use crate::wire::{AnonymousLimits, Answer, Ask, Bounds, Message, Probe, Versions};
use std::time::Duration;

impl Session {
    /// Returns the bounds of this probe session, once agreed.
    pub fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_ref()
    }

    /// Proposes the client's bounds, reduced to what the server allows anonymous clients.
    pub(super) fn propose_probes(&mut self, mut bounds: Bounds, limits: Option<AnonymousLimits>) {
        if self.version < Versions::PROBES {
            let theirs = self.peer_versions;
            return self.close(Closed::VersionDiffers { theirs });
        }
        if let Some(most) = limits.map(|limits| anonymous_bounds(&limits)) {
            bounds.most_bytes = bounds.most_bytes.min(most.most_bytes);
            bounds.most_time_us = bounds.most_time_us.min(most.most_time_us);
        }
        self.bounds = Some(bounds.clone());
        self.send(Message::Probe(Box::new(Probe {
            bounds,
            party: self.setup.party.clone(),
            boot_proof: self.setup.boot_proof.clone(),
        })));
    }

    pub(super) fn on_probe(&mut self, probe: Probe, anonymous: Option<AnonymousLimits>) {
        if self.version < Versions::PROBES {
            return self.violation("`probe` in version 1".to_owned());
        }
        if let Err(error) = check_bounds(&probe.bounds, anonymous.as_ref()) {
            let what = error.to_string();
            return self.close(Closed::WeRefused { what });
        }
        self.peer = Some(probe.party.clone());
        self.peer_boot_proof = probe.boot_proof;
        self.bounds = Some(probe.bounds.clone());
        self.actions.push(Action::Admit(Box::new(Wanted {
            aim: Aim::Probe(probe.bounds),
            party: probe.party,
            anonymous,
        })));
    }

    /// Starts the time limit of the session.
    pub(super) fn start_bounded_time(&mut self, now: Duration) {
        let time = |bounds: &Bounds| Duration::from_micros(bounds.most_time_us);
        self.ends_at = self.bounds.as_ref().map(|bounds| now + time(bounds));
    }

    pub(super) fn start_asking(&mut self, now: Duration) {
        self.heard_at = now;
        self.flow.next_heartbeat = now + HEARTBEAT;
        self.deadline = self.deadline_of_step(now);
    }

    /// Client: enough round trips have been timed.
    pub(super) fn on_timed_to_ask(&mut self, now: Duration) {
        if self.step(Event::TimedToAsk) {
            self.send(Message::Go);
            self.start_asking(now);
        }
    }

    /// Client: sends a request of the caller.
    pub(super) fn on_wish(&mut self, now: Duration, ask: Ask) {
        if !self.step(Event::Asked) {
            let what = format!("asked while {}", self.state.doing());
            return self.close(Closed::OwnFailure {
                step: self.state,
                what,
            });
        }
        self.deadline = Some(now + longest_answer(&ask) + STEP_TIME + self.silence());
        self.send(Message::Ask(ask));
    }

    /// Server: handles a request.
    pub(super) fn on_ask(&mut self, now: Duration, ask: Ask) {
        if matches!(ask, Ask::Files(_)) && !self.knows_files() {
            return self.violation("`files` before version 4".to_owned());
        }
        let checked = match &ask {
            Ask::Arm(trains) | Ask::Send(trains) => check_trains(trains).map(drop),
            other => check_survey(other),
        };
        self.deadline = Some(now + longest_answer(&ask) + STEP_TIME);
        match checked {
            Ok(()) => self.actions.push(Action::Ask(Box::new(ask))),
            Err(error) => self.on_done(now, Answer::Failed(error.to_string())),
        }
    }

    /// Server: sends the answer to a request.
    pub(super) fn on_done(&mut self, now: Duration, answer: Answer) {
        if self.step(Event::Done) {
            self.deadline = self.deadline_of_step(now);
            self.send(Message::Answer(Box::new(answer)));
        }
    }

    /// Client: the caller has no more requests.
    pub(super) fn on_enough(&mut self) {
        self.close(Closed::Finished);
    }

    /// Returns whether the agreed time is over.
    pub(super) fn is_past_its_time(&self, now: Duration) -> bool {
        self.state == State::Asking && self.ends_at.is_some_and(|at| now >= at)
    }

    pub(super) fn is_probing(&self) -> bool {
        match &self.part {
            Part::Initiator(initiative) => initiative.plan().is_none(),
            Part::Responder(_) => self.bounds.is_some(),
        }
    }

    /// Returns whether the message belongs to this kind of session; both kinds share messages.
    pub(super) fn suits(&self, message: &Message) -> bool {
        match message {
            Message::Ask(_) | Message::Answer(_) => self.is_probing(),
            Message::Prepare(_) => !self.is_probing(),
            Message::Go => self.is_probing() == (self.state == State::Timing),
            _ => true,
        }
    }
}
