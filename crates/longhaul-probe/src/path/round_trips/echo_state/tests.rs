use super::*;
use proptest::prelude::*;

const WALL: Duration = Duration::from_secs(1_700_000_000);

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn moment(at: Duration) -> ClockPair {
    ClockPair { monotonic: at, wall: WALL + at, uncertainty: Duration::from_micros(1) }
}

fn schedule(probes: u32) -> EchoSchedule {
    EchoSchedule { probes, interval: ms(100), timeout: ms(1000), give_up_after: None }
}

/// Read half a millisecond after it came.
fn came(at: Duration) -> AnswerTiming {
    AnswerTiming::Read { moment: moment(at + Duration::from_micros(500)), stamp: Some(WALL + at) }
}

fn sent(probes: u32) -> EchoSeriesState {
    let mut series = EchoSeriesState::new(schedule(probes));
    while let Some(due) = series.due() {
        series.record_sent(moment(due));
    }
    series
}

#[test]
fn probes_are_an_interval_apart_and_the_series_ends_after_one_timeout() {
    let mut series = sent(3);
    assert_eq!(series.answer_deadline(), Some(ms(1200)));
    assert!(!series.is_over(ms(1199)));
    assert!(series.is_over(ms(1200)));
    let echoes = series.echoes(ProbeProtocol::Icmp, 84);
    let times: Vec<u64> = echoes.echoes.iter().map(|echo| echo.at_us).collect();
    assert_eq!(times, [0, 100_000, 200_000]);
    assert!(echoes.echoes.iter().all(|echo| echo.rtt_ns.is_none()));
}

#[test]
fn a_series_whose_probes_are_all_answered_is_over_at_once() {
    let mut series = sent(2);
    for number in 0..2 {
        let at = ms(100 * u64::from(number) + 30);
        series.record_answer(number, came(at), Some(60));
    }
    assert!(series.is_over(ms(131)));
    let echoes = series.echoes(ProbeProtocol::Icmp, 84);
    assert_eq!(echoes.clock, "kernel_receive");
    assert_eq!(echoes.echoes[1].rtt_ns, Some(30_000_000));
    assert_eq!(echoes.echoes[1].ttl, Some(60));
}

#[test]
fn a_second_answer_is_a_duplicate_and_an_overtaken_one_is_reordered() {
    let mut series = sent(3);
    series.record_answer(1, came(ms(210)), None);
    series.record_answer(0, came(ms(220)), None);
    series.record_answer(0, came(ms(221)), None);
    series.record_answer(2, came(ms(240)), None);
    let echoes = series.echoes(ProbeProtocol::Icmp, 84);
    assert_eq!((echoes.duplicates, echoes.reordered), (1, 1));
}

#[test]
fn answers_that_are_late_or_to_nothing_are_thrown_away() {
    let mut series = sent(1);
    series.record_answer(7, came(ms(10)), None);
    series.record_answer(0, came(ms(1001)), None);
    let echoes = series.echoes(ProbeProtocol::Icmp, 84);
    assert_eq!(echoes.discarded, 2);
    assert_eq!(echoes.echoes[0].rtt_ns, None);
}

#[test]
fn with_both_stamps_the_clock_is_the_kernels() {
    let mut series = sent(1);
    series.record_transmit_time(0, WALL + Duration::from_micros(200), &moment(ms(1)));
    series.record_answer(0, came(ms(30)), None);
    let echoes = series.echoes(ProbeProtocol::Icmp, 84);
    assert_eq!(echoes.clock, "kernel");
    assert_eq!(echoes.echoes[0].rtt_ns, Some(29_800_000));
}

#[test]
fn a_wall_clock_set_back_under_way_leaves_the_round_trip_to_the_monotonic_one() {
    let mut series = sent(1);
    let mut read = moment(ms(31));
    read.wall -= Duration::from_secs(3600);
    let stamp = Some(WALL + ms(30));
    let came = AnswerTiming::Read { moment: read, stamp };
    series.record_answer(0, came, None);
    let echoes = series.echoes(ProbeProtocol::Icmp, 84);
    assert_eq!(echoes.clock, "user");
    assert_eq!(echoes.echoes[0].rtt_ns, Some(31_000_000));
}

#[test]
fn a_silent_far_end_is_given_up_after_its_first_probes() {
    let mut series = EchoSeriesState::new(EchoSchedule { give_up_after: Some(2), ..schedule(50) });
    while let Some(due) = series.due().filter(|&due| due <= ms(1100)) {
        series.record_sent(moment(due));
        assert!(!series.is_over(due.min(ms(1099))));
    }
    assert!(!series.gave_up);
    assert!(!series.is_over(ms(1100)), "later probes are still awaited");
    assert!(series.gave_up);
    assert_eq!(series.due(), None);
    assert!(series.is_over(ms(2100)));
}

