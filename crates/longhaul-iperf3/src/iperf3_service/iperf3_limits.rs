//! The limits of iperf3's own server: the duration of a test, and the total rate of all tests.

use crate::iperf3_messages::{Iperf3Error, RequestedTest, TestLimit};
use crate::server_protocol::TestFault;
use longhaul_model::units::Rate;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// The number of readings of one test within the window.
const MAX_READINGS: u32 = 50;

/// The limits for every client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iperf3Limits {
    /// Anonymous clients have no other limits than these, as with iperf3's own server.
    pub anonymous_unlimited: bool,
    /// The maximum duration, including the omitted time.
    pub max_duration: Option<Duration>,
    pub rate: Option<RateLimit>,
    /// The timeout without payload; default [`SILENCE`](crate::server_protocol::SILENCE_TIMEOUT).
    pub silence_timeout: Option<Duration>,
}

/// The maximum mean rate of all tests together over a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub bits_per_second: u64,
    pub window: Duration,
}

impl Iperf3Limits {
    /// Checks the duration of a test.
    pub(super) fn check_time(&self, test: &RequestedTest) -> Result<(), TestFault> {
        let (Some(longest), TestLimit::Seconds(seconds)) = (self.max_duration, test.limit) else {
            return Ok(());
        };
        let asked = Duration::from_secs(u64::from(seconds) + u64::from(test.omit_seconds));
        if asked <= longest {
            return Ok(());
        }
        let why = format!(
            "{} s requested, at most {} s allowed",
            asked.as_secs(),
            longest.as_secs()
        );
        Err((Iperf3Error::DurationAboveLimit, why))
    }
}

/// Returns the requested rate of all streams in bit/s; `None` for unlimited.
fn requested_rate(test: &RequestedTest) -> Option<u64> {
    let each = test.rate_bps?;
    Some(each.saturating_mul(test.all_streams() as u64))
}

/// The rates of all tests.
#[derive(Debug, Default)]
pub struct RateMeter {
    tests: Mutex<BTreeMap<u64, CarriedRate>>,
}

#[derive(Debug, Default)]
struct CarriedRate {
    asked: Option<u64>,
    /// Times and the bytes until then.
    readings: VecDeque<(Instant, u64)>,
    /// The rate over the last window; `None` before the first one is complete.
    bits_per_second: Option<u64>,
}

/// A test that is metered until it is dropped.
#[derive(Debug)]
pub(super) struct MeteredTest<'a> {
    meter: &'a RateMeter,
    number: u64,
    limit: RateLimit,
}

impl RateMeter {
    /// Starts metering a test, if its requested rate fits together with those of the others.
    pub(super) fn register(
        &self,
        test: &RequestedTest,
        limit: RateLimit,
    ) -> Result<MeteredTest<'_>, TestFault> {
        let mut tests = self.tests.lock();
        let others: u64 = tests.values().filter_map(|test| test.asked).sum();
        let asked = requested_rate(test);
        let all = others.saturating_add(asked.unwrap_or(0));
        if all > limit.bits_per_second {
            let (all, most) = (Rate::bits_per_second(all), limit.as_rate());
            return Err((
                Iperf3Error::TotalRate,
                format!("{all} requested in total, at most {most} allowed"),
            ));
        }
        let number = tests.last_key_value().map_or(0, |(last, _)| last + 1);
        let carried = CarriedRate {
            asked,
            ..CarriedRate::default()
        };
        tests.insert(number, carried);
        Ok(MeteredTest {
            meter: self,
            number,
            limit,
        })
    }
}

impl RateLimit {
    fn as_rate(&self) -> Rate {
        Rate::bits_per_second(self.bits_per_second)
    }
}

impl MeteredTest<'_> {
    /// Records the bytes of this test until `now`. Fails if the total rate exceeds the limit and
    /// this test has the highest rate.
    pub fn record(&self, now: Instant, bytes: u64) -> Result<(), TestFault> {
        let mut tests = self.meter.tests.lock();
        let Some(own) = tests.get_mut(&self.number) else {
            return Ok(());
        };
        own.record(now, bytes, self.limit.window);
        let Some(rate) = own.bits_per_second else {
            return Ok(());
        };
        let rates = || tests.values().filter_map(|test| test.bits_per_second);
        let all: u64 = rates().fold(0, u64::saturating_add);
        if all <= self.limit.bits_per_second || rates().any(|other| other > rate) {
            return Ok(());
        }
        let (all, most) = (Rate::bits_per_second(all), self.limit.as_rate());
        Err((
            Iperf3Error::TotalRate,
            format!("{all} transferred in total, at most {most} allowed"),
        ))
    }
}

