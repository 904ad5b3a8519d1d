//! Deliveries are in ClickHouse once; an unreachable database is reported.

mod cut;
mod delivery_cases;
#[path = "../embedded/mod.rs"]
mod embedded;
mod grafana;
#[path = "../../../longhaul-store/tests/history_cases/mod.rs"]
mod history_cases;
mod opening;
mod stored;