#[test]
fn an_answered_series_is_never_given_up() {
    let mut series = EchoSeriesState::new(EchoSchedule { give_up_after: Some(1), ..schedule(5) });
    series.record_sent(moment(ms(0)));
    series.record_answer(0, came(ms(20)), None);
    series.record_sent(moment(ms(100)));
    assert!(!series.is_over(ms(5000)) && !series.gave_up);
}

#[test]
fn each_probe_is_told_once_and_in_order() {
    let mut series = sent(3);
    series.record_answer(1, came(ms(120)), None);
    assert!(series.take_settled(ms(300)).is_empty(), "the first is open");
    series.record_answer(0, came(ms(310)), None);
    let told = series.take_settled(ms(311));
    assert_eq!(told.len(), 2);
    assert_eq!(series.take_settled(ms(1199)).len(), 0);
    let last = series.take_settled(ms(1200));
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].rtt_ns, None);
}

#[test]
fn what_nobody_may_ask_is_held_to_a_bound() {
    let asked = EchoSchedule {
        probes: u32::MAX,
        interval: Duration::ZERO,
        timeout: Duration::MAX,
        give_up_after: None,
    };
    let held = asked.clamped();
    assert_eq!(held.probes, MAX_PROBES);
    assert_eq!((held.interval, held.timeout), (MIN_INTERVAL, MAX_TIMEOUT));
}

/// What may come, at any time and about any probe.
fn any_events() -> impl Strategy<Value = Vec<(u32, u64, i64, bool)>> {
    let event = (0..30_u32, 0..4_000_000_u64, -2_000_000_i64..2_000_000, any::<bool>());
    proptest::collection::vec(event, 0..120)
}

proptest! {
    /// Whatever comes: every answer is counted once, as one thing, and no time is negative or
    /// longer than the timeout.
    #[test]
    fn every_answer_is_counted_exactly_once(events in any_events()) {
        let mut series = sent(20);
        let mut count = 0;
        for (number, at_us, stamp_off_us, stamped) in events {
            let at = Duration::from_micros(at_us);
            let off = Duration::from_micros(stamp_off_us.unsigned_abs());
            let stamp = if stamp_off_us < 0 { (WALL + at).saturating_sub(off) } else { WALL + at + off };
            let came = AnswerTiming::Read { moment: moment(at), stamp: stamped.then_some(stamp) };
            series.record_answer(number, came, None);
            count += 1;
        }
        let echoes = series.echoes(ProbeProtocol::Udp, 60);
        let answered = echoes.echoes.iter().filter(|echo| echo.rtt_ns.is_some()).count();
        let accepted = series.answered_probes();
        prop_assert_eq!(answered as u32, accepted);
        prop_assert_eq!(accepted + echoes.duplicates + echoes.discarded, count);
        prop_assert!(echoes.reordered <= accepted.saturating_sub(1));
        let longest = ms(1000).as_nanos() as u64;
        prop_assert!(echoes.echoes.iter().filter_map(|echo| echo.rtt_ns).all(|rtt| rtt <= longest));
        prop_assert!(series.is_over(ms(1900 + 1000)));
    }

    /// Loss, duplicates and order of a path as it is are found again exactly.
    #[test]
    fn a_path_that_loses_and_doubles_is_seen_as_it_is(
        fate in proptest::collection::vec((any::<bool>(), any::<bool>(), 1_u64..700), 1..40),
    ) {
        let mut series = sent(fate.len() as u32);
        let mut arrivals: Vec<(u64, u32, bool)> = Vec::new();
        for (number, &(lost, doubled, delay)) in fate.iter().enumerate() {
            let at = 100 * number as u64 + delay;
            if !lost {
                arrivals.push((at, number as u32, false));
                if doubled {
                    arrivals.push((at, number as u32, true));
                }
            }
        }
        arrivals.sort_unstable();
        for &(at, number, _) in &arrivals {
            series.record_answer(number, came(ms(at)), None);
        }
        let firsts: Vec<u32> =
            arrivals.iter().filter(|a| !a.2).map(|&(_, number, _)| number).collect();
        let overtaken = (1..firsts.len())
            .filter(|&i| firsts[..i].iter().any(|&before| before > firsts[i]))
            .count();
        let echoes = series.echoes(ProbeProtocol::Tcp, 60);
        let answered = echoes.echoes.iter().filter(|echo| echo.rtt_ns.is_some()).count();
        prop_assert_eq!(answered, firsts.len());
        prop_assert_eq!(echoes.duplicates as usize, arrivals.len() - firsts.len());
        prop_assert_eq!(echoes.reordered as usize, overtaken);
        for &number in &firsts {
            let rtt = Duration::from_millis(fate[number as usize].2).as_nanos() as u64;
            prop_assert_eq!(echoes.echoes[number as usize].rtt_ns, Some(rtt));
        }
    }
}
