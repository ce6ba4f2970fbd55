//! The context of a span, and spans of several calls.

use std::sync::OnceLock;

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
