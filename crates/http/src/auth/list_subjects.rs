//! `GET /v1/auth/subjects`: the subjects with their roles.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{ErrorCode, Schemas, SubjectBody, SubjectsBody};
use holdfast_service::Response;

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SUBJECTS;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "List the subjects with their roles and certificates",
    answers: || {
        let about = "The subjects, by name";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<SubjectsBody>)]
    },
    errors: &[ErrorCode::Forbidden],
    ..Operation::read("listSubjects", &SUBJECTS, |call| list(call).boxed())
};

async fn list(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let Response { value: subjects, revision, .. } = call.run(call.service().subjects()).await?;
    let subjects = subjects.into_iter().map(|(subject, known)| SubjectBody {
        subject,
        roles: known.roles,
        certificates: known.certificates,
    });
    let body = SubjectsBody { subjects: subjects.collect() };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}
