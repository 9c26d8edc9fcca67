-- What callers saved: memory.Collection and memory.Record. size is memory.Size.
CREATE TABLE record (
	owner TEXT NOT NULL,
	kind  TEXT NOT NULL,
	user  TEXT NOT NULL,
	key   TEXT NOT NULL,
	value TEXT NOT NULL,
	size  INTEGER NOT NULL,
	PRIMARY KEY (owner, kind, user, key)
) STRICT;

-- What limits bound. Triggers count, so that it is right whoever writes.
CREATE TABLE usage (
	owner TEXT PRIMARY KEY,
	bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE total_usage (
	id    INTEGER PRIMARY KEY CHECK (id = 1),
	bytes INTEGER NOT NULL
) STRICT;

INSERT INTO total_usage VALUES (1, 0);

CREATE TRIGGER record_added AFTER INSERT ON record BEGIN
	INSERT INTO usage VALUES (new.owner, new.size)
		ON CONFLICT (owner) DO UPDATE SET bytes = bytes + new.size;
	UPDATE total_usage SET bytes = bytes + new.size;
END;

CREATE TRIGGER record_replaced AFTER UPDATE ON record BEGIN
	UPDATE usage SET bytes = bytes - old.size WHERE owner = old.owner;
	DELETE FROM usage WHERE owner = old.owner AND bytes = 0;
	INSERT INTO usage VALUES (new.owner, new.size)
		ON CONFLICT (owner) DO UPDATE SET bytes = bytes + new.size;
	UPDATE total_usage SET bytes = bytes - old.size + new.size;
END;

CREATE TRIGGER record_deleted AFTER DELETE ON record BEGIN
	UPDATE usage SET bytes = bytes - old.size WHERE owner = old.owner;
	DELETE FROM usage WHERE owner = old.owner AND bytes = 0;
	UPDATE total_usage SET bytes = bytes - old.size;
END;
