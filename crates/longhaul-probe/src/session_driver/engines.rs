//! The engines of one end: a sender, a receiver, or both.

use crate::engine::{
    DataSocket, DatagramFormat, EndRun, EndSpec, EngineError, EngineResult, StreamEnding,
    TransferRole as Flow,
};
use crate::session::{EngineStart, TransferProgress};
use crate::wire::{IntervalCounters, StreamPreamble};
use longhaul_model::report::v1::plan::ThroughputPlan;
use std::time::Instant;

/// The data sockets of a session by direction, ordered by index.
#[derive(Debug, Default)]
pub struct SessionSockets {
    pub forward: Vec<DataSocket>,
    pub reverse: Vec<DataSocket>,
}

impl SessionSockets {
    /// Groups sockets by direction and keeps their order.
    pub(crate) fn by_direction(
        streams: impl Iterator<Item = (StreamPreamble, DataSocket)>,
    ) -> SessionSockets {
        let mut sockets = SessionSockets::default();
        for (preamble, socket) in streams {
            let way = if preamble.forward { &mut sockets.forward } else { &mut sockets.reverse };
            way.push(socket);
        }
        sockets
    }
}

impl EngineStart {
    /// Returns the specification of an end with longhaul's wire format; `epoch` is the zero of the
    /// session's clock.
    pub(crate) fn end_spec(
        self,
        plan: &ThroughputPlan,
        initiator: bool,
        epoch: Instant,
    ) -> EndSpec {
        EndSpec {
            plan: plan.clone(),
            initiator,
            idle_rtt: Some(self.idle_rtt),
            origin: epoch + self.origin,
            heads: DatagramFormat::Longhaul,
            ending: StreamEnding::HalfClosed,
        }
    }
}

/// The engines of this end.
pub struct SessionEngines {
    pub sender: Option<EndRun>,
    pub receiver: Option<EndRun>,
}

/// The results of this end's engines.
#[derive(Debug, Default)]
pub struct SessionResults {
    pub sender: Option<EngineResult>,
    pub receiver: Option<EngineResult>,
}

impl SessionEngines {
    pub fn start(spec: &EndSpec, sockets: SessionSockets) -> Result<SessionEngines, EngineError> {
        let (sends, receives) = if spec.initiator {
            (sockets.forward, sockets.reverse)
        } else {
            (sockets.reverse, sockets.forward)
        };
        let run = |role, sockets: Vec<DataSocket>| {
            let wanted = !sockets.is_empty();
            wanted.then(|| EndRun::start(spec.clone(), role, sockets)).transpose()
        };
        Ok(SessionEngines {
            sender: run(Flow::Sender, sends)?,
            receiver: run(Flow::Receiver, receives)?,
        })
    }

    pub fn go(&self) {
        // The receiver starts first, so that its clock covers the first bytes.
        self.receiver.iter().chain(&self.sender).for_each(EndRun::go);
    }

    pub fn stop(&self) {
        self.receiver.iter().chain(&self.sender).for_each(EndRun::stop);
    }

    /// Returns the progress for the session.
    pub fn progress(&self) -> TransferProgress {
        let sender = self.sender.as_ref().map(EndRun::progress);
        let receiver = self.receiver.as_ref().map(EndRun::progress);
        let elapsed = sender.iter().chain(&receiver).map(|p| p.elapsed).max();
        TransferProgress {
            interval: IntervalCounters {
                elapsed_us: elapsed.unwrap_or_default().as_micros() as u64,
                sent_bytes: sender.map(|progress| progress.bytes),
                received_bytes: receiver.map(|progress| progress.bytes),
            },
            sent: self.has_sent_all(),
            drained: self.receiver.as_ref().is_none_or(EndRun::finished),
        }
    }

    /// Returns whether this end has sent everything. The receivers then see the end of each stream,
    /// so a peer that knows one may wait for the other.
    pub fn has_sent_all(&self) -> bool {
        self.sender.as_ref().is_none_or(EndRun::finished)
    }

    pub fn collect(mut self) -> SessionResults {
        self.end_runs()
    }

    fn end_runs(&mut self) -> SessionResults {
        SessionResults {
            sender: self.sender.take().map(EndRun::end),
            receiver: self.receiver.take().map(EndRun::end),
        }
    }
}

impl Drop for SessionEngines {
    /// Ends the threads of a session that was cut.
    fn drop(&mut self) {
        self.end_runs();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::plan::StopCondition;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(120);

    /// Returns a time-limited sender on one connection, and the connection's other side.
    fn sending() -> (SessionEngines, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("its address"));
        let (far, _) = listener.accept().expect("a connection");
        far.set_read_timeout(Some(SOON)).expect("a timeout");
        let plan =
            ThroughputPlan { stop: StopCondition::TimeUs(100_000), ..ThroughputPlan::default() };
        let start = EngineStart { origin: Duration::ZERO, idle_rtt: Duration::ZERO };
        let spec = start.end_spec(&plan, true, Instant::now());
        let sockets = SessionSockets {
            forward: vec![DataSocket::Tcp(near.expect("a connection"))],
            reverse: Vec::new(),
        };
        (SessionEngines::start(&spec, sockets).expect("engines"), far)
    }

    #[test]
    fn whoever_hears_that_all_is_sent_need_not_ask_again_for_the_stream_to_end() {
        let (engines, mut far) = sending();
        let reader = std::thread::spawn(move || std::io::copy(&mut far, &mut std::io::sink()));
        engines.go();
        let began = Instant::now();
        while !engines.has_sent_all() && began.elapsed() < SOON {
            std::thread::yield_now();
        }
        let read = reader.join().expect("a reader").expect("the stream's end");
        assert!(read > 0);
        let sender = engines.collect().sender.expect("a sender");
        assert_eq!(sender.end.bytes, read);
    }
}
