//! Calls on subjects, roles, access tokens and the audit trail: one file for each noun.

pub(crate) mod administrator;
pub(crate) mod audit;
pub(crate) mod caller;
pub(crate) mod denied_certificates;
pub(crate) mod mode;
pub(crate) mod quotas;
pub(crate) mod roles;
pub(crate) mod subjects;
pub(crate) mod tokens;
