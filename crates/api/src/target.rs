//! The target of a call, as clients write it: a percent-encoded path and a query string.

use holdfast_types::{
    AccessTokenId, CertificateId, Labels, LockName, NamespaceName, RecipeName, RoleName,
    SessionName, SubjectName, ZnodePath,
};

use crate::{Absent, Param, ParamValue, escape_path, escape_query};

/// The path of the list of recipes.
pub const RECIPES_PATH: &str = "/v1/recipes";
/// The path of the list of the quotas; the path of a subtree follows it in the path of its quota.
pub const TREE_QUOTAS_PATH: &str = "/v1/tree-quotas";

/// Defines functions that append an encoded name to a path.
macro_rules! paths {
    ($($function:ident: $name:ty => $prefix:literal;)*) => {$(
        #[doc = concat!("`", $prefix, "<name>`")]
        pub fn $function(name: &$name) -> String {
            [$prefix, escape_path(name.as_str()).as_ref()].concat()
        }
    )*};
}

paths! {
    lock_path: LockName => "/v1/locks/";
    transfer_path: LockName => "/v1/transfers/";
    release_request_path: LockName => "/v1/release-requests/";
    force_release_path: LockName => "/v1/force-releases/";
    policy_path: LockName => "/v1/policies/";
    fence_path: LockName => "/v1/fence/";
    history_path: LockName => "/v1/history/";
    election_path: LockName => "/v1/elections/";
    session_path: SessionName => "/v1/sessions/";
    latch_path: RecipeName => "/v1/latches/";
    barrier_path: RecipeName => "/v1/barriers/";
    double_barrier_path: RecipeName => "/v1/double-barriers/";
    counter_path: RecipeName => "/v1/counters/";
    subject_path: SubjectName => "/v1/auth/subjects/";
    role_path: RoleName => "/v1/auth/roles/";
    namespace_path: NamespaceName => "/v1/namespaces/";
    // The path of a znode begins with `/`. The root has the paths `/v1/tree/` and `/v1/tree-quotas/`.
    tree_path: ZnodePath => "/v1/tree";
    tree_quota_path: ZnodePath => "/v1/tree-quotas";
}

/// `/v1/sessions/<name>/keepalive`
pub fn keepalive_path(session: &SessionName) -> String {
    format!("{}/keepalive", session_path(session))
}

/// `/v1/auth/quotas`, or `/v1/auth/quotas/<subject>`
pub fn quotas_path(subject: Option<&SubjectName>) -> String {
    let subject = subject.map(|subject| format!("/{}", escape_path(subject.as_str())));
    format!("/v1/auth/quotas{}", subject.unwrap_or_default())
}

/// `/v1/auth/tokens/<id>`
pub fn access_token_path(token: AccessTokenId) -> String {
    format!("/v1/auth/tokens/{token}")
}

/// `/v1/auth/denied-certificates/<certificate>`
pub fn denied_certificate_path(certificate: &CertificateId) -> String {
    format!("/v1/auth/denied-certificates/{certificate}")
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_root_ends_with_a_slash() {
        assert_eq!(tree_quota_path(&ZnodePath::root()), "/v1/tree-quotas/");
        assert_eq!(tree_quota_path(&ZnodePath::new("/a b/c").unwrap()), "/v1/tree-quotas/a%20b/c");
    }
}
