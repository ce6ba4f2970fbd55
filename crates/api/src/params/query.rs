//! Writing a query string.

use std::time::Duration;

use holdfast_types::{Labels, ReleaseTarget};

use crate::{escape_query, format_duration};

/// Builds a query string.
#[derive(Debug, Default)]
pub(crate) struct Query(pub(crate) String);

impl Query {
    pub(crate) fn text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.pair(key, value);
        }
    }

    pub(crate) fn number(&mut self, key: &str, value: Option<u64>) {
        self.text(key, value.map(|value| value.to_string()).as_deref());
    }

    pub(crate) fn duration(&mut self, key: &str, value: Option<Duration>) {
        self.text(key, value.map(format_duration).as_deref());
    }

    pub(crate) fn target(&mut self, target: ReleaseTarget) {
        match target {
            ReleaseTarget::AnyPlace => {}
            ReleaseTarget::Attempt(attempt) => self.number("attempt", Some(attempt.0)),
            ReleaseTarget::Hold(token) => self.number("token", Some(token.0)),
        }
    }

    pub(crate) fn flag(&mut self, key: &str, set: bool) {
        if set {
            self.pair(key, "true");
        }
    }

    pub(crate) fn labels(&mut self, labels: &Labels) {
        for (key, value) in labels.iter() {
            self.pair(&format!("label.{}", escape_query(key)), value);
        }
    }

    fn pair(&mut self, key: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(key);
        self.0.push('=');
        self.0.push_str(&escape_query(value));
    }
}
