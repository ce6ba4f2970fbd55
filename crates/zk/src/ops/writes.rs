//! Writes: `create`, `create2`, `createContainer`, `createTTL`, `delete`, `setData`, `setACL`, `check` and `multi`.
//!
//! Every write becomes a [`Multi`] of the state machine. An operation with an invalid path, flags or time-to-live is
//! replaced by a placeholder that always fails ([`Placeholder`]), so that the operations before it in a `multi` are
//! still checked first. The first part translates the requests, the second part the results.

use bytes::Bytes;
use holdfast_types::{AclEntry, Create, CreateKind, Multi, Op, OpReply};
use holdfast_zkwire as wire;
use holdfast_zkwire::{CreateMode, CreateOp, ErrorCode, MultiOp, MultiResult, Response};

use super::{ReplyFormat, StreamCall, WriteFormat, ZkOperation};
use crate::paths::{self, Placeholder};
use crate::values;

/// One write, or a placeholder for an invalid one.
#[derive(Debug)]
pub(crate) struct WriteOp {
    format: WriteFormat,
    op: Result<Op, Placeholder>,
}

impl WriteOp {
    fn new(format: WriteFormat, op: Result<Op, Placeholder>) -> Self {
        Self { format, op }
    }

    fn into_parts(self) -> (Op, WriteFormat) {
        match self.op {
            Ok(op) => (op, self.format),
            Err(Placeholder { op, code }) => (op, WriteFormat::Refused(code)),
        }
    }
}

pub(crate) fn single(write: WriteOp) -> ZkOperation {
    let (op, format) = write.into_parts();
    ZkOperation::new(StreamCall::Write(multi_of(vec![op])), ReplyFormat::Write(format))
}

pub(crate) fn multi(ops: Vec<MultiOp>) -> ZkOperation {
    let (ops, formats) = ops.into_iter().map(|op| in_multi(op).into_parts()).unzip();
    ZkOperation::new(StreamCall::Write(multi_of(ops)), ReplyFormat::Multi(formats))
}

fn multi_of(then: Vec<Op>) -> Multi {
    Multi { then, ..Multi::default() }
}

fn in_multi(op: MultiOp) -> WriteOp {
    match op {
        MultiOp::Create(mut request) => {
            let format = create_format_in_multi(request.mode);
            let with_ttl = request.op == CreateOp::Ttl;
            if request.mode.ttl_ms().is_none() {
                request.op = CreateOp::Create;
            } else if !with_ttl {
                let invalid = Placeholder::new(ErrorCode::MarshallingError);
                return WriteOp::new(format, Err(invalid));
            }
            WriteOp::new(format, create_op(request).map(Op::Create))
        }
        MultiOp::Delete { path, version } => delete(&path, version),
        MultiOp::SetData { path, data, version } => set_data(&path, data, version),
        MultiOp::Check { path, version } => check(&path, version),
    }
}

/// In a `multi` the flags alone decide about the node and the result, whatever the operation's number.
fn create_format_in_multi(mode: CreateMode) -> WriteFormat {
    match mode {
        CreateMode::Container | CreateMode::Ttl(_) | CreateMode::TtlSequential(_) => {
            WriteFormat::Created2
        }
        CreateMode::Persistent
        | CreateMode::Ephemeral
        | CreateMode::PersistentSequential
        | CreateMode::EphemeralSequential
        | CreateMode::Unknown(_) => WriteFormat::Created,
    }
}

/// The flags are checked before the path; the state machine checks the access list before the parent.
pub(crate) fn create(request: wire::Create) -> WriteOp {
    let format = match request.op {
        CreateOp::Create => WriteFormat::Created,
        CreateOp::Create2 | CreateOp::Container | CreateOp::Ttl => WriteFormat::Created2,
    };
    WriteOp::new(format, create_op(request).map(Op::Create))
}

fn create_op(request: wire::Create) -> Result<Create, Placeholder> {
    let wire::Create { op, path, data, acl, mode } = request;
    let (kind, sequential) = kind(op, mode)?;
    let (directory, name) = paths::to_create(&path, sequential)?;
    let acl = Some(values::acl(acl)).filter(|acl| *acl != [AclEntry::open()]);
    let data = values::data(data);
    Ok(Create { directory, name, data, kind, sequential, acl, parents: false })
}

