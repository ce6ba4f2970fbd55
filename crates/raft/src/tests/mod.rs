//! Tests that need more than one module, or openraft itself.

mod log_store;
mod snapshot;
mod suite;
