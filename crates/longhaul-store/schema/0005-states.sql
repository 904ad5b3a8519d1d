-- The values of a run in a list, as JSON, for kinds that have other values than a throughput.
ALTER TABLE run ADD COLUMN list_values TEXT;

-- The run that gave the newest value of a series.
ALTER TABLE series ADD COLUMN newest_run TEXT;

-- The reason of a failed run in words, such as "connection refused".
ALTER TABLE planned ADD COLUMN detail TEXT;

-- The last success of each measurement of a pair, and its failures since; pair 0 stands for no pair.
-- failing_since_us is absent if the last run that ended had a result.
CREATE TABLE measurement_state (
    measurement      TEXT NOT NULL,
    pair             INTEGER NOT NULL,
    done_us          INTEGER,
    done_run         TEXT,
    failing_since_us INTEGER,
    failed_us        INTEGER,
    reason           TEXT,
    detail           TEXT,
    PRIMARY KEY (measurement, pair)
) STRICT, WITHOUT ROWID;

-- Notes of people on events: acknowledgements, comments, silences.
CREATE TABLE event_note (
    id       INTEGER PRIMARY KEY,
    event    TEXT NOT NULL,
    at_us    INTEGER NOT NULL,
    who      TEXT NOT NULL,
    action   TEXT NOT NULL,
    text     TEXT,
    until_us INTEGER
) STRICT;

CREATE INDEX event_note_event ON event_note (event, id);
