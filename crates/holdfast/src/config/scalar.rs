//! Untyped values of the configuration.

/// A value before its key's parser reads it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    /// A TOML string, or any value of the environment or a flag.
    Text(String),
    Number(i64),
    Fraction(f64),
    Bool(bool),
    /// A TOML value of a type that no key accepts.
    Other(&'static str),
}

impl Scalar {
    /// Returns the text, or an error that names `wanted`.
    pub(super) fn text(&self, wanted: &str) -> Result<&str, String> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Err(format!("is empty: write {wanted}")),
            Self::Text(text) => Ok(text),
            Self::Number(number) => Err(format!("{number} is a bare number: write {wanted}")),
            Self::Fraction(number) => Err(format!("{number} is a bare number: write {wanted}")),
            Self::Bool(value) => Err(format!("is {value}: write {wanted}")),
            Self::Other(kind) => Err(format!("is {kind}: write {wanted}")),
        }
    }

    pub(super) fn of(value: &toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::Text(text.clone()),
            toml::Value::Integer(number) => Self::Number(*number),
            toml::Value::Float(number) => Self::Fraction(*number),
            toml::Value::Boolean(value) => Self::Bool(*value),
            toml::Value::Datetime(_) => Self::Other("a date"),
            toml::Value::Array(_) => Self::Other("a list"),
            toml::Value::Table(_) => Self::Other("a table"),
        }
    }
}
