//! Raises the open-file limit of the test process: thousands of connections exceed the usual soft limit of 1,024.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit; panics if that is less than `needed`.
pub fn raise_descriptor_limit(needed: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit of open files");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("the hard limit is allowed");
    assert!(
        hard >= needed,
        "{needed} open files are needed, the hard limit is {hard}: see ulimit -Hn"
    );
}
