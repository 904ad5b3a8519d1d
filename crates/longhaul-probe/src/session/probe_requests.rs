//! Probe sessions: after the timing of the idle path, the client sends requests and the server
//! answers them, one at a time, until the client ends the session.
//!
//! The size of a request is checked here; its total cost is counted where it is carried out. A
//! request that is impossible gets an answer, and the session continues.

use super::{
    STEP_TIMEOUT, Session, SessionAction, SessionEnd, SessionEvent, SessionPurpose, SessionState,
};
use crate::plan_limits::{anonymous_bounds, check_bounds, check_request, max_answer_time};
use crate::wire::{
    AnonymousLimits, ControlMessage, ProbeBounds, ProbeProposal, SessionReply, SessionRequest,
};
use std::time::Duration;

impl Session {
    /// Returns the bounds of a probe session: proposed, then agreed.
    pub fn bounds(&self) -> Option<&ProbeBounds> {
        match &self.purpose {
            Some(SessionPurpose::Probe(bounds)) => Some(bounds),
            _ => None,
        }
    }

    /// Proposes the client's bounds, reduced to what the server allows anonymous clients.
    pub(super) fn propose_probes(
        &mut self,
        mut bounds: ProbeBounds,
        limits: Option<AnonymousLimits>,
    ) {
        if let Some(most) = limits.map(|limits| anonymous_bounds(&limits)) {
            bounds.most_bytes = bounds.most_bytes.min(most.most_bytes);
            bounds.most_time_us = bounds.most_time_us.min(most.most_time_us);
        }
        self.purpose = Some(SessionPurpose::Probe(bounds.clone()));
        self.send(ControlMessage::Probe(Box::new(ProbeProposal {
            bounds,
            party: self.setup.party.clone(),
            boot_proof: self.setup.boot_proof.clone(),
        })));
    }

    pub(super) fn on_probe(&mut self, probe: ProbeProposal) {
        let checked = check_bounds(&probe.bounds, self.anonymous().as_ref());
        let purpose = SessionPurpose::Probe(probe.bounds);
        self.request_admission(checked, purpose, probe.party, probe.boot_proof);
    }

    /// Starts the time limit of the session.
    pub(super) fn start_bounded_time(&mut self, now: Duration) {
        let time = |bounds: &ProbeBounds| Duration::from_micros(bounds.most_time_us);
        self.ends_at = self.bounds().map(|bounds| now + time(bounds));
    }

    /// Client: enough round trips have been timed.
    pub(super) fn on_timed_to_ask(&mut self, now: Duration) {
        if self.step(SessionEvent::TimedToAsk) {
            self.send(ControlMessage::Go);
            self.start_heartbeats(now);
        }
    }

    /// Client: sends a request of the caller.
    pub(super) fn on_request(&mut self, now: Duration, ask: SessionRequest) {
        if !self.step(SessionEvent::Asked) {
            let what = format!("request while {}", self.state.describe());
            return self.close(SessionEnd::OwnFailure { step: self.state, what });
        }
        self.deadline = Some(now + max_answer_time(&ask) + STEP_TIMEOUT + self.silence_timeout());
        self.send(ControlMessage::Ask(ask));
    }

    /// Server: handles a request.
    pub(super) fn on_ask(&mut self, now: Duration, ask: SessionRequest) {
        // No request outlasts the agreed time of the session.
        let agreed = self.ends_at.map_or(Duration::MAX, |at| at.saturating_sub(now));
        self.deadline = Some(now + max_answer_time(&ask).min(agreed) + STEP_TIMEOUT);
        match check_request(&ask, self.anonymous().is_some()) {
            Ok(()) => self.actions.push(SessionAction::Ask(Box::new(ask))),
            Err(error) => self.on_request_done(now, SessionReply::Failed(error.to_string())),
        }
    }

    /// Server: sends the answer to a request.
    pub(super) fn on_request_done(&mut self, now: Duration, answer: SessionReply) {
        if self.step(SessionEvent::Done) {
            self.deadline = self.deadline_of_step(now);
            self.send(ControlMessage::Answer(Box::new(answer)));
        }
    }

    /// Returns whether the agreed time is over.
    pub(super) fn is_past_time_limit(&self, now: Duration) -> bool {
        self.state == SessionState::Asking && self.ends_at.is_some_and(|at| now >= at)
    }

    pub(super) fn is_probing(&self) -> bool {
        self.bounds().is_some()
    }

    /// Returns whether the message belongs to this kind of session; both kinds share messages.
    pub(super) fn is_permitted_kind(&self, message: &ControlMessage) -> bool {
        match message {
            ControlMessage::Ask(_) | ControlMessage::Answer(_) => self.is_probing(),
            ControlMessage::Prepare(_) => !self.is_probing(),
            ControlMessage::Go => self.is_probing() == (self.state == SessionState::Timing),
            _ => true,
        }
    }
}
