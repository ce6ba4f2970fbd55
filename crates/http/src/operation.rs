//! The definition of one HTTP call, for the router, the description, the metrics and the logs.
//!
//! A call is an [`Operation`], the struct of its parameters, and its handler, side by side in one file. A file has the
//! calls on one noun; a large call has a file of its own. [`crate::operations`] lists all of them. The OpenAPI document and the page `/docs` are derived from the list, so that they always match it.

use std::fmt;

use axum::http::StatusCode;
use axum::routing::MethodFilter;
use futures_util::future::BoxFuture;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{ErrorCode, Form, IDEMPOTENCY_KEY, ParamList, Schemas};
use holdfast_types::Right;
use serde_json::Value;

use crate::access::CallAccess;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::routes::Route;

/// The header that has the request number instead of the parameter.
const KEY: Header =
    Header::number(IDEMPOTENCY_KEY, "The request number, instead of the parameter request");

/// The handler of one call.
pub(crate) type AnswerFn = for<'a, 'b> fn(&'a mut CallContext<'b>) -> BoxFuture<'a, HandlerResult>;

/// The handler of a call from its `async fn`.
macro_rules! handler {
    ($function:ident) => {
        |call| Box::pin($function(call))
    };
}
pub(crate) use handler;

/// One call.
pub(crate) struct Operation {
    /// Unique, in camel case: the name in generated clients.
    pub(crate) id: &'static str,
    /// A `GET` also handles `HEAD`.
    pub(crate) method: Method,
    pub(crate) route: &'static Route,
    /// One line, without a full stop.
    pub(crate) summary: &'static str,
    /// Whole sentences for callers.
    pub(crate) description: &'static str,
    pub(crate) access: CallAccess,
    /// The query parameters that the handler reads; with [`BodyKind::Params`] also the fields of the body.
    pub(crate) params: ParamList,
    /// Request headers that the handler reads, in addition to those of every call.
    pub(crate) headers: &'static [Header],
    pub(crate) body: BodyKind,
    pub(crate) scope: Scope,
    pub(crate) late_copies: LateCopies,
    /// Whether the quota of calls per second counts the call. A namespace above its quota keeps its sessions.
    pub(crate) is_rate_limited: bool,
    /// A call that works, for the documentation.
    pub(crate) example: Example,
    /// The responses of a successful call.
    pub(crate) answers: fn() -> Vec<ResponseSpec>,
    /// Errors in addition to those of the parameters, the body and the scope.
    pub(crate) errors: &'static [ErrorCode],
    pub(crate) handler: AnswerFn,
}

/// The method of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Put,
    Post,
    Patch,
    Delete,
}

impl Method {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    pub(crate) const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Put => MethodFilter::PUT,
            Self::Post => MethodFilter::POST,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.route.pattern)
    }
}

impl Operation {
    /// The defaults of a `GET` of this node's own state.
    pub(crate) const fn node(
        id: &'static str,
        route: &'static Route,
        access: CallAccess,
        handler: AnswerFn,
    ) -> Self {
        Self {
            id,
            method: Method::Get,
            route,
            summary: "",
            description: "",
            access,
            params: ParamList::of_call(&[]),
            headers: &[],
            body: BodyKind::None,
            scope: Scope::Node,
            late_copies: LateCopies::NoStateChange,
            is_rate_limited: true,
            example: Example { query: "", body: "" },
            answers: Vec::new,
            errors: &[],
            handler,
        }
    }

    /// The defaults of a `GET` of the replicated state.
    pub(crate) const fn read(
        id: &'static str,
        route: &'static Route,
        access: CallAccess,
        handler: AnswerFn,
    ) -> Self {
        Self { scope: Scope::Read, ..Self::node(id, route, access, handler) }
    }

    /// The defaults of a change of the replicated state, with a request number and a small body.
    pub(crate) const fn change(
        id: &'static str,
        method: Method,
        route: &'static Route,
        access: CallAccess,
        handler: AnswerFn,
    ) -> Self {
        let (scope, late_copies, body) = (Scope::Write, LateCopies::Request, BodyKind::SMALL);
        Self { method, body, scope, late_copies, ..Self::node(id, route, access, handler) }
    }

    /// Whether the call needs a permission also in the mode `off`, once there was an administrator.
    pub(crate) const fn needs_permission_in_every_mode(&self) -> bool {
        matches!(self.access, CallAccess::Right(Right::AuthManage | Right::ClusterBackup))
    }

    /// The parameters of the call, and those that the pipeline reads: `redirect` of every call on the replicated state, and the
    /// session and the number of a call that is executed once.
    pub(crate) const fn all_params(&self) -> ParamList {
        match self.scope {
            Scope::Static | Scope::Node => self.params,
            Scope::Read | Scope::Write if self.late_copies.is_executed_once() => {
                self.params.and(&[CALL_SESSION, REQUEST, REDIRECT])
            }
            Scope::Read | Scope::Write => self.params.and(&[REDIRECT]),
        }
    }

    /// Reads the parameters of the call from a query string.
    #[cfg(test)]
    pub(crate) fn params_of<P: holdfast_api::CallParams>(
        &self,
        query: &str,
    ) -> Result<P, holdfast_api::ParamError> {
        P::read(&holdfast_api::RawParams::parse(Some(query), &self.all_params())?)
    }

