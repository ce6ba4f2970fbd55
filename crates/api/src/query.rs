//! Query strings, written by clients.

use holdfast_types::Labels;

use crate::{Absent, Param, ParamValue, escape_query};

/// Most queries of an acquire or a release are shorter.
const CAPACITY: usize = 192;

/// A builder of the query string of one call.
#[derive(Clone, Debug, Default)]
pub struct Query(String);

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

    /// Adds a parameter once for each value.
    #[must_use]
    pub fn with_each<T: ParamValue>(self, param: &Param, values: &[T]) -> Self {
        values.iter().fold(self, |query, value| query.with(param, value))
    }

    /// Adds a flag, unless its value is the default.
    #[must_use]
    pub fn with_flag(mut self, param: &Param, set: bool) -> Self {
        if param.absent == Absent::Unchanged || set != (param.absent == Absent::Set) {
            self.pair(param.name, if set { "true" } else { "false" });
        }
        self
    }

    /// Adds the labels of a session.
    #[must_use]
    pub fn with_labels(mut self, labels: &Labels) -> Self {
        for (key, value) in labels.iter() {
            self.pair(&format!("label.{}", escape_query(key)), value);
        }
        self
    }

    /// The request target: the path and this query.
    pub fn target(&self, path: &str) -> String {
        if self.0.is_empty() { path.to_owned() } else { [path, "?", &self.0].concat() }
    }

    fn pair(&mut self, key: &str, value: &str) {
        if self.0.is_empty() {
            self.0.reserve(CAPACITY);
        } else {
            self.0.push('&');
        }
        self.0.push_str(key);
        self.0.push('=');
        self.0.push_str(&escape_query(value));
    }
}