fn kind(op: CreateOp, mode: CreateMode) -> Result<(CreateKind, bool), Placeholder> {
    let bad = Err(Placeholder::new(ErrorCode::BadArguments));
    match (mode, op) {
        (CreateMode::Ttl(ms), CreateOp::Ttl) => Ok((paths::ttl(ms)?, false)),
        (CreateMode::TtlSequential(ms), CreateOp::Ttl) => Ok((paths::ttl(ms)?, true)),
        (CreateMode::Unknown(_) | CreateMode::Ttl(_) | CreateMode::TtlSequential(_), _)
        | (_, CreateOp::Ttl) => bad,
        (
            CreateMode::PersistentSequential | CreateMode::EphemeralSequential,
            CreateOp::Container,
        ) => Ok((CreateKind::Container, true)),
        (CreateMode::Container, _) | (_, CreateOp::Container) => Ok((CreateKind::Container, false)),
        (CreateMode::Persistent, _) => Ok((CreateKind::Persistent, false)),
        (CreateMode::PersistentSequential, _) => Ok((CreateKind::Persistent, true)),
        (CreateMode::Ephemeral, _) => Ok((CreateKind::Ephemeral, false)),
        (CreateMode::EphemeralSequential, _) => Ok((CreateKind::Ephemeral, true)),
    }
}

pub(crate) fn delete(path: &str, version: i32) -> WriteOp {
    let op = paths::to_delete(path);
    let version = expected(version);
    WriteOp::new(
        WriteFormat::Deleted,
        op.map(|path| Op::Delete { path, version, recursive: false }),
    )
}

pub(crate) fn set_data(path: &str, data: Option<Bytes>, version: i32) -> WriteOp {
    let data = values::data(data);
    let version = expected(version);
    let op = paths::to_change(path).map(|path| Op::SetData { path, data, version });
    WriteOp::new(WriteFormat::Stat, op)
}

pub(crate) fn set_acl(path: &str, acl: Vec<wire::Acl>, version: i32) -> WriteOp {
    let (acl, version) = (values::acl(acl), expected(version));
    let op = paths::to_change(path).map(|path| Op::SetAcl { path, acl, version });
    WriteOp::new(WriteFormat::Stat, op)
}

pub(crate) fn check(path: &str, version: i32) -> WriteOp {
    let version = expected(version);
    let op = paths::to_change(path).map(|path| Op::Check { path, version });
    WriteOp::new(WriteFormat::Checked, op)
}

/// −1 matches any version. No node has another negative version.
fn expected(version: i32) -> Option<i32> {
    (version != -1).then_some(version)
}

/// The reply to a single write. A result of another kind is a bug of this server.
pub(crate) fn response(
    format: WriteFormat,
    result: Option<OpReply>,
) -> Result<Response, ErrorCode> {
    Ok(match (format, result) {
        (WriteFormat::Created, Some(OpReply::Created { path, .. })) => {
            Response::Created { path: path.to_string() }
        }
        (WriteFormat::Created2, Some(OpReply::Created { path, stat })) => {
            Response::Created2 { path: path.to_string(), stat: values::stat(&stat) }
        }
        (WriteFormat::Stat, Some(OpReply::DataSet { stat } | OpReply::AclSet { stat })) => {
            Response::Stat(values::stat(&stat))
        }
        (WriteFormat::Deleted | WriteFormat::Checked, _) => Response::Empty,
        _ => return Err(ErrorCode::SystemError),
    })
}

/// The results of a `multi` that succeeded.
pub(crate) fn multi_results(
    formats: Vec<WriteFormat>,
    results: Vec<OpReply>,
) -> Result<Vec<MultiResult>, ErrorCode> {
    let one = |(format, result)| {
        Ok(match (format, result) {
            (WriteFormat::Created, OpReply::Created { path, .. }) => {
                MultiResult::Created { path: path.to_string() }
            }
            (WriteFormat::Created2, OpReply::Created { path, stat }) => {
                MultiResult::Created2 { path: path.to_string(), stat: values::stat(&stat) }
            }
            (WriteFormat::Stat, OpReply::DataSet { stat }) => {
                MultiResult::DataSet { stat: values::stat(&stat) }
            }
            (WriteFormat::Deleted, OpReply::Deleted { .. }) => MultiResult::Deleted,
            (WriteFormat::Checked, OpReply::Checked) => MultiResult::Checked,
            _ => return Err(ErrorCode::SystemError),
        })
    };
    formats.into_iter().zip(results).map(one).collect()
}

