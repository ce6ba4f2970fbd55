//! `holdfast auth`: who may do what, and the access tokens that prove it.

mod credentials;
mod subject;

use clap::{Args, Subcommand, ValueEnum};
use holdfast_api::parameters::auth::{AS, ASKED_PERMISSION, MODE};
use holdfast_api::{
    AuthBody, CallerBody, FirstAdministratorBody, IssuedTokenBody, Query, VerdictBody,
};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{AuthMode, Permission, RoleName, SubjectName};
use serde_json::Map;

use self::credentials::{CertificateCommand, OutArgs, TokenCommand, TokenPolicyArgs, show_issued};
use self::subject::{QuotaCommand, RoleCommand, SubjectCommand};
use super::calls;
use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer, facts, table, write_stderr};
use crate::owner_proof::{OwnerArgs, OwnerProof};

/// Control who may do what.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Add the first administrator, and set the mode. On the machine of a node, as the owner of its data.
    Bootstrap(AuthBootstrapArgs),
    /// Show the mode, and the calls that the node refused or would refuse.
    Status(ClusterArgs),
    /// Set the mode: off, shadow or on.
    Mode(AuthModeArgs),
    /// Show who the caller is.
    Me(ClusterArgs),
    /// Ask whether a subject has a permission, and which role gives it.
    Can(AuthCanArgs),
    /// Create, list, replace and delete access tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show the default and the maximum lifetime of new access tokens, or replace both.
    TokenPolicy(TokenPolicyArgs),
    /// Deny certificates on every port, such as that of a stolen key.
    #[command(subcommand)]
    Certificate(CertificateCommand),
    /// List, set and delete roles.
    #[command(subcommand)]
    Role(RoleCommand),
    /// List, show, set and delete subjects.
    #[command(subcommand)]
    Subject(SubjectCommand),
    /// Show and set the quotas of subjects without quotas of their own.
    #[command(subcommand)]
    Quota(QuotaCommand),
    /// Add an administrator after every access token was lost. On the machine of a node, as the owner of its data.
    Recover(AuthRecoverArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuthBootstrapArgs {
    #[command(flatten)]
    owner: OwnerArgs,
    /// The administrator.
    #[arg(long, default_value = "admin")]
    subject: SubjectName,
    /// The mode from now on; by default shadow while sessions without a credential are in use, otherwise on.
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuthModeArgs {
    #[arg(value_enum)]
    mode: ModeArg,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What happens to a call that no permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// The call is executed.
    Off,
    /// The call is executed, and listed by `holdfast auth status`.
    Shadow,
    /// The call is refused.
    On,
}

impl From<ModeArg> for AuthMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Off => Self::Off,
            ModeArg::Shadow => Self::Shadow,
            ModeArg::On => Self::On,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AuthCanArgs {
    /// The kind of things, such as lock. The words are those of a permission: lock acquire orders.
    kind: String,
    /// The verb, such as acquire.
    verb: String,
    /// The name; omitted for kinds without names.
    name: Option<String>,
    /// The subject; by default the caller.
    #[arg(long = "as", value_name = "SUBJECT")]
    subject: Option<SubjectName>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuthRecoverArgs {
    #[command(flatten)]
    owner: OwnerArgs,
    /// The administrator.
    #[arg(long, default_value = "admin")]
    subject: SubjectName,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(command: AuthCommand) -> Result<(), CommandFailure> {
    match command {
        AuthCommand::Bootstrap(args) => bootstrap(&args).await,
        AuthCommand::Status(cluster) => status(&cluster).await,
        AuthCommand::Mode(args) => set_mode(&args).await,
        AuthCommand::Me(cluster) => me(&cluster).await,
        AuthCommand::Can(args) => can(&args).await,
        AuthCommand::Token(command) => credentials::token(command).await,
        AuthCommand::TokenPolicy(args) => credentials::policy(&args).await,
        AuthCommand::Certificate(command) => credentials::certificate(command).await,
        AuthCommand::Role(command) => subject::role(command).await,
        AuthCommand::Subject(command) => subject::subject(command).await,
        AuthCommand::Quota(command) => subject::quota(command).await,
        AuthCommand::Recover(args) => recover(&args).await,
    }
}

async fn bootstrap(args: &AuthBootstrapArgs) -> Result<(), CommandFailure> {
    let file = args.out.create()?;
    let proof = OwnerProof::write(&args.owner.data_dir)?;
    let mode = args.mode.map(|mode| ("mode".to_owned(), AuthMode::from(mode).as_str().into()));
    let subject = ("subject".to_owned(), args.subject.as_str().into());
    let params = mode.into_iter().chain([subject]).collect();
    let added: FirstAdministratorBody =
        proof.send(&args.cluster.nodes, "/v1/auth/bootstrap", params).await?;
    show_issued(&args.cluster, file, &added.issued, &added)?;
    write_stderr(&mode_text(&added.mode, added.sessions_without_credential, &args.out.option()));
    Ok(())
}

/// The effect of the mode on running jobs, and the way back. `credential` has the options of the new access token.
fn mode_text(mode: &str, without_credential: u64, credential: &str) -> String {
    let sessions = match without_credential {
        0 => "no session without a credential is in use".to_owned(),
        1 => "1 session without a credential is in use".to_owned(),
        many => format!("{many} sessions without a credential are in use"),
    };
    match mode {
        "on" if without_credential > 0 => format!(
            "holdfast: the authorization is on, and {sessions}: they cannot renew, and end after their ttl, with their locks. \
             To go back: holdfast auth mode shadow{credential}"
        ),
        "on" => format!(
            "holdfast: the authorization is on: calls without a permission are refused; {sessions}. \
             To go back: holdfast auth mode shadow{credential}"
        ),
        "shadow" => format!(
            "holdfast: the authorization is in shadow mode, and refuses no call; {sessions}. \
             holdfast auth status lists the calls that the mode on would refuse. \
             Refuse them: holdfast auth mode on{credential}. Go back: holdfast auth mode off{credential}"
        ),
        _ => format!(
            "holdfast: the authorization is off: no call needs a permission; switch it on with holdfast auth mode on{credential}"
        ),
    }
}

async fn status(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body: AuthBody = cluster.client()?.call(&Call::get("/v1/auth")).await?;
    let here = if body.required_here { "; this node requires authentication" } else { "" };
    let administrator = if body.has_had_administrator {
        "added"
    } else {
        "none yet: run holdfast auth bootstrap on a node"
    };
    let mut text = format!(
        "mode           {}{here}\nadministrator  {administrator}\naccess tokens  {}\nsessions       {} without a credential are in use",
        body.mode,
        credentials::policy_text(body.token_policy),
        body.sessions_without_credential
    );
    if !body.refusals.is_empty() {
        let rows = body.refusals.iter().map(|refusal| {
            let subject = refusal.subject.as_ref().map_or("-", SubjectName::as_str);
            let (why, count) = (refusal.why.clone(), refusal.count.to_string());
            [subject.to_owned(), why, count, refusal.last_at.to_string()]
        });
        let what = if body.mode == "shadow" { "would be refused" } else { "was refused" };
        text = format!("{text}\n\n{}", table(["subject", what, "calls", "last"], rows));
    }
    answer(cluster.format(), &body, &body.mode, &text);
    Ok(())
}

async fn set_mode(args: &AuthModeArgs) -> Result<(), CommandFailure> {
    let query = Query::default().with(&MODE, &AuthMode::from(args.mode));
    let call = Call::new(Method::PATCH, query.target("/v1/auth"));
    let client = args.cluster.client()?;
    // Reading the status needs another permission than setting the mode.
    let status = client.call::<AuthBody>(&Call::get("/v1/auth")).await;
    calls::send(&client, call).await?;
    let sessions = status.map_or(0, |status| status.sessions_without_credential);
    write_stderr(&mode_text(AuthMode::from(args.mode).as_str(), sessions, ""));
    Ok(())
}

async fn me(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body: CallerBody = cluster.client()?.call(&Call::get("/v1/auth/me")).await?;
    let subject = body.subject.as_ref().map_or("none", SubjectName::as_str);
    let roles: Vec<_> = body.roles.iter().map(RoleName::as_str).collect();
    let mut rows = vec![
        ("subject", subject.to_owned()),
        ("credential", body.credential.clone()),
        ("roles", roles.join(", ")),
    ];
    rows.extend(body.namespace.as_ref().map(|name| ("namespace", name.to_string())));
    rows.extend(body.token.map(|token| ("access token", token.to_string())));
    rows.extend(body.expires_at.map(|at| ("expires", at.to_string())));
    answer(cluster.format(), &body, subject, &facts(["caller", ""], rows));
    Ok(())
}

async fn can(args: &AuthCanArgs) -> Result<(), CommandFailure> {
    let name = args.name.as_deref().map_or(String::new(), |name| format!(" {name}"));
    let parsed = |kind: &str, verb: &str| format!("{kind} {verb}{name}").parse::<Permission>();
    // Callers also write the verb first: acquire lock orders.
    let swapped = || parsed(&args.verb, &args.kind).ok();
    let asked = parsed(&args.kind, &args.verb).or_else(|error| swapped().ok_or(error));
    let asked: Permission = asked.map_err(|error| {
        CommandFailure::usage(format!("{error}, as: holdfast auth can lock acquire orders"))
    })?;
    let query = Query::default().with(&ASKED_PERMISSION, &asked);
    let query = query.with_some(&AS, args.subject.as_ref());
    let call = Call::get(query.target("/v1/auth/can"));
    let body: VerdictBody = args.cluster.client()?.call(&call).await?;
    let (value, text) = match (&body.role, &body.permission, &body.outside_of) {
        (Some(role), Some(permission), _) => {
            ("yes", format!("yes: the role {role} has the permission '{permission}'"))
        }
        (_, _, Some(namespace)) => {
            ("no", format!("no: the subject uses only names of its namespace '{namespace}'"))
        }
        _ => ("no", format!("no: no role has a permission for '{asked}'")),
    };
    answer(args.cluster.format(), &body, value, &text);
    if body.allowed { Ok(()) } else { Err(CommandFailure::Code(1, None)) }
}

async fn recover(args: &AuthRecoverArgs) -> Result<(), CommandFailure> {
    let file = args.out.create()?;
    let proof = OwnerProof::write(&args.owner.data_dir)?;
    let params = Map::from_iter([("subject".to_owned(), args.subject.as_str().into())]);
    let recovered: IssuedTokenBody =
        proof.send(&args.cluster.nodes, "/v1/auth/recover", params).await?;
    show_issued(&args.cluster, file, &recovered, &recovered)
}

/// Prints the number of closed sessions, if there are any.
fn show_closed(cluster: &ClusterArgs, body: &holdfast_api::ClosedSessionsBody) {
    if body.closed_sessions > 0 || !matches!(cluster.format(), crate::arguments::Format::Table) {
        let text = format!("closed {} sessions", body.closed_sessions);
        answer(cluster.format(), body, body.closed_sessions, &text);
    }
}
