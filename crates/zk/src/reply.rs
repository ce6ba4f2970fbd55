//! What comes out of the service, as replies of the wire.
//!
//! Owns one shape for each kind of reply: what is remembered of a request until its answer comes. Refuses to know how
//! answers come about, and writes nothing.

use std::sync::Arc;

use holdfast_service::{Failure, StreamAnswer};
use holdfast_types::{OpReply, Rejection};
use holdfast_zkwire::{ErrorCode, MultiResult, ReadResult, Response};

use crate::translate::{Verdict, error_code, verdict};
use crate::values;

/// How one operation of a write is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// The new node's path.
    Created,
    /// Its path and stat.
    Created2,
    /// Nothing.
    Deleted,
    /// The changed node's stat.
    Stat,
    /// Nothing.
    Checked,
    /// It cannot be done, with this error, unless the node that decides about it is missing.
    Refused(ErrorCode),
}

/// What a read of several asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadItem {
    /// Data and stat.
    Data,
    /// This data, and the stat that fits it.
    Members(Arc<str>),
    /// Names.
    Children,
    /// Nothing can be there: no question was asked.
    Nowhere,
}

/// What the reply to a request looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Known without asking.
    Fixed(Result<Response, ErrorCode>),
    /// An error that ends the connection.
    Parting(ErrorCode),
    /// As another one, of a node that has this data instead of its own.
    Members(Arc<str>, Box<Shape>),
    /// Nothing, if it went well.
    Empty,
    /// Nothing, if there was such a watch.
    Watched,
    /// Of a node that is there.
    Exists,
    /// Data and stat.
    Data,
    /// Names.
    Children,
    /// Names and stat.
    Children2,
    /// Access list and stat.
    Acl,
    /// Paths.
    Ephemerals,
    /// A number.
    Count,
    /// The number 0.
    AddWatch,
    /// The path as it was asked.
    Sync(String),
    /// One operation.
    Write(Item),
    /// Several.
    Multi(Vec<Item>),
    /// Several reads.
    MultiRead(Vec<ReadItem>),
}

/// A reply, or the end without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The request is done.
    Done(Response),
    /// It failed.
    Failed(ErrorCode),
    /// It failed, and the connection with it.
    Parting(ErrorCode),
    /// The connection is closed without a reply.
    Nothing,
}

/// The reply to a request of this shape.
pub(crate) fn told(shape: Shape, result: Result<StreamAnswer, Failure>) -> Told {
    match result {
        Ok(_) if let Shape::Parting(code) = shape => Told::Parting(code),
        Ok(answer) => match done(shape, answer) {
            Ok(response) => Told::Done(response),
            Err(code) => Told::Failed(code),
        },
        Err(failure) => failed(&shape, &failure),
    }
}

fn failed(shape: &Shape, failure: &Failure) -> Told {
    if let (Shape::Multi(items), Failure::Rejected(Rejection::OpRefused { at, why })) =
        (shape, failure)
    {
        let at = usize::try_from(*at).unwrap_or(usize::MAX);
        let code = refusal(items.get(at).copied(), why);
        // What cannot be read spoils the whole request, if nothing before it has failed.
        if code == ErrorCode::MarshallingError {
            return Told::Failed(code);
        }
        return Told::Done(Response::Multi(MultiResult::failed(items.len(), at, code)));
    }
    let verdict = verdict(failure);
    match (shape, failure, verdict) {
        (Shape::Write(item), Failure::Rejected(why), Verdict::Tell(_)) => {
            Told::Failed(refusal(Some(*item), why))
        }
        (_, _, Verdict::Tell(code)) => Told::Failed(code),
        (_, _, Verdict::Part(code)) => Told::Parting(code),
        (_, _, Verdict::Leave) => Told::Nothing,
    }
}

/// The error of one operation: what stands for one that cannot be done fails with its own, but for a missing node.
fn refusal(item: Option<Item>, why: &Rejection) -> ErrorCode {
    match (item, error_code(why)) {
        (Some(Item::Refused(_)), ErrorCode::NoNode) => ErrorCode::NoNode,
        (Some(Item::Refused(code)), _) | (_, code) => code,
    }
}

