-- Only a worker that serves all labels of a session runs it. A JSON array.
ALTER TABLE sessions ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
-- Files that belong to a session but not to its log. Without content, the directory of objects has it.
CREATE TABLE objects (
  session_id BLOB NOT NULL,
  name TEXT NOT NULL,
  digest BLOB NOT NULL,
  content BLOB,
  PRIMARY KEY (session_id, name)
) STRICT;
