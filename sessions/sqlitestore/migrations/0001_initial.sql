-- meta has one row: the version that the last commit gave.
CREATE TABLE meta (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	version INTEGER NOT NULL,
	checked INTEGER NOT NULL, -- when readiness last wrote, Unix milliseconds
	probe   BLOB              -- what readiness writes after a write had failed
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, NULL);

CREATE TABLE records (
	principal TEXT NOT NULL,
	key       TEXT NOT NULL,
	version   INTEGER NOT NULL,
	expires   INTEGER, -- Unix milliseconds; NULL: never
	value     BLOB NOT NULL,
	PRIMARY KEY (principal, key)
) STRICT;
CREATE INDEX records_expires ON records (expires) WHERE expires IS NOT NULL;

CREATE TABLE members (
	principal TEXT NOT NULL,
	list      TEXT NOT NULL,
	member    TEXT NOT NULL,
	score     INTEGER NOT NULL,
	value     BLOB NOT NULL,
	PRIMARY KEY (principal, list, member)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_order ON members (principal, list, score DESC, member);

CREATE TABLE journals (
	id        INTEGER PRIMARY KEY AUTOINCREMENT, -- never given again: the segments of a deleted journal go later
	principal TEXT NOT NULL,
	name      TEXT NOT NULL,
	epoch     INTEGER NOT NULL,
	fence     INTEGER NOT NULL,
	first     INTEGER NOT NULL,
	next      INTEGER NOT NULL,
	events    INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,
	clean     INTEGER NOT NULL,
	UNIQUE (principal, name)
) STRICT;

-- floors keep, for each principal, the greatest epoch of its deleted journals.
CREATE TABLE floors (
	principal TEXT PRIMARY KEY,
	epoch     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- garbage are the ids of deleted journals whose segments have not all been removed yet.
CREATE TABLE garbage (
	journal INTEGER PRIMARY KEY
) STRICT;

-- segments are packed runs of events. Rows are in the order in which they came, whatever their journal, so that an append
-- to many journals touches few pages; the index finds those of one journal.
CREATE TABLE segments (
	journal INTEGER NOT NULL,
	first   INTEGER NOT NULL, -- seq of the first event
	last    INTEGER NOT NULL,
	events  INTEGER NOT NULL,
	bytes   INTEGER NOT NULL, -- payload
	data    BLOB NOT NULL,
	PRIMARY KEY (journal, first)
) STRICT;
