//! The guards as text, which `holdfast fence init` prints and the modules of the drivers run, and the statement that creates
//! the guard of a table.
//!
//! The texts need no driver. Those for PostgreSQL need version 14 or later. Names of tables and resources are quoted here.

use thiserror::Error;

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

/// The conditional UPDATE pattern as a runnable example: the row has its own mark.
pub const CONDITIONAL_UPDATE_SQL: &str = include_str!("../sql/conditional_update.sql");

/// PostgreSQL truncates longer identifiers silently; they are rejected here.
const IDENTIFIER_MAX_LEN: usize = 63;

/// Why the name of a table was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentifierError {
    /// The name or one of its parts is empty.
    #[error("the table name {0:?} has an empty part: write `table` or `schema.table`")]
    Empty(String),
    /// More than one dot.
    #[error("the table name {0:?} has more than one dot: write `table` or `schema.table`")]
    TooManyParts(String),
    /// A part is longer than an identifier of PostgreSQL.
    #[error(
        "the identifier {0:?} is longer than {IDENTIFIER_MAX_LEN} bytes: PostgreSQL would truncate it"
    )]
    TooLong(String),
    /// A NUL byte, which SQL text cannot have.
    #[error("the name {0:?} contains a NUL byte: remove it")]
    Nul(String),
}

/// The fence table, `fence_check()` and `fence_guard()`: one migration step that can be repeated.
pub const fn schema_sql() -> &'static str {
    POSTGRES_SCHEMA
}

/// The statement, on one line, that guards `table` against every write without a valid token of any resource. `table`
/// is `table` or `schema.table`, taken literally (case and spaces count) and quoted here.
///
/// # Errors
/// [`IdentifierError`] for a malformed name.
pub fn guard_table_sql(table: &str) -> Result<String, IdentifierError> {
    Ok(trigger_sql(&quoted_table(table)?, ""))
}

/// As [`guard_table_sql`], for tokens of `resource` only: for a table that one lock protects.
///
/// # Errors
/// [`IdentifierError`] for a malformed name or resource.
pub fn guard_table_for_sql(table: &str, resource: &str) -> Result<String, IdentifierError> {
    if resource.is_empty() {
        return Err(IdentifierError::Empty(resource.to_owned()));
    }
    Ok(trigger_sql(&quoted_table(table)?, &quoted_literal(resource)?))
}

/// A statement that triggers the guard of `table` and changes nothing, for tests of the guard.
///
/// # Errors
/// [`IdentifierError`] for a malformed name.
pub fn try_table_sql(table: &str) -> Result<String, IdentifierError> {
    Ok(format!("DELETE FROM {} WHERE false", quoted_table(table)?))
}

fn trigger_sql(table: &str, argument: &str) -> String {
    format!(
        "CREATE OR REPLACE TRIGGER holdfast_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} \
         FOR EACH STATEMENT EXECUTE FUNCTION fence_guard({argument});\n"
    )
}

fn quoted_table(table: &str) -> Result<String, IdentifierError> {
    let parts: Vec<&str> = table.split('.').collect();
    if parts.len() > 2 {
        return Err(IdentifierError::TooManyParts(table.to_owned()));
    }
    if parts.iter().any(|part| part.is_empty()) {
        return Err(IdentifierError::Empty(table.to_owned()));
    }
    let quoted: Result<Vec<String>, _> = parts.into_iter().map(quoted_identifier).collect();
    Ok(quoted?.join("."))
}

fn quoted_identifier(part: &str) -> Result<String, IdentifierError> {
    if part.len() > IDENTIFIER_MAX_LEN {
        return Err(IdentifierError::TooLong(part.to_owned()));
    }
    check_no_nul(part)?;
    Ok(format!("\"{}\"", part.replace('"', "\"\"")))
}

/// Quotes for both settings of `standard_conforming_strings`.
fn quoted_literal(text: &str) -> Result<String, IdentifierError> {
    check_no_nul(text)?;
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        return Ok(format!("E'{}'", doubled.replace('\\', "\\\\")));
    }
    Ok(format!("'{doubled}'"))
}

fn check_no_nul(text: &str) -> Result<(), IdentifierError> {
    if text.contains('\0') { Err(IdentifierError::Nul(text.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_quotes_the_name_of_its_table() {
        let sql = guard_table_sql("shop.seckill \"good\"").unwrap();
        assert!(sql.contains("ON \"shop\".\"seckill \"\"good\"\"\" FOR"), "{sql}");
        assert!(sql.ends_with("fence_guard();\n"), "{sql}");
        let sql = try_table_sql("shop.\"good\"").unwrap();
        assert_eq!(sql, "DELETE FROM \"shop\".\"\"\"good\"\"\" WHERE false");
    }

    #[test]
    fn a_guard_for_one_resource_quotes_it() {
        let sql = guard_table_for_sql("t", "it's").unwrap();
        assert!(sql.contains("fence_guard('it''s')"), "{sql}");
        let sql = guard_table_for_sql("t", "a\\'b").unwrap();
        assert!(sql.contains("fence_guard(E'a\\\\''b')"), "{sql}");
    }

    #[test]
    fn malformed_names_are_rejected() {
        let long = "x".repeat(64);
        assert_eq!(guard_table_sql(""), Err(IdentifierError::Empty(String::new())));
        assert_eq!(guard_table_sql("a."), Err(IdentifierError::Empty("a.".into())));
        assert_eq!(guard_table_sql("a.b.c"), Err(IdentifierError::TooManyParts("a.b.c".into())));
        assert_eq!(guard_table_sql(&long), Err(IdentifierError::TooLong(long.clone())));
        assert_eq!(guard_table_sql("a\0"), Err(IdentifierError::Nul("a\0".into())));
        assert_eq!(guard_table_for_sql("a", ""), Err(IdentifierError::Empty(String::new())));
    }
}
