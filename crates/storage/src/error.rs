//! The error of all storage operations. Each variant names the caller's next step.
//!
//! [`StoreError`] is `Clone`, because after a disk error every pending and every later call gets the same error. This
//! crate never retries.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason for a failed call of the store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The bytes on the disk differ from the written bytes. The node must not vote or serve; follow `fix`.
    #[error("the store is damaged: {detail}; {fix}")]
    Corrupt {
        /// The damage, and the file.
        detail: String,
        /// The next step for the operator.
        fix: String,
    },
    /// This version cannot read the format of the files. The store changed no file; follow `fix`.
    #[error("{detail}; {fix}")]
    UnknownFormat {
        /// The found format, and the file.
        detail: String,
        /// The next step for the operator.
        fix: String,
    },
    /// The operating system returned an error, which is final for a log. Stop the node, check the disk, and start the
    /// node again.
    #[error("disk error while {action}: {message}")]
    Io {
        /// The failed step, with its path.
        action: String,
        /// The error kind of the operating system.
        kind: io::ErrorKind,
        /// The error message of the operating system.
        message: String,
    },
    /// The disk is full. The written bytes are not durable, and the log of this call is closed permanently. Free disk
    /// space and start the node again. To avoid this error, call [`free_bytes`](crate::free_bytes) before writes.
    #[error("the disk is full while {action}; make room, then start the node again")]
    Full {
        /// The failed step, with its path.
        action: String,
    },
    /// The value exceeds the limit of the store, which wrote nothing. Split the value.
    #[error("{detail} has {bytes} bytes, the limit is {bytes_max}")]
    TooLarge {
        /// The kind of value.
        detail: &'static str,
        /// The length of the value, bytes.
        bytes: u64,
        /// The maximum length, bytes.
        bytes_max: u64,
    },
    /// The call does not fit the state of the store: a gap in the log, a purged index, a name with a slash. The store
    /// wrote nothing. This is a bug of the caller; a repeated call fails again.
    #[error("wrong use of the store: {detail}")]
    Misuse {
        /// The violated condition.
        detail: String,
    },
    /// Another process has this directory open. Stop it first.
    #[error("{path} is in use by another process; stop it first")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The log is shut down; open it again.
    #[error("the log is shut down")]
    Closed,
}

/// The operator's next step for a damaged log or snapshot.
pub(crate) const QUARANTINE: &str = "do not start this node from it again: keep the directory for \
    inspection, and replace the node: holdfast member replace";

impl StoreError {
    /// Returns `true` if this error closes the store permanently, and `false` if it rejects one call.
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

    pub(crate) fn corrupt(detail: impl Into<String>) -> Self {
        Self::Corrupt { detail: detail.into(), fix: QUARANTINE.to_owned() }
    }

    pub(crate) fn newer_format(detail: impl Into<String>) -> Self {
        let fix = "start this node with the version that wrote it, or a newer one".to_owned();
        Self::UnknownFormat { detail: detail.into(), fix }
    }

    pub(crate) fn misuse(detail: impl Into<String>) -> Self {
        Self::Misuse { detail: detail.into() }
    }

    /// Combines the step with the operating system's error, and separates a full disk from other errors.
    pub(crate) fn io(action: impl Into<String>, error: &io::Error) -> Self {
        let action = action.into();
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::Full { action };
        }
        Self::Io { action, kind, message: error.to_string() }
    }
}

/// # Errors
/// [`StoreError::TooLarge`].
pub(crate) fn check_len(
    detail: &'static str,
    value: &[u8],
    bytes_max: usize,
) -> Result<(), StoreError> {
    let (bytes, bytes_max) = (value.len() as u64, bytes_max as u64);
    if bytes > bytes_max {
        return Err(StoreError::TooLarge { detail, bytes, bytes_max });
    }
    Ok(())
}

/// `result.at("writing", path)` adds the step and the path to an I/O error.
pub(crate) trait At<T> {
    /// Converts the operating system's error to [`StoreError`].
    fn at(self, action: &str, path: &Path) -> Result<T, StoreError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, action: &str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::io(format!("{action} {}", path.display()), &error))
    }
}
