//! What can be wrong with a configuration. Every message names the place and the fix.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The TOML file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// A flag of the command line, as it is typed.
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

/// Why a configuration was refused.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    /// The file could not be read.
    #[error(
        "{}: cannot read the configuration: {source}; name an existing file with --config \
         (cluster-config/ has commented examples)",
        path.display()
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{}: not valid TOML: {message}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    /// A key that nothing reads.
    #[error("{origin}: unknown key {key:?}{}; docs/configuration.md lists all keys", hint(meant.as_deref()))]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key as written.
        key: String,
        /// The known key that looks most like it.
        meant: Option<String>,
    },
    /// A value that the key does not take.
    #[error("{origin}: {key}: {problem}")]
    BadValue {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// A key without which a node cannot start.
    #[error("{}: {key} is missing: {fix}", path.display())]
    Missing {
        /// The file that should name it.
        path: PathBuf,
        /// The key.
        key: String,
        /// What to write.
        fix: String,
    },
    /// Values that contradict each other.
    #[error("{0}")]
    Inconsistent(String),
}

fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |key| format!(": did you mean {key:?}?"))
}
