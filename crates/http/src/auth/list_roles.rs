//! `GET /v1/auth/roles`: the roles with their permissions.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{ErrorCode, RoleBody, RolesBody, Schemas};
use holdfast_service::Response;
use holdfast_types::{BUILT_IN_ROLES, Permission, RoleName, built_in_role};

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ROLES;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "List the roles with their permissions",
    answers: || {
        let about = "The roles that holdfast defines, then the others by name";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<RolesBody>)]
    },
    errors: &[ErrorCode::Forbidden],
    ..Operation::read("listRoles", &ROLES, |call| list(call).boxed())
};

async fn list(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let Response { value: roles, revision, .. } = call.run(call.service().roles()).await?;
    let created = roles.into_iter().map(|(role, permissions)| RoleBody {
        role,
        permissions: permissions.iter().map(Permission::to_string).collect(),
        built_in: false,
    });
    let body = RolesBody { roles: built_in().chain(created).collect() };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn built_in() -> impl Iterator<Item = RoleBody> {
    BUILT_IN_ROLES.into_iter().filter_map(|role| {
        let rights = built_in_role(role)?.iter();
        Some(RoleBody {
            role: RoleName::new(role).ok()?,
            permissions: rights.map(|right| Permission::on_all_names(*right).to_string()).collect(),
            built_in: true,
        })
    })
}
