//! `holdfast auth token-policy`: the lifetimes of new access tokens.

use std::time::Duration;

use clap::Args;
use holdfast_api::parameters::auth::{DEFAULT_TTL, MAX_TTL};
use holdfast_api::{AuthBody, Query, TokenPolicyBody, format_duration};
use holdfast_client::Call;
use holdfast_client::http::Method;

use crate::arguments::{ClusterArgs, duration};
use crate::commands::once;
use crate::exit::CommandFailure;
use crate::output::answer;

/// Show or replace the lifetimes of new access tokens.
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

pub(super) async fn run(args: &TokenPolicyArgs) -> Result<(), CommandFailure> {
    let client = args.cluster.client()?;
    if args.default_ttl.is_some() || args.max_ttl.is_some() {
        let query = Query::default().with_some(&DEFAULT_TTL, args.default_ttl.as_ref());
        let query = query.with_some(&MAX_TTL, args.max_ttl.as_ref());
        let call = Call::new(Method::PUT, query.target("/v1/auth/token-policy"));
        once::send(&client, call).await?;
        return Ok(());
    }
    let body: AuthBody = client.call(&Call::get("/v1/auth")).await?;
    let text = shown(body.token_policy);
    answer(args.cluster.format(), &body.token_policy, &text, &text);
    Ok(())
}

/// `default 8760h, maximum none`
pub(super) fn shown(policy: TokenPolicyBody) -> String {
    let TokenPolicyBody { default_ttl_ms, max_ttl_ms } = policy;
    let shown = |ms: Option<u64>| ms.map_or_else(|| "none".to_owned(), lifetime);
    format!("default {}, maximum {}", shown(default_ttl_ms.or(max_ttl_ms)), shown(max_ttl_ms))
}

/// A lifetime, milliseconds, to the second.
pub(super) fn lifetime(ms: u64) -> String {
    format_duration(Duration::from_secs(ms / 1_000))
}
