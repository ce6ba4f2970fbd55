//! Logs a warning when a subtree of znodes grows above a soft limit of its quota: once for each crossing.

use holdfast_machine::Machine;
use holdfast_types::{SubtreeQuotaView, ZnodePath};

pub(crate) fn log(machine: &Machine, path: &ZnodePath) {
    let Some(quota) = machine.subtree_quota(path) else { return };
    let SubtreeQuotaView { path, limits, used_znodes, used_bytes } = quota;
    tracing::warn!(
        %path,
        used_znodes,
        soft_znodes = limits.soft_znodes,
        used_bytes,
        soft_bytes = limits.soft_bytes,
        "the subtree is above a soft limit of its quota; writes continue up to the hard limits. Delete znodes, or raise the \
         limit with holdfast tree quota set"
    );
}
