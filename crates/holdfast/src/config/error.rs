//! Errors of the configuration. Every message names the origin of the value and the fix.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File(PathBuf),
    Env(String),
    /// The flag as typed.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// The reason for a rejected configuration.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error(
        "{}: cannot read the configuration: {source}; name an existing file with --config \
         (cluster-config/ has commented examples)",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: not valid TOML: {message}", path.display())]
    Syntax {
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    #[error("{origin}: unknown key {key:?}{}; docs/configuration.md lists all keys", hint(similar.as_deref()))]
    UnknownKey {
        origin: Origin,
        key: String,
        /// The most similar known key.
        similar: Option<String>,
    },
    #[error("{origin}: {key}: {problem}")]
    BadValue {
        origin: Origin,
        key: String,
        /// The problem, and what to write instead.
        problem: String,
    },
    /// A required key is missing.
    #[error("{}: {key} is missing: {fix}", path.display())]
    Missing { path: PathBuf, key: String, fix: String },
    /// Some values contradict each other.
    #[error("{0}")]
    Inconsistent(String),
}

fn hint(similar: Option<&str>) -> String {
    similar.map_or_else(String::new, |key| format!(": did you mean {key:?}?"))
}
