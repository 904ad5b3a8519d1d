//! The server side of a probe session: its flow, its thread, and their messages.

use super::session_slots::SessionSlot;
use super::stream_registry::{SessionEntry, StreamClaim};
use crate::probing::{ProbeServer, ReverseSurveyor};
use crate::session::{SessionInput, SessionState};
use crate::wire::{
    MAX_RESULT_BYTES, ProbeBounds, SessionReply, SessionRequest, StreamPreamble, encode_frame,
};
use longhaul_sys::sockopt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

pub(super) struct ServerProbeSession<'a> {
    pub bounds: ProbeBounds,
    pub registered: SessionEntry<'a>,
    /// Taken when the flow is open.
    pub surveyor: Option<ReverseSurveyor>,
    /// Zero of the server's times.
    pub epoch: Instant,
    pub prober: Option<ProbeServer>,
    pub _slot: SessionSlot<'a>,
}

impl ServerProbeSession<'_> {
    /// Returns the IP bytes of trains and echoes.
    pub fn moved_bytes(&self) -> u64 {
        self.prober.as_ref().map_or(0, ProbeServer::moved_bytes)
    }

    /// Sends a request to the thread; returns an input only if that fails.
    pub fn send_request(&self, ask: SessionRequest) -> Option<SessionInput> {
        let taken = self.prober.as_ref().is_some_and(|far| far.try_request(ask));
        (!taken).then(|| SessionInput::Failed("the probe thread accepts no request".to_owned()))
    }

    /// Checks the listener while the flow opens, and the thread after that.
    pub fn poll(
        &mut self,
        state: SessionState,
        open: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> Option<SessionInput> {
        match state {
            SessionState::Opening if self.prober.is_none() => self.open_when_claimed(open),
            SessionState::Working => match self.prober.as_ref()?.poll_answer() {
                Ok(answer) => {
                    answer.map(|answer| SessionInput::Answer(Box::new(limit_answer(answer))))
                }
                Err(()) => Some(SessionInput::Failed("the probe thread ended".to_owned())),
            },
            _ => None,
        }
    }

    fn open_when_claimed(
        &mut self,
        open: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> Option<SessionInput> {
        let started = if self.bounds.flows == 0 {
            self.start(None)
        } else {
            match self.registered.claims.try_recv().ok()? {
                StreamClaim::Datagram(preamble, from) => open(from).and_then(|socket| {
                    if let Some(dscp) = self.bounds.dscp {
                        sockopt::set_dscp(&socket, dscp, from)?;
                    }
                    super::udp_hello::acknowledge_hello(&socket, &preamble);
                    self.start(Some((socket, preamble)))
                }),
                StreamClaim::Connection(..) => {
                    Err(io::Error::other("received a TCP stream instead of a datagram"))
                }
            }
        };
        Some(match started {
            Ok(()) => SessionInput::StreamsOpen,
            Err(error) => SessionInput::Failed(format!("cannot open the probe flow: {error}")),
        })
    }

    fn start(&mut self, flow: Option<(UdpSocket, StreamPreamble)>) -> io::Result<()> {
        let surveyor =
            self.surveyor.take().ok_or_else(|| io::Error::other("it is already open"))?;
        let max_bytes = self.bounds.most_bytes;
        self.prober = Some(ProbeServer::start(flow, self.epoch, max_bytes, surveyor)?);
        Ok(())
    }
}

/// Replaces an answer that is too large for a frame: routes and echo series have no fixed size.
fn limit_answer(answer: SessionReply) -> SessionReply {
    // The message consists of its name and the answer.
    match encode_frame(&answer, MAX_RESULT_BYTES - r#"{"answer":}"#.len()) {
        Ok(_) => answer,
        Err(_) => SessionReply::Failed("the answer is too large for a frame".to_owned()),
    }
}
