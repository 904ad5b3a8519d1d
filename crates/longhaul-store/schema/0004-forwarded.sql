-- A run that was filed by whoever made it can be watched later: the mark says which ones are.
ALTER TABLE run ADD COLUMN watched INTEGER NOT NULL DEFAULT 0;
UPDATE run SET watched = 1 WHERE id IN (SELECT run FROM watched_run);

-- What another archive is to have and has not acknowledged: runs (kind 0), planned runs (1), events
-- (2). An item that changes moves to the end, so that one that is on its way is not taken for the
-- newer one. A place is never given twice.
CREATE TABLE outbox_of_any_kind (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    kind  INTEGER NOT NULL,
    id    TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    -- Who began the run, where that is not the agent itself.
    near  TEXT,
    UNIQUE (kind, id)
) STRICT;

INSERT INTO outbox_of_any_kind (kind, id, at_us, bytes)
    SELECT 0, outbox.run, at_us, length(report) FROM outbox JOIN run ON run.id = outbox.run
    ORDER BY place;
DROP TABLE outbox;
ALTER TABLE outbox_of_any_kind RENAME TO outbox;

-- Items that the other archive refused, and why.
CREATE TABLE set_aside (
    kind  INTEGER NOT NULL,
    id    TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    near  TEXT,
    why   TEXT NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
