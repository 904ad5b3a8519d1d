-- What a fleet measures. Every table takes a row as often as it is said and keeps one of each key,
-- so that a writer that did not hear the answer says it again.
--
-- `earliness` falls with the time of writing: of two rows of one key the earlier stays.
-- Times are microseconds since 1970. Partitions are 30 days of the measurement's time.
--
-- Words in braces are empty for one server. With a cluster each table is made as `NAME_local`,
-- replicated, and NAME is a Distributed table over it; the comment `shard` names its key. Views name
-- their tables in full, because other servers run them outside of the database.

-- shard: cityHash64(sender, receiver)
CREATE TABLE IF NOT EXISTS pair{local}{on_cluster} (
    sender   String,
    receiver String
) ENGINE = {replicated}ReplacingMergeTree({path})
ORDER BY (sender, receiver)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- The report as it was published. It is written last: a run whose report is here is here whole.
-- shard: cityHash64(id)
CREATE TABLE IF NOT EXISTS report{local}{on_cluster} (
    id        String,
    at_us     Int64 CODEC(Delta, ZSTD(1)),
    report    String CODEC(ZSTD(1)),
    earliness UInt64 CODEC(Delta, ZSTD(1))
) ENGINE = {replicated}ReplacingMergeTree({path, }earliness)
PARTITION BY intDiv(at_us, 2592000000000)
ORDER BY id
TTL toDateTime(intDiv(at_us, 1000000)) + INTERVAL 60 DAY RECOMPRESS CODEC(ZSTD(12))
SETTINGS index_granularity = 256, fsync_after_insert = 1, fsync_part_directory = 1;

-- Lists of runs: a line for each pair that a run is of, and one under the empty names for the list
-- of all.
-- shard: cityHash64(id)
CREATE TABLE IF NOT EXISTS run{local}{on_cluster} (
    sender            String,
    receiver          String,
    at_us             Int64 CODEC(Delta, ZSTD(1)),
    id                String CODEC(ZSTD(1)),
    near              LowCardinality(String),
    started_at        String CODEC(ZSTD(1)),
    kind              LowCardinality(String),
    initiator_host    LowCardinality(String),
    responder_host    LowCardinality(String),
    responder_address Nullable(String) CODEC(ZSTD(1)),
    streams           Nullable(UInt32),
    goodput_bps       Nullable(UInt64) CODEC(ZSTD(1)),
    limited_by        Nullable(String) CODEC(ZSTD(1)),
    analysis_version  UInt32,
    part_of           Nullable(String) CODEC(ZSTD(1)),
    earliness         UInt64 CODEC(Delta, ZSTD(1))
) ENGINE = {replicated}ReplacingMergeTree({path, }earliness)
PARTITION BY intDiv(at_us, 2592000000000)
ORDER BY (sender, receiver, at_us, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- One value of one run. Those of one series lie together in the order of time.
-- shard: cityHash64(sender, receiver)
CREATE TABLE IF NOT EXISTS value{local}{on_cluster} (
    quantity LowCardinality(String),
    sender   LowCardinality(String),
    receiver LowCardinality(String),
    at_us    Int64 CODEC(DoubleDelta, ZSTD(1)),
    value    Float64 CODEC(Gorilla, ZSTD(1))
) ENGINE = {replicated}ReplacingMergeTree({path})
PARTITION BY intDiv(at_us, 2592000000000)
ORDER BY (quantity, sender, receiver, at_us)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- The newest value of each series.
-- shard: cityHash64(sender, receiver)
CREATE TABLE IF NOT EXISTS newest{local}{on_cluster} (
    quantity     LowCardinality(String),
    sender       LowCardinality(String),
    receiver     LowCardinality(String),
    newest_us    AggregateFunction(max, Int64),
    newest_value AggregateFunction(argMax, Float64, Int64)
) ENGINE = {replicated}AggregatingMergeTree({path})
ORDER BY (quantity, sender, receiver)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS newest_of_value{on_cluster} TO {database}newest{local} AS
SELECT quantity, sender, receiver,
       maxState(at_us) AS newest_us, argMaxState(value, at_us) AS newest_value
FROM {database}value{local}
GROUP BY quantity, sender, receiver;

-- Hours, kept for ever: what is usual, and long spans on dashboards. A value that was said twice
-- may weigh twice here; exact answers count the values themselves.
-- shard: cityHash64(sender, receiver)
CREATE TABLE IF NOT EXISTS hourly{local}{on_cluster} (
    quantity LowCardinality(String),
    sender   LowCardinality(String),
    receiver LowCardinality(String),
    hour     Int64 CODEC(DoubleDelta, ZSTD(1)),
    samples  AggregateFunction(count),
    least    AggregateFunction(min, Float64),
    middle   AggregateFunction(quantile(0.5), Float64),
    most     AggregateFunction(max, Float64)
) ENGINE = {replicated}AggregatingMergeTree({path})
PARTITION BY intDiv(hour, 720)
ORDER BY (quantity, sender, receiver, hour)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS hourly_of_value{on_cluster} TO {database}hourly{local} AS
SELECT quantity, sender, receiver, intDiv(at_us, 3600000000) AS hour,
       countState() AS samples, minState(value) AS least,
       quantileState(0.5)(value) AS middle, maxState(value) AS most
FROM {database}value{local}
GROUP BY quantity, sender, receiver, hour;

-- Runs that are due. State 0: waiting; 1: missed, `told` says why; 2: done, `told` is the run. The
-- greater `standing` stays: done before missed before waiting, and of two alike the earlier.
-- shard: cityHash64(id)
CREATE TABLE IF NOT EXISTS planned{local}{on_cluster} (
    id          String CODEC(ZSTD(1)),
    due_us      Int64 CODEC(Delta, ZSTD(1)),
    measurement LowCardinality(String),
    sender      LowCardinality(String),
    receiver    LowCardinality(String),
    state       UInt8,
    told        String CODEC(ZSTD(1)),
    standing    UInt64 CODEC(Delta, ZSTD(1)),
    INDEX of_id id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {replicated}ReplacingMergeTree({path, }standing)
PARTITION BY intDiv(due_us, 2592000000000)
ORDER BY (due_us, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Changes: their JSON as it is, and columns to find them by. The greatest version stays.
-- shard: cityHash64(id)
CREATE TABLE IF NOT EXISTS event{local}{on_cluster} (
    id       String,
    sender   String,
    receiver String,
    quantity LowCardinality(String),
    state    LowCardinality(String),
    is_open  UInt8,
    begin_us Int64,
    end_us   Int64,
    event    String CODEC(ZSTD(3)),
    version  UInt64
) ENGINE = {replicated}ReplacingMergeTree({path, }version)
ORDER BY id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- The steps that brought the tables to their present shape.
-- shard: cityHash64(step)
CREATE TABLE IF NOT EXISTS schema_step{local}{on_cluster} (
    step UInt32
) ENGINE = {replicated}ReplacingMergeTree({path})
ORDER BY step
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
