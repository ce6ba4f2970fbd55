-- One row for each protected resource: the highest fencing token that has written to it.
-- SQLite 3.35 or later. Safe to run again.

CREATE TABLE IF NOT EXISTS fence (
    resource TEXT    PRIMARY KEY NOT NULL CHECK (resource <> ''),
    token    INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991),
    holder   TEXT,                                              -- the first holder with this token, for information
    seen_at  TEXT    NOT NULL DEFAULT (datetime('now'))         -- the time of its first use, for information
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS fence_never_falls BEFORE UPDATE OF token ON fence WHEN NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'FN001: a mark never falls: the token is stale');
END;
