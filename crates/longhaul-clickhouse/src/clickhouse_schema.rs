//! Creates missing tables.
//!
//! The statements in `schema/` have words in braces that are filled in for a cluster.

use crate::database_client::{ANSWER_TIMEOUT, DatabaseClient};
use crate::table_rows::SchemaStepRow;
use clickhouse::sql::Identifier;
use longhaul_store::StoreError;

/// The statements of each schema step, in order.
const SCHEMA_STEPS: &[&str] = &[include_str!("../schema/0001-watched.sql")];

/// Checks for the table of schema steps; works even if the database does not exist.
const COUNT_STEP_TABLES: &str = "SELECT toUInt64(count()) FROM system.tables \
                        WHERE database = ? AND name = 'schema_step'";

/// Year and release of the oldest supported ClickHouse: the first long-term release with every
/// setting of [`crate::endpoint`]; `lightweight_deletes_sync` was added in 24.4.
pub const MIN_VERSION: (u32, u32) = (24, 8);

/// Checks the server's version and applies missing schema steps.
pub fn prepare_schema(client: &DatabaseClient) -> Result<(), StoreError> {
    let doing = "read the version of the server";
    // TabSeparated is understood by servers of any age.
    let version = client.request_within(ANSWER_TIMEOUT, doing, |endpoint| {
        let version = endpoint.http_without_database.query("SELECT version()");
        async move { version.fetch_bytes("TabSeparated")?.collect().await }
    })?;
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    if client.options.adapt_sql.is_none() && !is_supported(&version) {
        return Err(old_server_error(client, &version));
    }
    let done = read_schema_step(client)?;
    let known = SCHEMA_STEPS.len() as u32;
    if done > known {
        return Err(newer_schema_error(client, done, known));
    }
    if done == 0 {
        create_database(client)?;
    }
    for (number, text) in SCHEMA_STEPS.iter().enumerate().skip(done as usize) {
        apply_schema_step(client, number as u32 + 1, text)?;
    }
    Ok(())
}

/// Returns true if a version string of the server is at least [`MIN_VERSION`], and false if it cannot
/// be parsed.
fn is_supported(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(year)), Some(Ok(release))) => (year, release) >= MIN_VERSION,
        _ => false,
    }
}

fn old_server_error(client: &DatabaseClient, version: &str) -> StoreError {
    let (year, release) = MIN_VERSION;
    StoreError::Database {
        doing: "use the server",
        at: client.location(),
        source: format!("it is ClickHouse {version}; {year}.{release} or later is required").into(),
        hint: Some(String::from("upgrade the server; docs/clickhouse.md explains the setup")),
    }
}

fn newer_schema_error(client: &DatabaseClient, found: u32, known: u32) -> StoreError {
    StoreError::Database {
        doing: "use the tables",
        at: client.location(),
        source: format!("they have schema {found}, this longhaul supports up to {known}").into(),
        hint: Some(String::from("upgrade this longhaul too")),
    }
}

fn read_schema_step(client: &DatabaseClient) -> Result<u32, StoreError> {
    let database = &client.options.database;
    let there: u64 = client.request_within(ANSWER_TIMEOUT, "find the tables", |endpoint| {
        endpoint.http_without_database.query(COUNT_STEP_TABLES).bind(database).fetch_one()
    })?;
    if there == 0 {
        return Ok(0);
    }
    client.request("read the schema step", |at| async move {
        at.query("SELECT max(step) FROM schema_step").fetch_one().await
    })
}

fn create_database(client: &DatabaseClient) -> Result<(), StoreError> {
    let sql = match &client.options.cluster {
        Some(_) => "CREATE DATABASE IF NOT EXISTS ? ON CLUSTER ?",
        None => "CREATE DATABASE IF NOT EXISTS ?",
    };
    client.request_within(ANSWER_TIMEOUT, "create the database", |endpoint| {
        let made = endpoint.http_without_database.query(sql);
        let made = made.bind(Identifier(&client.options.database));
        match &client.options.cluster {
            Some(cluster) => made.bind(Identifier(cluster)),
            None => made,
        }
        .execute()
    })
}

