//! Honest clients among floods, on simulated paths.

use super::*;
use std::collections::BTreeMap;

/// The interval between connections of the flood: 5,000 a second.
const FLOOD_INTERVAL: Duration = Duration::from_micros(200);
/// The connections that are open and silent when the flood begins.
const IDLE: u64 = 10_000;
/// The interval between the honest clients of each kind, and their number: more than a thousand for
/// each kind of flood.
const TRY_INTERVAL: Duration = Duration::from_millis(40);
const TRIES: u64 = 350;
/// The time after which first bytes have arrived.
const FIRST_BYTES: Duration = Duration::from_millis(5);
/// The time in which a shut down thread ends.
const THREAD_END: Duration = Duration::from_millis(2);

/// The kind of a simulated client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientKind {
    /// Sends nothing, or too little.
    Silent,
    /// Asks for a key exchange and then says nothing.
    Handshake,
    /// Honest, without a ticket.
    Stranger,
    /// Honest, with a ticket.
    TicketHolder,
    /// Honest, with a ticket, at an address of the flood.
    TicketNeighbour,
}

impl ClientKind {
    fn is_honest(self) -> bool {
        self >= ClientKind::Stranger
    }

    fn has_ticket(self) -> bool {
        self > ClientKind::Stranger
    }
}

#[derive(Debug, Clone, Copy)]
enum SimulatedEvent {
    Arrival(ClientKind),
    FirstBytes(u64),
    /// The session is admitted, or its thread has ended.
    Release(u64),
}

#[derive(Debug, Clone, Copy)]
struct SimulatedClient {
    kind: ClientKind,
    arrived: Duration,
}

/// A server on virtual time.
struct SimulatedServer {
    table: AdmissionTable,
    rtt: Duration,
    now: Duration,
    events: BTreeMap<(Duration, u64), SimulatedEvent>,
    next_event: u64,
    arrivals: u64,
    clients: HashMap<u64, SimulatedClient>,
    served: BTreeMap<ClientKind, u64>,
    most_connections: usize,
    begun: u64,
}

impl SimulatedServer {
    fn new(rtt: Duration, limits: AdmissionLimits) -> SimulatedServer {
        SimulatedServer {
            table: AdmissionTable::new(limits),
            rtt,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            next_event: 0,
            arrivals: 0,
            clients: HashMap::new(),
            served: BTreeMap::new(),
            most_connections: 0,
            begun: 0,
        }
    }

    fn schedule(&mut self, at: Duration, event: SimulatedEvent) {
        self.events.insert((at, self.next_event), event);
        self.next_event += 1;
    }

    fn run(&mut self) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            // What expires meanwhile is looked at once in 100 ms, as the server does it.
            if at.as_millis() / 100 > self.now.as_millis() / 100 {
                let expired = self.table.take_expired(at);
                self.forget_all(expired);
            }
            self.now = at;
            self.handle(event);
            self.take_steps();
            self.most_connections = self.most_connections.max(self.table.connections.len());
        }
    }

    fn handle(&mut self, event: SimulatedEvent) {
        match event {
            SimulatedEvent::Arrival(kind) => {
                let number = self.arrivals;
                self.arrivals += 1;
                self.clients.insert(number, SimulatedClient { kind, arrived: self.now });
                let closed = self.table.add_connection(self.now, number, source_of(kind, number));
                self.forget_all(closed);
                if kind != ClientKind::Silent {
                    self.schedule(self.now + FIRST_BYTES, SimulatedEvent::FirstBytes(number));
                }
            }
            SimulatedEvent::FirstBytes(number) => {
                if let Some(client) = self.clients.get(&number).copied() {
                    let has_ticket = client.kind.has_ticket();
                    let closed = self.table.set_ready(self.now, number, has_ticket, self.rtt);
                    self.forget_all(closed);
                }
            }
            SimulatedEvent::Release(number) => {
                self.table.remove(number);
                if let Some(client) = self.clients.remove(&number)
                    && self.now <= client.arrived + self.rtt * 2 + Duration::from_secs(1)
                {
                    *self.served.entry(client.kind).or_default() += 1;
                }
            }
        }
    }

    fn take_steps(&mut self) {
        loop {
            match self.table.next_step(self.now) {
                AdmissionStep::Wait(_) => return,
                AdmissionStep::ShutDown(number) => {
                    self.forget_all([number]);
                    self.schedule(self.now + THREAD_END, SimulatedEvent::Release(number));
                }
                AdmissionStep::Begin(number) => {
                    self.begun += 1;
                    // Key exchange and proof, plan and admission.
                    if self.clients[&number].kind.is_honest() {
                        let admitted = self.now + self.rtt * 2 + Duration::from_millis(2);
                        self.schedule(admitted, SimulatedEvent::Release(number));
                    }
                }
            }
        }
    }

    fn forget_all(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.clients.remove(&number);
        }
    }

    fn share(&self, kind: ClientKind) -> f64 {
        self.served.get(&kind).copied().unwrap_or(0) as f64 / TRIES as f64
    }
}

