//! The log survives a restart, in the order in which it was asked.
