-- A session belongs to a repository, and so do learnings. Rows of the first version have none.
ALTER TABLE sessions ADD COLUMN repository TEXT NOT NULL DEFAULT '';
-- The state version of a program that could not read the row. Workers of that version or an older one skip it.
ALTER TABLE sessions ADD COLUMN unreadable_by INTEGER;
ALTER TABLE learnings ADD COLUMN repository TEXT NOT NULL DEFAULT '';
DROP INDEX learnings_key;
DROP INDEX learnings_newest;
CREATE UNIQUE INDEX learnings_key ON learnings (repository, agent, key);
CREATE INDEX learnings_newest ON learnings (repository, agent, number);
-- The oldest version of this program that can work on the store.
CREATE TABLE compatibility (minimum INTEGER NOT NULL) STRICT;
INSERT INTO compatibility VALUES (2);
