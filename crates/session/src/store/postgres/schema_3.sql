-- Only a worker that serves all labels of a session runs it.
ALTER TABLE fullsend.sessions ADD COLUMN labels text[] NOT NULL DEFAULT '{}';
-- Files that belong to a session but not to its log. Without content, the directory of objects has it.
CREATE TABLE fullsend.objects (
  session_id uuid NOT NULL,
  name text COLLATE "C" NOT NULL,
  digest bytea NOT NULL,
  content bytea,
  PRIMARY KEY (session_id, name)
);
