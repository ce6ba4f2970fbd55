//! The numbers of the protocol, from ZooKeeper 3.8: operations and fixed request numbers in headers, and error codes.

/// The numbers of the operations. [`crate::Request`] has the bodies.
pub mod op {
    /// Create a node; the reply is its path.
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    /// Read the stat of a node that may be missing.
    pub const EXISTS: i32 = 3;
    /// Read data and stat.
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    /// Read the access list.
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    /// Read the names of the children.
    pub const GET_CHILDREN: i32 = 8;
    /// Bring this server up to date.
    pub const SYNC: i32 = 9;
    /// Keep the session alive.
    pub const PING: i32 = 11;
    /// Read the names of the children, and the stat.
    pub const GET_CHILDREN2: i32 = 12;
    /// Compare the version; intended for multis.
    pub const CHECK: i32 = 13;
    /// Several writes, all or none.
    pub const MULTI: i32 = 14;
    /// Create a node; the reply is path and stat.
    pub const CREATE2: i32 = 15;
    /// Change the ensemble.
    pub const RECONFIG: i32 = 16;
    /// Check that a watch exists.
    pub const CHECK_WATCHES: i32 = 17;
    /// Remove watches.
    pub const REMOVE_WATCHES: i32 = 18;
    /// Create a container.
    pub const CREATE_CONTAINER: i32 = 19;
    /// Delete a container, between servers.
    pub const DELETE_CONTAINER: i32 = 20;
    /// Create a node with a time-to-live.
    pub const CREATE_TTL: i32 = 21;
    /// Several reads.
    pub const MULTI_READ: i32 = 22;
    /// Add an identity.
    pub const AUTH: i32 = 100;
    /// Set watches again after a reconnect.
    pub const SET_WATCHES: i32 = 101;
    /// A step of a SASL exchange.
    pub const SASL: i32 = 102;
    /// List the session's ephemeral nodes below a prefix.
    pub const GET_EPHEMERALS: i32 = 103;
    /// Count the nodes below a path.
    pub const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    /// [`SET_WATCHES`] with persistent watches.
    pub const SET_WATCHES2: i32 = 105;
    /// Add a persistent watch.
    pub const ADD_WATCH: i32 = 106;
    /// Read the identities of the connection.
    pub const WHO_AM_I: i32 = 107;
    /// Close the session.
    pub const CLOSE_SESSION: i32 = -11;

    /// In a multi: the item is an error, or the end.
    pub(crate) const ERROR: i32 = -1;
}

/// Request numbers with a fixed meaning. Every other number is the client's own; the reply repeats it.
pub mod xid {
    /// A watch event.
    pub const EVENT: i32 = -1;
    /// A ping and its reply.
    pub const PING: i32 = -2;
    /// An authentication and its reply.
    pub const AUTH: i32 = -4;
    /// `setWatches` after a reconnect, and its reply.
    pub const SET_WATCHES: i32 = -8;
}

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
