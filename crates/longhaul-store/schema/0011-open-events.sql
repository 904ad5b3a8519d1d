-- Open events of any kind, for lists: `open` is 1 for an event of a path, which the grid counts, and 2
-- for one of several paths.
UPDATE event SET open = 2
WHERE state IN ('suspected', 'confirmed') AND json_extract(event, '$.shared') IS NOT NULL
    AND json_extract(event, '$.recovered_by') IS NULL;
CREATE INDEX event_open_end ON event (end_us) WHERE open > 0;
