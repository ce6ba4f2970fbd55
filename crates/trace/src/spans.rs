//! The context of a span, spans of several calls, and the choice of the calls that are traced.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::Span;

use crate::context::TraceContext;

/// How the exporter of the binary reads and sets the contexts of spans.
#[derive(Clone, Copy, Debug)]
pub struct SpanContexts {
    pub context_of: fn(&Span) -> Option<TraceContext>,
    pub set_parent: fn(&Span, TraceContext),
}

static INSTALLED: OnceLock<SpanContexts> = OnceLock::new();

/// Installs the functions of the exporter, once in a process.
pub fn install(contexts: SpanContexts) {
    // An exporter that was installed before stays.
    INSTALLED.set(contexts).ok();
}

/// The context for children of a span on other nodes; `None` unless the span is part of a traced call.
pub fn context_of(span: &Span) -> Option<TraceContext> {
    let installed = INSTALLED.get().filter(|_| !span.is_disabled())?;
    (installed.context_of)(span)
}

/// Makes a new span the child of a span of another process.
pub fn set_parent(span: &Span, parent: TraceContext) {
    if let Some(installed) = INSTALLED.get().filter(|_| !span.is_disabled()) {
        (installed.set_parent)(span, parent);
    }
}

/// One span of each traced call among several calls that share a step. Empty, and without an allocation, if none is traced.
#[derive(Clone, Debug, Default)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// The spans of the calls that are traced.
    pub fn of<'a>(spans: impl Iterator<Item = &'a Span>) -> Self {
        Self(spans.filter(|span| !span.is_disabled()).cloned().collect())
    }

    /// Creates a child of each span.
    #[must_use]
    pub fn children(&self, create: impl Fn() -> Span) -> Self {
        Self(self.0.iter().map(|span| span.in_scope(&create)).collect())
    }
}

impl IntoIterator for Spans {
    type Item = Span;
    type IntoIter = std::vec::IntoIter<Span>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The number of values that a draw can have.
const DRAWS: f64 = 4_294_967_296.0;

/// Chooses a random share of the calls of a front-end.
#[derive(Debug)]
pub struct Sampler {
    /// From 0 to 1.
    share: f64,
    /// A random function of the number of a call.
    random: RandomState,
    calls: AtomicU64,
}

impl Sampler {
    /// Chooses this share of the calls, from 0 to 1.
    pub fn new(share: f64) -> Self {
        Self { share, random: RandomState::new(), calls: AtomicU64::new(0) }
    }

    /// Whether to trace the next call.
    pub fn draw(&self) -> bool {
        let hash = self.random.hash_one(self.calls.fetch_add(1, Ordering::Relaxed));
        let [a, b, c, d, ..] = hash.to_ne_bytes();
        f64::from(u32::from_ne_bytes([a, b, c, d])) < self.share * DRAWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_drawn_calls_is_that_of_the_sampler() {
        let drawn = |share: f64| {
            let sampler = Sampler::new(share);
            (0..10_000).filter(|_| sampler.draw()).count()
        };
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 10_000));
        assert!((2_000..3_000).contains(&drawn(0.25)));
    }
}
