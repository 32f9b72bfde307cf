-- One row per session: what it was created with, and the snapshot that its log folds to. The columns that end in
-- _ms are read off the snapshot, for workers to search; the rest of the row is their source.
CREATE TABLE sessions (
  id BLOB NOT NULL PRIMARY KEY,
  agent TEXT NOT NULL,
  header TEXT NOT NULL,
  state TEXT NOT NULL,
  owner TEXT,
  held_until_ms INTEGER,
  again_ms INTEGER,
  input_ms INTEGER,
  high_ms INTEGER,
  normal_ms INTEGER,
  low_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_agent ON sessions (agent, id);
CREATE INDEX sessions_again ON sessions (again_ms) WHERE again_ms IS NOT NULL;
CREATE INDEX sessions_input ON sessions (input_ms) WHERE input_ms IS NOT NULL;
CREATE INDEX sessions_high ON sessions (high_ms) WHERE high_ms IS NOT NULL;
CREATE INDEX sessions_normal ON sessions (normal_ms) WHERE normal_ms IS NOT NULL;
CREATE INDEX sessions_low ON sessions (low_ms) WHERE low_ms IS NOT NULL;

-- The logs. Clustered by session, so that the end of one log is one place in the file.
CREATE TABLE events (
  session_id BLOB NOT NULL,
  seq INTEGER NOT NULL,
  id BLOB NOT NULL,
  time_ms INTEGER NOT NULL,
  wake_id BLOB,
  version INTEGER NOT NULL,
  type TEXT NOT NULL,
  is_conversation INTEGER NOT NULL,
  payload TEXT NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX events_id ON events (session_id, id);
-- The two parts of a log's end can be read without reading past each other.
CREATE INDEX events_conversation ON events (session_id, seq) WHERE is_conversation = 1;
CREATE INDEX events_work ON events (session_id, seq) WHERE is_conversation = 0;

CREATE TABLE memory (
  session_id BLOB NOT NULL,
  name TEXT NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE learnings (
  number INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  key BLOB NOT NULL,
  learning TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX learnings_key ON learnings (agent, key);
CREATE INDEX learnings_newest ON learnings (agent, number);
