-- The transfers of other programs in watched runs, by the day on which they ended (UTC, 2026-11-28), by
-- the pair of their series, and by what limited them.
CREATE TABLE transfer_day (
    day       TEXT NOT NULL,
    sender    TEXT NOT NULL,
    receiver  TEXT NOT NULL,
    limiter   TEXT NOT NULL,
    transfers INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    PRIMARY KEY (day, sender, receiver, limiter)
) STRICT, WITHOUT ROWID;
