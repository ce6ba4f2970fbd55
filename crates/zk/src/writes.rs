//! Requests that change the tree, as operations of the machine.
//!
//! Owns one arm for each. An operation that cannot be written down, because its path, flags or time-to-live are none,
//! is replaced by one that is always refused ([`Refused`]), and its error is kept beside.

use bytes::Bytes;
use holdfast_types::{AclEntry, Create, CreateKind, Multi, Op};
use holdfast_zkwire as wire;
use holdfast_zkwire::{CreateMode, CreateOp, ErrorCode, MultiOp};

use crate::paths::{self, Refused};
use crate::reply::{Item, Shape};
use crate::values;

/// Operations and how their results are told.
#[derive(Debug)]
pub(crate) struct Write {
    /// What the machine is asked.
    pub(crate) multi: Multi,
    /// What the client is told.
    pub(crate) shape: Shape,
}

/// One operation, or the reason why it cannot be one.
type Asked = (Item, Result<Op, Refused>);

/// A request of one operation.
pub(crate) fn single((item, asked): Asked) -> Write {
    let (op, item) = settle(item, asked);
    Write { multi: multi_of(vec![op]), shape: Shape::Write(item) }
}

/// A request of many.
pub(crate) fn many(ops: Vec<MultiOp>) -> Write {
    let asked = ops.into_iter().map(|op| {
        let (item, asked) = of_multi(op);
        settle(item, asked)
    });
    let (ops, items) = asked.unzip();
    Write { multi: multi_of(ops), shape: Shape::Multi(items) }
}

fn settle(item: Item, asked: Result<Op, Refused>) -> (Op, Item) {
    match asked {
        Ok(op) => (op, item),
        Err(Refused { op, code }) => (op, Item::Refused(code)),
    }
}

fn multi_of(then: Vec<Op>) -> Multi {
    Multi { then, ..Multi::default() }
}

fn of_multi(op: MultiOp) -> Asked {
    match op {
        MultiOp::Create(mut request) => {
            let item = in_multi(request.mode);
            let of_ttl = request.op == CreateOp::Ttl;
            if request.mode.ttl_ms().is_none() {
                request.op = CreateOp::Create;
            } else if !of_ttl {
                return (item, Err(Refused::with(ErrorCode::MarshallingError)));
            }
            (item, create_op(request).map(Op::Create))
        }
        MultiOp::Delete { path, version } => delete(&path, version),
        MultiOp::SetData { path, data, version } => set_data(&path, data, version),
        MultiOp::Check { path, version } => check(&path, version),
    }
}

/// In a multi the flags alone say what is made and told, whatever the operation's number.
fn in_multi(mode: CreateMode) -> Item {
    match mode {
        CreateMode::Container | CreateMode::Ttl(_) | CreateMode::TtlSequential(_) => Item::Created2,
        CreateMode::Persistent
        | CreateMode::Ephemeral
        | CreateMode::PersistentSequential
        | CreateMode::EphemeralSequential
        | CreateMode::Unknown(_) => Item::Created,
    }
}

/// Makes a node. Flags are looked at before the path, the list by the machine before the parent.
pub(crate) fn create(request: wire::Create) -> Asked {
    let item = match request.op {
        CreateOp::Create => Item::Created,
        CreateOp::Create2 | CreateOp::Container | CreateOp::Ttl => Item::Created2,
    };
    (item, create_op(request).map(Op::Create))
}

fn create_op(request: wire::Create) -> Result<Create, Refused> {
    let wire::Create { op, path, data, acl, mode } = request;
    let (kind, sequential) = kind(op, mode)?;
    let (directory, name) = paths::to_create(&path, sequential)?;
    let acl = Some(values::acl(acl)).filter(|acl| *acl != [AclEntry::open()]);
    let data = values::data(data);
    Ok(Create { directory, name, data, kind, sequential, acl, parents: false })
}

