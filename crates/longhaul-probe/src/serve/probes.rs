//! The server side of a probe session: its flow, its thread, and their messages.

use super::registry::{Claim, Registered};
use super::slots::Slot;
use crate::probing::{FarEnd, FarSetup, Surveyor};
use crate::session::{Input, State};
use crate::wire::{Answer, Ask, Bounds, Preamble};
use longhaul_sys::sockopt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

pub(super) struct Probes<'a> {
    bounds: Bounds,
    registered: Registered<'a>,
    surveyor: Option<Surveyor>,
    epoch: Instant,
    far: Option<FarEnd>,
    _slot: Slot<'a>,
}

impl<'a> Probes<'a> {
    pub fn new(
        (bounds, registered, slot): (Bounds, Registered<'a>, Slot<'a>),
        surveyor: Surveyor,
        epoch: Instant,
    ) -> Probes<'a> {
        Probes {
            bounds,
            registered,
            surveyor: Some(surveyor),
            epoch,
            far: None,
            _slot: slot,
        }
    }

    /// Returns the IP bytes of trains and echoes.
    pub fn moved_bytes(&self) -> u64 {
        self.far.as_ref().map_or(0, FarEnd::moved_bytes)
    }

    /// Sends a request to the thread; returns an input only if that fails.
    pub fn ask(&self, ask: Ask) -> Option<Input> {
        let taken = self.far.as_ref().is_some_and(|far| far.ask(ask));
        (!taken).then(|| Input::Failed("its probing thread takes no work".to_owned()))
    }

    /// Checks the listener while the flow opens, and the thread after that.
    pub fn poll(
        &mut self,
        state: State,
        open: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> Option<Input> {
        match state {
            State::Opening if self.far.is_none() => self.open_when_claimed(open),
            State::Working => match self.far.as_ref()?.answer() {
                Ok(answer) => answer.map(|answer| Input::Answer(Box::new(bounded(answer)))),
                Err(()) => Some(Input::Failed("its probing thread ended".to_owned())),
            },
            _ => None,
        }
    }

    fn open_when_claimed(
        &mut self,
        open: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> Option<Input> {
        let started = if self.bounds.flows == 0 {
            self.start(None)
        } else {
            match self.registered.claims.try_recv().ok()? {
                Claim::Datagram(preamble, from) => open(from).and_then(|socket| {
                    self.mark(&socket, from)?;
                    super::datagram::acknowledge(&socket, &preamble);
                    self.start(Some((socket, preamble)))
                }),
                Claim::Connection(..) => Err(io::Error::other("a TCP stream in its place")),
            }
        };
        Some(match started {
            Ok(()) => Input::StreamsOpen,
            Err(error) => Input::Failed(format!("cannot open the flow of probes: {error}")),
        })
    }

    fn mark(&self, socket: &UdpSocket, peer: SocketAddr) -> io::Result<()> {
        let Some(dscp) = self.bounds.dscp else {
            return Ok(());
        };
        let family = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        sockopt::set_dscp(socket, dscp, family)
    }

    fn start(&mut self, flow: Option<(UdpSocket, Preamble)>) -> io::Result<()> {
        let surveyor = self.surveyor.take();
        let surveyor = surveyor.ok_or_else(|| io::Error::other("it is open already"))?;
        self.far = Some(FarEnd::start(FarSetup {
            flow,
            epoch: self.epoch,
            most_bytes: self.bounds.most_bytes,
            surveyor,
        })?);
        Ok(())
    }
}

/// Replaces an answer that is too large for a frame: routes and echo series have no fixed size.
fn bounded(answer: Answer) -> Answer {
    use crate::wire::{MOST_RESULT_BYTES, Message, encode};
    let message = Message::Answer(Box::new(answer));
    match (encode(&message, MOST_RESULT_BYTES), message) {
        (Ok(_), Message::Answer(answer)) => *answer,
        _ => Answer::Failed("the answer is too large for a frame".to_owned()),
    }
}
