//! Creates missing tables.
//!
//! The statements in `schema/` are for a single server. For a cluster and for the server of 2018
//! they are rewritten here, line by line.

use crate::connection_options::SqlDialect;
use crate::database_client::DatabaseClient;
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
    let version = client.request_without_database(doing, |at| async move {
        let mut answer = at.query("SELECT version()").fetch_bytes("TabSeparated")?;
        answer.collect().await
    })?;
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    if client.options.dialect == SqlDialect::Current && !is_supported(&version) {
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
    let there: u64 = client.request_without_database("find the tables", |at| async move {
        at.query(COUNT_STEP_TABLES).bind(database).fetch_one().await
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
    client.request_without_database("create the database", |at| async move {
        let made = at.query(sql).bind(Identifier(&client.options.database));
        match &client.options.cluster {
            Some(cluster) => made.bind(Identifier(cluster)).execute().await,
            None => made.execute().await,
        }
    })
}

/// Applies one schema step. Every statement can be repeated, so the next connection completes an
/// interrupted step.
fn apply_schema_step(client: &DatabaseClient, step: u32, text: &str) -> Result<(), StoreError> {
    let writer = StatementRewriter {
        database: &client.options.database,
        cluster: client.options.cluster.as_deref(),
        dialect: client.options.dialect,
    };
    for statement in writer.statements(text) {
        let statement = &statement;
        client.request("create the tables", |at| async move {
            at.query_raw(statement).execute().await
        })?;
    }
    let row = [SchemaStepRow { step }];
    client.insert::<SchemaStepRow>("store the schema step", "schema_step", &row)
}

/// Rewrites statements for the cluster and dialect in use.
struct StatementRewriter<'a> {
    database: &'a str,
    cluster: Option<&'a str>,
    dialect: SqlDialect,
}

impl StatementRewriter<'_> {
    fn statements(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut shard = "";
        for paragraph in text.split("\n\n") {
            let of_comment = |line: &&str| line.starts_with("--");
            let key = paragraph.lines().find_map(|it| it.strip_prefix("-- shard: "));
            shard = key.unwrap_or(shard);
            let lines: Vec<&str> = paragraph.lines().filter(|it| !of_comment(it)).collect();
            if !lines.is_empty() {
                self.rewrite(&lines.join("\n"), shard, &mut found);
            }
        }
        found
    }

    fn rewrite(&self, statement: &str, shard: &str, found: &mut Vec<String>) {
        let statement = statement.trim_end_matches([';', '\n']);
        let mut statement = statement
            .replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ")
            .replace("MATERIALIZED VIEW ", "MATERIALIZED VIEW IF NOT EXISTS ");
        if self.dialect == SqlDialect::Legacy2018 {
            statement = strip_newer_syntax(&statement);
        }
        let Some(cluster) = self.cluster else {
            found.push(statement);
            return;
        };
        match created_table(&statement) {
            Some(table) => {
                found.push(self.replicated(&statement, &table, cluster));
                found.push(self.distributed(&table, cluster, shard));
            }
            None => found.push(self.view(&statement, cluster)),
        }
    }

    fn replicated(&self, statement: &str, table: &str, cluster: &str) -> String {
        let database = self.database.replace(['\\', '\''], "_");
        let path = format!("/clickhouse/tables/{{shard}}/{database}/{table}");
        let engine = |kind: &str| format!("Replicated{kind}MergeTree('{path}', '{{replica}}'");
        let mut lines = Vec::new();
        for line in statement.lines() {
            let line = line.replace(
                &format!("IF NOT EXISTS {table} ("),
                &format!("IF NOT EXISTS {table}_local ON CLUSTER {} (", quote_identifier(cluster)),
            );
            lines.push(match line.strip_prefix(") ENGINE = ") {
                Some(plain) => format!(") ENGINE = {}", add_replica_path(plain, engine)),
                None => line,
            });
        }
        lines.join("\n")
    }

    fn distributed(&self, table: &str, cluster: &str, shard: &str) -> String {
        let (database, cluster) = (quote_identifier(self.database), quote_identifier(cluster));
        let key =
            if shard.contains("Hash") { shard.to_owned() } else { format!("cityHash64({shard})") };
        format!(
            "CREATE TABLE IF NOT EXISTS {table} ON CLUSTER {cluster} \
             AS {database}.{table}_local \
             ENGINE = Distributed({cluster}, {database}, {table}_local, {key})"
        )
    }

    /// Rewrites a view to name the local tables of its own server in full, because other servers
    /// run it outside of the database.
    fn view(&self, statement: &str, cluster: &str) -> String {
        let database = quote_identifier(self.database);
        let mut before = "";
        let words = statement.split_inclusive([' ', '\n']).map(|word| {
            let (name, end) = word.split_at(word.trim_end().len());
            let written = match before {
                "TO" | "FROM" => format!("{database}.{name}_local{end}"),
                "EXISTS" => format!("{name} ON CLUSTER {}{end}", quote_identifier(cluster)),
                _ => word.to_owned(),
            };
            before = name;
            written
        });
        words.collect()
    }
}

/// Quotes an identifier.
pub fn quote_identifier(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

/// Inserts the replica path before the arguments of an engine such as
/// `ReplacingMergeTree(version)`.
fn add_replica_path(plain: &str, engine: impl Fn(&str) -> String) -> String {
    let (kind, rest) = plain.split_once("MergeTree").unwrap_or((plain, ""));
    match rest.strip_prefix('(') {
        Some(arguments) => format!("{}, {arguments}", engine(kind)),
        None => format!("{}){rest}", engine(kind)),
    }
}

fn created_table(statement: &str) -> Option<String> {
    let rest = statement.strip_prefix("CREATE TABLE IF NOT EXISTS ")?;
    Some(rest.split_whitespace().next()?.to_owned())
}

/// Removes syntax that is newer than 2018.
fn strip_newer_syntax(statement: &str) -> String {
    let known = |line: &&str| {
        let line = line.trim_start();
        !["INDEX ", "TTL ", "SETTINGS "].iter().any(|it| line.starts_with(it))
    };
    let lines: Vec<String> = statement.lines().filter(known).map(strip_column_codec).collect();
    // Removes the comma before a dropped index.
    lines.join("\n").replace(",\n)", "\n)")
}

fn strip_column_codec(line: &str) -> String {
    let line = line.replace("LowCardinality(String)", "String");
    let Some((column, codec)) = line.split_once(" CODEC(") else {
        return line;
    };
    let comma = if codec.ends_with(',') { "," } else { "" };
    format!("{column}{comma}")
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

    fn written(cluster: Option<&str>, dialect: SqlDialect) -> Vec<String> {
        let writer = StatementRewriter { database: "fleet", cluster, dialect };
        writer.statements(SCHEMA_STEPS[0])
    }

    #[test]
    fn without_a_cluster_statements_go_as_they_stand() {
        let plain = written(None, SqlDialect::Current);
        assert_eq!(plain.len(), 11);
        assert!(plain[0].starts_with("CREATE TABLE IF NOT EXISTS pair ("));
        assert!(plain.iter().all(|it| !it.contains("--") && !it.contains(';')));
    }

    #[test]
    fn a_cluster_gets_replicas_under_distributed_tables() {
        let all = written(Some("fleet"), SqlDialect::Current);
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

    #[test]
    fn the_dialect_of_2018_has_plain_columns() {
        for statement in written(Some("fleet"), SqlDialect::Legacy2018) {
            for later in ["CODEC", "LowCardinality", "TTL", "SETTINGS", "INDEX", ",\n)"] {
                assert!(!statement.contains(later), "{later}: {statement}");
            }
        }
    }
}
