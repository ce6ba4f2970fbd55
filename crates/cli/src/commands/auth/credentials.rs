//! `holdfast auth token` and `token-policy`: access tokens, and the lifetimes of new ones. `holdfast auth certificate`:
//! certificates that no port accepts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::parameters::auth::{
    CLOSE_SESSIONS, DEFAULT_TTL, DENY_REASON, GRACE, MAX_TTL, NEVER, NEW_TOKEN_TTL, SUBJECT,
    TOKEN_TTL,
};
use holdfast_api::{
    AccessTokensBody, AuthBody, DeniedCertificatesBody, IssuedTokenBody, Query, TokenPolicyBody,
    access_token_path, denied_certificate_path, format_duration,
};
use holdfast_client::http::Method;
use holdfast_client::{Call, Copies};
use holdfast_types::{AccessTokenId, CertificateId, Reason, SubjectName};
use serde::Serialize;
use serde_json::Value;

use super::show_closed;
use crate::arguments::{ClusterArgs, duration};
use crate::commands::calls;
use crate::exit::CommandFailure;
use crate::new_file::{Existing, NewFile};
use crate::output::{answer, answer_rows, check_complete, table_or};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create an access token for a subject. Its secret is shown once.
    New(NewTokenArgs),
    /// List the access tokens, without their secrets.
    Ls(ClusterArgs),
    /// Replace an access token by a new one of the same subject.
    Rotate(RotateTokenArgs),
    /// Delete an access token: no later call with it is executed.
    Rm(DeleteTokenArgs),
}

/// Where the secret goes.
#[derive(Debug, Args)]
pub(crate) struct OutArgs {
    /// Write the access token into a new file that only its owner can read, as the header that curl -H @FILE sends.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl OutArgs {
    /// The option that sends the written access token, for a command to copy.
    pub(super) fn option(&self) -> String {
        let file = self.out.as_ref().map_or("FILE".to_owned(), |file| file.display().to_string());
        format!(" --access-token-file {file}")
    }
}

