//! The audit trail: changes by operators and administrators.
//!
//! Each record has the hash of its content and of the record of its class before it, so no record can be changed or
//! removed unnoticed (Haber and Stornetta, "How to time-stamp a digital document", 1991).

mod action;
mod item;
mod record;

pub use self::action::{AuditAction, AuditClass};
pub use self::item::{AuditItem, PolicyItem, RestoreItem, RestoreSource};
pub use self::record::{AuditEvicted, AuditHash, AuditRecord, Credential};
