-- One row per session: what it was created with, and the snapshot that its log folds to. A writer names the revision that it
-- decided upon; the columns that end in _ms are read off the snapshot, for workers to search.
CREATE TABLE fullsend.sessions (
  id uuid PRIMARY KEY,
  agent text NOT NULL,
  header text NOT NULL,
  revision bigint NOT NULL DEFAULT 0,
  state text NOT NULL,
  owner text,
  held_until_ms bigint,
  again_ms bigint,
  input_ms bigint,
  high_ms bigint,
  normal_ms bigint,
  low_ms bigint
);
CREATE INDEX sessions_agent ON fullsend.sessions (agent, id);
CREATE INDEX sessions_again ON fullsend.sessions (again_ms) WHERE again_ms IS NOT NULL;
CREATE INDEX sessions_input ON fullsend.sessions (input_ms) WHERE input_ms IS NOT NULL;
CREATE INDEX sessions_high ON fullsend.sessions (high_ms) WHERE high_ms IS NOT NULL;
CREATE INDEX sessions_normal ON fullsend.sessions (normal_ms) WHERE normal_ms IS NOT NULL;
CREATE INDEX sessions_low ON fullsend.sessions (low_ms) WHERE low_ms IS NOT NULL;

CREATE TABLE fullsend.events (
  session_id uuid NOT NULL,
  seq bigint NOT NULL,
  id uuid NOT NULL,
  time_ms bigint NOT NULL,
  wake_id uuid,
  version integer NOT NULL,
  type text NOT NULL,
  is_conversation boolean NOT NULL,
  payload text NOT NULL,
  checksum bytea NOT NULL,
  PRIMARY KEY (session_id, seq)
);
CREATE UNIQUE INDEX events_id ON fullsend.events (session_id, id);
-- The two parts of a log's end can be read without reading past each other.
CREATE INDEX events_part ON fullsend.events (session_id, is_conversation, seq);

CREATE TABLE fullsend.memory (
  session_id uuid NOT NULL,
  name text COLLATE "C" NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (session_id, name)
);

CREATE TABLE fullsend.learnings (
  number bigserial PRIMARY KEY,
  agent text NOT NULL,
  key bytea NOT NULL,
  learning text NOT NULL
);
CREATE UNIQUE INDEX learnings_key ON fullsend.learnings (agent, key);
CREATE INDEX learnings_newest ON fullsend.learnings (agent, number);
