//! Whole tables of 3.12.

use super::*;

fn layout(role: TextRole, udp: bool, both: bool, streams: usize) -> TextLayout {
    TextLayout {
        role,
        unit: RateFormat::Adaptive,
        udp,
        both,
        streams,
    }
}

fn sent(id: i64, bytes: u64, resent: u64, cwnd: u64) -> IntervalRow {
    IntervalRow {
        id,
        sends: true,
        to_s: 1.0,
        bytes,
        retransmits: Some(resent),
        cwnd: Some(cwnd),
        ..IntervalRow::default()
    }
}

#[test]
fn streams_that_are_added_up_have_a_line_of_their_own_and_a_rule_between_intervals() {
    let layout = layout(TextRole::Client, false, false, 2);
    let rows = [
        sent(5, 358_612_992, 0, 785_408),
        sent(7, 354_418_688, 1, 1_174_405),
    ];
    assert_eq!(
        layout.interval(&rows, Some(true), false),
        "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\
         [  5]   0.00-1.00   sec   342 MBytes  2.87 Gbits/sec    0    767 KBytes       \n\
         [  7]   0.00-1.00   sec   338 MBytes  2.84 Gbits/sec    1   1.12 MBytes       \n\
         [SUM]   0.00-1.00   sec   680 MBytes  5.70 Gbits/sec    1             \n"
    );
    let omitted = layout.interval(&rows[..1], None, true);
    assert!(omitted.starts_with(SEPARATOR), "{omitted}");
    assert!(
        omitted.contains("767 KBytes       (omitted)\n"),
        "{omitted}"
    );
}

#[test]
fn both_directions_of_datagrams_stand_under_one_header() {
    let layout = layout(TextRole::Server, true, true, 1);
    let came = IntervalRow {
        id: 5,
        to_s: 1.0,
        bytes: 655_360,
        datagrams: 20,
        jitter_ms: 0.029,
        ..IntervalRow::default()
    };
    let went = IntervalRow {
        id: 6,
        sends: true,
        jitter_ms: 0.0,
        ..came
    };
    assert_eq!(
        layout.interval(&[came, went], Some(false), false),
        "[ ID][Role] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n\
         [  5][RX-S]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec  0.029 ms  0/20 (0%)  \n\
         [  6][TX-S]   0.00-1.00   sec   640 KBytes  5.24 Mbits/sec            20  \n"
    );
}

fn total(id: i64, sends: bool) -> TotalRow {
    let side = StreamSide {
        duration_s: 1.0,
        bytes: 692_060_160,
        ..StreamSide::default()
    };
    TotalRow {
        id,
        sends,
        sender: Some(StreamSide {
            retransmits: Some(27),
            ..side
        }),
        receiver: Some(side),
    }
}

#[test]
fn a_client_that_says_more_has_processors_and_congestion_controls_behind_its_totals() {
    let told = VerboseTotals {
        processor: CpuUtilization {
            local: (0.8, 7.2),
            remote: (0.0, 36.0),
        },
        sender_congestion: Some("bbr".to_owned()),
        receiver_congestion: Some("bbr".to_owned()),
    };
    let one = layout(TextRole::Client, false, false, 1);
    assert_eq!(
        one.totals(&[total(5, true)], true, Some(&told)),
        "- - - - - - - - - - - - - - - - - - - - - - - - -\n\
         Test Complete. Summary Results:\n\
         [ ID] Interval           Transfer     Bitrate         Retr\n\
         [  5]   0.00-1.00   sec   660 MBytes  5.54 Gbits/sec   27             sender\n\
         [  5]   0.00-1.00   sec   660 MBytes  5.54 Gbits/sec                  receiver\n\
         CPU Utilization: local/sender 8.0% (0.8%u/7.2%s), remote/receiver 36.0% (0.0%u/36.0%s)\n\
         snd_tcp_congestion bbr\n\
         rcv_tcp_congestion bbr\n"
    );
    let reverse = one.totals(&[total(5, false)], true, Some(&told));
    assert!(!reverse.contains("CPU"), "{reverse}");
    let both = layout(TextRole::Client, false, true, 1);
    let both = both.totals(&[total(5, true), total(7, false)], true, Some(&told));
    assert_eq!(both.matches("CPU Utilization").count(), 2);
    assert!(both.contains("local/receiver 8.0% (0.8%u/7.2%s), remote/sender"));
    assert!(both.contains("[  7][RX-C]   0.00-1.00   sec   660 MBytes"));
}

#[test]
fn what_the_other_end_does_not_tell_is_said_only_by_a_server_that_says_more() {
    let layout = layout(TextRole::Server, false, false, 2);
    let came = |id| TotalRow {
        sender: None,
        ..total(id, false)
    };
    let told = VerboseTotals {
        receiver_congestion: Some("bbr".to_owned()),
        ..VerboseTotals::default()
    };
    let text = layout.totals(&[came(5), came(8)], false, Some(&told));
    assert_eq!(
        text.lines().skip(3).collect::<Vec<_>>(),
        [
            "[  5] (sender statistics not available)",
            "[  5]   0.00-1.00   sec   660 MBytes  5.54 Gbits/sec                  receiver",
            "[  8] (sender statistics not available)",
            "[  8]   0.00-1.00   sec   660 MBytes  5.54 Gbits/sec                  receiver",
            "[SUM] (sender statistics not available)",
            "[SUM]   0.00-1.00   sec  1.29 GBytes  11.1 Gbits/sec                  receiver",
            "rcv_tcp_congestion bbr",
        ]
    );
    let short = layout.totals(&[came(5), came(8)], false, None);
    assert!(!short.contains("not available") && !short.contains("congestion"));
    assert!(short.contains("Bitrate\n"), "{short}");
}

#[test]
fn totals_of_datagrams_have_a_sender_without_losses() {
    let layout = layout(TextRole::Client, true, false, 1);
    let sender = StreamSide {
        duration_s: 2.0,
        bytes: 1_277_952,
        datagrams: 39,
        ..StreamSide::default()
    };
    let outcome = TotalRow {
        id: 5,
        sends: true,
        sender: Some(sender),
        receiver: Some(StreamSide {
            jitter_ms: 0.012,
            lost: 3,
            ..sender
        }),
    };
    assert_eq!(
        layout.totals(&[outcome], false, None),
        "- - - - - - - - - - - - - - - - - - - - - - - - -\n\
         [ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n\
         [  5]   0.00-2.00   sec  1.22 MBytes  5.11 Mbits/sec  0.000 ms  0/39 (0%)  sender\n\
         [  5]   0.00-2.00   sec  1.22 MBytes  5.11 Mbits/sec  0.012 ms  3/39 (7.7%)  receiver\n"
    );
}
