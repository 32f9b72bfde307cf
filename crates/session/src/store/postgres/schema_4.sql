-- The workers that wait for due sessions, as they last reported themselves.
CREATE TABLE fullsend.workers (
  name text PRIMARY KEY,
  description text NOT NULL,
  started_ms bigint NOT NULL,
  seen_ms bigint NOT NULL
);
