//! Calls on namespaces: one file for each call.

use std::collections::BTreeMap;

use holdfast_api::NamespaceBody;
use holdfast_service::NamespaceView;
use holdfast_types::QuotaKind;

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod set;

fn body(view: NamespaceView) -> NamespaceBody {
    let by_name = |values: BTreeMap<QuotaKind, u64>| {
        values.into_iter().map(|(quota, value)| (quota.to_string(), value)).collect()
    };
    let NamespaceView { namespace, quotas, used } = view;
    NamespaceBody { namespace, quotas: by_name(quotas.0), used: by_name(used) }
}
