//! The suite of every archive, on ClickHouse, and what is said and done when it cannot be reached.
#![expect(clippy::float_cmp, reason = "what was stored comes back bit for bit")]

mod cut;
#[path = "../embedded/mod.rs"]
mod embedded;
mod grafana;
mod opening;
#[path = "../../../longhaul-store/tests/watched/sent.rs"]
mod sent;
#[macro_use]
#[path = "../../../longhaul-store/tests/watched/suite.rs"]
mod suite;
#[path = "../../../longhaul-store/tests/watched/times.rs"]
mod times;
#[path = "../../../longhaul-store/tests/watched/written.rs"]
mod written;

mod clickhouse {
    use crate::embedded;
    use crate::suite::Place;
    use longhaul_clickhouse::{ClickHouseOptions, open_history_store};
    use longhaul_store::HistoryStore;

    struct Database(ClickHouseOptions);

    impl Place for Database {
        fn open(&self) -> Box<dyn HistoryStore> {
            let opened = open_history_store(self.0.clone());
            opened
                .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
        }
    }

    fn fresh() -> Box<dyn Place> {
        Box::new(Database(embedded::options()))
    }

    suite!(fresh);
}
