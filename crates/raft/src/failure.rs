//! The end of this node before its shutdown, e.g. because of a disk error.
//!
//! The first reason is final. Every part checks it before it handles a request.

use std::{fmt, io};

use holdfast_codec::DecodeError;
use holdfast_machine::LoadError;
use holdfast_storage::StoreError;
use tokio::sync::watch;

/// Why a node stopped voting and serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The node cannot trust its disk or its state.
    Failed(String),
    /// The cluster has removed the node.
    Removed(String),
    /// The cluster has a feature level, or the disk a format, that the program of this node does not know.
    OldProgram(String),
    /// The cluster has invited this emptied node under a new id. It joins at its next start.
    Readmitted(String),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Failed(reason)
        | Self::Removed(reason)
        | Self::OldProgram(reason)
        | Self::Readmitted(reason)) = self;
        f.write_str(reason)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    reason: watch::Sender<Option<StopReason>>,
}

impl Failure {
    pub(crate) fn new() -> Self {
        Self { reason: watch::Sender::new(None) }
    }

    /// Records a failure, unless a reason is already recorded.
    pub(crate) fn report(&self, reason: impl Into<String>) {
        self.stop(StopReason::Failed(reason.into()));
    }

    /// Records a reason, unless one is already recorded.
    pub(crate) fn stop(&self, reason: StopReason) {
        self.reason.send_if_modified(|first| {
            if first.is_some() {
                return false;
            }
            tracing::error!(%reason, "this node stops serving and voting");
            *first = Some(reason);
            true
        });
    }

    /// Stops the node after an error of its disk, but not for a full disk or for damage of the bytes.
    pub(crate) fn checked<T>(&self, result: Result<T, StoreError>) -> io::Result<T> {
        if let Err(error @ StoreError::Io { .. }) = &result {
            self.report(error.to_string());
        }
        result.map_err(io::Error::other)
    }

    /// Stops the node if stored data cannot be read because a newer program wrote it.
    pub(crate) fn stop_if_newer(&self, what: impl fmt::Display, error: &io::Error) {
        if let Some(why) = old_program(what, error) {
            self.stop(StopReason::OldProgram(why));
        }
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.borrow().clone()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.reason.borrow().is_some()
    }

    /// Resolves with the reason when the node stops.
    pub(crate) async fn wait(&self) -> StopReason {
        let mut receiver = self.reason.subscribe();
        // The sender lives as long as `self`.
        let reason = receiver.wait_for(Option::is_some).await;
        let reason = reason.ok().and_then(|reason| reason.clone());
        reason.unwrap_or_else(|| StopReason::Failed(String::new()))
    }
}

/// The failure and the next step, if a newer holdfast wrote the bytes that caused the error.
pub(crate) fn old_program(what: impl fmt::Display, error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?;
    if let Some(error @ StoreError::UnknownFormat { .. }) = inner.downcast_ref() {
        return Some(error.to_string());
    }
    let is_newer = inner.downcast_ref().is_some_and(DecodeError::is_newer)
        || matches!(inner.downcast_ref(), Some(LoadError::Level { .. }));
    is_newer.then(|| {
        format!(
            "this version of holdfast cannot read {what} ({error}): start this node with the newer version that wrote it"
        )
    })
}
