//! Parameters of the quotas of subtrees: the limits.

use holdfast_types::QuotaKind;

use super::namespace::quota;
use crate::param::Param;

const LIMIT_MAX: u64 = *QuotaKind::Znodes.range().end();

pub const ZNODES: Param = quota(
    QuotaKind::Znodes,
    "The most znodes of the subtree, including its root and the queue entries of locks",
);
pub const BYTES: Param = quota(QuotaKind::Bytes, "The most bytes of data in the subtree");
pub const SOFT_ZNODES: Param = Param::number(
    "soft_znodes",
    (0, LIMIT_MAX),
    "More znodes raise the alarm tree-quota-soft; they are not rejected",
);
pub const SOFT_BYTES: Param = Param::number(
    "soft_bytes",
    (0, LIMIT_MAX),
    "More bytes of data raise the alarm tree-quota-soft; they are not rejected",
);
