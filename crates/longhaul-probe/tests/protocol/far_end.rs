//! A far end in this process, on a free port of the loopback interface, for one test.

use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_probe::measurement_server::{
    AnonymousLimits, MeasurementServer, ServeEvent, ServeOptions,
};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{self, TargetHost, ThroughputOutcome, ThroughputProgress};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends a test that hangs; on a busy machine anything may take long.
pub const HUNG: Duration = Duration::from_secs(120);

pub struct FarEnd {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    events: Mutex<Receiver<ServeEvent>>,
}

/// Options for a far end that only this test can reach.
pub fn options() -> ServeOptions {
    ServeOptions {
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        port: 0,
        ..ServeOptions::default()
    }
}

/// The same, where a stranger's run may last as long as a test wants.
pub fn patient() -> ServeOptions {
    ServeOptions {
        anonymous: Some(AnonymousLimits { seconds: 3600, ..AnonymousLimits::default() }),
        ..options()
    }
}

impl FarEnd {
    pub fn start(options: ServeOptions) -> FarEnd {
        let responder =
            MeasurementServer::bind(options).expect("a free port of the loopback interface");
        let address = responder.addresses()[0];
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, events) = channel();
        let sender = Mutex::new(sender);
        let log = move |event| {
            let sender = sender.lock().expect("nobody panics with it");
            // The test may be over, with nobody left to read.
            let _ = sender.send(event);
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            responder.run(log, &stopped).expect("the service starts its threads");
        });
        FarEnd { address, stop, thread: Some(thread), events: Mutex::new(events) }
    }

    pub fn target(&self) -> TargetHost {
        TargetHost {
            port: self.address.port(),
            connect_timeout: HUNG,
            ..TargetHost::new(self.address.ip().to_string())
        }
    }

    pub fn target_with(&self, token: &str) -> TargetHost {
        TargetHost { token: Some(token.to_owned()), ..self.target() }
    }

    pub fn run(&self, plan: &ThroughputPlan) -> Result<ThroughputOutcome, ProbeError> {
        throughput::run(&self.target(), plan, &StopFlag::default(), &mut |_| {})
    }

    /// The same, whatever becomes of it.
    pub fn run_watched(&self, plan: &ThroughputPlan, watch: &mut dyn FnMut(&ThroughputProgress)) {
        let _ = throughput::run(&self.target(), plan, &StopFlag::default(), watch);
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("the far end listens")
    }

    /// The next event that `wanted` picks.
    pub fn event<T>(&self, wanted: impl Fn(&ServeEvent) -> Option<T>) -> T {
        let events = self.events.lock().expect("one test reads them");
        loop {
            let event = events.recv_timeout(HUNG).expect("the event comes");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    }

    /// Why the next session ended.
    pub fn session_closed(&self) -> String {
        self.event(|event| match event {
            ServeEvent::SessionClosed { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    }

    /// Why the next connection was dismissed.
    pub fn dismissed(&self) -> String {
        self.event(|event| match event {
            ServeEvent::Dismissed { why, .. } => Some(why.clone()),
            _ => None,
        })
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A run by time, at a rate that leaves the cores to the other tests.
pub fn short() -> ThroughputPlan {
    ThroughputPlan {
        stop: StopCondition::TimeUs(1_000_000),
        write_rate_bps: Some(200_000_000),
        ..ThroughputPlan::default()
    }
}

/// A run that delivers, however little of the machine is left to it.
pub fn brief() -> ThroughputPlan {
    ThroughputPlan { stop: StopCondition::Bytes(4 << 20), ..ThroughputPlan::default() }
}
