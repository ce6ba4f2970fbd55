//! One write to the HTTP endpoint under test.

use std::time::Duration;

use holdfast_client::http::{HttpClient, HttpRequest, Method, Uri};
use holdfast_fence::FencingToken;

use super::{DrillArgs, TOKEN, WriteResult};
use crate::exit::CommandFailure;

const HEADER: &str = "Fencing-Token";
/// The time limit of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// The endpoint that the command line describes.
pub(super) struct Endpoint<'a> {
    http: HttpClient,
    method: Method,
    url: &'a str,
    args: &'a DrillArgs,
}

impl<'a> Endpoint<'a> {
    pub(super) fn new(url: &'a str, args: &'a DrillArgs) -> Result<Self, CommandFailure> {
        let parsed: Uri = (url.replace(TOKEN, "1").parse())
            .map_err(|error| CommandFailure::failed(format!("--url {url}: {error}")))?;
        if parsed.scheme_str() != Some("http") {
            return Err(CommandFailure::failed(
                "--url must begin with http://, the drill does not support TLS: use the address of the service behind its proxy",
            ));
        }
        let method = Method::from_bytes(args.method.to_uppercase().as_bytes()).map_err(|_| {
            CommandFailure::failed(format!("--method {:?} is not an HTTP method", args.method))
        })?;
        if method.is_safe() {
            return Err(CommandFailure::failed(format!(
                "--method {method} does not write: use a method that writes"
            )));
        }
        let http = HttpClient::new(WRITE_TIMEOUT);
        Ok(Self { http, method, url, args })
    }

    /// The header of a write: the number alone, as in the reply of a grant, and the resource if the caller names it.
    fn header(&self, token: FencingToken) -> String {
        let quoted = |resource: &str| resource.replace('\\', "\\\\").replace('"', "\\\"");
        let resource = self.args.resource.as_deref();
        let resource = resource.map(|name| format!("; resource=\"{}\"", quoted(name)));
        format!("{token}{}", resource.unwrap_or_default())
    }

    /// The request with a token, in words.
    pub(super) fn request(&self, token: FencingToken) -> String {
        let url = self.url.replace(TOKEN, &token.to_string());
        format!("{} {url} with {HEADER}: {}", self.method, self.header(token))
    }

    /// Writes with the token of a holder, or without a token.
    pub(super) async fn write(&self, token: Option<FencingToken>) -> WriteResult {
        let number = token.map(|token| token.to_string()).unwrap_or_default();
        let filled = |text: &str| text.replace(TOKEN, &number);
        let mut request = HttpRequest::new(self.method.clone(), filled(self.url), WRITE_TIMEOUT);
        request.body = filled(&self.args.body).into_bytes();
        request.headers.extend(token.map(|token| (HEADER.to_owned(), self.header(token))));
        for (name, value) in &self.args.header {
            // A header that contains the token is omitted from the write without a token.
            if token.is_some() || !value.contains(TOKEN) {
                request.headers.push((name.clone(), filled(value)));
            }
        }
        match self.http.send(request).await {
            Ok(answer) if answer.status.is_success() => {
                WriteResult::Accepted(answer.status.to_string())
            }
            Ok(answer) if answer.status.is_client_error() => {
                WriteResult::Rejected(answer.status.to_string())
            }
            Ok(answer) => WriteResult::Failed(answer.status.to_string()),
            Err(error) => WriteResult::Failed(error.to_string()),
        }
    }
}
