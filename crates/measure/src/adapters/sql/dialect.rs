//! The statements of the locks in each database. Times come from the server's clock, not from a client's clock.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Postgres,
    MariaDb,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Statements {
    pub(crate) tables: &'static [&'static str],
    pub(crate) add_row: &'static str,
    pub(crate) begin: &'static str,
    pub(crate) lock_row: &'static str,
    pub(crate) insert_lock: &'static str,
    pub(crate) take_over_lock: Option<&'static str>,
    pub(crate) delete_lock: &'static str,
    pub(crate) acquire_named: &'static str,
    pub(crate) release_named: &'static str,
    pub(crate) read_row: &'static str,
    pub(crate) write_if_version: &'static str,
    pub(crate) write_if_value: &'static str,
    pub(crate) connection_number: &'static str,
}

const POSTGRES: Statements = Statements {
    tables: &[
        "CREATE TABLE IF NOT EXISTS versioned_rows (name text PRIMARY KEY, value bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0)",
        "CREATE TABLE IF NOT EXISTS held_locks (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)",
    ],
    add_row: "INSERT INTO versioned_rows (name) VALUES ($1) ON CONFLICT DO NOTHING",
    begin: "BEGIN",
    lock_row: "SELECT 1::bigint FROM versioned_rows WHERE name = $1 FOR UPDATE",
    insert_lock: "INSERT INTO held_locks AS held (name, owner, expires) VALUES ($1, $2, now() + $3 * interval '1 millisecond') \
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires WHERE held.expires < now()",
    take_over_lock: None,
    delete_lock: "DELETE FROM held_locks WHERE name = $1 AND owner = $2",
    acquire_named: "SELECT pg_advisory_lock(hashtext($1))",
    release_named: "SELECT pg_advisory_unlock(hashtext($1))::int::bigint",
    read_row: "SELECT value, version FROM versioned_rows WHERE name = $1",
    write_if_version: "UPDATE versioned_rows SET value = $1, version = version + 1 WHERE name = $2 AND version = $3",
    write_if_value: "UPDATE versioned_rows SET value = $1 WHERE name = $2 AND value = $3",
    connection_number: "SELECT pg_backend_pid()::bigint",
};

const MARIADB: Statements = Statements {
    tables: &[
        "CREATE DATABASE IF NOT EXISTS comparison",
        "CREATE TABLE IF NOT EXISTS comparison.versioned_rows (name varchar(190) PRIMARY KEY, value bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0)",
        "CREATE TABLE IF NOT EXISTS comparison.held_locks (name varchar(190) PRIMARY KEY, owner varchar(40) NOT NULL, expires datetime(6) NOT NULL)",
    ],
    add_row: "INSERT IGNORE INTO comparison.versioned_rows (name) VALUES (?)",
    begin: "START TRANSACTION",
    lock_row: "SELECT 1 FROM comparison.versioned_rows WHERE name = ? FOR UPDATE",
    insert_lock: "INSERT IGNORE INTO comparison.held_locks (name, owner, expires) VALUES (?, ?, now(6) + INTERVAL ? * 1000 MICROSECOND)",
    take_over_lock: Some(
        "UPDATE comparison.held_locks SET owner = ?, expires = now(6) + INTERVAL ? * 1000 MICROSECOND WHERE name = ? AND expires < now(6)",
    ),
    delete_lock: "DELETE FROM comparison.held_locks WHERE name = ? AND owner = ?",
    acquire_named: "SELECT GET_LOCK(?, ? / 1000)",
    release_named: "SELECT RELEASE_LOCK(?)",
    read_row: "SELECT value, version FROM comparison.versioned_rows WHERE name = ?",
    write_if_version: "UPDATE comparison.versioned_rows SET value = ?, version = version + 1 WHERE name = ? AND version = ?",
    write_if_value: "UPDATE comparison.versioned_rows SET value = ? WHERE name = ? AND value = ?",
    connection_number: "SELECT CONNECTION_ID()",
};

impl Database {
    pub(crate) fn statements(self) -> &'static Statements {
        match self {
            Self::Postgres => &POSTGRES,
            Self::MariaDb => &MARIADB,
        }
    }
}
