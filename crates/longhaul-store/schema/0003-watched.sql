-- What is measured on a schedule. A series is one quantity of one pair. Its values are stored by
-- series and time, so that a span of time lies together; each hour is also kept as one row, which
-- stays when the values go.
CREATE TABLE pair (
    id       INTEGER PRIMARY KEY,
    sender   TEXT NOT NULL,
    receiver TEXT NOT NULL,
    UNIQUE (sender, receiver)
) STRICT;

CREATE TABLE series (
    id           INTEGER PRIMARY KEY,
    pair         INTEGER NOT NULL REFERENCES pair,
    quantity     TEXT NOT NULL,
    newest_at_us INTEGER,
    newest       REAL,
    -- Median of the hourly medians of the week before usual_hour.
    usual        REAL,
    usual_hour   INTEGER,
    UNIQUE (quantity, pair)
) STRICT;

CREATE TABLE value (
    series INTEGER NOT NULL,
    at_us  INTEGER NOT NULL,
    value  REAL NOT NULL,
    PRIMARY KEY (series, at_us)
) STRICT, WITHOUT ROWID;

-- Hours since 1970. State 0: to be counted from its values; 1: counted; 2: closed, its values are
-- gone and none is taken any more.
CREATE TABLE hour (
    series  INTEGER NOT NULL,
    hour    INTEGER NOT NULL,
    state   INTEGER NOT NULL,
    samples INTEGER NOT NULL DEFAULT 0,
    min     REAL,
    median  REAL,
    max     REAL,
    PRIMARY KEY (series, hour)
) STRICT, WITHOUT ROWID;

CREATE INDEX hour_due ON hour (hour) WHERE state = 0;

-- Which runs are watched, and for which pair; pair 0 stands for no pair.
CREATE TABLE watched_run (
    pair  INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    run   TEXT NOT NULL,
    PRIMARY KEY (pair, at_us, run)
) STRICT, WITHOUT ROWID;

-- State 0: waiting; 1: done, and run says by which; 2: missed, and reason says why.
CREATE TABLE planned (
    id          TEXT PRIMARY KEY NOT NULL,
    due_us      INTEGER NOT NULL,
    measurement TEXT NOT NULL,
    pair        INTEGER REFERENCES pair,
    state       INTEGER NOT NULL DEFAULT 0,
    run         TEXT,
    reason      TEXT
) STRICT;

CREATE INDEX planned_due ON planned (due_us, state);
CREATE INDEX planned_missed ON planned (due_us, reason) WHERE state = 2;

CREATE TABLE event (
    id       TEXT PRIMARY KEY NOT NULL,
    pair     INTEGER NOT NULL REFERENCES pair,
    quantity TEXT NOT NULL,
    state    TEXT NOT NULL,
    open     INTEGER NOT NULL,
    begin_us INTEGER NOT NULL,
    end_us   INTEGER NOT NULL,
    event    TEXT NOT NULL
) STRICT;

CREATE INDEX event_end ON event (end_us);
CREATE INDEX event_open ON event (quantity, pair) WHERE open = 1;

-- Runs that the collector has not acknowledged, in the order in which they came. A place is never
-- given twice.
CREATE TABLE outbox (
    place   INTEGER PRIMARY KEY AUTOINCREMENT,
    run     TEXT NOT NULL UNIQUE,
    at_us   INTEGER NOT NULL,
    planned TEXT
) STRICT;

-- For people with another tool.
CREATE VIEW reading AS
    SELECT pair.sender, pair.receiver, series.quantity, value.at_us, value.value
    FROM value JOIN series ON series.id = value.series JOIN pair ON pair.id = series.pair;
