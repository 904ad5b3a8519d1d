//! The dashboard in contrib/ and the queries of docs/clickhouse.md: every query finds something in an
//! archive that has something.

use crate::delivery_cases::{missed, open, planned};
use crate::embedded::{self, ask};
use crate::history_cases::{HOUR_US, MIDNIGHT_US, event, geneva, runs};
use longhaul_clickhouse::ClickHouseOptions;
use longhaul_store::history_store::AgentDelivery;
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../../contrib/grafana/clickhouse.json");
const PAGE: &str = include_str!("../../../../docs/clickhouse.md");

fn filled() -> ClickHouseOptions {
    let options = embedded::options();
    let values: Vec<(i64, f64)> = (0..6).map(|i| (MIDNIGHT_US + i * HOUR_US, 2.0)).collect();
    let delivery = AgentDelivery {
        runs: runs(&values),
        planned: vec![planned("planned", Some(missed("budget")))],
        events: vec![event("change", MIDNIGHT_US)],
    };
    open(&options).receive(&delivery).expect("stored");
    options
}

/// As Grafana replaces the names, for the time and the pair that are there.
fn replaced(sql: &str) -> String {
    let known = [
        ("${__from}", format!("{}", MIDNIGHT_US / 1000)),
        ("${__to}", format!("{}", (MIDNIGHT_US + 6 * HOUR_US) / 1000)),
        ("${quantity:sqlstring}", String::from("'goodput'")),
        ("${sender:sqlstring}", format!("'{}'", geneva().from)),
        ("${receiver:sqlstring}", format!("'{}'", geneva().to)),
    ];
    let sql = known.iter().fold(sql.to_owned(), |sql, (name, value)| sql.replace(name, value));
    assert!(!sql.contains('$'), "a name that nobody replaces: {sql}");
    sql
}

fn texts<'a>(list: &'a Value, path: &'a str) -> impl Iterator<Item = &'a str> {
    let list = list.as_array().expect("a list").iter();
    list.filter_map(move |it| it.pointer(path)?.as_str())
}

#[test]
fn every_query_of_the_dashboard_finds_what_is_there() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let options = filled();
    let panels = texts(&dashboard["panels"], "/targets/0/rawSql");
    let names = texts(&dashboard["templating"]["list"], "/definition");
    let notes = texts(&dashboard["annotations"]["list"], "/target/rawSql");
    let queries: Vec<&str> = panels.chain(names).chain(notes).collect();
    assert_eq!(queries.len(), 14);
    assert_all_find(&options, &queries);
}

fn assert_all_find(options: &ClickHouseOptions, queries: &[&str]) {
    for query in queries {
        let rows = ask(options, &replaced(query));
        assert!(!rows.is_empty(), "nothing for {query}");
        assert!(!rows.contains("nan"), "{query}: {rows}");
    }
}

#[test]
fn every_query_of_the_documentation_finds_what_is_there() {
    let (_, section) = PAGE.split_once("\n## Queries for your own Grafana\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("another section");
    let queries =
        section.split("\n\n").filter(|it| it.trim_start_matches('\n').starts_with("    "));
    let queries: Vec<&str> = queries.collect();
    assert_eq!(queries.len(), 5);
    assert_all_find(&filled(), &queries);
}
