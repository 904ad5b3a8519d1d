//! The thread of one stream: it is pinned, waits for `go`, runs, and stores its outcome.

use super::TransferRole;
use super::end_run::EngineShared;
use super::sockets::DataSocket;
use super::tcp_receiver::TcpReceiver;
use super::tcp_sender::TcpSender;
use super::udp_stream::{DatagramReceiver, DatagramSender};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::UdpCounts;
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_sys::sched;
use std::io;
use std::time::Duration;

/// The outcome that only the stream's thread knows.
#[derive(Debug, Default)]
pub(super) struct StreamOutcome {
    pub core: Option<u32>,
    pub udp: Option<UdpCounts>,
    pub error: Option<String>,
    pub caveats: Vec<ReportCaveat>,
}

/// Runs stream `index` from start to end.
pub(super) fn run(shared: &EngineShared, index: usize) {
    let stream = &shared.streams[index];
    stream.counters.thread_started();
    let mut outcome = StreamOutcome::default();
    pin_thread(shared, index, &mut outcome);
    if let Err(error) = run_stream(shared, index, &mut outcome) {
        outcome.error = Some(error.to_string());
    }
    stream.counters.thread_ended();
    shared.finish_stream(index, outcome);
}

fn pin_thread(shared: &EngineShared, index: usize, outcome: &mut StreamOutcome) {
    let choice = &shared.defaults;
    if let Some(core) = choice.core_for(index) {
        match sched::pin_to_core(core) {
            Ok(()) => outcome.core = Some(core as u32),
            Err(error) => outcome.caveats.push(ReportCaveat::new(
                "not_pinned",
                format!("cannot pin stream {index} to core {core}: {error}"),
            )),
        }
    }
    let timed = shared.spec.plan.transport != RunTransport::Tcp;
    if timed || choice.write_rate.is_some() || choice.read_rate.is_some() {
        // Late timers only make a paced stream less even.
        let _ = sched::set_timer_slack(Duration::from_nanos(1));
    }
}

fn run_stream(shared: &EngineShared, index: usize, outcome: &mut StreamOutcome) -> io::Result<()> {
    match (&shared.streams[index].socket, shared.role) {
        (DataSocket::Tcp(socket), TransferRole::Sender) => {
            let (sender, caveat) = TcpSender::new(shared, index, socket);
            outcome.caveats.extend(caveat);
            if shared.wait_go() { sender.run() } else { Ok(()) }
        }
        (DataSocket::Tcp(socket), TransferRole::Receiver) => {
            let receiver = TcpReceiver::new(shared, index, socket)?;
            if shared.wait_go() { receiver.run() } else { Ok(()) }
        }
        (DataSocket::Udp(socket), TransferRole::Sender) => {
            let sender = DatagramSender::new(shared, index, socket);
            if shared.wait_go() { sender.run() } else { Ok(()) }
        }
        (DataSocket::Udp(socket), TransferRole::Receiver) => {
            let receiver = DatagramReceiver::new(shared, index, socket)?;
            if !shared.wait_go() {
                return Ok(());
            }
            let (udp, result) = receiver.run();
            outcome.udp = Some(udp);
            result
        }
    }
}
