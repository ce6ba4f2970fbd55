//! What a request is about: the closed list of things that can be done over HTTP.

/// One thing to do; the router's answer to a method and a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// `PUT /v1/locks/{name}`
    Acquire,
    /// `DELETE /v1/locks/{name}`
    Release,
    /// `GET /v1/locks/{name}`
    ReadLock,
    /// `GET /v1/locks`
    ListLocks,
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
    /// A path that exists, with a method it does not take.
    WrongMethod,
    /// A path that does not exist.
    NoSuchPath,
}

impl Action {
    /// The path as metrics and logs name it: no name of a lock or a session is in it.
    pub(crate) const fn route(self) -> Route {
        match self {
            Self::Acquire | Self::Release | Self::ReadLock => Route::Lock,
            Self::ListLocks => Route::Locks,
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
            Self::WrongMethod | Self::NoSuchPath => Route::Other,
        }
    }
}

/// A path with its variable parts left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
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
    Other,
}

impl Route {
    /// Every route, in order of its number.
    pub(crate) const ALL: [Route; 18] = [
        Self::Lock,
        Self::Locks,
        Self::Session,
        Self::Sessions,
        Self::KeepAlive,
        Self::KeepManyAlive,
        Self::History,
        Self::Fence,
        Self::Tree,
        Self::Txn,
        Self::Watch,
        Self::Cluster,
        Self::Live,
        Self::Ready,
        Self::Metrics,
        Self::Version,
        Self::Explain,
        Self::Other,
    ];

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
            Self::Other => "other",
        }
    }
}
