//! What each request says to a path that no node can have.
//!
//! Owns `ZooKeeper`'s order of errors for them, which differs from request to request (seen on the wire of 3.8.0):
//! some check the path, some only look for a node there, and a create looks for the parent first. The rules of good
//! paths themselves are [`ZnodePath`]'s.

use holdfast_types::{Create, CreateKind, Op, ZnodePath};
use holdfast_zkwire::ErrorCode;

/// Where `ZooKeeper` shows the members of the ensemble.
pub(crate) const CONFIG: &str = "/zookeeper/config";

/// No znode has this version, so that an operation with it is always refused.
const NO_VERSION: i32 = i32::MIN;

/// An operation that is refused in any case: with the machine's reason if the node is missing, else with `code`.
/// It stands for one that cannot be written down, so that the operations before it are still looked at first, and
/// whatever is wrong with the session is told first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Stands in its place.
    pub(crate) op: Op,
    /// The error.
    pub(crate) code: ErrorCode,
}

impl Refused {
    /// Refused with this error, whatever the tree looks like.
    pub(crate) fn with(code: ErrorCode) -> Self {
        Self::beside(ZnodePath::root(), code)
    }

    fn beside(path: ZnodePath, code: ErrorCode) -> Self {
        Self { op: Op::Check { path, version: Some(NO_VERSION) }, code }
    }
}

/// The path of a node to be read: the empty one is the root's, as there.
pub(crate) fn to_read(path: &str) -> Option<ZnodePath> {
    if path.is_empty() { Some(ZnodePath::root()) } else { ZnodePath::new(path).ok() }
}

/// The error for reading where no node can be.
pub(crate) fn unreadable() -> ErrorCode {
    ErrorCode::NoNode
}

/// The error for asking whether a node is where none can be.
pub(crate) fn inexistent(path: &str) -> ErrorCode {
    if path.contains('\0') { ErrorCode::BadArguments } else { ErrorCode::NoNode }
}

/// The path of a node whose data, list or version a request names.
pub(crate) fn to_change(path: &str) -> Result<ZnodePath, Refused> {
    ZnodePath::new(path).map_err(|_| Refused::with(ErrorCode::BadArguments))
}

/// The path of a node to be deleted. It is only looked for.
pub(crate) fn to_delete(path: &str) -> Result<ZnodePath, Refused> {
    ZnodePath::new(path).map_err(|_| {
        let hopeless = path.contains('\0') || !path.contains('/');
        Refused::with(if hopeless { ErrorCode::BadArguments } else { ErrorCode::NoNode })
    })
}

/// The directory and the name of a node to be created. The parent is looked for before the path is checked.
pub(crate) fn to_create(path: &str, sequential: bool) -> Result<(ZnodePath, String), Refused> {
    ZnodePath::for_create(path, sequential).map_err(|_| {
        if path == "/" {
            return Refused::with(ErrorCode::NodeExists);
        }
        let parent = path.rsplit_once('/').filter(|_| !path.contains('\0'));
        match parent.map(|(parent, _)| to_read(parent)) {
            Some(Some(parent)) => Refused::beside(parent, ErrorCode::BadArguments),
            Some(None) => Refused::with(ErrorCode::NoNode),
            None => Refused::with(ErrorCode::BadArguments),
        }
    })
}

/// A time-to-live that a node can have, milliseconds.
pub(crate) fn ttl(ms: i64) -> Result<CreateKind, Refused> {
    match u64::try_from(ms) {
        Ok(ms @ 1..=Create::TTL_MAX_MS) => Ok(CreateKind::Ttl { ms }),
        Ok(_) | Err(_) => Err(Refused::with(ErrorCode::BadArguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error, and the parent that decides about it if any does.
    fn refused<T>(found: Result<T, Refused>) -> Option<(i32, String)> {
        found.err().map(|Refused { op, code }| {
            let Op::Check { path, .. } = op else { panic!("{op:?}") };
            (code.code(), path.to_string())
        })
    }

    fn by(code: i32, decided_by: &str) -> (i32, String) {
        (code, decided_by.to_owned())
    }

    /// As `ZooKeeper` 3.8.0 answered on the wire.
    #[test]
    fn a_bad_path_to_create_is_judged_by_its_parent_first() {
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
    fn a_bad_path_to_delete_is_only_looked_for() {
        for (path, code) in [("", -8), ("a", -8), ("a/b", -101), ("/a/", -101), ("/a\0", -8)] {
            assert_eq!(refused(to_delete(path)), Some(by(code, "/")), "{path:?}");
        }
    }

    #[test]
    fn a_bad_path_to_change_is_a_bad_argument() {
        for path in ["", "a", "//", "/a/", "/.", "/a\0"] {
            assert_eq!(refused(to_change(path)), Some(by(-8, "/")), "{path:?}");
        }
    }

    #[test]
    fn nothing_is_found_under_a_bad_path_and_the_root_under_the_empty_one() {
        assert_eq!(to_read(""), Some(ZnodePath::root()));
        assert_eq!(to_read("/a/"), None);
        assert_eq!(inexistent("/a\0"), ErrorCode::BadArguments);
        assert_eq!(inexistent("/a/"), unreadable());
    }

    #[test]
    fn a_time_to_live_has_forty_bits_and_is_not_nothing() {
        assert_eq!(refused(ttl(0)), Some(by(-8, "/")));
        assert_eq!(refused(ttl(-1)), Some(by(-8, "/")));
        assert_eq!(refused(ttl(1 << 40)), Some(by(-8, "/")));
        assert_eq!(ttl((1 << 40) - 1), Ok(CreateKind::Ttl { ms: Create::TTL_MAX_MS }));
    }
}
