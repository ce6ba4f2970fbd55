//! Percent-encoded paths of the HTTP API.

use holdfast_types::{LockName, SessionName, ZnodePath};

use crate::escape_path;

/// `/v1/locks/<name>`
pub fn lock_path(lock: &LockName) -> String {
    format!("/v1/locks/{}", escape_path(lock.as_str()))
}

/// `/v1/transfers/<name>`
pub fn transfer_path(lock: &LockName) -> String {
    format!("/v1/transfers/{}", escape_path(lock.as_str()))
}

/// `/v1/release-requests/<name>`
pub fn release_request_path(lock: &LockName) -> String {
    format!("/v1/release-requests/{}", escape_path(lock.as_str()))
}

/// `/v1/force-releases/<name>`
pub fn force_release_path(lock: &LockName) -> String {
    format!("/v1/force-releases/{}", escape_path(lock.as_str()))
}

/// `/v1/policies/<name>`
pub fn policy_path(lock: &LockName) -> String {
    format!("/v1/policies/{}", escape_path(lock.as_str()))
}

/// `/v1/fence/<name>`
pub fn fence_path(lock: &LockName) -> String {
    format!("/v1/fence/{}", escape_path(lock.as_str()))
}

/// `/v1/sessions/<id>`
pub fn session_path(session: &SessionName) -> String {
    format!("/v1/sessions/{}", escape_path(session.as_str()))
}

/// `/v1/sessions/<id>/keepalive`
pub fn keepalive_path(session: &SessionName) -> String {
    format!("{}/keepalive", session_path(session))
}

/// `/v1/tree/<path>`; `/v1/tree/` for the root.
pub fn tree_path(path: &ZnodePath) -> String {
    format!("/v1/tree{}", escape_path(path.as_str()))
}

/// `/v1/history/<name>`
pub fn history_path(lock: &LockName) -> String {
    format!("/v1/history/{}", escape_path(lock.as_str()))
}
