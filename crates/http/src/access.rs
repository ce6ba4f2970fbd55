//! What the head of a call proves before a byte of its body is read.
//!
//! A caller that could be allowed no call of the operation gets its 401 or 403 from the head alone. The handler then checks
//! the names, which may be in the body.

use holdfast_types::Right;

/// What the head of a call must prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadAccess {
    /// Nothing. A credential that is given must be valid.
    Open,
    /// The credential of a subject.
    Subject,
    /// A permission with one of these rights, on any name.
    AnyOf(&'static [Right]),
}

impl HeadAccess {
    /// The rights of which the caller needs one: none if a credential suffices. `None` if every caller may go on.
    pub(crate) const fn rights(self) -> Option<&'static [Right]> {
        match self {
            Self::Open => None,
            Self::Subject => Some(&[]),
            Self::AnyOf(rights) => Some(rights),
        }
    }
}