/// The service answers each question with its own kind of answer; another one would be a mistake of ours.
fn done(shape: Shape, answer: StreamAnswer) -> Result<Response, ErrorCode> {
    Ok(match (shape, answer) {
        (Shape::Fixed(fixed), _) => return fixed,
        (Shape::Empty, _) | (Shape::Watched, StreamAnswer::Watched(true)) => Response::Empty,
        (Shape::Watched, StreamAnswer::Watched(false)) => return Err(ErrorCode::NoWatcher),
        (Shape::AddWatch, _) => Response::AddWatch,
        (Shape::Sync(path), _) => Response::Sync { path },
        (Shape::Exists, StreamAnswer::Exists(stat)) => Response::Stat(values::stat(&stat)),
        (Shape::Data, StreamAnswer::Data { data, stat }) => {
            Response::Data { data: values::shown_data(data), stat: values::stat(&stat) }
        }
        (Shape::Members(text, shape), answer) => return done(*shape, answer_of(&text, answer)),
        (Shape::Children, StreamAnswer::Children { names, .. }) => Response::Children(names),
        (Shape::Children2, StreamAnswer::Children { names, stat }) => {
            Response::Children2 { children: names, stat: values::stat(&stat) }
        }
        (Shape::Acl, StreamAnswer::Acl { acl, stat }) => {
            Response::Acl { acl: values::shown_acl(acl), stat: values::stat(&stat) }
        }
        (Shape::Ephemerals, StreamAnswer::Ephemerals(paths)) => {
            Response::Ephemerals(paths.iter().map(ToString::to_string).collect())
        }
        (Shape::Count, StreamAnswer::Descendants(count)) => {
            Response::ChildrenCount(i32::try_from(count).unwrap_or(i32::MAX))
        }
        (Shape::Write(item), StreamAnswer::Multi { results, .. }) => {
            written(item, results.into_iter().next())?
        }
        (Shape::Multi(items), StreamAnswer::Multi { results, .. }) => {
            let results =
                items.into_iter().zip(results).map(|(item, result)| in_multi(item, result));
            Response::Multi(results.collect::<Result<_, _>>()?)
        }
        (Shape::MultiRead(items), StreamAnswer::Many(answers)) => {
            Response::MultiRead(many_read(items, answers))
        }
        _ => return Err(ErrorCode::SystemError),
    })
}

/// An answer as if the node had this data.
fn answer_of(text: &str, answer: StreamAnswer) -> StreamAnswer {
    let fit = |stat: holdfast_types::Stat| holdfast_types::Stat {
        data_length: i32::try_from(text.len()).unwrap_or(i32::MAX),
        ..stat
    };
    match answer {
        StreamAnswer::Exists(stat) => StreamAnswer::Exists(fit(stat)),
        StreamAnswer::Data { stat, .. } => {
            StreamAnswer::Data { data: text.as_bytes().into(), stat: fit(stat) }
        }
        StreamAnswer::Children { names, stat } => StreamAnswer::Children { names, stat: fit(stat) },
        StreamAnswer::Acl { acl, stat } => StreamAnswer::Acl { acl, stat: fit(stat) },
        other @ (StreamAnswer::Ephemerals(_)
        | StreamAnswer::Descendants(_)
        | StreamAnswer::Many(_)
        | StreamAnswer::Multi { .. }
        | StreamAnswer::Watched(_)
        | StreamAnswer::Done) => other,
    }
}

fn written(item: Item, result: Option<OpReply>) -> Result<Response, ErrorCode> {
    Ok(match (item, result) {
        (Item::Created, Some(OpReply::Created { path, .. })) => {
            Response::Created { path: path.to_string() }
        }
        (Item::Created2, Some(OpReply::Created { path, stat })) => {
            Response::Created2 { path: path.to_string(), stat: values::stat(&stat) }
        }
        (Item::Stat, Some(OpReply::DataSet { stat } | OpReply::AclSet { stat })) => {
            Response::Stat(values::stat(&stat))
        }
        (Item::Deleted | Item::Checked, _) => Response::Empty,
        _ => return Err(ErrorCode::SystemError),
    })
}

fn in_multi(item: Item, result: OpReply) -> Result<MultiResult, ErrorCode> {
    Ok(match (item, result) {
        (Item::Created, OpReply::Created { path, .. }) => {
            MultiResult::Created { path: path.to_string() }
        }
        (Item::Created2, OpReply::Created { path, stat }) => {
            MultiResult::Created2 { path: path.to_string(), stat: values::stat(&stat) }
        }
        (Item::Stat, OpReply::DataSet { stat }) => {
            MultiResult::DataSet { stat: values::stat(&stat) }
        }
        (Item::Deleted, OpReply::Deleted { .. }) => MultiResult::Deleted,
        (Item::Checked, OpReply::Checked) => MultiResult::Checked,
        _ => return Err(ErrorCode::SystemError),
    })
}

fn many_read(
    items: Vec<ReadItem>,
    answers: Vec<Result<StreamAnswer, Rejection>>,
) -> Vec<ReadResult> {
    let mut answers = answers.into_iter();
    let one = |item| {
        if item == ReadItem::Nowhere {
            return ReadResult::Failed(ErrorCode::NoNode);
        }
        let answer = match (&item, answers.next()) {
            (ReadItem::Members(text), Some(Ok(answer))) => Some(Ok(answer_of(text, answer))),
            (_, answer) => answer,
        };
        match (item, answer) {
            (
                ReadItem::Data | ReadItem::Members(_),
                Some(Ok(StreamAnswer::Data { data, stat })),
            ) => ReadResult::Data { data: values::shown_data(data), stat: values::stat(&stat) },
            (ReadItem::Children, Some(Ok(StreamAnswer::Children { names, .. }))) => {
                ReadResult::Children(names)
            }
            (_, Some(Err(why))) => ReadResult::Failed(error_code(&why)),
            _ => ReadResult::Failed(ErrorCode::SystemError),
        }
    };
    items.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
