//! `POST /v1/cluster/level`: raise or lower the feature level.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::member::LEVEL;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, FeatureLevelBody, Schemas, params};
use holdfast_service::Response;
use holdfast_types::{FeatureLevel, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::FEATURE_LEVEL;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Raise or lower the feature level of the cluster",
    description: "The level changes by one, and every member must reply and know the new level. A higher level allows the calls of a new \
        program. After that, nodes with an older program do not start.",
    params: SetLevelParams::LIST,
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "The level", Schemas::of::<FeatureLevelBody>)]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::LevelNotReady],
    ..Operation::write(
        "setFeatureLevel",
        Method::Post,
        &FEATURE_LEVEL,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::ClusterManage]),
        BodyKind::SMALL,
        |call| set_level(call).boxed(),
    )
};

params! {
    struct SetLevelParams {
        level: u64 = LEVEL,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set_level(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let SetLevelParams { level, .. } = call.params()?;
    let level = FeatureLevel(u16::try_from(level).unwrap_or(u16::MAX));
    let Response { value: level, revision, .. } = call.run(call.service().set_level(level)).await?;
    Ok(Reply::json(StatusCode::OK, &FeatureLevelBody { level: level.0 }).at(revision))
}
