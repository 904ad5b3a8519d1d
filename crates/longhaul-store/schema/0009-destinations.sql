-- Where results are to be sent: '' is the collector or the database, others are URLs of archives of
-- perfSONAR. Each destination has its own items in the outbox, and among those that it refused.
CREATE TABLE destination (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO destination SELECT '' FROM outbox UNION SELECT '' FROM set_aside;

CREATE TABLE outbox_of_destinations (
    place       INTEGER PRIMARY KEY AUTOINCREMENT,
    destination TEXT NOT NULL,
    kind        INTEGER NOT NULL,
    id          TEXT NOT NULL,
    at_us       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    near        TEXT,
    UNIQUE (kind, id, destination)
) STRICT;
INSERT INTO outbox_of_destinations SELECT place, '', kind, id, at_us, bytes, near FROM outbox;
DROP TABLE outbox;
ALTER TABLE outbox_of_destinations RENAME TO outbox;

CREATE TABLE refused_by_destination (
    destination TEXT NOT NULL,
    kind        INTEGER NOT NULL,
    id          TEXT NOT NULL,
    at_us       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    near        TEXT,
    why         TEXT NOT NULL,
    PRIMARY KEY (kind, id, destination)
) STRICT, WITHOUT ROWID;
INSERT INTO refused_by_destination SELECT '', kind, id, at_us, bytes, near, why FROM set_aside;
DROP TABLE set_aside;
ALTER TABLE refused_by_destination RENAME TO set_aside;
