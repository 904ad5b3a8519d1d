//! iperf3's wire: what versions wrote is read, what is out of range is refused, and no bytes harm.

use longhaul_iperf3::iperf3_messages::{
    CounterWidth, FrameSplitter, Iperf3Error, MAX_CLIENT_RESULT_BYTES, MAX_PARAMETER_BYTES,
    RequestedTest, ResultsFault, ServerRefusal, StreamResults, TestParameters, TestResults,
    UdpGreeting, decode_body, encode_message, stream_id,
};
use longhaul_model::foreign_text::sanitize_foreign;
use longhaul_model::report::v1::plan::{RunDirection, StopCondition};
use proptest::prelude::*;

/// As Debian's 3.12 wrote them.
const FROM_3_12: &str = r#"{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"bidirectional":true,"window":65536,"len":32768,"bandwidth":1048576,"fqrate":1000000,"pacing_timer":1000,"TOS":8,"title":"t","extra_data":"x","udp_counters_64bit":1,"repeating_payload":1,"dont_fragment":1,"client_version":"3.12"}"#;
const RESULTS_3_12: &str = r#"{"cpu_util_total":12.345443304068256,"cpu_util_user":12.346432546061582,"cpu_util_system":0,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","streams":[{"id":1,"bytes":131072,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":4,"start_time":0,"end_time":1.000416},{"id":3,"bytes":163840,"retransmits":18446744073709551615,"jitter":0.00010996549987792971,"errors":0,"packets":5,"start_time":0,"end_time":1.000419}]}"#;
/// As 3.1 writes: six digits, no times, spaces.
const RESULTS_3_1: &str = r#"{ "cpu_util_total": 1.5, "cpu_util_user": 1, "cpu_util_system": 0.5,
    "sender_has_retransmits": 1, "streams": [ { "id": 1, "bytes": 1.23457e+09,
    "retransmits": 3, "jitter": 0, "errors": 0, "packets": 0 } ] }"#;

