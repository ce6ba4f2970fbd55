//! Whether the state of this node was compared with the other nodes since its start.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateCheck {
    /// The node does not serve clients yet.
    Pending,
    /// The node serves clients; a majority did not confirm its state yet.
    Unverified,
    Verified,
}
