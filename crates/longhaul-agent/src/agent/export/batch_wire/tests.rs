use super::*;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState, HostPair, QuantityLevel};
use longhaul_store::sqlite::outbox::OutgoingRun;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9-]{1,12}",
        any::<String>(),
        Just("<script>alert(1)</script>".to_owned()),
        Just("a\"b\\c\u{2028}".to_owned()),
    ]
}

fn some_pair() -> impl Strategy<Value = HostPair> {
    (name(), name()).prop_map(|(from, to)| HostPair { from, to })
}

fn some_run() -> impl Strategy<Value = OutboxItem> {
    let pairs = prop::collection::vec(some_pair(), 0..3);
    (pairs, prop::option::of(name()), any::<String>())
        .prop_map(|(pairs, near, report)| OutboxItem::Run(OutgoingRun { pairs, near, report }))
}

fn some_planned() -> impl Strategy<Value = OutboxItem> {
    let outcome = prop_oneof![
        Just(None),
        name().prop_map(|run_id| Some(PlannedOutcome::Done { run_id })),
        name().prop_map(|reason| Some(PlannedOutcome::Missed { reason, detail: None })),
    ];
    let pair = prop::option::of(some_pair());
    (name(), any::<i64>(), name(), pair, outcome).prop_map(
        |(id, due_us, measurement, pair, outcome)| {
            OutboxItem::Planned(PlannedRun { id, due_us, measurement, pair, outcome })
        },
    )
}

fn some_event() -> impl Strategy<Value = OutboxItem> {
    let state = prop_oneof![
        Just(EventState::Suspected),
        Just(EventState::Confirmed),
        Just(EventState::Withdrawn),
        Just(EventState::Recovered),
    ];
    let median = (-1_000_000i32..1_000_000).prop_map(|it| f64::from(it) / 8.0);
    (name(), some_pair(), state, median, any::<[i64; 2]>()).prop_map(
        |(id, pair, state, median, between_us)| {
            let level = QuantityLevel { median, deviation: 0.5, samples: 9 };
            OutboxItem::Event(Box::new(ChangeEvent {
                id,
                pair,
                quantity: PathQuantity::Goodput,
                state,
                between_us,
                before: level,
                after: level,
                change_ratio: None,
                score: 1.5,
                autocorrelation: 0.25,
                announced_at_us: between_us[1],
                recovered_by: None,
                causes: vec![],
                unchanged: vec!["the route".to_owned()],
                scope: None,
                follow_ups: vec![],
                shared: None,
                part_of: None,
            }))
        },
    )
}

proptest! {
    #[test]
    fn a_batch_comes_back_from_its_text(
        agent in name(),
        sent_us in any::<i64>(),
        items in prop::collection::vec(prop_oneof![some_run(), some_planned(), some_event()], 0..6),
    ) {
        let sent: Vec<OutboxEntry> = items
            .into_iter()
            .zip(1..)
            .map(|(item, place)| OutboxEntry { place, item })
            .collect();
        let read = parse_batch(encode_batch(&agent, sent_us, &sent).as_bytes()).unwrap();
        prop_assert_eq!(read.agent, agent);
        prop_assert_eq!(read.sent_us, sent_us);
        let expected: Vec<BatchItem> = sent
            .iter()
            .map(|it| BatchItem { place: it.place, item: Ok(it.item.clone()) })
            .collect();
        prop_assert_eq!(read.items, expected);
    }

    #[test]
    fn an_answer_comes_back_from_its_text(
        counts in any::<[u32; 4]>(),
        refused in prop::collection::vec((any::<i64>(), "[a-z]( ?[a-z]){0,20}"), 0..6),
    ) {
        let refused = refused.into_iter().map(|(place, why)| RefusedEntry { place, why }).collect();
        let [new, joined, already, late_values] = counts.map(u64::from);
        let answer = BatchResponse { new, joined, already, late_values, refused };
        prop_assert_eq!(BatchResponse::parse(answer.to_json().as_bytes()), Ok(answer));
    }

    #[test]
    fn what_is_no_batch_is_refused_and_panics_nowhere(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse_batch(&bytes).is_err());
        prop_assert!(BatchResponse::parse(&bytes).is_err());
    }
}

#[test]
fn an_item_that_cannot_be_read_is_named_and_the_others_are_taken() {
    let text = json!({
        "schema": SCHEMA, "agent": "a", "sent_us": 1, "items": [
            { "place": 1 },
            { "place": 2, "run": { "pairs": 7, "report": "" } },
            { "place": 3, "run": { "pairs": [ { "from": "a" } ], "report": "" } },
            { "place": 4, "run": { "pairs": [], "report": { } } },
            { "place": 5, "planned": { "id": "a", "due_us": 0.5, "measurement": "m" } },
            { "place": 6, "planned":
                { "id": "a", "due_us": 1, "measurement": "m", "run": "r", "missed": "b" } },
            { "place": 7, "event": { "id": "e" } },
            { "place": 8, "planned": { "id": "a", "due_us": 1, "measurement": "m" } },
        ],
    });
    let batch = parse_batch(text.to_string().as_bytes()).unwrap();
    for came in &batch.items {
        assert_eq!(came.item.is_ok(), came.place == 8, "{came:?}");
    }
}

#[test]
fn a_batch_that_is_none_says_why() {
    let many: Vec<Value> = (0..=MAX_ITEMS).map(|place| json!({ "place": place })).collect();
    let batch = |schema: &str, items: Value| {
        json!({ "schema": schema, "agent": "a", "sent_us": 1, "items": items }).to_string()
    };
    for (text, why) in [
        ("{".to_owned(), "not valid JSON"),
        ("{}".to_owned(), "no `schema`"),
        (batch("longhaul.batch/2", json!([])), "longhaul.batch/2"),
        (batch(SCHEMA, json!("none")), "`items`"),
        (batch(SCHEMA, json!([{}])), "no valid `place`"),
        (batch(SCHEMA, json!(many)), "at most 2000"),
        ("[".repeat(10_000), "not valid JSON"),
    ] {
        let error = parse_batch(text.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_reason_from_outside_is_short_and_acts_on_no_screen() {
    let why = sanitize_reason(&format!("\u{1b}[2J{}", "é".repeat(1000)));
    assert!(why.len() <= 500 && !why.contains('\u{1b}'), "{why}");
}
