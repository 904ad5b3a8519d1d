//! The server's handling of messages, which trusts no input.

use super::{
    AdmissionRequest, Session, SessionAction, SessionEnd, SessionEvent, SessionPurpose,
    SessionRole, SessionState, TOKEN_PENALTY,
};
use crate::plan_limits::{LimitError, MAX_RUN_US, check_anonymous, check_plan};
use crate::secure::{make_proof, verify_proof};
use crate::wire::{
    AnonymousLimits, ControlMessage, PrepareMessage, RunProposal, SessionNonce, TokenProof,
    WelcomeMessage,
};
use longhaul_model::report::v1::RunParty;
use std::time::Duration;

/// The maximum RTT that is accepted, since it extends grace period and timeout.
const MAX_RTT: Duration = Duration::from_secs(5);

impl Session {
    /// Returns the limits that apply to this client.
    pub(super) fn anonymous(&self) -> Option<AnonymousLimits> {
        self.anonymous.filter(|_| !self.proved)
    }

    pub(super) fn server_receives(&mut self, now: Duration, message: ControlMessage) {
        match message {
            ControlMessage::Proof(proof) => self.on_proof(now, &proof),
            ControlMessage::Propose(propose) => self.on_propose(*propose),
            ControlMessage::Probe(probe) => self.on_probe(*probe),
            ControlMessage::Ping { number } => {
                self.send(ControlMessage::Pong { number, at_us: now.as_micros() as u64 });
            }
            ControlMessage::Prepare(prepare) => self.on_prepare(now, prepare),
            ControlMessage::Go if self.is_probing() => self.start_heartbeats(now),
            ControlMessage::Go => self.start_running(now),
            ControlMessage::Ask(ask) => self.on_ask(now, ask),
            ControlMessage::Stop if self.state != SessionState::Exchanging => {
                self.stop_sending(now);
            }
            ControlMessage::Interval(_) | ControlMessage::Sent | ControlMessage::Drained => {
                self.on_flow_message(now, &message);
            }
            _ => {}
        }
    }

    fn on_proof(&mut self, now: Duration, proof: &TokenProof) {
        let exporter = &self.setup.exporter;
        let refusal = match (&self.setup.token, &proof.token_proof) {
            (Some(token), Some(proof)) => {
                let proved = verify_proof(token, SessionRole::Client, exporter, proof);
                (!proved).then_some(SessionEnd::PeerTokenWrong)
            }
            _ => self.anonymous.is_none().then_some(SessionEnd::PeerTokenMissing),
        };
        if let Some(closed) = refusal {
            self.refusal = Some((now + TOKEN_PENALTY, closed));
            return;
        }
        let proved = self.setup.token.as_ref().filter(|_| proof.token_proof.is_some());
        let token_proof = proved.map(|token| make_proof(token, SessionRole::Server, exporter));
        self.proved = token_proof.is_some();
        self.send(ControlMessage::Welcome(WelcomeMessage {
            token_proof,
            party: self.setup.party.clone(),
            boot_proof: self.setup.boot_proof.clone(),
            limits: self.anonymous(),
        }));
    }

    fn on_propose(&mut self, propose: RunProposal) {
        let anonymous = self.anonymous();
        let checked = check_plan(&propose.plan, self.max_streams).and_then(|()| match &anonymous {
            Some(limits) => check_anonymous(&propose.plan, limits),
            None => Ok(()),
        });
        let purpose = SessionPurpose::Run(Box::new(propose.plan));
        self.request_admission(checked, purpose, propose.party, propose.boot_proof);
    }

    /// Asks the driver for capacity, or refuses what was not found acceptable.
    pub(super) fn request_admission(
        &mut self,
        checked: Result<(), LimitError>,
        purpose: SessionPurpose,
        party: RunParty,
        boot_proof: Option<String>,
    ) {
        if let Err(error) = checked {
            return self.close(SessionEnd::WeRefused { what: error.to_string() });
        }
        self.purpose = Some(purpose.clone());
        self.peer = Some(party.clone());
        self.peer_boot_proof = boot_proof;
        let anonymous = self.anonymous();
        let request = AdmissionRequest { purpose, party, anonymous };
        self.actions.push(SessionAction::Admit(Box::new(request)));
    }

    pub(super) fn on_admitted(&mut self, now: Duration, nonce: SessionNonce) {
        if self.step(SessionEvent::Admitted) {
            self.deadline = self.deadline_of_step(now);
            self.start_bounded_time(now);
            self.send(ControlMessage::Accept { nonce });
        }
    }

    pub(super) fn on_streams_open(&mut self, now: Duration) {
        if self.step(SessionEvent::StreamsOpen) && self.role == SessionRole::Server {
            self.deadline = self.deadline_of_step(now);
            self.send(ControlMessage::Opened);
        }
    }

    pub(super) fn on_engine_ready(&mut self, now: Duration) {
        if !self.step(SessionEvent::EngineReady) {
            return;
        }
        self.transfer.engine_ready = true;
        match self.role {
            SessionRole::Client => self.start_when_ready(now),
            SessionRole::Server => self.send(ControlMessage::Prepared),
        }
    }

    fn on_prepare(&mut self, now: Duration, prepare: PrepareMessage) {
        let rtt = Duration::from_micros(prepare.idle_rtt_us).min(MAX_RTT);
        self.idle_rtt = Some(rtt);
        // Both ends must agree on being one host: by the boot proofs and the client's RTT.
        self.same_host = prepare.same_host && self.same_boot() == Some(true);
        self.start_heartbeats(now);
        // The origin precedes this message; a later value is a wrong clock.
        let origin = Duration::from_micros(prepare.origin_us).min(now);
        let start = self.engine_start(origin, rtt);
        self.actions.push(start);
    }

    pub(super) fn on_results(&mut self, results: Vec<ControlMessage>) {
        if self.state == SessionState::Exchanging && self.role == SessionRole::Server {
            for result in results {
                self.send(result);
            }
        }
    }

    /// Returns the maximum duration of a run without a time limit of its own.
    pub(super) fn max_unlimited_run(&self) -> Duration {
        match self.anonymous() {
            Some(limits) => Duration::from_secs(limits.seconds),
            None => Duration::from_micros(MAX_RUN_US),
        }
    }
}