    /// Whether the call takes a parameter of this name.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.all_params().takes(name)
    }

    /// The request headers that the call reads, in addition to those of every call.
    pub(crate) fn all_headers(&self) -> impl Iterator<Item = &Header> {
        let key = self.late_copies.is_numbered().then_some(&KEY);
        self.headers.iter().chain(key)
    }

    /// Every error that the call can return, in order.
    pub(crate) fn all_errors(&self) -> Vec<ErrorCode> {
        let params = self.all_params();
        let forms = || params.iter().chain(&self.route.name).map(|param| param.form);
        let named = forms().any(|form| {
            matches!(form, Form::Name { .. } | Form::Path { .. } | Form::Labels | Form::Locks)
        });
        let timed =
            forms().any(|form| matches!(form, Form::Duration { .. } | Form::DurationOrOff { .. }));
        let body = self.body != BodyKind::None;
        let numbered = self.late_copies.is_numbered();
        let identified = self.access.reads_credential();
        let implied = [
            (true, ErrorCode::ForeignSite),
            (self.scope != Scope::Static, ErrorCode::InvalidArgument),
            (timed || self.body == BodyKind::Txn, ErrorCode::BadDuration),
            (named, ErrorCode::BadName),
            (identified, ErrorCode::Unauthenticated),
            (identified, ErrorCode::TokenExpired),
            (identified, ErrorCode::Forbidden),
            (body, ErrorCode::PayloadTooLarge),
            (body, ErrorCode::RateLimited),
            (numbered, ErrorCode::NotFound),
            (numbered, ErrorCode::SessionExpired),
            (numbered, ErrorCode::RequestOver),
            (numbered, ErrorCode::RequestMismatch),
        ];
        let implied = implied.into_iter().filter(|(holds, _)| *holds).map(|(_, code)| code);
        let own = self.errors.iter().chain(self.scope.errors()).copied();
        let mut codes: Vec<ErrorCode> = implied.chain(own).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}

/// The variable parts of an example call. The path has the example of its parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Example {
    /// The query; if empty, the required parameters with their examples.
    pub(crate) query: &'static str,
    /// The body; empty for a call without one.
    pub(crate) body: &'static str,
}

/// The state that a call uses, which determines its possible errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The node's own state; parameters are ignored.
    Static,
    /// The node's own state.
    Node,
    /// A read of the replicated state.
    Read,
    /// A change of the replicated state.
    Write,
}

impl Scope {
    const fn errors(self) -> &'static [ErrorCode] {
        const READ: [ErrorCode; 6] = [
            ErrorCode::RateLimited,
            ErrorCode::Internal,
            ErrorCode::NoLeader,
            ErrorCode::ShuttingDown,
            ErrorCode::Starting,
            ErrorCode::DiskFull,
        ];
        const WRITE: [ErrorCode; 9] = [
            ErrorCode::PayloadTooLarge,
            ErrorCode::RateLimited,
            ErrorCode::Internal,
            ErrorCode::NoLeader,
            ErrorCode::OutcomeUnknown,
            ErrorCode::ShuttingDown,
            ErrorCode::Starting,
            ErrorCode::DiskFull,
            ErrorCode::Sealed,
        ];
        match self {
            Self::Static | Self::Node => &[],
            Self::Read => &READ,
            Self::Write => &WRITE,
        }
    }
}

/// A header of a request or a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) is_number: bool,
    pub(crate) about: &'static str,
}

impl Header {
    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Self { name, is_number: false, about }
    }

    pub(crate) const fn number(name: &'static str, about: &'static str) -> Self {
        Self { name, is_number: true, about }
    }
}

/// One response of a successful call.
#[derive(Clone, Debug)]
pub(crate) struct ResponseSpec {
    pub(crate) status: StatusCode,
    pub(crate) about: &'static str,
    /// The bodies by media type; a response has one of them.
    pub(crate) contents: Vec<(&'static str, Content)>,
    /// Headers in addition to those of every response.
    pub(crate) headers: Vec<Header>,
}

/// The content of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// JSON of a type. Several types of one media type are alternatives.
    Json(fn(&mut Schemas) -> Value),
    Text,
    Bytes,
}

impl ResponseSpec {
    pub(crate) fn empty(status: StatusCode, about: &'static str) -> Self {
        Self { status, about, contents: Vec::new(), headers: Vec::new() }
    }

    pub(crate) fn json(
        status: StatusCode,
        about: &'static str,
        schema: fn(&mut Schemas) -> Value,
    ) -> Self {
        Self::empty(status, about).or("application/json", Content::Json(schema))
    }

    /// The responses of a call that returns 200 with JSON.
    pub(crate) fn ok(about: &'static str, schema: fn(&mut Schemas) -> Value) -> Vec<Self> {
        vec![Self::json(StatusCode::OK, about, schema)]
    }

    /// The responses of a call that returns 201 with JSON.
    pub(crate) fn created(about: &'static str, schema: fn(&mut Schemas) -> Value) -> Vec<Self> {
        vec![Self::json(StatusCode::CREATED, about, schema)]
    }

    /// The responses of a call that returns 204.
    pub(crate) fn no_content(about: &'static str) -> Vec<Self> {
        vec![Self::empty(StatusCode::NO_CONTENT, about)]
    }

    pub(crate) fn or(mut self, media: &'static str, content: Content) -> Self {
        self.contents.push((media, content));
        self
    }

    pub(crate) fn with(mut self, headers: &[Header]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }
}
