//! Snapshots that lie are refused, whatever the lie.
