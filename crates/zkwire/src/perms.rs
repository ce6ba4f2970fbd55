//! Bits of what an access list allows.
//!
//! They are combined with `|`; `ZooKeeper` refuses none of the other bits, so neither does this crate.

/// Read data and children.
pub const READ: i32 = 1;
/// Replace the data.
pub const WRITE: i32 = 2;
/// Create children.
pub const CREATE: i32 = 4;
/// Delete children.
pub const DELETE: i32 = 8;
/// Replace the access list.
pub const ADMIN: i32 = 16;
/// All of them.
pub const ALL: i32 = 31;
