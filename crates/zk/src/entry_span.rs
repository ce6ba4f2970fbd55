//! The first span of a traced request, or of traced writes that arrived together.

use holdfast_service::SessionStream;
use holdfast_trace::{Sampler, entry_span};
use holdfast_types::{Create, Multi, Op, ZnodePath};
use tracing::Span;
use tracing::field::Empty;

use crate::op_kind::OpKind;

/// Creates the spans of one connection.
pub(crate) struct EntrySpans<'a> {
    /// `None` if the node exports no traces.
    pub(crate) sampler: Option<&'a Sampler>,
    pub(crate) stream: &'a SessionStream,
}

impl EntrySpans<'_> {
    /// The span of a request; disabled if it is not traced.
    pub(crate) fn of_request(&self, kind: OpKind) -> Span {
        if !self.sampler.is_some_and(Sampler::draw) {
            return Span::none();
        }
        entry_span!(
            "zookeeper",
            otel.kind = "server",
            op = kind.name(),
            session = format_args!("{:#x}", self.stream.session_id().0),
            path = Empty,
            writes = Empty,
        )
    }

    /// The span of writes that arrived together; disabled if they are not traced. `first_kind` is the kind of the first one.
    pub(crate) fn of_writes(&self, first_kind: OpKind, writes: &[(i64, Multi)]) -> Span {
        let span = self.of_request(first_kind);
        if !span.is_disabled() {
            span.record("writes", writes.len());
            if let Some((_, Multi { then, .. })) = writes.first()
                && let Some(op) = then.first()
            {
                span.record("path", path_of(op).as_str());
            }
        }
        span
    }
}

/// The path of an operation; for a new znode, that of its parent, which has a lock's name.
fn path_of(op: &Op) -> &ZnodePath {
    match op {
        Op::Create(Create { directory: path, .. })
        | Op::Delete { path, .. }
        | Op::SetData { path, .. }
        | Op::SetAcl { path, .. }
        | Op::Check { path, .. } => path,
    }
}
