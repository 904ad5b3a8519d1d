//! Deliveries of agents, and the sink that receives them.

use crate::history_cases::{MIDNIGHT_US, geneva};
use longhaul_clickhouse::{ClickHouseOptions, ClickHouseSink};
use longhaul_model::report::v1::ChangeEvent;
use longhaul_store::history_store::{AgentDelivery, IncomingRun, PlannedOutcome, PlannedRun};

pub fn planned(id: &str, outcome: Option<PlannedOutcome>) -> PlannedRun {
    PlannedRun {
        id: id.to_owned(),
        due_us: MIDNIGHT_US,
        measurement: String::from("light"),
        pair: Some(geneva()),
        outcome,
    }
}

pub fn missed(reason: &str) -> PlannedOutcome {
    PlannedOutcome::Missed { reason: reason.to_owned(), detail: None }
}

pub fn of_runs(runs: Vec<IncomingRun>) -> AgentDelivery {
    AgentDelivery { runs, ..AgentDelivery::default() }
}

pub fn of_plan(row: PlannedRun) -> AgentDelivery {
    AgentDelivery { planned: vec![row], ..AgentDelivery::default() }
}

pub fn of_event(event: ChangeEvent) -> AgentDelivery {
    AgentDelivery { events: vec![event], ..AgentDelivery::default() }
}

pub fn open(options: &ClickHouseOptions) -> ClickHouseSink {
    ClickHouseSink::open(options.clone())
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}
