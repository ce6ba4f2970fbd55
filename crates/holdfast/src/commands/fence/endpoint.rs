//! One write to the endpoint under test, and what came of it.
//!
//! Owns the request as it was described on the command line. Refuses to judge: an answer is an acceptance, a refusal,
//! or tells nothing.

use std::time::Duration;

use holdfast_fence::FencingToken;
use reqwest::{Method, Url};

use crate::cli::DrillArgs;
use crate::exit::Stop;

/// How long the endpoint may take for one write.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
/// What is replaced by the number, in the address, the headers and the body.
pub(super) const TOKEN: &str = "{token}";

/// How the endpoint answered a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A success.
    Accepted(String),
    /// The caller is told that it is wrong.
    Refused(String),
    /// Something else: a failure, a redirect, no answer.
    Nothing(String),
}

impl Said {
    /// In words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Accepted(how) => format!("accepted ({how})"),
            Self::Refused(how) => format!("refused ({how})"),
            Self::Nothing(why) => format!("no verdict ({why})"),
        }
    }
}

/// The endpoint as the command line describes it.
pub(super) struct Endpoint<'a> {
    http: reqwest::Client,
    method: Method,
    url: &'a str,
    args: &'a DrillArgs,
    resource: &'a str,
}

impl<'a> Endpoint<'a> {
    /// Checks what can be checked without asking.
    pub(super) fn new(url: &'a str, args: &'a DrillArgs) -> Result<Self, Stop> {
        let parsed = Url::parse(&url.replace(TOKEN, "1"))
            .map_err(|error| Stop::failed(format!("--url {url}: {error}")))?;
        if parsed.scheme() != "http" {
            return Err(Stop::failed(
                "--url has to begin with http://, the drill speaks no TLS: drill the service itself, behind its proxy",
            ));
        }
        let method = Method::from_bytes(args.method.to_uppercase().as_bytes())
            .map_err(|_| Stop::failed(format!("--method {:?} is no method", args.method)))?;
        if method.is_safe() {
            return Err(Stop::failed(format!(
                "--method {method} does not write: use the one that does"
            )));
        }
        let redirect = reqwest::redirect::Policy::none();
        let builder = reqwest::Client::builder().no_proxy().redirect(redirect).timeout(PATIENCE);
        let http = builder.build().map_err(Stop::failed)?;
        let resource = args.resource.as_deref().unwrap_or(&args.lock);
        Ok(Self { http, method, url, args, resource })
    }

    /// Writes as the holder of a token would, or as somebody without one.
    pub(super) async fn write(&self, token: Option<FencingToken>) -> Said {
        let number = token.map(|token| token.to_string()).unwrap_or_default();
        let filled = |text: &str| text.replace(TOKEN, &number);
        let mut request = self.http.request(self.method.clone(), filled(self.url));
        if let Some(token) = token {
            let resource = self.resource.replace('\\', "\\\\").replace('"', "\\\"");
            request = request.header("fencing-token", format!("{token}; resource=\"{resource}\""));
        }
        for (name, value) in &self.args.header {
            // Without a token there is no header for it either.
            if token.is_some() || !value.contains(TOKEN) {
                request = request.header(name, filled(value));
            }
        }
        match request.body(filled(&self.args.body)).send().await {
            Ok(answer) => {
                let status = answer.status();
                sorted(status.to_string(), status.is_success(), status.is_client_error())
            }
            Err(error) if error.is_connect() => Said::Nothing("cannot connect".to_owned()),
            Err(error) => Said::Nothing(error.to_string()),
        }
    }
}

fn sorted(shown: String, is_success: bool, is_callers_fault: bool) -> Said {
    match (is_success, is_callers_fault) {
        (true, _) => Said::Accepted(shown),
        (false, true) => Said::Refused(shown),
        (false, false) => Said::Nothing(shown),
    }
}
