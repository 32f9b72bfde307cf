//! The statements that find sessions and read events in PostgreSQL.

/// The session, and those of the named events that it has: at least one row if the session exists.
pub(crate) const FIND: &str = "
    SELECT s.header, s.state, s.owner, s.held_until_ms, s.revision,
           e.seq, e.id, e.time_ms, e.wake_id, e.version, e.type, e.is_conversation, e.payload, e.checksum
    FROM fullsend.sessions s
    LEFT JOIN fullsend.events e ON e.session_id = s.id AND e.id = ANY($2)
    WHERE s.id = $1";

/// The same, with the row of the session locked.
pub(crate) const FIND_LOCKED: &str = "
    SELECT s.header, s.state, s.owner, s.held_until_ms, s.revision,
           e.seq, e.id, e.time_ms, e.wake_id, e.version, e.type, e.is_conversation, e.payload, e.checksum
    FROM fullsend.sessions s
    LEFT JOIN fullsend.events e ON e.session_id = s.id AND e.id = ANY($2)
    WHERE s.id = $1 FOR UPDATE OF s";

pub(crate) const EVENTS: &str = "
    SELECT seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum FROM fullsend.events
    WHERE session_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4";

pub(crate) const TAIL: &str = "
    SELECT seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum
    FROM (SELECT *, sum(octet_length(payload)) OVER (ORDER BY seq DESC) AS total
          FROM (SELECT * FROM fullsend.events
                WHERE session_id = $1 AND seq <= $2 AND is_conversation = $3
                ORDER BY seq DESC LIMIT $4) AS last) AS summed
    WHERE total <= $5 ORDER BY seq";

/// The conditions of a claim's filter: unreadable rows ($2), repository ($3), agent ($4), skipped sessions ($5), labels ($6), starts of
/// repositories' names ($7).
macro_rules! filter {
    () => {
        " AND (unreadable_by IS NULL OR unreadable_by < $2) AND ($3::text IS NULL OR repository IN ('', $3))
          AND ($4::text IS NULL OR agent = $4) AND id <> ALL($5::uuid[])
          AND ($6::text[] IS NULL OR labels <@ $6)
          AND ($7::text[] IS NULL OR EXISTS
               (SELECT 1 FROM unnest($7::text[]) AS prefix WHERE starts_with(repository, prefix))) "
    };
}

macro_rules! lane {
    ($condition:literal, $order:literal) => {
        concat!(
            "SELECT header, state, owner, held_until_ms, revision, id FROM fullsend.sessions WHERE ",
            $condition,
            filter!(),
            "ORDER BY ",
            $order,
            " LIMIT 1"
        )
    };
}

macro_rules! lanes {
    ($suffix:literal) => {
        [
            (concat!(lane!("again_ms <= $1", "again_ms"), $suffix), Bound::Now),
            (concat!(lane!("again_ms > $1", "again_ms"), $suffix), Bound::Horizon),
            (
                concat!(lane!("input_ms IS NOT NULL AND $1::bigint IS NOT NULL", "input_ms"), $suffix),
                Bound::Now,
            ),
            (concat!(lane!("high_ms <= $1", "high_ms"), $suffix), Bound::Now),
            (concat!(lane!("normal_ms <= $1", "normal_ms"), $suffix), Bound::Now),
            (concat!(lane!("low_ms <= $1", "low_ms"), $suffix), Bound::Now),
        ]
    };
}

/// The lanes in order, each with its bound. Inputs are due at any time. A lease or a back-off that ends too far ahead is over
/// too.
pub(crate) const LANES: [(&str, Bound); 6] = lanes!("");

/// The same lanes for a claim, which locks its row and skips rows that others have locked.
pub(crate) const CLAIM_LANES: [(&str, Bound); 6] = lanes!(" FOR UPDATE SKIP LOCKED");

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    Now,
    Horizon,
}

