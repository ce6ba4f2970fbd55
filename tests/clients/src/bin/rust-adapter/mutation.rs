//! Defects of a client, each in the adapter alone. A test names the scenario that finds each one.

use clap::ValueEnum;

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutation {
    /// Renewals go on after the close of the client.
    RenewForever,
    /// A guard counts as held until the cluster reports its loss.
    NoLocalDeadline,
    /// A lost lock is acquired again under the same guard, without a report.
    SilentReacquire,
    /// A release names neither the token nor the attempt.
    ReleaseWithoutToken,
    /// The deadline counts from the receipt of the answer.
    DeadlineFromReceipt,
    /// A call that the cluster rejected for good is sent again.
    RetryNotRetryable,
    /// All clients use one session.
    SessionShared,
    /// Each acquire asks the first node first, and waits for it.
    PrefersFrozenNode,
}
