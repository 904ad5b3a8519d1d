-- A scan is a run whose probes are runs: they know the whole they are part of. Kinds without streams
-- or a limiter leave these absent. A scan that was begun and not ended can be taken up again.
CREATE TABLE run_of_any_kind (
    id                TEXT PRIMARY KEY NOT NULL,
    started_at        TEXT NOT NULL,
    kind              TEXT NOT NULL,
    initiator_host    TEXT NOT NULL,
    responder_host    TEXT NOT NULL,
    responder_address TEXT,
    streams           INTEGER,
    goodput_bps       INTEGER,
    limited_by        TEXT,
    analysis_version  INTEGER NOT NULL,
    report            TEXT NOT NULL,
    part_of           TEXT,
    part_index        INTEGER
) STRICT;

INSERT INTO run_of_any_kind
    SELECT id, started_at, kind, initiator_host, responder_host, responder_address, streams,
           goodput_bps, limited_by, analysis_version, report, NULL, NULL
    FROM run;
DROP TABLE run;
ALTER TABLE run_of_any_kind RENAME TO run;

CREATE INDEX run_started_at ON run (started_at);
CREATE INDEX run_responder ON run (responder_host, started_at);
CREATE INDEX run_part_of ON run (part_of, part_index) WHERE part_of IS NOT NULL;

CREATE TABLE begun (
    id         TEXT PRIMARY KEY NOT NULL,
    started_at TEXT NOT NULL,
    target     TEXT NOT NULL,
    plan       TEXT NOT NULL
) STRICT;
