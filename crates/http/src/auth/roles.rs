//! Roles with their permissions: `/v1/auth/roles`, and one of them.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::auth::PERMISSIONS;
use holdfast_api::{CallParams as _, ErrorCode, RoleBody, RolesBody, Schemas, params};
use holdfast_service::Response;
use holdfast_types::{AuthChange, BUILT_IN_ROLES, Permission, Right, RoleName, built_in_role};

use crate::access::Access;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::{ROLE, ROLES};
use crate::status::HttpError;

pub(crate) static LIST: Operation = Operation {
    summary: "List the roles with their permissions",
    answers: || {
        let about = "The roles that holdfast defines, then the others by name";
        ResponseSpec::ok(about, Schemas::of::<RolesBody>)
    },
    ..Operation::read("listRoles", &ROLES, Access::Right(Right::AuthRead), |call| {
        list(call).boxed()
    })
};

pub(crate) static SET: Operation = Operation {
    summary: "Create a role, or replace its permissions",
    description: "Permissions only allow: a call that no permission allows is refused. The role anonymous holds for every caller.",
    params: SetRoleParams::LIST,
    body: BodyKind::LISTS,
    example: Example {
        query: "",
        body: r#"{"permission":["lock acquire orders/*","tree read /cfg/*"]}"#,
    },
    answers: || ResponseSpec::no_content("The role is set"),
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::LevelTooLow],
    ..Operation::change("setRole", Method::Put, &ROLE, Access::Right(Right::AuthManage), |call| {
        set(call).boxed()
    })
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete a role, and take it from its subjects",
    answers: || ResponseSpec::no_content("The role does not exist any more"),
    errors: &[ErrorCode::NotFound],
    ..Operation::change(
        "deleteRole",
        Method::Delete,
        &ROLE,
        Access::Right(Right::AuthManage),
        |call| delete(call).boxed(),
    )
};

params! {
    struct SetRoleParams {
        permissions: Vec<Permission> = PERMISSIONS,
    }
}

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

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let role = call.role()?;
    let SetRoleParams { permissions } = call.params()?;
    call.change(call.service().change_auth(AuthChange::SetRole { role, permissions })).await
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let role = call.role()?;
    call.change(call.service().change_auth(AuthChange::DeleteRole { role })).await
}
