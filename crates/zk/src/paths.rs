//! The errors of requests with an invalid path.
//!
//! ZooKeeper checks paths in a different order for each request (observed on the wire of 3.8.0): some requests check
//! the path, some only look for a node there, and a create looks for the parent first. [`ZnodePath`] has the rules of
//! valid paths.

use holdfast_types::{Create, CreateKind, Op, ZnodePath};
use holdfast_zkwire::ErrorCode;

/// No znode has this version, so an operation with it always fails.
const NO_VERSION: i32 = i32::MIN;

/// An operation that always fails, in place of an invalid one: with `NoNode` if the node of `op` is missing, else with
/// `code`. So the errors of the session and of the operations before it take precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placeholder {
    pub(crate) op: Op,
    pub(crate) code: ErrorCode,
}

impl Placeholder {
    /// Fails with `code` whatever the tree contains.
    pub(crate) fn new(code: ErrorCode) -> Self {
        Self::at(ZnodePath::root(), code)
    }

    fn at(path: ZnodePath, code: ErrorCode) -> Self {
        Self { op: Op::Check { path, version: Some(NO_VERSION) }, code }
    }
}

/// The path of a node to read. As in ZooKeeper, the empty path is the root.
pub(crate) fn to_read(path: &str) -> Option<ZnodePath> {
    if path.is_empty() { Some(ZnodePath::root()) } else { ZnodePath::new(path).ok() }
}

/// The error of a read with an invalid path, except for `exists`.
pub(crate) const READ_ERROR: ErrorCode = ErrorCode::NoNode;

/// The error of `exists` with an invalid path.
pub(crate) fn exists_error(path: &str) -> ErrorCode {
    if path.contains('\0') { ErrorCode::BadArguments } else { ErrorCode::NoNode }
}

/// The path of a node whose data, access list or version a request names.
pub(crate) fn to_change(path: &str) -> Result<ZnodePath, Placeholder> {
    ZnodePath::new(path).map_err(|_| Placeholder::new(ErrorCode::BadArguments))
}

/// The path of a node to delete. ZooKeeper does not check it, it only looks for the node.
pub(crate) fn to_delete(path: &str) -> Result<ZnodePath, Placeholder> {
    ZnodePath::new(path).map_err(|_| {
        let bad = path.contains('\0') || !path.contains('/');
        Placeholder::new(if bad { ErrorCode::BadArguments } else { ErrorCode::NoNode })
    })
}

/// The directory and the name of a node to create. ZooKeeper looks for the parent before it checks the path.
pub(crate) fn to_create(path: &str, sequential: bool) -> Result<(ZnodePath, String), Placeholder> {
    ZnodePath::for_create(path, sequential).map_err(|_| {
        if path == "/" {
            return Placeholder::new(ErrorCode::NodeExists);
        }
        let parent = path.rsplit_once('/').filter(|_| !path.contains('\0'));
        match parent.map(|(parent, _)| to_read(parent)) {
            Some(Some(parent)) => Placeholder::at(parent, ErrorCode::BadArguments),
            Some(None) => Placeholder::new(ErrorCode::NoNode),
            None => Placeholder::new(ErrorCode::BadArguments),
        }
    })
}

pub(crate) fn ttl(ms: i64) -> Result<CreateKind, Placeholder> {
    match u64::try_from(ms) {
        Ok(ms @ 1..=Create::TTL_MAX_MS) => Ok(CreateKind::Ttl { ms }),
        Ok(_) | Err(_) => Err(Placeholder::new(ErrorCode::BadArguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error, and the parent that decides about it if any does.
    fn refused<T>(found: Result<T, Placeholder>) -> Option<(i32, String)> {
        found.err().map(|Placeholder { op, code }| {
            let Op::Check { path, .. } = op else { panic!("{op:?}") };
            (code.code(), path.to_string())
        })
    }

    fn by(code: i32, decided_by: &str) -> (i32, String) {
        (code, decided_by.to_owned())
    }

    /// Observed on the wire of ZooKeeper 3.8.0.
    #[test]
    fn a_create_with_an_invalid_path_depends_on_the_parent_first() {
        for (path, expected) in [
            ("", Some(by(-8, "/"))),
            ("a", Some(by(-8, "/"))),
            ("a/b", Some(by(-101, "/"))),
            ("/", Some(by(-110, "/"))),
            ("//", Some(by(-8, "/"))),
            ("//a", Some(by(-8, "/"))),
            ("/pa/", Some(by(-8, "/pa"))),
            ("/pa/..", Some(by(-8, "/pa"))),
            ("/pa//b", Some(by(-101, "/"))),
            ("/pa/../x", Some(by(-101, "/"))),
            ("/a\0", Some(by(-8, "/"))),
            ("/pa/\u{1}x", Some(by(-8, "/pa"))),
            ("/pa/b", None),
        ] {
            assert_eq!(refused(to_create(path, false)), expected, "{path:?}");
        }
        assert_eq!(refused(to_create("/pa/..", true)), None);
        assert_eq!(refused(to_create("/pa//", true)), Some(by(-101, "/")));
    }

    #[test]
    fn a_delete_with_an_invalid_path_finds_no_node() {
        for (path, code) in [("", -8), ("a", -8), ("a/b", -101), ("/a/", -101), ("/a\0", -8)] {
            assert_eq!(refused(to_delete(path)), Some(by(code, "/")), "{path:?}");
        }
    }

    #[test]
    fn a_change_with_an_invalid_path_is_a_bad_argument() {
        for path in ["", "a", "//", "/a/", "/.", "/a\0"] {
            assert_eq!(refused(to_change(path)), Some(by(-8, "/")), "{path:?}");
        }
    }

    #[test]
    fn an_invalid_path_has_no_node_and_the_empty_path_is_the_root() {
        assert_eq!(to_read(""), Some(ZnodePath::root()));
        assert_eq!(to_read("/a/"), None);
        assert_eq!(exists_error("/a\0"), ErrorCode::BadArguments);
        assert_eq!(exists_error("/a/"), READ_ERROR);
    }

    #[test]
    fn a_time_to_live_has_forty_bits_and_is_not_zero() {
        assert_eq!(refused(ttl(0)), Some(by(-8, "/")));
        assert_eq!(refused(ttl(-1)), Some(by(-8, "/")));
        assert_eq!(refused(ttl(1 << 40)), Some(by(-8, "/")));
        assert_eq!(ttl((1 << 40) - 1), Ok(CreateKind::Ttl { ms: Create::TTL_MAX_MS }));
    }
}
