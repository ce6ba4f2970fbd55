//! Who may make a call, in the mode `on` of the authorization. Each operation declares it.
//!
//! The pipeline reads the credential, and rejects a caller without any permission for the call before it reads a body
//! ([`CallAccess::rights`]). The service and the state machine check the names. The test
//! `every_call_is_refused_or_not_as_declared` compares the declarations with the responses of a cluster.

use std::fmt;
use std::slice::from_ref;

use holdfast_types::Right;
use serde_json::{Value, json};

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallAccess {
    /// Every caller. The credential is not read.
    Public,
    /// Every caller. A credential that is given must be valid.
    Anyone,
    /// The owner of the node's data directory. `auth/administrator.rs` checks the proof.
    OwnerProof,
    /// Every subject: the call concerns its own sessions, or shows only what it may read.
    Subject,
    /// The subject that the path names, or the subjects of the namespace; others with a permission.
    OwnOr(Right),
    /// A permission with this right, on the name in the path if the right has names.
    Right(Right),
    /// A permission with one of several rights. The names in the request decide which of them.
    AnyOf {
        rights: &'static [Right],
        /// The names that decide.
        names: &'static str,
        /// The function that decides.
        decided_in: &'static str,
    },
}

pub(crate) const AUTH_MANAGE: CallAccess = CallAccess::Right(Right::AuthManage);
pub(crate) const AUTH_READ: CallAccess = CallAccess::Right(Right::AuthRead);
pub(crate) const CLUSTER_MANAGE: CallAccess = CallAccess::Right(Right::ClusterManage);
pub(crate) const LOCK_ACQUIRE: CallAccess = CallAccess::Right(Right::LockAcquire);
pub(crate) const LOCK_READ: CallAccess = CallAccess::Right(Right::LockRead);
pub(crate) const RECIPE_DELETE: CallAccess = CallAccess::Right(Right::RecipeDelete);
pub(crate) const RECIPE_READ: CallAccess = CallAccess::Right(Right::RecipeRead);
pub(crate) const RECIPE_USE: CallAccess = CallAccess::Right(Right::RecipeUse);
pub(crate) const TREE_READ: CallAccess = CallAccess::Right(Right::TreeRead);
pub(crate) const TREE_WRITE: CallAccess = CallAccess::Right(Right::TreeWrite);

impl CallAccess {
    /// Whether the pipeline reads the credential.
    pub(crate) const fn reads_credential(self) -> bool {
        !matches!(self, Self::Public)
    }

    /// The rights of which the caller needs one, on any name, before its body is read: none if a credential suffices. `None` if
    /// every caller may go on.
    pub(crate) fn rights(&self) -> Option<&[Right]> {
        match self {
            Self::Public | Self::Anyone | Self::OwnerProof => None,
            Self::Subject | Self::OwnOr(_) => Some(&[]),
            Self::Right(right) => Some(from_ref(right)),
            Self::AnyOf { rights, .. } => Some(rights),
        }
    }

    /// The extension `x-access` of the OpenAPI document.
    pub(crate) fn described(&self) -> Value {
        let (kind, rights) = match self {
            Self::Public => ("public", &[][..]),
            Self::Anyone => ("anyone", &[][..]),
            Self::OwnerProof => ("owner-proof", &[][..]),
            Self::Subject => ("subject", &[][..]),
            Self::OwnOr(right) => ("own-or-permission", from_ref(right)),
            Self::Right(right) => ("permission", from_ref(right)),
            Self::AnyOf { rights, .. } => ("permission", *rights),
        };
        let rights: Vec<String> = rights.iter().map(Right::to_string).collect();
        json!({ "kind": kind, "rights": rights })
    }
}

/// Words for the pages: ``the permission `lock read` ``.
impl fmt::Display for CallAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("every caller"),
            Self::Anyone => f.write_str("every caller without a wrong credential"),
            Self::OwnerProof => f.write_str("the owner of the node's data directory"),
            Self::Subject => f.write_str("every subject"),
            Self::OwnOr(right) => write!(f, "its own subjects, or `{right}`"),
            Self::Right(right) => write!(f, "`{right}`"),
            Self::AnyOf { rights, names, .. } => {
                let rights: Vec<String> = rights.iter().map(|right| format!("`{right}`")).collect();
                write!(f, "{}, by {names}", rights.join(" or "))
            }
        }
    }
}
