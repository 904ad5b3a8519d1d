//! Happy Eyeballs (RFC 8305): connects to the addresses of a name one after the other, each a
//! little later, until one connection is made.
//!
//! The order is the resolver's (RFC 6724), with the families interleaved (section 4). The next
//! attempt begins after the Connection Attempt Delay (section 5), or at once when one has failed.

use longhaul_model::units::format_duration;
use longhaul_sys::probe_socket::IpFamily;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The recommended Connection Attempt Delay (RFC 8305 section 8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// The maximum number of addresses to try.
const MAX_ADDRESSES: usize = 16;

/// An address that gave no connection.
#[derive(Debug)]
pub struct AddressFailure {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// The attempts of a race. Times count from the beginning of the race.
pub(super) trait RaceAttempts {
    type Connection;

    fn now(&self) -> Duration;

    /// Begins to connect; an error is a failure at once.
    fn start(&mut self, address: SocketAddr) -> io::Result<()>;

    /// Waits until an attempt has ended, at the latest until `until`.
    fn wait(&mut self, until: Duration) -> Option<EndedAttempt<Self::Connection>>;
}

pub(super) struct EndedAttempt<C> {
    pub address: SocketAddr,
    pub result: io::Result<C>,
}

/// The end of a race: a connection with its address, or none.
pub(super) struct RaceResult<C> {
    pub winner: Option<(SocketAddr, C)>,
    /// The other addresses that were tried, in the order of their ends.
    pub failed: Vec<AddressFailure>,
}

struct RunningAttempt {
    address: SocketAddr,
    started_at: Duration,
}

/// Tries `addresses` in their order until one connects, all have failed, or `deadline` is over.
pub(super) fn race_connections<A: RaceAttempts>(
    addresses: &[SocketAddr],
    attempts: &mut A,
    deadline: Duration,
) -> RaceResult<A::Connection> {
    let mut queue: VecDeque<SocketAddr> = addresses.iter().copied().collect();
    let (mut running, mut failed) = (Vec::<RunningAttempt>::new(), Vec::new());
    let mut next_at = Duration::ZERO;
    while !(queue.is_empty() && running.is_empty()) {
        let now = attempts.now();
        if now >= deadline {
            break;
        }
        if now >= next_at
            && let Some(address) = queue.pop_front()
        {
            match attempts.start(address) {
                Ok(()) => {
                    running.push(RunningAttempt { address, started_at: now });
                    next_at = now + ATTEMPT_DELAY;
                }
                Err(source) => failed.push(AddressFailure { address, source }),
            }
            continue;
        }
        let until = if queue.is_empty() { deadline } else { next_at.min(deadline) };
        let Some(EndedAttempt { address, result }) = attempts.wait(until) else {
            continue;
        };
        running.retain(|attempt| attempt.address != address);
        match result {
            Ok(connection) => {
                let now = attempts.now();
                failed.extend(running.into_iter().map(|attempt| attempt.give_up(now)));
                return RaceResult { winner: Some((address, connection)), failed };
            }
            Err(source) => failed.push(AddressFailure { address, source }),
        }
        next_at = now;
    }
    let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "connection timed out");
    let late = running.into_iter().map(|attempt| attempt.address).chain(queue);
    failed.extend(late.map(|address| AddressFailure { address, source: timed_out() }));
    RaceResult { winner: None, failed }
}

impl RunningAttempt {
    fn give_up(self, now: Duration) -> AddressFailure {
        let time = format_duration(now.saturating_sub(self.started_at));
        let source = io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {time}"));
        AddressFailure { address: self.address, source }
    }
}

/// Returns the addresses without duplicates, with alternating families, beginning with the family
/// of the first. Within a family the order stays.
pub(super) fn interleave_families(
    addresses: impl IntoIterator<Item = SocketAddr>,
) -> Vec<SocketAddr> {
    let mut unique: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    let first = unique.first().map(|address| IpFamily::of_address(address.ip()));
    let (mut same, mut other): (VecDeque<_>, VecDeque<_>) =
        unique.into_iter().partition(|it| Some(IpFamily::of_address(it.ip())) == first);
    let mut ordered = Vec::new();
    while !(same.is_empty() && other.is_empty()) {
        ordered.extend(same.pop_front());
        ordered.extend(other.pop_front());
    }
    ordered.truncate(MAX_ADDRESSES);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The behaviour of an address in a simulated race.
    #[derive(Clone, Copy)]
    enum AddressFate {
        Connects(Duration),
        Refuses(Duration),
        FailsAtOnce,
        Silent,
    }

    /// Attempts on a simulated clock, which only waits advance.
    struct SimulatedAttempts {
        now: Duration,
        fates: HashMap<SocketAddr, AddressFate>,
        /// Addresses in the order of their attempts, with their times.
        started: Vec<(SocketAddr, Duration)>,
        ended: Vec<SocketAddr>,
    }

    impl RaceAttempts for SimulatedAttempts {
        type Connection = ();

        fn now(&self) -> Duration {
            self.now
        }

        fn start(&mut self, address: SocketAddr) -> io::Result<()> {
            self.started.push((address, self.now));
            match self.fates[&address] {
                AddressFate::FailsAtOnce => Err(io::ErrorKind::NetworkUnreachable.into()),
                _ => Ok(()),
            }
        }

        fn wait(&mut self, until: Duration) -> Option<EndedAttempt<()>> {
            let open = self.started.iter().filter(|(address, _)| !self.ended.contains(address));
            let ends = open.filter_map(|(address, at)| match self.fates[address] {
                AddressFate::Connects(after) => Some((*at + after, *address, true)),
                AddressFate::Refuses(after) => Some((*at + after, *address, false)),
                AddressFate::FailsAtOnce | AddressFate::Silent => None,
            });
            let Some((at, address, connects)) = ends.min().filter(|(at, ..)| *at <= until) else {
                self.now = until;
                return None;
            };
            self.now = at;
            self.ended.push(address);
            let refused = || io::ErrorKind::ConnectionRefused.into();
            Some(EndedAttempt { address, result: connects.then_some(()).ok_or_else(refused) })
        }
    }

    const DEADLINE: Duration = Duration::from_secs(10);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn address(number: u16, v6: bool) -> SocketAddr {
        let text = if v6 { format!("[fd99::{number}]:1") } else { format!("10.99.0.{number}:1") };
        text.parse().expect("an address")
    }

    struct SimulatedRace {
        winner: Option<SocketAddr>,
        started: Vec<(SocketAddr, Duration)>,
        failed: Vec<AddressFailure>,
        ended_at: Duration,
    }

    fn simulate(fates: &[(SocketAddr, AddressFate)]) -> SimulatedRace {
        let addresses: Vec<SocketAddr> = fates.iter().map(|(address, _)| *address).collect();
        let mut attempts = SimulatedAttempts {
            now: Duration::ZERO,
            fates: fates.iter().copied().collect(),
            started: Vec::new(),
            ended: Vec::new(),
        };
        let RaceResult { winner, failed } = race_connections(&addresses, &mut attempts, DEADLINE);
        SimulatedRace {
            winner: winner.map(|(address, ())| address),
            started: attempts.started,
            failed,
            ended_at: attempts.now,
        }
    }

    #[test]
    fn a_living_first_address_is_the_only_one_tried() {
        let race = simulate(&[
            (address(1, true), AddressFate::Connects(ms(249))),
            (address(1, false), AddressFate::Connects(ms(1))),
        ]);
        assert_eq!(race.winner, Some(address(1, true)));
        assert_eq!(race.started.len(), 1);
        assert!(race.failed.is_empty());
    }

    #[test]
    fn a_dead_ipv6_address_delays_ipv4_by_a_quarter_of_a_second() {
        let race = simulate(&[
            (address(1, true), AddressFate::Silent),
            (address(2, false), AddressFate::Connects(ms(100))),
        ]);
        assert_eq!(race.winner, Some(address(2, false)));
        assert_eq!(race.ended_at, ms(350));
        assert_eq!(race.failed[0].address, address(1, true));
        assert_eq!(race.failed[0].source.to_string(), "no answer in 350 ms");
    }

    #[test]
    fn a_failed_attempt_starts_the_next_at_once() {
        let race = simulate(&[
            (address(1, true), AddressFate::FailsAtOnce),
            (address(2, true), AddressFate::Refuses(ms(20))),
            (address(3, false), AddressFate::Connects(ms(5))),
        ]);
        assert_eq!(race.winner, Some(address(3, false)));
        assert_eq!(race.ended_at, ms(25));
        let failed: Vec<SocketAddr> = race.failed.iter().map(|failure| failure.address).collect();
        assert_eq!(failed, [address(1, true), address(2, true)]);
    }

    #[test]
    fn a_slow_first_address_may_still_win() {
        let race = simulate(&[
            (address(1, true), AddressFate::Connects(ms(300))),
            (address(2, false), AddressFate::Connects(ms(100))),
        ]);
        assert_eq!(race.started[1], (address(2, false), ms(250)));
        assert_eq!((race.winner, race.ended_at), (Some(address(1, true)), ms(300)));
    }

    #[test]
    fn if_all_fail_each_is_named_with_its_reason() {
        let race = simulate(&[
            (address(1, true), AddressFate::FailsAtOnce),
            (address(2, false), AddressFate::Refuses(ms(7))),
        ]);
        assert_eq!((race.winner, race.ended_at), (None, ms(7)));
        let kinds: Vec<io::ErrorKind> = race.failed.iter().map(|it| it.source.kind()).collect();
        assert_eq!(kinds, [io::ErrorKind::NetworkUnreachable, io::ErrorKind::ConnectionRefused]);
    }

    #[test]
    fn silent_addresses_end_at_the_deadline() {
        let fates: Vec<_> =
            (1..=4).map(|it| (address(it, it % 2 == 0), AddressFate::Silent)).collect();
        let race = simulate(&fates);
        assert_eq!((race.winner, race.ended_at), (None, DEADLINE));
        let times: Vec<Duration> = race.started.iter().map(|(_, at)| *at).collect();
        assert_eq!(times, [ms(0), ms(250), ms(500), ms(750)]);
        assert!(race.failed.iter().all(|it| it.source.kind() == io::ErrorKind::TimedOut));
        assert_eq!(race.failed.len(), 4);
    }

    #[test]
    fn families_alternate_and_keep_their_order() {
        let v6 = |number| address(number, true);
        let v4 = |number| address(number, false);
        assert_eq!(
            interleave_families([v6(1), v6(2), v6(1), v6(3), v4(1), v4(2)]),
            [v6(1), v4(1), v6(2), v4(2), v6(3)]
        );
        assert_eq!(interleave_families([v4(1), v6(1)]), [v4(1), v6(1)]);
        assert_eq!(interleave_families((1..=99).map(v6)).len(), MAX_ADDRESSES);
    }
}