impl CarriedRate {
    fn record(&mut self, now: Instant, bytes: u64, window: Duration) {
        let spacing = window / MAX_READINGS;
        let last = self.readings.back().map(|(at, _)| *at);
        if last.is_some_and(|last| now.saturating_duration_since(last) < spacing) {
            return;
        }
        self.readings.push_back((now, bytes));
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= window;
        // The mean begins at the latest reading that is at least a window old.
        while self.readings.get(1).is_some_and(|(at, _)| is_old(at)) {
            self.readings.pop_front();
        }
        self.bits_per_second = self
            .readings
            .front()
            .filter(|(at, _)| is_old(at))
            .map(|first| {
                let lasted = now.saturating_duration_since(first.0).as_secs_f64();
                (bytes.saturating_sub(first.1) as f64 * 8.0 / lasted) as u64
            });
    }
}

impl Drop for MeteredTest<'_> {
    fn drop(&mut self) {
        self.meter.tests.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3_messages::TestParameters;

    const LIMIT: RateLimit = RateLimit {
        bits_per_second: 10_000_000,
        window: Duration::from_secs(2),
    };

    fn test(asked: &TestParameters) -> RequestedTest {
        RequestedTest::validate(asked).expect("in range")
    }

    #[test]
    fn a_test_is_over_the_limit_on_the_mean_of_the_window_and_not_before_one_has_passed() {
        let meter = RateMeter::default();
        let metered = meter
            .register(&test(&TestParameters::default()), LIMIT)
            .expect("nothing asked");
        let start = Instant::now();
        // 20 Mbit/s; the rate is unknown until the first window ends.
        let at = |tenths: u32| start + Duration::from_millis(100) * tenths;
        for tenths in 0..20 {
            assert_eq!(
                metered.record(at(tenths), u64::from(tenths) * 250_000),
                Ok(())
            );
        }
        let over = metered.record(at(20), 20 * 250_000).expect_err("20 Mbit/s");
        assert_eq!(over.0, Iperf3Error::TotalRate);
        // A pause lowers the mean.
        for tenths in 21..60 {
            let _ = metered.record(at(tenths), 20 * 250_000);
        }
        assert_eq!(metered.record(at(60), 20 * 250_000), Ok(()));
    }

    #[test]
    fn of_several_tests_the_one_that_carries_the_most_is_over_the_limit() {
        let meter = RateMeter::default();
        let enter = || {
            meter
                .register(&test(&TestParameters::default()), LIMIT)
                .expect("room")
        };
        let (slow, fast) = (enter(), enter());
        let start = Instant::now();
        let (mut slow_fine, mut fast_fine) = (true, true);
        for tenths in 0..=30_u32 {
            let at = start + Duration::from_millis(100) * tenths;
            slow_fine &= slow.record(at, u64::from(tenths) * 50_000).is_ok();
            fast_fine &= fast.record(at, u64::from(tenths) * 100_000).is_ok();
        }
        assert!(slow_fine && !fast_fine);
        drop(fast);
        assert_eq!(
            slow.record(start + Duration::from_secs(6), 3_000_000),
            Ok(())
        );
    }

    #[test]
    fn what_clients_ask_for_is_added_up_before_they_are_let_in() {
        let meter = RateMeter::default();
        let asks = |bandwidth, parallel| {
            test(&TestParameters {
                bandwidth: Some(bandwidth),
                parallel: Some(parallel),
                ..TestParameters::default()
            })
        };
        let refused = |fault: TestFault| fault.0;
        let alone = meter.register(&asks(3_000_000, 4), LIMIT).map_err(refused);
        assert_eq!(alone.err(), Some(Iperf3Error::TotalRate));
        let first = meter.register(&asks(3_000_000, 2), LIMIT).expect("6 of 10");
        let second = meter.register(&asks(5_000_000, 1), LIMIT).map_err(refused);
        assert_eq!(second.err(), Some(Iperf3Error::TotalRate));
        drop(first);
        assert!(meter.register(&asks(5_000_000, 1), LIMIT).is_ok());
    }

    #[test]
    fn a_time_over_the_longest_is_refused_with_what_is_omitted() {
        let limits = Iperf3Limits {
            max_duration: Some(Duration::from_secs(10)),
            ..Iperf3Limits::default()
        };
        let of = |time, omit| {
            test(&TestParameters {
                time: Some(time),
                omit: Some(omit),
                ..TestParameters::default()
            })
        };
        assert_eq!(limits.check_time(&of(8, 2)), Ok(()));
        let (trouble, _) = limits.check_time(&of(9, 2)).expect_err("11 s");
        assert_eq!(trouble, Iperf3Error::DurationAboveLimit);
        assert_eq!(Iperf3Limits::default().check_time(&of(80_000, 2)), Ok(()));
    }
}
