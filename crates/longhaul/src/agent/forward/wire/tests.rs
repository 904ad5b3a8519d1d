use super::*;
use longhaul_model::report::v1::event::{Level, State};
use longhaul_model::report::v1::quantity::Quantity;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9-]{1,12}",
        any::<String>(),
        Just("<script>alert(1)</script>".to_owned()),
        Just("a\"b\\c\u{2028}".to_owned()),
    ]
}

fn some_pair() -> impl Strategy<Value = Pair> {
    (name(), name()).prop_map(|(from, to)| Pair { from, to })
}

fn some_run() -> impl Strategy<Value = Item> {
    let pairs = prop::collection::vec(some_pair(), 0..3);
    (
        pairs,
        prop::option::of(name()),
        any::<String>(),
        any::<i64>(),
    )
        .prop_map(|(pairs, near, report, at_us)| {
            Item::Run(SentRun {
                id: "is in the report".to_owned(),
                at_us,
                report,
                pairs,
                near,
            })
        })
}

fn some_planned() -> impl Strategy<Value = Item> {
    let outcome = prop_oneof![
        Just(None),
        name().prop_map(|run_id| Some(Outcome::Done { run_id })),
        name().prop_map(|reason| Some(Outcome::Missed { reason })),
    ];
    let pair = prop::option::of(some_pair());
    (name(), any::<i64>(), name(), pair, outcome).prop_map(
        |(id, due_us, measurement, pair, outcome)| {
            let planned = Planned {
                id,
                due_us,
                measurement,
                pair,
            };
            Item::Planned(PlannedRow { planned, outcome })
        },
    )
}

fn some_event() -> impl Strategy<Value = Item> {
    let state = prop_oneof![
        Just(State::Suspected),
        Just(State::Confirmed),
        Just(State::Withdrawn),
        Just(State::Recovered),
    ];
    let median = (-1_000_000i32..1_000_000).prop_map(|it| f64::from(it) / 8.0);
    (name(), some_pair(), state, median, any::<[i64; 2]>()).prop_map(
        |(id, pair, state, median, between_us)| {
            let level = Level {
                median,
                deviation: 0.5,
                samples: 9,
            };
            Item::Event(Box::new(Event {
                id,
                pair,
                quantity: Quantity::Goodput,
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
            }))
        },
    )
}

fn word(item: &Item) -> Word {
    match item {
        Item::Run(run) => Word::Run(CameRun::from(run)),
        Item::Planned(row) => Word::Planned(row.clone()),
        Item::Event(event) => Word::Event(event.clone()),
    }
}

proptest! {
    #[test]
    fn a_batch_comes_back_from_its_text(
        agent in name(),
        sent_us in any::<i64>(),
        items in prop::collection::vec(prop_oneof![some_run(), some_planned(), some_event()], 0..6),
    ) {
        let sent: Vec<ToSend> = items
            .into_iter()
            .zip(1..)
            .map(|(item, place)| ToSend { place, item })
            .collect();
        let read = read_batch(batch(&agent, sent_us, &sent).as_bytes()).unwrap();
        prop_assert_eq!(read.agent, agent);
        prop_assert_eq!(read.sent_us, sent_us);
        let expected: Vec<Came> = sent
            .iter()
            .map(|it| Came { place: it.place, item: Ok(word(&it.item)) })
            .collect();
        prop_assert_eq!(read.items, expected);
    }

    #[test]
    fn an_answer_comes_back_from_its_text(
        counts in any::<[u32; 4]>(),
        refused in prop::collection::vec((any::<i64>(), "[a-z ]{0,40}"), 0..6),
    ) {
        let refused = refused.into_iter().map(|(place, why)| Refusal { place, why }).collect();
        let [new, joined, already, late_values] = counts.map(u64::from);
        let answer = Answer { new, joined, already, late_values, refused };
        prop_assert_eq!(Answer::read(answer.text().as_bytes()), Ok(answer));
    }

    #[test]
    fn what_is_no_batch_is_refused_and_panics_nowhere(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read_batch(&bytes).is_err());
        prop_assert!(Answer::read(&bytes).is_err());
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
    let batch = read_batch(text.to_string().as_bytes()).unwrap();
    for came in &batch.items {
        assert_eq!(came.item.is_ok(), came.place == 8, "{came:?}");
    }
}

#[test]
fn a_batch_that_is_none_says_why() {
    let many: Vec<Value> = (0..=ITEMS_MAX)
        .map(|place| json!({ "place": place }))
        .collect();
    let batch = |schema: &str, items: Value| {
        json!({ "schema": schema, "agent": "a", "sent_us": 1, "items": items }).to_string()
    };
    for (text, why) in [
        ("{".to_owned(), "not JSON"),
        ("{}".to_owned(), "no `schema`"),
        (batch("longhaul.batch/2", json!([])), "longhaul.batch/2"),
        (batch(SCHEMA, json!("none")), "`items`"),
        (batch(SCHEMA, json!([{}])), "no place"),
        (batch(SCHEMA, json!(many)), "at most 2000"),
        ("[".repeat(10_000), "not JSON"),
    ] {
        let error = read_batch(text.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_reason_from_outside_is_short_and_acts_on_no_screen() {
    let why = bounded(&format!("\u{1b}[2J{}", "é".repeat(1000)));
    assert!(why.len() <= 500 && !why.contains('\u{1b}'), "{why}");
}
