//! The SQL of the `PostgreSQL` guards, as shipped in `sql/`, and the statement that puts a guard on a table.
//!
//! Owns quoting: a table's name and a resource become SQL only here. Refuses to know connections; the text is
//! for whoever runs migrations. It asks for `PostgreSQL` 14 or later.

use thiserror::Error;

/// The conditional UPDATE pattern as a runnable example: the row carries its own mark.
pub const CONDITIONAL_UPDATE_SQL: &str = include_str!("../sql/conditional_update.sql");

/// `PostgreSQL` cuts longer identifiers silently; here they are refused.
const IDENTIFIER_MAX_LEN: usize = 63;

/// Why a table's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentifierError {
    /// The name, its schema or its table is empty.
    #[error("the table name {0:?} has an empty part: write `table` or `schema.table`")]
    Empty(String),
    /// More than one dot.
    #[error("the table name {0:?} has more than one dot: write `table` or `schema.table`")]
    TooManyParts(String),
    /// A part longer than `PostgreSQL` keeps.
    #[error(
        "the identifier {0:?} is longer than {IDENTIFIER_MAX_LEN} bytes: PostgreSQL would cut it"
    )]
    TooLong(String),
    /// A NUL byte, which no SQL text can hold.
    #[error("the name {0:?} contains a NUL byte: remove it")]
    Nul(String),
}

/// The fence table, `fence_check()` and `fence_guard()`: one migration step, safe to run again.
pub const fn schema_sql() -> &'static str {
    crate::recipes::POSTGRES_SCHEMA
}

/// The statement, on one line, that guards `table` against every write without a current token, whatever its resource.
/// `table` is `table` or `schema.table`, taken literally (case and spaces count) and quoted here.
///
/// # Errors
/// [`IdentifierError`] says what is wrong with the name.
pub fn guard_table_sql(table: &str) -> Result<String, IdentifierError> {
    Ok(trigger_sql(&quoted_table(table)?, ""))
}

/// As [`guard_table_sql`], and only a token for `resource` is accepted: right where one lock protects the table.
///
/// # Errors
/// [`IdentifierError`] says what is wrong with the name or the resource.
pub fn guard_table_for_sql(table: &str, resource: &str) -> Result<String, IdentifierError> {
    if resource.is_empty() {
        return Err(IdentifierError::Empty(resource.to_owned()));
    }
    Ok(trigger_sql(&quoted_table(table)?, &quoted_literal(resource)?))
}

/// A statement that changes nothing in `table` and that its guard must judge all the same: for trying the guard.
///
/// # Errors
/// [`IdentifierError`] says what is wrong with the name.
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
    refuse_nul(part)?;
    Ok(format!("\"{}\"", part.replace('"', "\"\"")))
}

/// Quotes for either setting of `standard_conforming_strings`.
fn quoted_literal(text: &str) -> Result<String, IdentifierError> {
    refuse_nul(text)?;
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        return Ok(format!("E'{}'", doubled.replace('\\', "\\\\")));
    }
    Ok(format!("'{doubled}'"))
}

fn refuse_nul(text: &str) -> Result<(), IdentifierError> {
    if text.contains('\0') { Err(IdentifierError::Nul(text.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_names_its_table_quoted() {
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
    fn names_that_cannot_be_meant_are_refused() {
        let long = "x".repeat(64);
        assert_eq!(guard_table_sql(""), Err(IdentifierError::Empty(String::new())));
        assert_eq!(guard_table_sql("a."), Err(IdentifierError::Empty("a.".into())));
        assert_eq!(guard_table_sql("a.b.c"), Err(IdentifierError::TooManyParts("a.b.c".into())));
        assert_eq!(guard_table_sql(&long), Err(IdentifierError::TooLong(long.clone())));
        assert_eq!(guard_table_sql("a\0"), Err(IdentifierError::Nul("a\0".into())));
        assert_eq!(guard_table_for_sql("a", ""), Err(IdentifierError::Empty(String::new())));
    }
}
