//! The guards as text, which `holdfast fence init` prints and the modules of the drivers run.
//!
//! The constants need no driver.

/// The fence table, `fence_check()` and `fence_guard()` for PostgreSQL: one migration step that can be repeated.
pub const POSTGRES_SCHEMA: &str =
    concat!(include_str!("../sql/fence_table.sql"), "\n", include_str!("../sql/fence_trigger.sql"));

/// The fence table and its procedures for MySQL and MariaDB, one statement each, which can be repeated.
pub const MYSQL_SCHEMA: [&str; 5] = [
    include_str!("../sql/mysql/fence_table.sql"),
    "DROP PROCEDURE IF EXISTS fence_check_shared",
    include_str!("../sql/mysql/fence_check_shared.sql"),
    "DROP PROCEDURE IF EXISTS fence_check",
    include_str!("../sql/mysql/fence_check.sql"),
];

/// The fence table for SQLite, which can be repeated.
pub const SQLITE_SCHEMA: &str = include_str!("../sql/sqlite/fence_table.sql");
/// The first statement of every fenced transaction on SQLite.
pub const SQLITE_CHECK: &str = include_str!("../sql/sqlite/fence_check.sql");

/// The start of every fenced script for Redis and Valkey.
pub const REDIS_GUARD: &str = include_str!("../lua/fence_guard.lua");
/// The guard, then a read or a write of one key.
pub const REDIS_KEY: &str =
    concat!(include_str!("../lua/fence_guard.lua"), include_str!("../lua/fence_key.lua"));

/// Reads and replaces a file, for shell scripts.
pub const FILE_SCRIPT: &str = include_str!("../sh/fence_file.sh");

/// [`MYSQL_SCHEMA`] for the clients `mysql` and `mariadb`, with another delimiter around procedures.
pub fn mysql_script() -> String {
    let statements = MYSQL_SCHEMA.map(|statement| format!("{}\n//\n", statement.trim_end()));
    format!("DELIMITER //\n{}DELIMITER ;\n", statements.concat())
}
