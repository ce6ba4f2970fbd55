//! The kinds of operations, for metrics, `cons` and log lines.

use holdfast_zkwire::op;

/// The kind of an operation. The list is closed: unknown operations share the last kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpKind(usize);

/// Number, name in metrics, and letters in `cons`.
const KINDS: &[(i32, &str, &str)] = &[
    (op::CREATE, "create", "CREA"),
    (op::DELETE, "delete", "DELE"),
    (op::EXISTS, "exists", "EXIS"),
    (op::GET_DATA, "getData", "GETD"),
    (op::SET_DATA, "setData", "SETD"),
    (op::GET_ACL, "getACL", "GETA"),
    (op::SET_ACL, "setACL", "SETA"),
    (op::GET_CHILDREN, "getChildren", "GETC"),
    (op::SYNC, "sync", "SYNC"),
    (op::PING, "ping", "PING"),
    (op::GET_CHILDREN2, "getChildren2", "GETC"),
    (op::CHECK, "check", "CHEC"),
    (op::MULTI, "multi", "MULT"),
    (op::CREATE2, "create2", "CREA"),
    (op::RECONFIG, "reconfig", "RECO"),
    (op::CHECK_WATCHES, "checkWatches", "CHKW"),
    (op::REMOVE_WATCHES, "removeWatches", "REMW"),
    (op::CREATE_CONTAINER, "createContainer", "CREA"),
    (op::CREATE_TTL, "createTTL", "CREA"),
    (op::MULTI_READ, "multiRead", "MLTR"),
    (op::AUTH, "auth", "AUTH"),
    (op::SET_WATCHES, "setWatches", "SETW"),
    (op::SASL, "sasl", "SASL"),
    (op::GET_EPHEMERALS, "getEphemerals", "GETE"),
    (op::GET_ALL_CHILDREN_NUMBER, "getAllChildrenNumber", "GACN"),
    (op::SET_WATCHES2, "setWatches2", "STW2"),
    (op::ADD_WATCH, "addWatch", "ADDW"),
    (op::WHO_AM_I, "whoAmI", "HOMI"),
    (op::CLOSE_SESSION, "closeSession", "CLOS"),
    (i32::MIN, "other", "NA"),
];

impl OpKind {
    pub(crate) const COUNT: usize = KINDS.len();
    pub(crate) const OTHER: Self = Self(KINDS.len() - 1);

    pub(crate) fn of(op: i32) -> Self {
        KINDS.iter().position(|(number, ..)| *number == op).map_or(Self::OTHER, Self)
    }

    /// Whether it only renews the session.
    pub(crate) fn is_ping(self) -> bool {
        KINDS.get(self.0).is_some_and(|(number, ..)| *number == op::PING)
    }

    pub(crate) fn index(self) -> usize {
        self.0
    }

    pub(crate) fn name(self) -> &'static str {
        KINDS.get(self.0).map_or("other", |(_, name, _)| name)
    }

    pub(crate) fn letters(self) -> &'static str {
        KINDS.get(self.0).map_or("NA", |(_, _, letters)| letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_their_number_and_the_rest_are_other() {
        assert_eq!(OpKind::of(op::CREATE2).name(), "create2");
        assert_eq!(OpKind::of(op::CLOSE_SESSION).letters(), "CLOS");
        assert_eq!(OpKind::of(99), OpKind::OTHER);
        assert_eq!(OpKind::OTHER.name(), "other");
    }
}