/// The first lane that is not empty, without the filter. It locks nothing, because most searches find nothing. Every part reads
/// one end of one index; with EXISTS the plan of a prepared statement would read the whole table.
pub(crate) const PEEK: &str = "
    SELECT CASE
      WHEN (SELECT min(again_ms) FROM fullsend.sessions) <= $1 THEN 0
      WHEN (SELECT max(again_ms) FROM fullsend.sessions) > $2 THEN 1
      WHEN EXISTS (SELECT FROM fullsend.sessions WHERE input_ms IS NOT NULL) THEN 2
      WHEN (SELECT min(high_ms) FROM fullsend.sessions) <= $1 THEN 3
      WHEN (SELECT min(normal_ms) FROM fullsend.sessions) <= $1 THEN 4
      WHEN (SELECT min(low_ms) FROM fullsend.sessions) <= $1 THEN 5
    END";

pub(crate) const MARK_UNREADABLE: &str = "UPDATE fullsend.sessions SET unreadable_by = $2 WHERE id = $1";

/// The server's time, whether a session is due at it, and when the next one is due after it, all in one round trip. Every part
/// reads one end of one index: a comparison with the clock inside EXISTS would read the whole table.
pub(crate) const SURVEY: &str = "
    WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now)
    SELECT now,
      coalesce((SELECT min(again_ms) FROM fullsend.sessions) <= now, false)
        OR coalesce((SELECT max(again_ms) FROM fullsend.sessions) > now + $1, false)
        OR EXISTS (SELECT FROM fullsend.sessions WHERE input_ms IS NOT NULL)
        OR coalesce((SELECT min(high_ms) FROM fullsend.sessions) <= now, false)
        OR coalesce((SELECT min(normal_ms) FROM fullsend.sessions) <= now, false)
        OR coalesce((SELECT min(low_ms) FROM fullsend.sessions) <= now, false),
      least((SELECT again_ms FROM fullsend.sessions WHERE again_ms > now ORDER BY again_ms LIMIT 1),
            (SELECT high_ms FROM fullsend.sessions WHERE high_ms > now ORDER BY high_ms LIMIT 1),
            (SELECT normal_ms FROM fullsend.sessions WHERE normal_ms > now ORDER BY normal_ms LIMIT 1),
            (SELECT low_ms FROM fullsend.sessions WHERE low_ms > now ORDER BY low_ms LIMIT 1))
    FROM clock";

/// How many sessions are due. Each part of the condition has an index.
pub(crate) const COUNT_DUE: &str = "
    SELECT count(*) FROM fullsend.sessions,
      (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
    WHERE (again_ms <= now OR again_ms > now + $1 OR input_ms IS NOT NULL
           OR high_ms <= now OR normal_ms <= now OR low_ms <= now)
      AND (unreadable_by IS NULL OR unreadable_by < $2)";

/// A page of a list. The server plans each call with its values, so a part of the filter that is not used costs nothing.
pub(crate) const LIST: &str = "
    SELECT header, state, owner, held_until_ms, id FROM fullsend.sessions
    WHERE id > $1 AND ($3::text IS NULL OR agent = $3) AND ($4::text IS NULL OR repository = $4)
      AND ($5::text IS NULL OR status = $5) AND (NOT $6::boolean OR has_work)
    ORDER BY id LIMIT $2";

/// The sessions whose id starts with a text, from the first such id ($3) to the last ($4), or ends with it.
pub(crate) const FIND_IDS: &str = "
    SELECT id FROM fullsend.sessions
    WHERE id BETWEEN $3 AND $4 OR (right(id::text, 6) = right($1, 6) AND id::text LIKE '%' || $1)
    ORDER BY id LIMIT $2";

/// Removes a session that no worker holds and whose log ends at this position.
pub(crate) const REMOVE: &str = "
    WITH gone AS (
      DELETE FROM fullsend.sessions
      WHERE id = $1 AND owner IS NULL AND (state::json->>'head')::bigint = $2 RETURNING id
    ), gone_events AS (
      DELETE FROM fullsend.events USING gone WHERE session_id = gone.id
    ), gone_memory AS (
      DELETE FROM fullsend.memory USING gone WHERE session_id = gone.id
    ), gone_objects AS (
      DELETE FROM fullsend.objects USING gone WHERE session_id = gone.id
    )
    SELECT id FROM gone";

/// Stores an object of a session that exists.
pub(crate) const PUT_OBJECT: &str = "
    INSERT INTO fullsend.objects (session_id, name, digest, content)
    SELECT id, $2, $3, $4 FROM fullsend.sessions WHERE id = $1
    ON CONFLICT (session_id, name) DO UPDATE SET digest = excluded.digest, content = excluded.content";
