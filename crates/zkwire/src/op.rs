//! The numbers of the operations in request headers, from ZooKeeper 3.8. [`crate::Request`] has the bodies.

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
