//! What a request is about: the closed list of things that can be done over HTTP.
//!
//! Owns the lists from which the router, the metrics and the API's description are made, so that none of them knows a
//! route that the others do not.

use axum::http::Method;

/// An enum, and the list of its variants in the order written.
macro_rules! listed {
    ($(#[$doc:meta])* enum $name:ident { $($(#[$note:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        pub(crate) enum $name {
            $($(#[$note])* $variant,)*
        }

        impl $name {
            /// Every one, in the order written.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

listed! {
/// One thing to do; the router's answer to a method and a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// `PUT /v1/locks/{name}`
    Acquire,
    /// `DELETE /v1/locks/{name}`
    Release,
    /// `PATCH /v1/locks/{name}`
    SetPolicy,
    /// `POST /v1/locks/{name}`
    AskRelease,
    /// `GET /v1/locks/{name}`
    ReadLock,
    /// `GET /v1/locks`
    ListLocks,
    /// `POST /v1/locks`
    AcquireAll,
    /// `DELETE /v1/locks`
    ReleaseAll,
    /// `POST /v1/sessions`
    CreateSession,
    /// `PUT /v1/sessions/{id}`
    OpenSession,
    /// `POST /v1/sessions/{id}/keepalive`
    KeepAlive,
    /// `POST /v1/keepalive`
    KeepManyAlive,
    /// `DELETE /v1/sessions/{id}`
    CloseSession,
    /// `GET /v1/sessions/{id}`
    ReadSession,
    /// `GET /v1/sessions`
    ListSessions,
    /// `GET /v1/history/{name}`
    History,
    /// `GET /v1/fence/{name}`
    Fence,
    /// `PUT /v1/tree/{path}`
    PutNode,
    /// `POST /v1/tree/{path}`
    PostNode,
    /// `GET /v1/tree/{path}`
    ReadNode,
    /// `DELETE /v1/tree/{path}`
    DeleteNode,
    /// `POST /v1/txn`
    Txn,
    /// `GET /v1/watch`
    Watch,
    /// `GET /v1/cluster`
    Cluster,
    /// `GET /livez`
    Live,
    /// `GET /readyz`
    Ready,
    /// `GET /metrics`
    Metrics,
    /// `GET /version`
    Version,
    /// `GET /errors/{code}`
    Explain,
    /// `GET /openapi.json`
    OpenApi,
    /// `GET /docs`
    Docs,
    /// `PUT /v1/latches/{name}`
    MakeLatch,
    /// `POST /v1/latches/{name}`
    CountDown,
    /// `GET /v1/latches/{name}`
    AwaitLatch,
    /// `DELETE /v1/latches/{name}`
    DeleteLatch,
    /// `POST /v1/barriers/{name}`
    ArriveAtBarrier,
    /// `GET /v1/barriers/{name}`
    ReadBarrier,
    /// `DELETE /v1/barriers/{name}`
    LeaveBarrier,
    /// `PUT /v1/double-barriers/{name}`
    EnterDoubleBarrier,
    /// `GET /v1/double-barriers/{name}`
    ReadDoubleBarrier,
    /// `DELETE /v1/double-barriers/{name}`
    LeaveDoubleBarrier,
    /// `GET /v1/counters/{name}`
    ReadCounter,
    /// `POST /v1/counters/{name}`
    AddToCounter,
    /// `PUT /v1/counters/{name}`
    SetCounter,
    /// `DELETE /v1/counters/{name}`
    DeleteCounter,
    /// `PUT /v1/elections/{name}`
    Campaign,
    /// `GET /v1/elections/{name}`
    ReadElection,
    /// `DELETE /v1/elections/{name}`
    Resign,
    /// A path that exists, with a method it does not take.
    WrongMethod,
    /// A path that does not exist.
    NoSuchPath,
}
}

impl Action {
    /// The method that asks for it; a GET answers HEAD as well. None if no method does.
    pub(crate) const fn method(self) -> Option<Method> {
        match self {
            Self::Acquire
            | Self::OpenSession
            | Self::PutNode
            | Self::MakeLatch
            | Self::EnterDoubleBarrier
            | Self::SetCounter
            | Self::Campaign => Some(Method::PUT),
            Self::Release
            | Self::ReleaseAll
            | Self::CloseSession
            | Self::DeleteNode
            | Self::DeleteLatch
            | Self::LeaveBarrier
            | Self::LeaveDoubleBarrier
            | Self::DeleteCounter
            | Self::Resign => Some(Method::DELETE),
            Self::CreateSession
            | Self::AcquireAll
            | Self::AskRelease
            | Self::KeepAlive
            | Self::KeepManyAlive
            | Self::PostNode
            | Self::Txn
            | Self::CountDown
            | Self::ArriveAtBarrier
            | Self::AddToCounter => Some(Method::POST),
            Self::SetPolicy => Some(Method::PATCH),
            Self::ReadLock
            | Self::ListLocks
            | Self::ReadSession
            | Self::ListSessions
            | Self::History
            | Self::Fence
            | Self::ReadNode
            | Self::Watch
            | Self::Cluster
            | Self::Live
            | Self::Ready
            | Self::Metrics
            | Self::Version
            | Self::Explain
            | Self::OpenApi
            | Self::Docs
            | Self::AwaitLatch
            | Self::ReadBarrier
            | Self::ReadDoubleBarrier
            | Self::ReadCounter
            | Self::ReadElection => Some(Method::GET),
            Self::WrongMethod | Self::NoSuchPath => None,
        }
    }

    /// The path as metrics and logs name it: no name of a lock or a session is in it.
    pub(crate) const fn route(self) -> Route {
        match self {
            Self::Acquire | Self::Release | Self::SetPolicy | Self::AskRelease | Self::ReadLock => {
                Route::Lock
            }
            Self::ListLocks | Self::AcquireAll | Self::ReleaseAll => Route::Locks,
            Self::CreateSession | Self::ListSessions => Route::Sessions,
            Self::OpenSession | Self::CloseSession | Self::ReadSession => Route::Session,
            Self::KeepAlive => Route::KeepAlive,
            Self::KeepManyAlive => Route::KeepManyAlive,
            Self::History => Route::History,
            Self::Fence => Route::Fence,
            Self::PutNode | Self::PostNode | Self::ReadNode | Self::DeleteNode => Route::Tree,
            Self::Txn => Route::Txn,
            Self::Watch => Route::Watch,
            Self::Cluster => Route::Cluster,
            Self::Live => Route::Live,
            Self::Ready => Route::Ready,
            Self::Metrics => Route::Metrics,
            Self::Version => Route::Version,
            Self::Explain => Route::Explain,
            Self::OpenApi => Route::OpenApi,
            Self::Docs => Route::Docs,
            Self::MakeLatch | Self::CountDown | Self::AwaitLatch | Self::DeleteLatch => {
                Route::Latch
            }
            Self::ArriveAtBarrier | Self::ReadBarrier | Self::LeaveBarrier => Route::Barrier,
            Self::EnterDoubleBarrier | Self::ReadDoubleBarrier | Self::LeaveDoubleBarrier => {
                Route::DoubleBarrier
            }
            Self::ReadCounter | Self::AddToCounter | Self::SetCounter | Self::DeleteCounter => {
                Route::Counter
            }
            Self::Campaign | Self::ReadElection | Self::Resign => Route::Election,
            Self::WrongMethod | Self::NoSuchPath => Route::Other,
        }
    }
}

listed! {
/// A path with its variable parts left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Lock,
    Locks,
    Session,
    Sessions,
    KeepAlive,
    KeepManyAlive,
    History,
    Fence,
    Tree,
    Txn,
    Watch,
    Cluster,
    Live,
    Ready,
    Metrics,
    Version,
    Explain,
    OpenApi,
    Docs,
    Latch,
    Barrier,
    DoubleBarrier,
    Counter,
    Election,
    Other,
}
}

impl Route {
    /// The pattern, as the documentation writes it.
    pub(crate) const fn pattern(self) -> &'static str {
        match self {
            Self::Lock => "/v1/locks/{name}",
            Self::Locks => "/v1/locks",
            Self::Session => "/v1/sessions/{id}",
            Self::Sessions => "/v1/sessions",
            Self::KeepAlive => "/v1/sessions/{id}/keepalive",
            Self::KeepManyAlive => "/v1/keepalive",
            Self::History => "/v1/history/{name}",
            Self::Fence => "/v1/fence/{name}",
            Self::Tree => "/v1/tree/{path}",
            Self::Txn => "/v1/txn",
            Self::Watch => "/v1/watch",
            Self::Cluster => "/v1/cluster",
            Self::Live => "/livez",
            Self::Ready => "/readyz",
            Self::Metrics => "/metrics",
            Self::Version => "/version",
            Self::Explain => "/errors/{code}",
            Self::OpenApi => "/openapi.json",
            Self::Docs => "/docs",
            Self::Latch => "/v1/latches/{name}",
            Self::Barrier => "/v1/barriers/{name}",
            Self::DoubleBarrier => "/v1/double-barriers/{name}",
            Self::Counter => "/v1/counters/{name}",
            Self::Election => "/v1/elections/{name}",
            Self::Other => "other",
        }
    }

    /// The paths that lead to it, as the router writes them. A name that may contain `/` is the rest of the path; an
    /// empty one reaches the same place, to be told that it is empty.
    pub(crate) fn matched(self) -> Vec<&'static str> {
        match self {
            Self::Lock => vec!["/v1/locks/", "/v1/locks/{*name}"],
            Self::Session => vec!["/v1/sessions/", self.pattern()],
            Self::Fence => vec!["/v1/fence/", "/v1/fence/{*name}"],
            Self::History => vec!["/v1/history/", "/v1/history/{*name}"],
            Self::Latch => vec!["/v1/latches/", "/v1/latches/{*name}"],
            Self::Barrier => vec!["/v1/barriers/", "/v1/barriers/{*name}"],
            Self::DoubleBarrier => vec!["/v1/double-barriers/", "/v1/double-barriers/{*name}"],
            Self::Counter => vec!["/v1/counters/", "/v1/counters/{*name}"],
            Self::Election => vec!["/v1/elections/", "/v1/elections/{*name}"],
            // The root, with and without its slash.
            Self::Tree => vec!["/v1/tree", "/v1/tree/", "/v1/tree/{*path}"],
            Self::Locks
            | Self::Sessions
            | Self::KeepAlive
            | Self::KeepManyAlive
            | Self::Txn
            | Self::Watch
            | Self::Cluster
            | Self::Live
            | Self::Ready
            | Self::Metrics
            | Self::Version
            | Self::Explain
            | Self::OpenApi
            | Self::Docs => vec![self.pattern()],
            Self::Other => Vec::new(),
        }
    }
}
