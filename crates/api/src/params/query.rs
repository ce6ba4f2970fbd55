//! Query strings as clients write them.

use std::time::Duration;

use holdfast_types::{Labels, ReleaseTarget};

use crate::{Param, ParamValue, escape_query, format_duration};

/// The query string of a call, made from its parameters.
#[derive(Clone, Debug, Default)]
pub struct Query(pub(crate) String);

impl Query {
    /// Adds a parameter.
    #[must_use]
    pub fn with<T: ParamValue>(mut self, param: &Param, value: &T) -> Self {
        self.pair(param.name, &value.to_text());
        self
    }

    /// Adds a parameter if there is a value.
    #[must_use]
    pub fn with_some<T: ParamValue>(self, param: &Param, value: Option<&T>) -> Self {
        match value {
            Some(value) => self.with(param, value),
            None => self,
        }
    }

    /// Adds a flag if it is set.
    #[must_use]
    pub fn with_flag(mut self, param: &Param, set: bool) -> Self {
        self.flag(param.name, set);
        self
    }

    /// Adds the labels of a session.
    #[must_use]
    pub fn with_labels(mut self, labels: &Labels) -> Self {
        self.labels(labels);
        self
    }

    /// The request target of a path with this query.
    pub fn target(&self, path: &str) -> String {
        if self.0.is_empty() { path.to_owned() } else { format!("{path}?{}", self.0) }
    }

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

    pub(crate) fn release_target(&mut self, target: ReleaseTarget) {
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