#[test]
fn parameters_of_3_12_are_understood_and_written_alike_except_unused_ones() {
    let asked: TestParameters = decode_body(FROM_3_12.as_bytes()).expect("iperf3's own");
    let test = RequestedTest::validate(&asked).expect("in range");
    assert!(test.is_udp());
    assert_eq!(test.plan.direction, RunDirection::Both);
    assert_eq!(test.plan.stop, StopCondition::TimeUs(1_000_000));
    assert_eq!(test.counters, CounterWidth::Bits64);
    assert_eq!((test.plan.send_buffer_bytes, test.plan.dscp), (Some(65536), Some(2)));
    assert_eq!(test.plan.pacing_bps, Some(1_000_000));
    assert!(test.plan.dont_fragment);
    assert_eq!((test.all_streams(), test.first_sending()), (2, 1));
    let frame = encode_message(&asked, MAX_PARAMETER_BYTES).expect("small");
    let text = String::from_utf8(frame[4..].to_vec()).expect("JSON");
    let unused = [r#""title":"t","extra_data":"x","#, r#""repeating_payload":1,"#];
    let known = unused.iter().fold(FROM_3_12.to_owned(), |text, keys| text.replace(keys, ""));
    assert_eq!(text, known);
}

#[test]
fn results_of_old_versions_are_read_with_their_rounding_and_lost_signs() {
    let results: TestResults = decode_body(RESULTS_3_12.as_bytes()).expect("iperf3's own");
    assert_eq!(results.sender_has_retransmits, -1);
    let streams = results.by_index(2).expect("both");
    assert_eq!((streams[1].id, streams[1].bytes), (3, 163_840));
    assert_eq!(streams[0].retransmits, -1);
    let old: TestResults = decode_body(RESULTS_3_1.as_bytes()).expect("iperf3's own");
    assert_eq!(old.streams[0].bytes, 1_234_570_000);
    assert_eq!(old.streams[0].end_time, None);
    assert_eq!(old.by_index(2), Err(ResultsFault::Streams { count: 1, expected: 2 }));
}

#[test]
fn results_that_cannot_be_are_refused() {
    let fine: TestResults = decode_body(RESULTS_3_12.as_bytes()).expect("iperf3's own");
    let change = |change: fn(&mut StreamResults)| {
        let mut results = fine.clone();
        change(&mut results.streams[1]);
        results.by_index(2).map(|_| ()).expect_err("changed")
    };
    assert_eq!(change(|s| s.id = 1), ResultsFault::Absent { id: 3 });
    assert_eq!(change(|s| s.bytes = -5), ResultsFault::Negative { id: 3 });
    assert_eq!(change(|s| s.omitted_errors = Some(0)), ResultsFault::Unpaired { id: 3 });
    for text in [r#"{"cpu_util_total":0}"#, r#"{"streams":"many"}"#, "[]", "null", ""] {
        assert!(decode_body::<TestResults>(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn what_is_out_of_range_has_the_number_that_clients_print() {
    for (text, trouble) in [
        (r#"{"parallel":0}"#, Iperf3Error::Streams),
        (r#"{"parallel":129}"#, Iperf3Error::Streams),
        (r#"{"parallel":-1}"#, Iperf3Error::Streams),
        (r#"{"time":86401}"#, Iperf3Error::Duration),
        (r#"{"omit":601}"#, Iperf3Error::Omit),
        (r#"{"len":1048577}"#, Iperf3Error::BlockSize),
        (r#"{"len":-1}"#, Iperf3Error::BlockSize),
        (r#"{"udp":true,"len":15}"#, Iperf3Error::DatagramSize),
        (r#"{"udp":true,"len":65508}"#, Iperf3Error::DatagramSize),
        (r#"{"window":536870913}"#, Iperf3Error::Window),
        (r#"{"MSS":32768}"#, Iperf3Error::Mss),
        (r#"{"burst":1001}"#, Iperf3Error::Burst),
        (r#"{"TOS":256}"#, Iperf3Error::Tos),
        (r#"{"bandwidth":-1}"#, Iperf3Error::TotalRate),
        (r#"{"num":1,"blockcount":1}"#, Iperf3Error::EndConditions),
        (r#"{"sctp":true}"#, Iperf3Error::Unimplemented),
        (r#"{"mptcp":true}"#, Iperf3Error::Unimplemented),
        (r#"{"reverse":true,"bidirectional":true}"#, Iperf3Error::ReverseAndBidirectional),
        (r#"{"congestion":"../../cubic"}"#, Iperf3Error::Congestion),
        (r#"{"congestion":""}"#, Iperf3Error::Congestion),
    ] {
        let asked: TestParameters = decode_body(text.as_bytes()).expect("types are fine");
        assert_eq!(RequestedTest::validate(&asked), Err(trouble), "{text}");
    }
    let plain =
        RequestedTest::validate(&decode_body(b"{}").expect("nothing is needed")).expect("defaults");
    let stop = StopCondition::TimeUs(10_000_000);
    assert_eq!((plain.is_udp(), plain.plan.streams, plain.plan.stop), (false, 1, stop));
}

#[test]
fn wrong_types_and_sizes_are_errors() {
    for text in [
        r#"{"parallel":"4"}"#,
        "[]",
        " [1]",
        "null",
        "",
        r#"{"tcp":"yes"}"#,
        r#"{"time":[1]}"#,
        r#"{"congestion":{}}"#,
        r#"{"num":1e300}"#,
        r#"{"num":1,"num":2}"#,
        r#"{"len":1"#,
    ] {
        assert!(decode_body::<TestParameters>(text.as_bytes()).is_err(), "{text}");
    }
    let mut bodies = FrameSplitter::new(MAX_PARAMETER_BYTES);
    let long = (MAX_PARAMETER_BYTES as u32 + 1).to_be_bytes();
    assert!(bodies.next(&mut long.as_slice()).is_err());
    assert!(bodies.held_bytes() < 1024);
    let large = TestParameters {
        congestion: Some("c".repeat(MAX_PARAMETER_BYTES)),
        ..TestParameters::default()
    };
    assert!(encode_message(&large, MAX_PARAMETER_BYTES).is_err());
}

#[test]
fn ids_skip_two() {
    let ids: Vec<i64> = (0..4).map(stream_id).collect();
    assert_eq!(ids, [1, 3, 4, 5]);
}

fn parameters() -> impl Strategy<Value = TestParameters> {
    let numbers = proptest::array::uniform8(proptest::option::of(any::<i64>()));
    let flags = proptest::array::uniform6(any::<bool>());
    let text = ".{0,20}".prop_map(|text| sanitize_foreign(&text).into_owned());
    (numbers, flags, proptest::option::of(text)).prop_map(|(numbers, flags, congestion)| {
        let [omit, time, num, mss, parallel, len, bandwidth, tos] = numbers;
        let [tcp, udp, reverse, zerocopy, get_server_output, nodelay] = flags;
        TestParameters {
            tcp,
            udp,
            omit,
            time,
            num,
            mss,
            parallel,
            len,
            bandwidth,
            tos,
            reverse,
            zerocopy,
            get_server_output,
            nodelay,
            congestion,
            ..TestParameters::default()
        }
    })
}

proptest! {
    #[test]
    fn parameters_read_back(asked in parameters()) {
        let frame = encode_message(&asked, MAX_PARAMETER_BYTES).expect("small");
        prop_assert_eq!(decode_body::<TestParameters>(&frame[4..]).expect("own"), asked);
    }

    #[test]
    fn what_passes_the_check_is_in_range(asked in parameters()) {
        if let Ok(test) = RequestedTest::validate(&asked) {
            prop_assert!((1..=128).contains(&test.plan.streams));
            prop_assert!(test.plan.write_bytes <= Some(1 << 20));
            prop_assert!(test.all_streams() <= 256);
        }
    }

    #[test]
    fn frames_come_out_however_they_are_cut_and_leave_what_follows(
        asked in parameters(),
        piece in 1_usize..40,
    ) {
        let frame = encode_message(&asked, MAX_PARAMETER_BYTES).expect("small");
        let mut bodies = FrameSplitter::new(MAX_PARAMETER_BYTES);
        let (all_but_last, last) = frame.split_at(frame.len() - 1);
        for mut piece in all_but_last.chunks(piece) {
            prop_assert_eq!(bodies.next(&mut piece), Ok(None));
        }
        // Glued to what comes next: a state byte.
        let glued = [last, &[4]].concat();
        let mut rest = glued.as_slice();
        let body = bodies.next(&mut rest).expect("in size").expect("whole");
        prop_assert_eq!(decode_body::<TestParameters>(&body).expect("own"), asked);
        prop_assert_eq!(rest, &[4]);
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_take_memory(
        bytes in proptest::collection::vec(any::<u8>(), 0..500),
    ) {
        let mut bodies = FrameSplitter::new(MAX_CLIENT_RESULT_BYTES);
        let _ = bodies.next(&mut bytes.as_slice());
        prop_assert!(bodies.held_bytes() <= MAX_CLIENT_RESULT_BYTES + 4);
        let _ = decode_body::<TestParameters>(&bytes);
        let _ = decode_body::<TestResults>(&bytes);
        let _ = UdpGreeting::from_hello(&bytes);
    }

    #[test]
    fn refusals_read_back(code: i32, system: i32) {
        let refusal = ServerRefusal { code, system };
        prop_assert_eq!(ServerRefusal::decode(refusal.encode()), refusal);
        prop_assert!(!refusal.to_string().is_empty());
    }
}
