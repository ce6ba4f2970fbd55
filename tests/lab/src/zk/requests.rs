//! Constructors of ZooKeeper requests with default values.

use bytes::Bytes;
use holdfast_zkwire::{Acl, ConnectRequest, Create, CreateMode, CreateOp, PASSWORD_LEN, Request};

/// A request for a new session.
pub fn new_session(timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        timeout_ms,
        password: Some([0; PASSWORD_LEN]),
        read_only: Some(false),
        ..ConnectRequest::default()
    }
}

/// Creates a node without data, open to everybody. Flags: 1 ephemeral, 2 sequential, 4 container.
pub fn create(path: &str, flags: i32) -> Request {
    create_with(path, flags, b"", vec![Acl::open()])
}

/// Creates a node with data and an access list.
pub fn create_with(path: &str, flags: i32, data: &[u8], acl: Vec<Acl>) -> Request {
    create_by(CreateOp::Create, path, flags, data, acl)
}

/// Creates a node by one of the operations that create.
pub fn create_by(op: CreateOp, path: &str, flags: i32, data: &[u8], acl: Vec<Acl>) -> Request {
    let (path, data) = (path.to_owned(), Some(Bytes::copy_from_slice(data)));
    Request::Create(Create { op, path, data, acl, mode: CreateMode::from_flags(flags, 60_000) })
}

/// Deletes a node of a version; -1 for any.
pub fn delete(path: &str, version: i32) -> Request {
    Request::Delete { path: path.to_owned(), version }
}

/// Reads a node's stat, if it exists.
pub fn exists(path: &str, watch: bool) -> Request {
    Request::Exists { path: path.to_owned(), watch }
}

/// Reads a node's data.
pub fn get(path: &str, watch: bool) -> Request {
    Request::GetData { path: path.to_owned(), watch }
}

/// Replaces a node's data, of a version; -1 for any.
pub fn set(path: &str, data: &[u8], version: i32) -> Request {
    let data = Some(Bytes::copy_from_slice(data));
    Request::SetData { path: path.to_owned(), data, version }
}

/// Reads the names of a node's children.
pub fn children(path: &str, watch: bool) -> Request {
    Request::GetChildren { path: path.to_owned(), watch }
}