fn kind(op: CreateOp, mode: CreateMode) -> Result<(CreateKind, bool), Refused> {
    let bad = Err(Refused::with(ErrorCode::BadArguments));
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

/// Deletes a node.
pub(crate) fn delete(path: &str, version: i32) -> Asked {
    let op = paths::to_delete(path);
    let version = expected(version);
    (Item::Deleted, op.map(|path| Op::Delete { path, version, recursive: false }))
}

/// Replaces a node's data.
pub(crate) fn set_data(path: &str, data: Option<Bytes>, version: i32) -> Asked {
    let data = values::data(data);
    let version = expected(version);
    (Item::Stat, paths::to_change(path).map(|path| Op::SetData { path, data, version }))
}

/// Replaces a node's access list.
pub(crate) fn set_acl(path: &str, acl: Vec<wire::Acl>, version: i32) -> Asked {
    let (acl, version) = (values::acl(acl), expected(version));
    (Item::Stat, paths::to_change(path).map(|path| Op::SetAcl { path, acl, version }))
}

/// Compares a node's version.
pub(crate) fn check(path: &str, version: i32) -> Asked {
    let version = expected(version);
    (Item::Checked, paths::to_change(path).map(|path| Op::Check { path, version }))
}

/// −1 is any version; no node has another one below zero.
fn expected(version: i32) -> Option<i32> {
    (version != -1).then_some(version)
}

#[cfg(test)]
mod tests {
    use holdfast_types::ZnodePath;

    use super::*;

    fn request(op: CreateOp, path: &str, flags: i32, ttl_ms: i64) -> wire::Create {
        let mode = CreateMode::from_flags(flags, ttl_ms);
        wire::Create { op, path: path.to_owned(), data: None, acl: vec![wire::Acl::open()], mode }
    }

    fn refusal(asked: &Asked) -> Option<i32> {
        asked.1.as_ref().err().map(|refused| refused.code.code())
    }

    #[test]
    fn flags_say_what_is_made_unless_it_is_a_container_and_the_operation_what_is_told() {
        for (flags, kind, sequential) in [
            (0, CreateKind::Persistent, false),
            (1, CreateKind::Ephemeral, false),
            (2, CreateKind::Persistent, true),
            (3, CreateKind::Ephemeral, true),
            (4, CreateKind::Container, false),
        ] {
            for op in [CreateOp::Create, CreateOp::Create2, CreateOp::Container] {
                let kind = if op == CreateOp::Container { CreateKind::Container } else { kind };
                let (item, asked) = create(request(op, "/a", flags, -1));
                assert_eq!(item == Item::Created2, op != CreateOp::Create);
                let Ok(Op::Create(create)) = asked else { panic!("{asked:?}") };
                assert_eq!((create.kind, create.sequential), (kind, sequential));
                assert_eq!((create.directory, create.name.as_str()), (ZnodePath::root(), "a"));
                assert_eq!(create.acl, None, "everybody may do everything");
            }
        }
    }

    #[test]
    fn flags_that_do_not_fit_the_operation_are_refused_before_the_path_is_looked_at() {
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
    fn in_a_multi_an_operation_with_a_time_to_live_makes_what_the_flags_say() {
        for (flags, fits) in [(0, true), (3, true), (5, true), (7, false)] {
            let asked = of_multi(MultiOp::Create(request(CreateOp::Ttl, "/a", flags, 1000)));
            assert_eq!(refusal(&asked).is_none(), fits, "{flags}");
        }
        let asked = of_multi(MultiOp::Create(request(CreateOp::Container, "/a", 1, -1)));
        let Ok(Op::Create(create)) = asked.1 else { panic!("{asked:?}") };
        assert_eq!(create.kind, CreateKind::Ephemeral);
        let asked = of_multi(MultiOp::Create(request(CreateOp::Create2, "/a", 5, -1)));
        assert_eq!(refusal(&asked), Some(-5));
    }

    #[test]
    fn minus_one_is_any_version_and_nothing_else_is() {
        assert_eq!(expected(-1), None);
        assert_eq!([expected(0), expected(-2)], [Some(0), Some(-2)]);
    }

    #[test]
    fn in_a_multi_what_cannot_be_written_down_keeps_its_place() {
        let check = |path: &str| MultiOp::Check { path: path.to_owned(), version: -1 };
        let write = many(vec![check("/"), check("x"), check("/")]);
        assert_eq!(write.multi.then.len(), 3);
        let Shape::Multi(items) = write.shape else { panic!("{:?}", write.shape) };
        assert_eq!(items, [Item::Checked, Item::Refused(ErrorCode::BadArguments), Item::Checked]);
    }
}
