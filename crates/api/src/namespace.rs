//! Bodies of namespaces.

use std::collections::BTreeMap;

use holdfast_types::NamespaceName;
use serde::{Deserialize, Serialize};

use crate::escape_path;

/// The namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamespacesBody {
    /// By name.
    pub namespaces: Vec<NamespaceBody>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamespaceBody {
    /// The name.
    pub namespace: NamespaceName,
    /// The quotas, by name. A quota that is missing is unlimited.
    pub quotas: BTreeMap<String, u64>,
    /// What the namespace uses of each quota that counts items.
    pub used: BTreeMap<String, u64>,
}

/// `/v1/namespaces/<namespace>`
pub fn namespace_path(namespace: &NamespaceName) -> String {
    format!("/v1/namespaces/{}", escape_path(namespace.as_str()))
}
