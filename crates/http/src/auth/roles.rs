//! Roles with their permissions: `/v1/auth/roles`, and one of them.

use holdfast_api::parameters::auth::PERMISSIONS;
use holdfast_api::{CallParams as _, ErrorCode, RoleBody, RolesBody, Schemas, params};
use holdfast_types::{AuthChange, BUILT_IN_ROLES, Permission, RoleName, built_in_role};

use crate::access::{AUTH_MANAGE, AUTH_READ};
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::{ROLE, ROLES};

pub(crate) static LIST: Operation = Operation {
    summary: "List the roles with their permissions",
    answers: || {
        let about = "The roles that holdfast defines, then the others by name";
        ResponseSpec::ok(about, Schemas::of::<RolesBody>)
    },
    ..Operation::read("listRoles", &ROLES, AUTH_READ, handler!(list))
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
    errors: &[ErrorCode::QuotaExceeded],
    ..Operation::change("setRole", Method::Put, &ROLE, AUTH_MANAGE, handler!(set))
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete a role, and take it from its subjects",
    answers: || ResponseSpec::no_content("The role does not exist any more"),
    errors: &[ErrorCode::NotFound],
    ..Operation::change("deleteRole", Method::Delete, &ROLE, AUTH_MANAGE, handler!(delete))
};

params! {
    struct SetRoleParams {
        permissions: Vec<Permission> = PERMISSIONS,
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().roles(), |roles, _| {
        let created = roles.into_iter().map(|(role, permissions)| RoleBody {
            role,
            permissions: permissions.iter().map(Permission::to_string).collect(),
            built_in: false,
        });
        RolesBody { roles: built_in().chain(created).collect() }
    })
    .await
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

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let role = call.role()?;
    let SetRoleParams { permissions } = call.params()?;
    call.no_content(call.service().change_auth(AuthChange::SetRole { role, permissions })).await
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let role = call.role()?;
    call.no_content(call.service().change_auth(AuthChange::DeleteRole { role })).await
}
