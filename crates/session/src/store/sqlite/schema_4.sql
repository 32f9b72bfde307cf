-- What people look for: by status, by repository, with work to do (a lease, a queued wake or a dead letter), and by the end of
-- an id. They are read off the snapshot, so that rows which an earlier program writes have them too. A damaged snapshot is no
-- error here.
CREATE INDEX sessions_status ON sessions (CASE WHEN json_valid(state) THEN state ->> '$.status' END, id);
CREATE INDEX sessions_repository ON sessions (repository, id);
CREATE INDEX sessions_work ON sessions (id) WHERE owner IS NOT NULL OR instr(state, '"wakes":[{') > 0
  OR (instr(state, '"dead":[') > 0 AND instr(state, '"dead":[]') = 0);
CREATE INDEX sessions_end ON sessions (substr(id, 14, 3));
