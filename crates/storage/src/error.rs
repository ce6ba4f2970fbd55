//! The error of all storage operations. Each variant says what the caller must do.
//!
//! [`StoreError`] is `Clone`, because after a disk error every pending and every later call gets the same error. This
//! crate never retries.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a call on the store did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The bytes on the disk are not what was written. The node must not vote or serve; do what `fix` says.
    #[error("the store is damaged: {what}; {fix}")]
    Corrupt {
        /// What was found, and in which file.
        what: String,
        /// What an operator does about it.
        fix: String,
    },
    /// The files are of a format that this version does not know. Nothing was changed; do what `fix` says.
    #[error("{what}; {fix}")]
    UnknownFormat {
        /// What was found, and in which file.
        what: String,
        /// What an operator does about it.
        fix: String,
    },
    /// The operating system refused. Final for a log: stop the node, look at the disk, start it again.
    #[error("disk error while {doing}: {message}")]
    Io {
        /// The step that failed, with its path.
        doing: String,
        /// The operating system's kind of error.
        kind: io::ErrorKind,
        /// The operating system's words.
        message: String,
    },
    /// The disk is full. What was written did not become durable, and the log that met it is closed for good: make
    /// room and start the node again. Ask [`free_bytes`](crate::free_bytes) before writing to never get here.
    #[error("the disk is full while {doing}; make room, then start the node again")]
    Full {
        /// The step that failed, with its path.
        doing: String,
    },
    /// Nothing was written: the value is longer than the store takes. Split it.
    #[error("{what} has {bytes} bytes, the limit is {bytes_max}")]
    TooLarge {
        /// Which value.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The largest length taken.
        bytes_max: u64,
    },
    /// Nothing was written: the call does not fit the state of the store (a hole in the log, a purged index, a
    /// name with a slash). This is the caller's bug; repeating the call gives the same answer.
    #[error("wrong use of the store: {what}")]
    Misuse {
        /// What does not fit.
        what: String,
    },
    /// Another process has this directory open. Stop it first.
    #[error("{path} is in use by another process; stop it first")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The log was shut down; open it again.
    #[error("the log is shut down")]
    Closed,
}

/// What an operator does about a damaged log or snapshot.
pub(crate) const QUARANTINE: &str = "do not start this node from it again: keep the directory for \
    inspection, remove the node from the cluster, and add it back empty, as a learner with a new id";

impl StoreError {
    /// Whether the store is closed for good by this error (as opposed to one refused call).
    pub fn is_final(&self) -> bool {
        match self {
            Self::Corrupt { .. }
            | Self::UnknownFormat { .. }
            | Self::Io { .. }
            | Self::Full { .. }
            | Self::Closed => true,
            Self::TooLarge { .. } | Self::Misuse { .. } | Self::InUse { .. } => false,
        }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), fix: QUARANTINE.to_owned() }
    }

    pub(crate) fn newer_format(what: impl Into<String>) -> Self {
        let fix = "start this node with the version that wrote it, or a newer one".to_owned();
        Self::UnknownFormat { what: what.into(), fix }
    }

    pub(crate) fn misuse(what: impl Into<String>) -> Self {
        Self::Misuse { what: what.into() }
    }

    /// Names the step in front of the operating system's error, and tells a full disk from other errors.
    pub(crate) fn io(doing: impl Into<String>, error: &io::Error) -> Self {
        let doing = doing.into();
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::Full { doing };
        }
        Self::Io { doing, kind, message: error.to_string() }
    }
}

/// `result.at("writing", path)`: names the step and the path of an I/O error.
pub(crate) trait At<T> {
    /// Turns the operating system's error into ours.
    fn at(self, doing: &str, path: &Path) -> Result<T, StoreError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, doing: &str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::io(format!("{doing} {}", path.display()), &error))
    }
}
