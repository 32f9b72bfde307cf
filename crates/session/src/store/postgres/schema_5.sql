-- What people look for: by status, by repository, with work to do, and by the end of an id. The server reads this off the
-- snapshot, so that rows which an earlier program writes have it too. A damaged snapshot is no error here.
ALTER TABLE fullsend.sessions
  ADD COLUMN status text GENERATED ALWAYS AS (split_part(split_part(left(state, 200), '"status":"', 2), '"', 1)) STORED,
  -- A lease, a queued wake or a dead letter.
  ADD COLUMN has_work boolean GENERATED ALWAYS AS
    (owner IS NOT NULL OR position('"wakes":[{' IN state) > 0
     OR (position('"dead":[' IN state) > 0 AND position('"dead":[]' IN state) = 0)) STORED;
CREATE INDEX sessions_status ON fullsend.sessions (status, id);
CREATE INDEX sessions_repository ON fullsend.sessions (repository, id);
CREATE INDEX sessions_work ON fullsend.sessions (id) WHERE has_work;
CREATE INDEX sessions_end ON fullsend.sessions (right(id::text, 6));
