//! Every call of the API, in the order of the description.

use crate::operation::Operation;
use crate::{auth, cluster, elections, locks, members, node, pages, recipes, sessions, tree};

pub(crate) static OPERATIONS: &[&Operation] = &[
    &locks::acquire::OPERATION,
    &locks::release::RELEASE,
    &locks::read::READ,
    &locks::read::LIST,
    &locks::multi_lock::ACQUIRE,
    &locks::multi_lock::RELEASE,
    &locks::transfer::OPERATION,
    &locks::release::REQUESTED,
    &locks::release::FORCED,
    &locks::policy::READ,
    &locks::policy::SET,
    &locks::history::OPERATION,
    &locks::read::CHECK_TOKEN,
    &sessions::CREATE,
    &sessions::OPEN,
    &sessions::keep_alive::KEEP_ALIVE,
    &sessions::keep_alive::KEEP_MANY_ALIVE,
    &sessions::CLOSE,
    &sessions::READ,
    &sessions::LIST,
    &tree::put::OPERATION,
    &tree::CREATE,
    &tree::get::OPERATION,
    &tree::DELETE,
    &tree::txn::OPERATION,
    &tree::watch::OPERATION,
    &tree::quotas::LIST,
    &tree::quotas::READ,
    &tree::quotas::SET,
    &tree::quotas::DELETE,
    &recipes::LIST,
    &recipes::latch::CREATE,
    &recipes::latch::COUNT_DOWN,
    &recipes::latch::AWAIT,
    &recipes::latch::DELETE,
    &recipes::barrier::ARRIVE,
    &recipes::barrier::READ,
    &recipes::barrier::LEAVE,
    &recipes::barrier::ENTER_DOUBLE,
    &recipes::barrier::READ_DOUBLE,
    &recipes::barrier::LEAVE_DOUBLE,
    &recipes::counter::READ,
    &recipes::counter::ADD_TO,
    &recipes::counter::SET,
    &recipes::counter::DELETE,
    &elections::CAMPAIGN,
    &elections::READ,
    &elections::RESIGN,
    &auth::administrator::BOOTSTRAP,
    &auth::administrator::RECOVER,
    &auth::READ,
    &auth::SET_MODE,
    &auth::ME,
    &auth::CAN,
    &auth::tokens::LIST,
    &auth::tokens::CREATE,
    &auth::tokens::ROTATE,
    &auth::tokens::DELETE,
    &auth::tokens::SET_POLICY,
    &auth::subjects::LIST,
    &auth::subjects::SET,
    &auth::subjects::DELETE,
    &auth::quotas::READ_DEFAULT,
    &auth::quotas::SET_DEFAULT,
    &auth::quotas::READ,
    &auth::quotas::SET,
    &auth::subjects::LIST_ROLES,
    &auth::subjects::SET_ROLE,
    &auth::subjects::DELETE_ROLE,
    &auth::subjects::LIST_DENIED,
    &auth::subjects::DENY,
    &auth::subjects::ALLOW,
    &auth::AUDIT_TRAIL,
    &auth::quotas::LIST_NAMESPACES,
    &auth::quotas::READ_NAMESPACE,
    &auth::quotas::SET_NAMESPACE,
    &auth::quotas::DELETE_NAMESPACE,
    &cluster::READ,
    &node::ALARMS,
    &node::RECENT,
    &node::SET_LOG,
    &cluster::SET_LEVEL,
    &members::ADD,
    &members::SET,
    &members::REMOVE,
    &cluster::TRANSFER,
    &cluster::VERIFY,
    &cluster::SEAL_CLUSTER,
    &cluster::UNSEAL_CLUSTER,
    &cluster::BACK_UP,
    &node::LIVE,
    &node::READY,
    &node::METRICS,
    &node::VERSION,
    &pages::ERROR,
    &pages::OPENAPI,
    &pages::DOCS,
    &pages::TRY_IT,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::CallAccess;

    /// The function in which the names of a request select the right.
    #[test]
    fn access_by_names_is_decided_in_a_function_that_exists() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        for operation in OPERATIONS {
            let CallAccess::AnyOf { decided_in, .. } = operation.access else { continue };
            let (file, function) = decided_in.split_once(": ").unwrap();
            let source = std::fs::read_to_string(format!("{root}{file}")).unwrap();
            assert!(source.contains(&format!("fn {function}")), "{operation:?}: {decided_in}");
        }
    }
}
