-- The pairs of a run, for the outbox: without it, each run is looked up in every pair.
CREATE INDEX watched_run_run ON watched_run (run);