/// The flood has one network; each stranger has its own.
fn source_of(kind: ClientKind, number: u64) -> SourcePrefix {
    let text = match kind {
        ClientKind::Stranger | ClientKind::TicketHolder => {
            format!("10.{}.{}.1", number / 250 % 250, number % 250)
        }
        _ => format!("192.0.2.{}", number % 50),
    };
    SourcePrefix::from(text.parse::<IpAddr>().expect("an address"))
}

/// Runs the honest clients in a flood of these kinds in turn.
fn flood(rtt_ms: u64, kinds: &[ClientKind]) -> SimulatedServer {
    let limits = AdmissionLimits::for_sessions(32);
    let mut server = SimulatedServer::new(Duration::from_millis(rtt_ms), limits);
    for _ in 0..IDLE {
        server.schedule(Duration::ZERO, SimulatedEvent::Arrival(ClientKind::Silent));
    }
    let honest = [ClientKind::Stranger, ClientKind::TicketHolder, ClientKind::TicketNeighbour];
    for number in 0..TRIES as u32 {
        for kind in honest {
            let begin = Duration::from_secs(1) + TRY_INTERVAL * number;
            server.schedule(begin, SimulatedEvent::Arrival(kind));
        }
    }
    let flooded = TRY_INTERVAL * TRIES as u32 + Duration::from_secs(1);
    for number in 0..(flooded.as_micros() / FLOOD_INTERVAL.as_micros()) as u32 {
        let kind = kinds[number as usize % kinds.len()];
        server.schedule(FLOOD_INTERVAL * number, SimulatedEvent::Arrival(kind));
    }
    server.run();
    server
}

fn assert_served(server: &SimulatedServer) {
    for (kind, least) in [
        (ClientKind::Stranger, 0.95),
        (ClientKind::TicketHolder, 0.999),
        (ClientKind::TicketNeighbour, 0.999),
    ] {
        let share = server.share(kind);
        assert!(share >= least, "{kind:?} at {:?}: {share}", server.rtt);
    }
    // Those without a place, and both kinds of places.
    assert!(server.most_connections <= 256 + 64 + 256 + 64 + 1, "{}", server.most_connections);
}

#[test]
fn a_flood_of_silent_connections_shuts_nobody_out() {
    for rtt_ms in [1, 172, 436] {
        assert_served(&flood(rtt_ms, &[ClientKind::Silent]));
    }
}

#[test]
fn a_flood_of_handshakes_shuts_nobody_out_and_few_are_begun() {
    for rtt_ms in [1, 172, 436] {
        let server = flood(rtt_ms, &[ClientKind::Handshake]);
        assert_served(&server);
        let honest = 3 * TRIES;
        let begun = server.begun - honest;
        assert!(begun < 128 + 26 * 16, "{begun} of 75,000");
    }
}

#[test]
fn a_mixed_flood_shuts_nobody_out() {
    for rtt_ms in [1, 172, 436] {
        assert_served(&flood(rtt_ms, &[ClientKind::Silent, ClientKind::Handshake]));
    }
}

