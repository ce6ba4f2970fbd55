//! Numbers of errors in replies.
//!
//! Owns the table of `ZooKeeper` 3.8. Refuses to know when each is given: that is the door's one table.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Why a request was not done, as its reply says it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum ErrorCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

codes! {
    /// Something is wrong with the server.
    SystemError = -1,
    /// In a failed multi: an item after the one that failed.
    RuntimeInconsistency = -2,
    /// Data is not what it should be.
    DataInconsistency = -3,
    /// The server has no connection to the others.
    ConnectionLoss = -4,
    /// The request's body could not be read.
    MarshallingError = -5,
    /// No such operation here.
    Unimplemented = -6,
    /// The operation took too long.
    OperationTimeout = -7,
    /// An argument that never works: a bad path, unknown flags.
    BadArguments = -8,
    /// No such session.
    UnknownSession = -12,
    /// A new configuration would have no quorum.
    NewConfigNoQuorum = -13,
    /// Another reconfiguration is under way.
    ReconfigInProgress = -14,
    /// The beginning of the range below.
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
    /// The client gave a wrong kind of function.
    InvalidCallback = -113,
    /// An access list that is empty, or names what is not known.
    InvalidAcl = -114,
    /// The client is not who it says.
    AuthFailed = -115,
    /// The session lives on another connection now.
    SessionMoved = -118,
    /// A write at a read-only server.
    NotReadOnly = -119,
    /// An ephemeral node on a session that only this server knows.
    EphemeralOnLocalSession = -120,
    /// No such watch.
    NoWatcher = -121,
    /// The request took too long.
    RequestTimeout = -122,
    /// Reconfiguration is switched off.
    ReconfigDisabled = -123,
    /// The server insists on SASL.
    SessionClosedRequireSaslAuth = -124,
    /// A quota would be exceeded.
    QuotaExceeded = -125,
    /// Too much at once; ask again later.
    ThrottledOp = -127,
}

impl ErrorCode {
    /// Its number, always below 0.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// The error of a number; none for 0, which is no error, and for numbers that are not known.
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
