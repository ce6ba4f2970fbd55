//! The error numbers of ZooKeeper 3.8.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// The error in a reply.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum ErrorCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

codes! {
    /// Something is wrong with the server.
    SystemError = -1,
    /// In a failed multi: an item after the failed one.
    RuntimeInconsistency = -2,
    /// Inconsistent data.
    DataInconsistency = -3,
    /// The server has lost its connection to the ensemble.
    ConnectionLoss = -4,
    /// The body of the request cannot be decoded.
    MarshallingError = -5,
    /// The server does not have the operation.
    Unimplemented = -6,
    /// The operation took too long.
    OperationTimeout = -7,
    /// An invalid argument, e.g. a path or unknown flags.
    BadArguments = -8,
    /// No such session.
    UnknownSession = -12,
    /// A new configuration would have no quorum.
    NewConfigNoQuorum = -13,
    /// Another reconfiguration is in progress.
    ReconfigInProgress = -14,
    /// The start of the following range.
    ApiError = -100,
    /// No such node.
    NoNode = -101,
    /// The access list forbids it.
    NoAuth = -102,
    /// The node has another version.
    BadVersion = -103,
    /// The parent is ephemeral.
    NoChildrenForEphemerals = -108,
    /// The node exists.
    NodeExists = -110,
    /// The node has children.
    NotEmpty = -111,
    /// The session has ended.
    SessionExpired = -112,
    /// The client passed a wrong kind of callback.
    InvalidCallback = -113,
    /// The access list is empty or has an unknown scheme.
    InvalidAcl = -114,
    /// The authentication failed.
    AuthFailed = -115,
    /// Another connection has taken over the session.
    SessionMoved = -118,
    /// A write on a read-only server.
    NotReadOnly = -119,
    /// An ephemeral node in a session that only this server knows.
    EphemeralOnLocalSession = -120,
    /// No such watch.
    NoWatcher = -121,
    /// The request took too long.
    RequestTimeout = -122,
    /// Reconfiguration is disabled.
    ReconfigDisabled = -123,
    /// The server requires SASL.
    SessionClosedRequireSaslAuth = -124,
    /// A quota would be exceeded.
    QuotaExceeded = -125,
    /// The server is overloaded; retry later.
    ThrottledOp = -127,
}

impl ErrorCode {
    /// Always negative.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// `None` for 0, which is no error, and for unknown numbers.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|error| error.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_known_by_its_number() {
        for error in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(error.code()), Some(*error));
            assert!(error.code() < 0);
        }
        assert_eq!(ErrorCode::from_code(0), None);
        assert_eq!(ErrorCode::from_code(-104), None);
        assert_eq!(ErrorCode::NoNode.code(), -101);
    }
}
