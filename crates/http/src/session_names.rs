//! The names of sessions in replies to a subject of a namespace.
//!
//! In the state such a name begins with the namespace, `team-a:web1`. The subjects of the namespace write and read `web1`;
//! other callers read the whole name. Two namespaces therefore never have a name in common. Lists and single views have
//! the name of a session in a field `session`.

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use holdfast_types::{NamespaceName, SessionName};

/// How the names of the sessions of a namespace begin in a reply.
#[derive(Clone, Debug)]
pub(crate) struct SessionNames {
    whole: String,
}

/// How a name begins for a subject of the namespace.
const SHORT: &str = "\"session\":\"";

impl SessionNames {
    pub(crate) fn of(namespace: &NamespaceName) -> Self {
        // A quotation mark in a text of a client is escaped, so no such text has this form.
        Self { whole: format!("{SHORT}{namespace}{}", SessionName::NAMESPACE_END) }
    }

    /// Shortens the names in JSON, or in events with JSON.
    pub(crate) fn shortened(&self, bytes: Bytes) -> Bytes {
        match std::str::from_utf8(&bytes) {
            Ok(text) if text.contains(&self.whole) => text.replace(&self.whole, SHORT).into(),
            Ok(_) | Err(_) => bytes,
        }
    }

    /// Shortens the names in each part of a stream. An event is one part.
    pub(crate) fn shortened_stream(&self, stream: Body) -> Body {
        let names = self.clone();
        let parts = stream.into_data_stream();
        Body::from_stream(parts.map(move |part| part.map(|bytes| names.shortened(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_the_namespace_are_shortened() {
        let names = SessionNames::of(&NamespaceName::new("team-a").unwrap());
        let body = r#"{"session":"team-a:web1","holders":[{"session":"team-a:x"},{"session":"team-b:x"}],"value":"\"session\":\"team-a:x","path":"team-a:x"}"#;
        let shortened = r#"{"session":"web1","holders":[{"session":"x"},{"session":"team-b:x"}],"value":"\"session\":\"team-a:x","path":"team-a:x"}"#;
        assert_eq!(names.shortened(body.into()), shortened);
        let bytes = Bytes::from_static(&[0xff, b'"']);
        assert_eq!(names.shortened(bytes.clone()), bytes);
    }
}