#[cfg(test)]
mod tests {
    use holdfast_types::ZnodePath;

    use super::*;

    fn request(op: CreateOp, path: &str, flags: i32, ttl_ms: i64) -> wire::Create {
        let mode = CreateMode::from_flags(flags, ttl_ms);
        wire::Create { op, path: path.to_owned(), data: None, acl: vec![wire::Acl::open()], mode }
    }

    fn refusal(write: &WriteOp) -> Option<i32> {
        write.op.as_ref().err().map(|refused| refused.code.code())
    }

    #[test]
    fn flags_decide_about_the_node_unless_it_is_a_container_and_the_operation_about_the_result() {
        for (flags, kind, sequential) in [
            (0, CreateKind::Persistent, false),
            (1, CreateKind::Ephemeral, false),
            (2, CreateKind::Persistent, true),
            (3, CreateKind::Ephemeral, true),
            (4, CreateKind::Container, false),
        ] {
            for op in [CreateOp::Create, CreateOp::Create2, CreateOp::Container] {
                let kind = if op == CreateOp::Container { CreateKind::Container } else { kind };
                let write = create(request(op, "/a", flags, -1));
                assert_eq!(write.format == WriteFormat::Created2, op != CreateOp::Create);
                let Ok(Op::Create(create)) = write.op else { panic!("{write:?}") };
                assert_eq!((create.kind, create.sequential), (kind, sequential));
                assert_eq!((create.directory, create.name.as_str()), (ZnodePath::root(), "a"));
                assert_eq!(create.acl, None, "an open access list is stored as none");
            }
        }
    }

    #[test]
    fn flags_that_do_not_fit_the_operation_are_refused_before_the_path_is_checked() {
        for flags in [-1, 5, 6, 7, 9] {
            assert_eq!(refusal(&create(request(CreateOp::Create, "a/b", flags, -1))), Some(-8));
        }
        for flags in [0, 1, 2, 3, 4, 7] {
            assert_eq!(refusal(&create(request(CreateOp::Ttl, "/a", flags, 1000))), Some(-8));
        }
        assert_eq!(refusal(&create(request(CreateOp::Ttl, "/a", 5, 1000))), None);
        assert_eq!(refusal(&create(request(CreateOp::Ttl, "/a", 6, 0))), Some(-8));
    }

    #[test]
    fn in_a_multi_the_flags_decide_about_a_node_with_a_time_to_live() {
        for (flags, fits) in [(0, true), (3, true), (5, true), (7, false)] {
            let write = in_multi(MultiOp::Create(request(CreateOp::Ttl, "/a", flags, 1000)));
            assert_eq!(refusal(&write).is_none(), fits, "{flags}");
        }
        let write = in_multi(MultiOp::Create(request(CreateOp::Container, "/a", 1, -1)));
        let Ok(Op::Create(create)) = write.op else { panic!("{write:?}") };
        assert_eq!(create.kind, CreateKind::Ephemeral);
        let write = in_multi(MultiOp::Create(request(CreateOp::Create2, "/a", 5, -1)));
        assert_eq!(refusal(&write), Some(-5));
    }

    #[test]
    fn only_minus_one_matches_any_version() {
        assert_eq!(expected(-1), None);
        assert_eq!([expected(0), expected(-2)], [Some(0), Some(-2)]);
    }

    #[test]
    fn in_a_multi_an_invalid_operation_keeps_its_position() {
        let check = |path: &str| MultiOp::Check { path: path.to_owned(), version: -1 };
        let operation = multi(vec![check("/"), check("x"), check("/")]);
        let StreamCall::Write(multi) = operation.call else { panic!("{:?}", operation.call) };
        assert_eq!(multi.then.len(), 3);
        let ReplyFormat::Multi(items) = operation.format else { panic!("{:?}", operation.format) };
        assert_eq!(
            items,
            [
                WriteFormat::Checked,
                WriteFormat::Refused(ErrorCode::BadArguments),
                WriteFormat::Checked
            ]
        );
    }
}
