-- The lists of a fleet: runs by kind and host, events of a pair, planned runs of a pair or in a
-- state, and counts of planned runs without a look at their rows.
CREATE INDEX run_kind ON run (kind, started_at);
CREATE INDEX run_initiator ON run (initiator_host, started_at);
CREATE INDEX event_pair ON event (pair, end_us);
DROP INDEX planned_due;
DROP INDEX planned_missed;
CREATE INDEX planned_due ON planned (due_us, state, reason);
CREATE INDEX planned_pair ON planned (pair, due_us);
CREATE INDEX planned_missed ON planned (due_us) WHERE state = 2;
CREATE INDEX planned_waiting ON planned (due_us) WHERE state = 0;
