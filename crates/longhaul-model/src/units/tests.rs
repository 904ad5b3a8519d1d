use super::{Bytes, Rate, format_duration, parse_duration};
use std::time::Duration;

#[test]
fn sizes_are_read_as_users_of_iperf_write_them() {
    for (text, bytes) in [
        ("262144", 262_144),
        ("256K", 262_144),
        ("64 KiB", 65_536),
        ("1.5M", 1_572_864),
        ("128 MB", 128_000_000),
        ("2g", 2_147_483_648),
        ("0", 0),
    ] {
        assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
    }
    for text in ["", "K", "-1", "1e400", "12 parsecs", "99999999999T", "1 KK", "NaN", "inf"] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
}

#[test]
fn rates_are_decimal_and_bytes_need_a_capital_b() {
    for (text, bps) in [
        ("10G", 10_000_000_000),
        ("6.25 Gbit/s", 6_250_000_000),
        ("4.222Gbps", 4_222_000_000),
        ("100Mb/s", 100_000_000),
        ("125 MB/s", 1_000_000_000),
        ("9600", 9600),
        ("64kbit", 64_000),
    ] {
        assert_eq!(text.parse(), Ok(Rate::bits_per_second(bps)), "{text}");
    }
    for text in ["fast", "1 Gbit/h", "-3M", "1 XB/s"] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}

#[test]
fn units_print_so_that_they_read_back() {
    assert_eq!(Bytes(65_536).to_string(), "64 KiB");
    assert_eq!(Bytes(1_000).to_string(), "1000 B");
    assert_eq!(Rate::bits_per_second(6_244_876_000).to_string(), "6.245 Gbit/s");
    assert_eq!(Rate::bits_per_second(941_482_312).to_string(), "941.5 Mbit/s");
    assert_eq!(format_duration(Duration::from_micros(172_043)), "172 ms");
    assert_eq!(format_duration(Duration::from_millis(2500)), "2.5 s");
}

#[test]
fn rates_neither_overflow_nor_divide_by_zero() {
    assert_eq!(Rate::over(1, Duration::ZERO), None);
    assert_eq!(Rate::over(u64::MAX, Duration::from_nanos(1)), None);
    assert_eq!(
        Rate::over(498_587_545_600_000_000, Duration::from_secs(600_000)),
        Some(Rate::bits_per_second(6_647_833_941_333))
    );
    assert_eq!(Rate::bits_per_second(0).time_for(1), None);
    assert_eq!(
        Rate::bits_per_second(6_250_000_000).bytes_in(Duration::from_millis(172)),
        134_375_000
    );
}

#[test]
fn durations_take_a_unit_or_mean_seconds() {
    assert_eq!(parse_duration("86 ms"), Ok(Duration::from_millis(86)));
    assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
    assert_eq!(parse_duration("1.5 min"), Ok(Duration::from_secs(90)));
    assert!(parse_duration("soon").is_err());
    assert!(parse_duration("-1s").is_err());
}
