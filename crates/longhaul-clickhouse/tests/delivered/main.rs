//! What is delivered is in ClickHouse once, and what is said when it cannot be reached.

mod cut;
#[path = "../embedded/mod.rs"]
mod embedded;
mod grafana;
mod opening;
mod place;
mod stored;
