-- A session belongs to a repository, and so do learnings. Rows of the first version have none.
ALTER TABLE fullsend.sessions ADD COLUMN repository text NOT NULL DEFAULT '';
-- The state version of a program that could not read the row. Workers of that version or an older one skip it.
ALTER TABLE fullsend.sessions ADD COLUMN unreadable_by integer;
ALTER TABLE fullsend.learnings ADD COLUMN repository text NOT NULL DEFAULT '';
DROP INDEX fullsend.learnings_key;
DROP INDEX fullsend.learnings_newest;
CREATE UNIQUE INDEX learnings_key ON fullsend.learnings (repository, agent, key);
CREATE INDEX learnings_newest ON fullsend.learnings (repository, agent, number);
-- The oldest version of this program that can work on the store.
CREATE TABLE fullsend.compatibility (minimum bigint NOT NULL);
INSERT INTO fullsend.compatibility VALUES (2);
