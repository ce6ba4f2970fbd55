//! The recipes as text: what `holdfast fence init` prints, and what the drivers' modules run.
//!
//! Owns the files under `sql/`, `lua/` and `sh/` as constants and their order. Refuses to know connections and
//! drivers, so that a program without any driver can print them.

/// The fence table, `fence_check()` and `fence_guard()` for `PostgreSQL`: one migration step, safe to run again.
pub const POSTGRES_SCHEMA: &str =
    concat!(include_str!("../sql/fence_table.sql"), "\n", include_str!("../sql/fence_trigger.sql"));

/// The fence table and its procedures for `MySQL` and `MariaDB`, one statement each, safe to run again.
pub const MYSQL_SCHEMA: [&str; 5] = [
    include_str!("../sql/mysql/fence_table.sql"),
    "DROP PROCEDURE IF EXISTS fence_check_shared",
    include_str!("../sql/mysql/fence_check_shared.sql"),
    "DROP PROCEDURE IF EXISTS fence_check",
    include_str!("../sql/mysql/fence_check.sql"),
];

/// The fence table for `SQLite`, safe to run again.
pub const SQLITE_SCHEMA: &str = include_str!("../sql/sqlite/fence_table.sql");
/// The first statement of every fenced transaction on `SQLite`.
pub const SQLITE_CHECK: &str = include_str!("../sql/sqlite/fence_check.sql");

/// The head of every fenced script on Redis and Valkey.
pub const REDIS_GUARD: &str = include_str!("../lua/fence_guard.lua");
/// The guard, and then the reading or writing of one key.
pub const REDIS_KEY: &str =
    concat!(include_str!("../lua/fence_guard.lua"), include_str!("../lua/fence_key.lua"));

/// Reading and replacing of a file, for shell scripts.
pub const FILE_SCRIPT: &str = include_str!("../sh/fence_file.sh");

/// [`MYSQL_SCHEMA`] as the clients `mysql` and `mariadb` want to read it, with a delimiter of its own around
/// procedures.
pub fn mysql_script() -> String {
    let statements = MYSQL_SCHEMA.map(|statement| format!("{}\n//\n", statement.trim_end()));
    format!("DELIMITER //\n{}DELIMITER ;\n", statements.concat())
}
