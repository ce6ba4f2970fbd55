//! Permission bits of access lists. As in ZooKeeper, undefined bits are accepted.

/// Read data and children.
pub const READ: i32 = 1;
pub const WRITE: i32 = 2;
pub const CREATE: i32 = 4;
pub const DELETE: i32 = 8;
pub const ADMIN: i32 = 16;
pub const ALL: i32 = 31;
