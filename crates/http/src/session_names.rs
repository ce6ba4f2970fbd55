//! The names of sessions in replies to a subject.
//!
//! In the state such a name begins with its scope: `@ci:web1` of the subject `ci`, `team-a:web1` of the namespace `team-a`. The
//! callers of the scope write and read `web1`; other callers read the whole name. Only fields with names of sessions are
//! shortened; texts for people keep the whole names.

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use holdfast_types::{SessionName, SessionScope};

/// How the names of a caller's sessions begin in a reply.
#[derive(Clone, Debug)]
pub(crate) struct SessionNames {
    /// As JSON, without the quotation marks.
    prefixes: Vec<String>,
}

/// The field with an object whose names and texts are those of a client.
const LABELS: &str = "\"labels\":";
/// The fields with the name of one session. A quotation mark in a text of a client is escaped, so no such text has this form.
const FIELDS: [&str; 3] = ["\"session\":", "\"held_by\":", "\"to\":"];
/// The fields with the names of several sessions.
const LISTS: [&str; 2] = ["\"arrived\":", "\"inside\":"];

impl SessionNames {
    /// `None` without scopes.
    pub(crate) fn of(scopes: &[SessionScope]) -> Option<Self> {
        let as_json = |scope: &SessionScope| {
            let quoted = serde_json::Value::from(scope.prefix()).to_string();
            let quoted = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            quoted.unwrap_or_default().to_owned()
        };
        let prefixes: Vec<String> = scopes.iter().map(as_json).collect();
        (!prefixes.is_empty()).then_some(Self { prefixes })
    }

    /// Shortens the names in JSON, or in events with JSON.
    pub(crate) fn shortened(&self, bytes: Bytes) -> Bytes {
        match std::str::from_utf8(&bytes) {
            Ok(text) if self.prefixes.iter().any(|prefix| text.contains(prefix)) => {
                self.shortened_text(text).into()
            }
            Ok(_) | Err(_) => bytes,
        }
    }

    /// Shortens the names in each part of a stream. An event is one part.
    pub(crate) fn shortened_stream(&self, stream: Body) -> Body {
        let names = self.clone();
        let parts = stream.into_data_stream();
        Body::from_stream(parts.map(move |part| part.map(|bytes| names.shortened(bytes))))
    }

    fn shortened_text(&self, mut rest: &str) -> String {
        let mut text = String::with_capacity(rest.len());
        while let Some(at) = rest.find("\":") {
            let (before, after) = rest.split_at(at + 2);
            text.push_str(before);
            rest = after;
            if before.ends_with(LABELS) {
                let (labels, after) = rest.split_at(len_of_object(rest));
                text.push_str(labels);
                rest = after;
                continue;
            }
            let ends_with = |fields: &[&str]| fields.iter().any(|field| before.ends_with(field));
            let is_list = ends_with(&LISTS);
            if !is_list && !ends_with(&FIELDS) {
                continue;
            }
            let mut separator = if is_list { "[\"" } else { "\"" };
            while let Some(name) = rest.strip_prefix(separator) {
                text.push_str(separator);
                rest = self.push_shortened(name, &mut text);
                if !is_list {
                    break;
                }
                separator = "\",\"";
            }
        }
        text.push_str(rest);
        text
    }

    /// Appends the name with which a text begins, up to its quotation mark, without a scope of the caller.
    fn push_shortened<'a>(&self, rest: &'a str, text: &mut String) -> &'a str {
        let (name, rest) = rest.split_at(len_of_name(rest));
        let kind = if name.starts_with(SessionName::DURABLE) { SessionName::DURABLE } else { "" };
        let name = name.strip_prefix(kind).unwrap_or(name);
        let mut found =
            self.prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix.as_str()));
        text.push_str(kind);
        text.push_str(found.next().unwrap_or(name));
        rest
    }
}

/// The length of a JSON object of texts; 0 for another value.
fn len_of_object(text: &str) -> usize {
    let Some(mut rest) = text.strip_prefix('{') else { return 0 };
    while let Some(at) = rest.find(['"', '}']) {
        let (_, found) = rest.split_at(at);
        let Some(string) = found.strip_prefix('"') else { return text.len() - found.len() + 1 };
        rest = string.split_at(len_of_name(string)).1;
        rest = rest.strip_prefix('"').unwrap_or_default();
    }
    text.len()
}

/// The length of the content of a JSON string that has begun.
fn len_of_name(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use holdfast_types::{NamespaceName, SubjectName};

    use super::*;

    fn of_subject(subject: &str) -> SessionNames {
        let scope = SessionScope::of_subject(&SubjectName::new(subject).unwrap());
        SessionNames::of(&[scope]).unwrap()
    }

    #[test]
    fn only_the_names_of_the_caller_are_shortened() {
        let scope = SessionScope::of_namespace(&NamespaceName::new("team-a").unwrap());
        let names = SessionNames::of(&[scope]).unwrap();
        let body = r#"{"session":"team-a:web1","holders":[{"session":"team-a:x"},{"session":"team-b:x"}],"value":"\"session\":\"team-a:x","path":"team-a:x"}"#;
        let shortened = r#"{"session":"web1","holders":[{"session":"x"},{"session":"team-b:x"}],"value":"\"session\":\"team-a:x","path":"team-a:x"}"#;
        assert_eq!(names.shortened(body.into()), shortened);
        let bytes = Bytes::from_static(&[0xff, b'"']);
        assert_eq!(names.shortened(bytes.clone()), bytes);
        assert!(SessionNames::of(&[]).is_none());
    }

    #[test]
    fn each_field_with_names_of_sessions_is_shortened() {
        for (body, shortened) in [
            (r#"{"to":"@ci:b","token":7}"#, r#"{"to":"b","token":7}"#),
            (r#"{"session":"@web:a","held_by":"@ci:b"}"#, r#"{"session":"@web:a","held_by":"b"}"#),
            (
                r#"{"arrived":["@ci:a","@web:b","@ci:c"],"inside":["@ci:d"],"x":["@ci:e"]}"#,
                r#"{"arrived":["a","@web:b","c"],"inside":["d"],"x":["@ci:e"]}"#,
            ),
            (r#"{"arrived":[],"session":"@ci:@ci:a"}"#, r#"{"arrived":[],"session":"@ci:a"}"#),
            (r#"{"session":"durable!@ci:anna"}"#, r#"{"session":"durable!anna"}"#),
            (r#"{"session":"@ci:a\",\"b"}"#, r#"{"session":"a\",\"b"}"#),
            (
                r#"{"labels":{"session":"@ci:a","x}\"":"}","to":"@ci:b"},"to":"@ci:b","labels":{},"held_by":"@ci:c"}"#,
                r#"{"labels":{"session":"@ci:a","x}\"":"}","to":"@ci:b"},"to":"b","labels":{},"held_by":"c"}"#,
            ),
            ("data: {\"session\":\"@ci:a\"}\n\n", "data: {\"session\":\"a\"}\n\n"),
            (r#"{"session":"@ci~1x:a"}"#, r#"{"session":"@ci~1x:a"}"#),
        ] {
            assert_eq!(of_subject("ci").shortened(body.into()), shortened, "{body}");
        }
    }

    #[test]
    fn a_subject_is_compared_as_json() {
        let body = r#"{"session":"@a\"b~1c:web1"}"#;
        assert_eq!(of_subject("a\"b/c").shortened(body.into()), r#"{"session":"web1"}"#);
    }
}
