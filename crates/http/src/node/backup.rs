//! `GET /v1/cluster/backup`: the state of the cluster as a stream of bytes.

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::FutureExt as _;
use futures_util::stream::unfold;
use holdfast_api::{BACKUP_MEDIA, ErrorCode};
use holdfast_service::{BackupStream, Response};
use holdfast_types::Right;

use crate::access::HeadAccess;
use crate::call::CallContext;
use crate::operation::{Content, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::BACKUP;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Make a backup of the whole cluster",
    description: "The backup contains every change that was acknowledged before the call. Any node makes it, one at a time. A response \
        without its last bytes is not a backup: holdfast backup verify checks the file. Keep it secret: it has the data of all \
        znodes, the passwords of sessions and the hashes of access tokens.",
    answers: || {
        let answer = ResponseSpec::empty(StatusCode::OK, "The backup");
        vec![answer.or(BACKUP_MEDIA, Content::Bytes)]
    },
    access: HeadAccess::AnyOf(&[Right::ClusterBackup]),
    errors: &[ErrorCode::RateLimited],
    ..Operation::read("backUpCluster", &BACKUP, |call| backup(call).boxed())
};

async fn backup(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let made = call.run(call.service().backup()).await?;
    let Response { value: stream, revision, .. } = made;
    // `None` after an error: the response ends without its last bytes.
    let bytes = unfold(Some(stream), |stream: Option<BackupStream>| async move {
        let mut stream = stream?;
        let next = stream.next().await?;
        let stream = next.is_ok().then_some(stream);
        Some((next, stream))
    });
    Ok(Reply::stream(BACKUP_MEDIA, Body::from_stream(bytes)).at(revision))
}