#[test]
fn a_crowd_of_five_hundred_at_once_loses_none() {
    for rtt_ms in [1, 172, 436] {
        let rtt = Duration::from_millis(rtt_ms);
        let mut server = SimulatedServer::new(rtt, AdmissionLimits::for_sessions(512));
        for number in 0..500 {
            let at = Duration::from_micros(number);
            server.schedule(at, SimulatedEvent::Arrival(ClientKind::Stranger));
        }
        // The clock goes on, so that whoever waits too long is given up.
        server.schedule(Duration::from_secs(60), SimulatedEvent::Release(u64::MAX));
        server.run();
        assert!(server.clients.is_empty(), "{} of 500 wait", server.clients.len());
        assert_eq!(server.begun, 500, "at {rtt_ms} ms");
    }
}

fn sources(hosts: &[&str]) -> Vec<SourcePrefix> {
    let parse = |text: &&str| SourcePrefix::from(text.parse::<IpAddr>().expect("an address"));
    hosts.iter().map(parse).collect()
}

#[test]
fn a_connection_has_its_place_for_four_round_trips_of_its_own_path() {
    let limits = AdmissionLimits { anonymous_places: 1, ..AdmissionLimits::for_sessions(32) };
    for (rtt_ms, own_ms) in [(0, 250), (172, 938), (436, 1994), (30_000, 5000)] {
        let mut table = AdmissionTable::new(limits);
        let source = sources(&["192.0.2.1"])[0];
        for number in [0, 1] {
            table.add_connection(Duration::ZERO, number, source);
            table.set_ready(Duration::ZERO, number, false, Duration::from_millis(rtt_ms));
        }
        assert_eq!(table.next_step(Duration::ZERO), AdmissionStep::Begin(0));
        let own = Duration::from_millis(own_ms);
        assert_eq!(table.next_step(Duration::ZERO), AdmissionStep::Wait(Some(own)));
        assert_eq!(table.next_step(own), AdmissionStep::ShutDown(0));
        assert_eq!(table.next_step(own), AdmissionStep::Wait(None), "its thread has not ended");
        table.remove(0);
        assert_eq!(table.next_step(own), AdmissionStep::Begin(1));
    }
}

#[test]
fn a_source_gives_way_to_one_with_fewer_places() {
    let limits = AdmissionLimits { anonymous_places: 4, ..AdmissionLimits::for_sessions(32) };
    let mut table = AdmissionTable::new(limits);
    let rtt = Duration::from_secs(1);
    let [one, neighbour, other] = sources(&["192.0.2.1", "192.0.2.2", "2001:db8::1"])[..] else {
        unreachable!("three addresses");
    };
    let mut ask = |number, source| {
        table.add_connection(Duration::ZERO, number, source);
        table.set_ready(Duration::ZERO, number, false, rtt);
        table.next_step(Duration::ZERO)
    };
    for number in 0..4 {
        assert_eq!(ask(number, one), AdmissionStep::Begin(number));
    }
    assert_eq!(ask(4, other), AdmissionStep::ShutDown(0), "another network");
    table.remove(0);
    assert_eq!(table.next_step(Duration::ZERO), AdmissionStep::Begin(4));
    table.add_connection(Duration::ZERO, 5, neighbour);
    table.set_ready(Duration::ZERO, 5, false, rtt);
    assert_eq!(table.next_step(Duration::ZERO), AdmissionStep::ShutDown(1), "another host");
    table.remove(1);
    assert_eq!(table.next_step(Duration::ZERO), AdmissionStep::Begin(5));
    table.add_connection(Duration::ZERO, 6, one);
    table.set_ready(Duration::ZERO, 6, false, rtt);
    assert!(matches!(table.next_step(Duration::ZERO), AdmissionStep::Wait(Some(_))));
}

#[test]
fn a_connection_without_first_bytes_is_given_up() {
    let mut table = AdmissionTable::new(AdmissionLimits::for_sessions(32));
    table.add_connection(Duration::ZERO, 7, sources(&["192.0.2.1"])[0]);
    assert!(table.take_expired(Duration::from_secs(4)).is_empty());
    assert_eq!(table.take_expired(Duration::from_secs(5)), [7]);
    assert!(table.connections.is_empty());
}
