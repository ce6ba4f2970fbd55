//! Spans of traced calls, and the context that connects them across nodes.
//!
//! A call is traced if its caller or the sampling of its node chooses it. [`entry_span!`] creates the first span of a traced
//! call on a node. [`span!`] creates a child of the current span, and nothing outside a traced call. The binary
//! exports the spans if the configuration has `[traces]`; otherwise neither macro creates anything.

mod context;
mod spans;

pub use tracing;

pub use context::{ContextError, TraceContext, Traceparent};
pub use spans::{Sampler, SpanContexts, Spans, context_of, install, set_parent};

/// The target of the first span of a traced call on a node.
pub const ENTRY_TARGET: &str = "holdfast_trace::entry";
/// The target of all other spans of traced calls.
pub const TARGET: &str = "holdfast_trace";

/// Creates the first span of a traced call on this node. Call it only for traced calls.
#[macro_export]
macro_rules! entry_span {
    ($($span:tt)*) => { $crate::tracing::info_span!(target: $crate::ENTRY_TARGET, $($span)*) };
}

/// Creates a child of the current span. The result is disabled outside a traced call.
#[macro_export]
macro_rules! span {
    ($($span:tt)*) => { $crate::tracing::info_span!(target: $crate::TARGET, $($span)*) };
}
