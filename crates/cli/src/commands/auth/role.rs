//! `holdfast auth role`: roles and their permissions.

use clap::{Args, Subcommand};
use holdfast_api::parameters::auth::PERMISSIONS;
use holdfast_api::{Query, RolesBody, role_path};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{Permission, RoleName};

use crate::arguments::ClusterArgs;
use crate::commands::once;
use crate::exit::CommandFailure;
use crate::output::{answer_rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// List the roles with their permissions.
    Ls(ClusterArgs),
    /// Create a role, or replace its permissions.
    Set(SetRoleArgs),
    /// Delete a role, and take it from its subjects.
    Rm(OneRoleArgs),
}

/// One role.
#[derive(Debug, Args)]
pub(crate) struct OneRoleArgs {
    /// The role.
    role: RoleName,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetRoleArgs {
    #[command(flatten)]
    role: OneRoleArgs,
    /// What the role may do: 'KIND VERB PATTERN', such as 'lock acquire orders/*'. Repeat it for each permission.
    #[arg(long, value_name = "PERMISSION")]
    permission: Vec<Permission>,
}

pub(super) async fn run(command: RoleCommand) -> Result<(), CommandFailure> {
    match command {
        RoleCommand::Ls(cluster) => ls(&cluster).await,
        RoleCommand::Set(args) => {
            let OneRoleArgs { role, cluster } = &args.role;
            let query = Query::default().with_each(&PERMISSIONS, &args.permission);
            let call = Call::new(Method::PUT, query.target(&role_path(role)));
            once::send(&cluster.client()?, call).await
        }
        RoleCommand::Rm(OneRoleArgs { role, cluster }) => {
            let call = Call::new(Method::DELETE, role_path(&role));
            once::send(&cluster.client()?, call).await
        }
    }
}

async fn ls(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body: RolesBody = cluster.client()?.call(&Call::get("/v1/auth/roles")).await?;
    let rows = body.roles.iter().map(|role| {
        let permissions = if role.role.as_str() == RoleName::ADMIN {
            "everything".to_owned()
        } else {
            role.permissions.join(", ")
        };
        [role.role.to_string(), permissions]
    });
    let text = table(["role", "permissions"], rows);
    let names = body.roles.iter().map(|role| &role.role);
    answer_rows(cluster.format(), &body, &body.roles, names, &text);
    Ok(())
}
