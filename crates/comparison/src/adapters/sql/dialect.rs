//! What the locks say to each database.
//!
//! Owns every statement, side by side, so that the two can be compared. Times are the server's: no client's clock decides.

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// `PostgreSQL`.
    Postgres,
    /// `MariaDB`.
    MariaDb,
}

/// The statements of one database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) tables: &'static [&'static str],
    pub(crate) add_row: &'static str,
    pub(crate) begin: &'static str,
    pub(crate) lock_row: &'static str,
    pub(crate) insert_lock: &'static str,
    pub(crate) take_over_lock: Option<&'static str>,
    pub(crate) delete_lock: &'static str,
    pub(crate) take_named: &'static str,
    pub(crate) free_named: &'static str,
    pub(crate) read_row: &'static str,
    pub(crate) write_if_version: &'static str,
    pub(crate) write_if_value: &'static str,
    pub(crate) connection: &'static str,
}

const POSTGRES: Words = Words {
    tables: &[
        "CREATE TABLE IF NOT EXISTS rival_rows (name text PRIMARY KEY, stock bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0)",
        "CREATE TABLE IF NOT EXISTS rival_locks (name text PRIMARY KEY, owner text NOT NULL, ends timestamptz NOT NULL)",
    ],
    add_row: "INSERT INTO rival_rows (name) VALUES ($1) ON CONFLICT DO NOTHING",
    begin: "BEGIN",
    lock_row: "SELECT 1::bigint FROM rival_rows WHERE name = $1 FOR UPDATE",
    insert_lock: "INSERT INTO rival_locks AS held (name, owner, ends) VALUES ($1, $2, now() + $3 * interval '1 millisecond') \
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, ends = excluded.ends WHERE held.ends < now()",
    take_over_lock: None,
    delete_lock: "DELETE FROM rival_locks WHERE name = $1 AND owner = $2",
    take_named: "SELECT pg_advisory_lock(hashtext($1))",
    free_named: "SELECT pg_advisory_unlock(hashtext($1))::int::bigint",
    read_row: "SELECT stock, version FROM rival_rows WHERE name = $1",
    write_if_version: "UPDATE rival_rows SET stock = $1, version = version + 1 WHERE name = $2 AND version = $3",
    write_if_value: "UPDATE rival_rows SET stock = $1 WHERE name = $2 AND stock = $3",
    connection: "SELECT pg_backend_pid()::bigint",
};

const MARIADB: Words = Words {
    tables: &[
        "CREATE DATABASE IF NOT EXISTS clients",
        "CREATE TABLE IF NOT EXISTS clients.rival_rows (name varchar(190) PRIMARY KEY, stock bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0)",
        "CREATE TABLE IF NOT EXISTS clients.rival_locks (name varchar(190) PRIMARY KEY, owner varchar(40) NOT NULL, ends datetime(6) NOT NULL)",
    ],
    add_row: "INSERT IGNORE INTO clients.rival_rows (name) VALUES (?)",
    begin: "START TRANSACTION",
    lock_row: "SELECT 1 FROM clients.rival_rows WHERE name = ? FOR UPDATE",
    insert_lock: "INSERT IGNORE INTO clients.rival_locks (name, owner, ends) VALUES (?, ?, now(6) + INTERVAL ? * 1000 MICROSECOND)",
    take_over_lock: Some(
        "UPDATE clients.rival_locks SET owner = ?, ends = now(6) + INTERVAL ? * 1000 MICROSECOND WHERE name = ? AND ends < now(6)",
    ),
    delete_lock: "DELETE FROM clients.rival_locks WHERE name = ? AND owner = ?",
    take_named: "SELECT GET_LOCK(?, ? / 1000)",
    free_named: "SELECT RELEASE_LOCK(?)",
    read_row: "SELECT stock, version FROM clients.rival_rows WHERE name = ?",
    write_if_version: "UPDATE clients.rival_rows SET stock = ?, version = version + 1 WHERE name = ? AND version = ?",
    write_if_value: "UPDATE clients.rival_rows SET stock = ? WHERE name = ? AND stock = ?",
    connection: "SELECT CONNECTION_ID()",
};

impl Database {
    pub(crate) fn words(self) -> &'static Words {
        match self {
            Self::Postgres => &POSTGRES,
            Self::MariaDb => &MARIADB,
        }
    }
}