/// Applies one schema step. Every statement can be repeated, so the next connection completes an
/// interrupted step.
fn apply_schema_step(client: &DatabaseClient, step: u32, text: &str) -> Result<(), StoreError> {
    let writer = StatementRewriter {
        database: &client.options.database,
        cluster: client.options.cluster.as_deref(),
    };
    for statement in writer.statements(text) {
        let statement = &client.options.adapt_statement(&statement);
        client.request("create the tables", |at| async move {
            at.query_raw(statement).execute().await
        })?;
    }
    let row = [SchemaStepRow { step }];
    client.insert::<SchemaStepRow>("store the schema step", "schema_step", &row)
}

/// Fills in the statements for one server or a cluster.
struct StatementRewriter<'a> {
    database: &'a str,
    cluster: Option<&'a str>,
}

impl StatementRewriter<'_> {
    fn statements(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for paragraph in text.split("\n\n") {
            let (comments, lines): (Vec<&str>, Vec<&str>) =
                paragraph.lines().partition(|line| line.starts_with("--"));
            let statement = lines.join("\n");
            let named = statement.strip_prefix("CREATE TABLE IF NOT EXISTS ");
            let table = named.and_then(|rest| rest.split('{').next()).unwrap_or_default();
            if !lines.is_empty() {
                found.push(self.fill_in(statement.trim_end_matches(';'), table));
            }
            let shard = comments.iter().find_map(|line| line.strip_prefix("-- shard: "));
            found.extend(self.cluster.zip(shard).map(|(cluster, key)| {
                let (database, cluster) =
                    (quote_identifier(self.database), quote_identifier(cluster));
                format!(
                    "CREATE TABLE IF NOT EXISTS {table} ON CLUSTER {cluster} \
                     AS {database}.{table}_local \
                     ENGINE = Distributed({cluster}, {database}, {table}_local, {key})"
                )
            }));
        }
        found
    }

    /// Replaces the words in braces.
    fn fill_in(&self, statement: &str, table: &str) -> String {
        let cluster = quote_identifier(self.cluster.unwrap_or_default());
        let database = self.database.replace(['\\', '\''], "_");
        let path = format!("'/clickhouse/tables/{{shard}}/{database}/{table}', '{{replica}}'");
        let words = [
            ("{on_cluster}", format!(" ON CLUSTER {cluster}")),
            ("{local}", "_local".to_owned()),
            ("{database}", format!("{}.", quote_identifier(self.database))),
            ("{replicated}", "Replicated".to_owned()),
            ("{path, }", format!("{path}, ")),
            ("{path}", path),
        ];
        words.iter().fold(statement.to_owned(), |statement, (word, text)| {
            statement.replace(word, self.cluster.map_or("", |_| text))
        })
    }
}

/// Quotes an identifier.
pub fn quote_identifier(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for version in ["24.8.1.2684", "24.10.1", "26.9.2.1", "100.1"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["24.7.9", "24.3.2", "9.8", "18.16.1", "24", "", "x.y"] {
            assert!(!is_supported(version), "{version}");
        }
    }

    fn written(cluster: Option<&str>) -> Vec<String> {
        let writer = StatementRewriter { database: "fleet", cluster };
        writer.statements(SCHEMA_STEPS[0])
    }

    #[test]
    fn without_a_cluster_statements_go_as_they_stand() {
        let plain = written(None);
        assert_eq!(plain.len(), 11);
        assert!(plain[0].starts_with("CREATE TABLE IF NOT EXISTS pair ("));
        assert!(plain.iter().all(|it| !it.contains(['{', ';']) && !it.contains("--")));
    }

    #[test]
    fn a_cluster_gets_replicas_under_distributed_tables() {
        let all = written(Some("fleet"));
        assert_eq!(all.len(), 20);
        let report = all.iter().find(|it| it.contains(" report_local ")).unwrap();
        assert!(report.contains("report_local ON CLUSTER `fleet` ("));
        assert!(report.contains(
            "ENGINE = ReplicatedReplacingMergeTree(\
             '/clickhouse/tables/{shard}/fleet/report', '{replica}', earliness)"
        ));
        let value = "CREATE TABLE IF NOT EXISTS value ON CLUSTER `fleet` AS `fleet`.value_local \
                     ENGINE = Distributed(`fleet`, `fleet`, value_local, \
                     cityHash64(sender, receiver))";
        assert!(all.iter().any(|it| it == value));
        let view = all.iter().find(|it| it.contains("VIEW")).unwrap();
        assert!(view.contains("newest_of_value ON CLUSTER `fleet` TO `fleet`.newest_local AS\n"));
        assert!(view.contains("FROM `fleet`.value_local\n"));
    }
}