#[derive(Debug, Args)]
pub(crate) struct NewTokenArgs {
    /// The subject.
    subject: SubjectName,
    /// The lifetime; by default that of holdfast auth token-policy.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
    /// Create a token that lasts until it is deleted. Rejected if the policy has a maximum.
    #[arg(long, conflicts_with = "ttl")]
    never: bool,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RotateTokenArgs {
    /// The id of the old token; holdfast auth token ls lists them.
    #[arg(value_parser = token_id)]
    id: AccessTokenId,
    /// How long the old token stays valid.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    grace: Duration,
    /// The lifetime of the new token; by default that of the old one.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
    /// Create a token that lasts until it is deleted. Rejected if the policy has a maximum.
    #[arg(long, conflicts_with = "ttl")]
    never: bool,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteTokenArgs {
    /// The id; holdfast auth token ls lists them.
    #[arg(value_parser = token_id)]
    id: AccessTokenId,
    /// Also close the sessions of its subject.
    #[arg(long)]
    sessions: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl OutArgs {
    /// Creates the file before the secret exists, so that the secret is not lost.
    pub(super) fn create(&self) -> Result<Option<NewFile>, CommandFailure> {
        let existing = Existing::Kept { advice: "give another --out FILE" };
        self.out.as_deref().map(|path| NewFile::secret(path, existing)).transpose()
    }
}

#[derive(Debug, Args)]
pub(crate) struct TokenPolicyArgs {
    /// The lifetime of a token whose creator names none; without it, the maximum.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    default_ttl: Option<Duration>,
    /// The longest lifetime; without it, --never creates tokens that last until they are deleted.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_ttl: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn token(command: TokenCommand) -> Result<(), CommandFailure> {
    match command {
        TokenCommand::New(args) => new(&args).await,
        TokenCommand::Ls(cluster) => list_tokens(&cluster).await,
        TokenCommand::Rotate(args) => rotate(&args).await,
        TokenCommand::Rm(args) => rm(&args).await,
    }
}

async fn new(args: &NewTokenArgs) -> Result<(), CommandFailure> {
    let file = args.out.create()?;
    let query = Query::default().with(&SUBJECT, &args.subject);
    let query = query.with_some(&TOKEN_TTL, args.ttl.as_ref()).with_flag(&NEVER, args.never);
    let call = Call::new(Method::POST, query.target("/v1/auth/tokens")).copies(Copies::Never);
    let issued: IssuedTokenBody = calls::receive(&args.cluster.client()?, call).await?;
    show_issued(&args.cluster, file, &issued, &issued)
}

async fn rotate(args: &RotateTokenArgs) -> Result<(), CommandFailure> {
    let file = args.out.create()?;
    let query = Query::default().with(&GRACE, &args.grace);
    let query = query.with_some(&NEW_TOKEN_TTL, args.ttl.as_ref()).with_flag(&NEVER, args.never);
    let path = format!("{}/rotate", access_token_path(args.id));
    let call = Call::new(Method::POST, query.target(&path)).copies(Copies::Never);
    let issued: IssuedTokenBody = calls::receive(&args.cluster.client()?, call).await?;
    show_issued(&args.cluster, file, &issued, &issued)
}

async fn rm(args: &DeleteTokenArgs) -> Result<(), CommandFailure> {
    let query = Query::default().with_flag(&CLOSE_SESSIONS, args.sessions);
    let target = query.target(&access_token_path(args.id));
    let call = Call::new(Method::DELETE, target).copies(Copies::Never);
    let closed = args.cluster.client()?.call(&call).await?;
    show_closed(&args.cluster, &closed);
    Ok(())
}

async fn list_tokens(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body: AccessTokensBody = cluster.client()?.call(&Call::get("/v1/auth/tokens")).await?;
    let rows = body.tokens.iter().map(|token| {
        let expires = match token.expires_at {
            Some(at) if token.expired => format!("{at} (expired)"),
            Some(at) => at.to_string(),
            None => "never".to_owned(),
        };
        let lifetime = token.ttl_ms.map_or_else(|| "-".to_owned(), lifetime);
        let (id, subject) = (token.id.to_string(), token.subject.to_string());
        [id, subject, token.created_at.to_string(), lifetime, expires]
    });
    let none = "no access tokens: holdfast auth token new SUBJECT creates one";
    let text = table_or(none, ["id", "subject", "created", "lifetime", "expires"], rows);
    let ids = body.tokens.iter().map(|token| token.id);
    answer_rows(cluster.format(), &body, &body.tokens, ids, &text);
    Ok(())
}

pub(super) async fn policy(args: &TokenPolicyArgs) -> Result<(), CommandFailure> {
    let client = args.cluster.client()?;
    if args.default_ttl.is_some() || args.max_ttl.is_some() {
        let query = Query::default().with_some(&DEFAULT_TTL, args.default_ttl.as_ref());
        let query = query.with_some(&MAX_TTL, args.max_ttl.as_ref());
        let call = Call::new(Method::PUT, query.target("/v1/auth/token-policy"));
        return calls::send(&client, call).await;
    }
    let body: AuthBody = client.call(&Call::get("/v1/auth")).await?;
    let text = policy_text(body.token_policy);
    answer(args.cluster.format(), &body.token_policy, &text, &text);
    Ok(())
}

/// `default 8760h, maximum none`
pub(super) fn policy_text(policy: TokenPolicyBody) -> String {
    let TokenPolicyBody { default_ttl_ms, max_ttl_ms } = policy;
    let shown = |ms: Option<u64>| ms.map_or_else(|| "none".to_owned(), lifetime);
    format!("default {}, maximum {}", shown(default_ttl_ms.or(max_ttl_ms)), shown(max_ttl_ms))
}

/// A lifetime, milliseconds, to the second.
fn lifetime(ms: u64) -> String {
    format_duration(Duration::from_secs(ms / 1_000))
}

/// Writes a new access token into the file, or prints it. Prints the body of the response, without a token in the file.
pub(super) fn show_issued(
    cluster: &ClusterArgs,
    out: Option<NewFile>,
    issued: &IssuedTokenBody,
    body: &impl Serialize,
) -> Result<(), CommandFailure> {
    let Some(mut file) = out else {
        answer(cluster.format(), body, &issued.token, &issued.token);
        return check_complete();
    };
    let header = format!("Authorization: Bearer {}\n", issued.token);
    let written = file.write(header.as_bytes()).and_then(|()| file.publish());
    let path = written.map_err(|error| {
        CommandFailure::failed(format!("{error}; delete the access token {}", issued.id))
    })?;
    let shown = without_token(body);
    let text = format!(
        "the access token is in {}: send it with --access-token-file or curl -H @FILE",
        path.display()
    );
    answer(cluster.format(), &shown, path.display(), &text);
    Ok(())
}

fn without_token(body: &impl Serialize) -> Value {
    let mut body = serde_json::to_value(body).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("token");
    }
    body
}

fn token_id(text: &str) -> Result<AccessTokenId, String> {
    text.parse().map_err(|()| {
        "the id of an access token has 13 characters: holdfast auth token ls lists them".to_owned()
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertificateCommand {
    /// Deny a certificate: its connections end, and no port accepts a new one.
    Deny(DenyArgs),
    /// End the denial of a certificate.
    Allow(OneCertificateArgs),
    /// List the denied certificates.
    Ls(ClusterArgs),
}

/// One certificate.
#[derive(Debug, Args)]
pub(crate) struct OneCertificateArgs {
    /// Its serial number, or sha256: and its fingerprint, as openssl x509 -serial -fingerprint -sha256 shows them.
    #[arg(value_name = "SERIAL|sha256:HEX")]
    certificate: CertificateId,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The reason, for the list and the audit trail.
    #[arg(long)]
    reason: Reason,
    #[command(flatten)]
    one: OneCertificateArgs,
}

pub(super) async fn certificate(command: CertificateCommand) -> Result<(), CommandFailure> {
    let (args, call) = match command {
        CertificateCommand::Deny(DenyArgs { reason, one }) => {
            let query = Query::default().with(&DENY_REASON, &reason);
            let target = query.target(&denied_certificate_path(&one.certificate));
            (one, Call::new(Method::PUT, target))
        }
        CertificateCommand::Allow(one) => {
            let target = denied_certificate_path(&one.certificate);
            (one, Call::new(Method::DELETE, target))
        }
        CertificateCommand::Ls(cluster) => return list_certificates(&cluster).await,
    };
    calls::send(&args.cluster.client()?, call).await
}

async fn list_certificates(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let call = Call::get("/v1/auth/denied-certificates");
    let body: DeniedCertificatesBody = cluster.client()?.call(&call).await?;
    let rows = body.certificates.iter().map(|denied| {
        [denied.certificate.clone(), denied.denied_at.to_string(), denied.reason.clone()]
    });
    let text = table_or("no denied certificates", ["certificate", "denied", "reason"], rows);
    let ids = body.certificates.iter().map(|denied| &denied.certificate);
    answer_rows(cluster.format(), &body, &body.certificates, ids, &text);
    Ok(())
}
