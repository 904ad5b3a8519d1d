-- A year of 1,000 hosts, each with ten hourly series of five paths: 30 days of single values, runs
-- and planned runs, hourly values before. `given` has the number of the present hour and a report.
CREATE TEMP TABLE slot AS WITH RECURSIVE slot(hour) AS (
    SELECT present - 8760 FROM given
    UNION ALL SELECT hour + 1 FROM slot, given WHERE hour < present - 1)
SELECT hour, hour < present - 720 AS closed FROM slot, given;

CREATE TEMP TABLE host AS WITH RECURSIVE host(number) AS (
    SELECT 0 UNION ALL SELECT number + 1 FROM host WHERE number < 999)
SELECT number, printf('host-%04d.site-%03d.example.org', number, number / 10) AS name FROM host;

INSERT INTO pair (sender, receiver)
SELECT near.name, far.name
FROM host near CROSS JOIN (VALUES (1), (7), (49), (343), (401)) AS peer
JOIN host far ON far.number = (near.number + peer.column1) % 1000;

CREATE TEMP TABLE kind (quantity TEXT, measurement TEXT);
INSERT INTO kind VALUES ('goodput', 'throughput'), ('rtt_floor', 'latency');

INSERT INTO series (pair, quantity, newest_at_us, newest, usual, usual_hour)
SELECT pair.id, quantity, present * 3600000000, 5e8 + pair.id, 5e8, present - 1
FROM pair, kind, given;

INSERT INTO hour
SELECT series.id, hour, CASE closed WHEN 1 THEN 2 ELSE 1 END, 1,
    4e8 + (series.id * 7919 + hour * 104729) % 100000000,
    5e8 + (series.id * 7919 + hour * 104729) % 100000000,
    6e8 + (series.id * 7919 + hour * 104729) % 100000000
FROM series CROSS JOIN slot;

INSERT INTO value
SELECT series.id, (hour * 3600 + series.id % 3600) * 1000000,
    5e8 + (series.id * 7919 + hour * 104729) % 100000000
FROM series CROSS JOIN slot WHERE NOT closed;

-- A run of each path every three hours.
CREATE TEMP VIEW made AS
SELECT pair.id AS pair, sender, receiver, measurement, quantity, hour * 3600 + pair.id % 3600 AS at_s,
    strftime('%Y%m%dT%H%M%SZ', hour * 3600 + pair.id % 3600, 'unixepoch')
        || printf('-%06d', pair.id) AS id
FROM slot CROSS JOIN pair JOIN kind ON (kind.rowid + hour / 3 + pair.id) % 2 = 0
WHERE NOT closed AND hour % 3 = 0;

INSERT INTO run (id, started_at, kind, initiator_host, responder_host, responder_address, streams,
    goodput_bps, limited_by, analysis_version, report, watched, environment)
SELECT id, strftime('%Y-%m-%dT%H:%M:%SZ', at_s, 'unixepoch'), measurement, sender, receiver,
    '192.0.2.7', 1, 500000000, 'path_capacity', 2, report, 1, 'network'
FROM made, given;

INSERT INTO watched_run SELECT pair, at_s * 1000000, id FROM made ORDER BY pair, at_s;

-- One in a hundred was missed.
INSERT INTO planned
SELECT id, at_s * 1000000, measurement, pair, 1 + (at_s % 100 = 0),
    CASE WHEN at_s % 100 THEN id END, CASE WHEN at_s % 100 = 0 THEN 'failed' END, NULL
FROM made;

UPDATE series SET newest_run =
    (SELECT run FROM watched_run WHERE watched_run.pair = series.pair ORDER BY at_us DESC LIMIT 1);

INSERT INTO measurement_state (measurement, pair, done_us, done_run)
SELECT measurement, pair, newest_at_us, newest_run
FROM series JOIN kind ON kind.quantity = series.quantity;

-- Two events of each series, 50 of them open. `event_text` has an event as JSON.
WITH RECURSIVE change(number) AS (
    SELECT 1 UNION ALL SELECT number + 1 FROM change WHERE number < 20000)
INSERT INTO event
SELECT 'change-' || number, pair.id, quantity, 'confirmed', number <= 50, begin_us,
    begin_us + 3600000000,
    json_set(event_text, '$.id', 'change-' || number, '$.pair.from', sender, '$.pair.to', receiver,
        '$.quantity', quantity, '$.state', 'confirmed', '$.between_us[0]', begin_us,
        '$.between_us[1]', begin_us + 3600000000, '$.announced_at_us', begin_us + 7200000000,
        '$.recovered_by', CASE WHEN number > 50 THEN 'change-1' END)
FROM (SELECT number, 1 + number * 7919 % 5000 AS pair_id, 1 + number % 2 AS kind_id,
        (present - number * 104729 % 8759 - 1) * 3600000000 AS begin_us, event_text
    FROM change, given)
JOIN pair ON pair.id = pair_id JOIN kind ON kind.rowid = kind_id;

-- Each day five transfers of each host, with two limiters each.
INSERT INTO transfer_day
SELECT date(hour * 3600, 'unixepoch'), name || '/rclone', '192.0.2.' || peer.column1, limiter.column1,
    12, (number + 1) * hour % 1000003 * 1000000
FROM slot, host, (VALUES (1), (2), (3), (4), (5)) AS peer,
    (VALUES ('loss'), ('receive_window')) AS limiter
WHERE hour % 24 = 0;
