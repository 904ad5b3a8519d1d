//! The server side of a probe session: its flow, its thread, and their messages.

use super::RequestHandler;
use super::SessionSlot;
use super::stream_registry::{SessionEntry, StreamClaim};
use crate::probing::{ProbeServer, ReverseSurveyor};
use crate::session::SessionInput;
use crate::wire::{
    MAX_RESULT_BYTES, ProbeBounds, SessionReply, SessionRequest, StreamPreamble, encode_frame,
};
use longhaul_sys::sockopt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::TryRecvError;
use std::time::Instant;

pub(super) struct ServerProbeSession<'a> {
    pub bounds: ProbeBounds,
    pub registered: SessionEntry<'a>,
    /// Taken when the flow opens.
    pub surveyor: Option<ReverseSurveyor>,
    /// Zero of the server's times.
    pub epoch: Instant,
    pub _slot: SessionSlot<'a>,
}

impl ServerProbeSession<'_> {
    /// Starts the thread that handles the requests once the listener has received the flow.
    pub fn open_flow(
        &mut self,
        open: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> Option<io::Result<ProbeServer>> {
        Some(if self.bounds.flows == 0 {
            self.start(None)
        } else {
            match self.registered.claims.try_recv().ok()? {
                StreamClaim::Datagram(preamble, from) => open(from).and_then(|socket| {
                    if let Some(dscp) = self.bounds.dscp {
                        sockopt::set_dscp(&socket, dscp, from)?;
                    }
                    super::acknowledge_hello(&socket, &preamble);
                    self.start(Some((socket, preamble)))
                }),
                StreamClaim::Connection(..) => {
                    Err(io::Error::other("received a TCP stream instead of a datagram"))
                }
            }
        })
    }

    fn start(&mut self, flow: Option<(UdpSocket, StreamPreamble)>) -> io::Result<ProbeServer> {
        let surveyor =
            self.surveyor.take().ok_or_else(|| io::Error::other("it is already open"))?;
        ProbeServer::start(flow, self.epoch, self.bounds.most_bytes, surveyor)
    }
}

impl RequestHandler for ProbeServer {
    /// Accepts what no other handler has accepted.
    fn accepts_request(&self, _request: &SessionRequest) -> bool {
        true
    }

    fn start_request(&mut self, request: SessionRequest) -> Option<SessionInput> {
        let failed = "the probe thread accepts no request".to_owned();
        (!self.try_request(request)).then_some(SessionInput::Failed(failed))
    }

    fn poll(&mut self) -> Option<SessionInput> {
        match self.poll_answer() {
            Ok(answer) => Some(SessionInput::Answer(Box::new(limit_answer(answer)))),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(SessionInput::Failed("the probe thread ended".to_owned()))
            }
        }
    }

    /// Its answers need not be fetched at once: polling often would disturb the probes.
    fn is_pending(&self) -> bool {
        false
    }

    fn moved_bytes(&self) -> u64 {
        self.sent_bytes()
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
