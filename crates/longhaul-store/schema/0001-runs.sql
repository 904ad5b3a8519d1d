-- One row is one finished run: the report as it was published, and columns derived from it, so
-- that a list need not open every report. The report is the truth; the columns can be made again.
CREATE TABLE run (
    id                TEXT PRIMARY KEY NOT NULL,
    started_at        TEXT NOT NULL,
    kind              TEXT NOT NULL,
    initiator_host    TEXT NOT NULL,
    responder_host    TEXT NOT NULL,
    responder_address TEXT,
    streams           INTEGER NOT NULL,
    goodput_bps       INTEGER,
    limited_by        TEXT NOT NULL,
    analysis_version  INTEGER NOT NULL,
    report            TEXT NOT NULL
) STRICT;

CREATE INDEX run_started_at ON run (started_at);
CREATE INDEX run_responder ON run (responder_host, started_at);
