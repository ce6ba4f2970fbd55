//! The paths of the API. The router matches paths as sent, without decoding or normalisation.

use holdfast_api::{Form, Param};
use holdfast_types::{
    AccessTokenId, CertificateId, LockName, NamespaceName, QuotaZnodes, RecipeName, RoleName,
    SessionName, SubjectName, ZnodePath,
};

/// A path pattern with at most one variable part.
#[derive(Debug)]
pub(crate) struct Route {
    /// The pattern in the documentation, the metrics and the logs: `/v1/locks/{name}`.
    pub(crate) pattern: &'static str,
    /// The chapter of the description.
    pub(crate) tag: &'static str,
    /// The variable part.
    pub(crate) name: Option<Param>,
}

impl Route {
    pub(crate) const fn new(pattern: &'static str, tag: &'static str, name: Option<Param>) -> Self {
        Self { pattern, tag, name }
    }

    /// The path before the variable part.
    pub(crate) fn prefix(&self) -> &'static str {
        self.pattern.split('{').next().unwrap_or_default()
    }

    /// Returns the router's patterns of the route. A name that may contain `/` is the rest of the path. The path
    /// without a name has the same handler, which rejects the empty name; `/v1/tree` is the root, with and without its
    /// last `/`.
    pub(crate) fn matched(&self) -> Vec<String> {
        let prefix = self.prefix().to_owned();
        match self.name {
            Some(Param { name, form: Form::Path { .. }, .. }) => {
                let root = prefix.strip_suffix('/').filter(|_| name == "path");
                let rest = format!("{prefix}{{*{name}}}");
                root.map(str::to_owned).into_iter().chain([prefix, rest]).collect()
            }
            Some(_) if self.pattern.ends_with('}') => vec![prefix, self.pattern.to_owned()],
            Some(_) | None => vec![self.pattern.to_owned()],
        }
    }
}

const LOCK_NAME: Param = Param::path(
    "name",
    LockName::MAX_LEN,
    "The lock; may contain '/', but no component may be empty, '.' or '..'",
)
.needed("orders");
const SESSION_ID: Param =
    Param::name("id", SessionName::MAX_LEN, "The session; contains neither '/' nor white space")
        .needed("me");
const RECIPE_NAME: Param =
    Param::path("name", RecipeName::MAX_LEN, "The name, with the rules of lock names")
        .needed("start");
const ELECTION_NAME: Param = Param::path(
    "name",
    LockName::MAX_LEN - "elections/".len(),
    "The election, with the rules of lock names: it is the lock elections/NAME",
)
.needed("primary");
const ZNODE_PATH: Param = Param::path(
    "path",
    ZnodePath::MAX_LEN - 1,
    "The znode's path without its first '/'; may contain '/'. /v1/tree is the root",
)
.needed("cfg");

const SUBTREE_PATH: Param = Param::path(
    "subtree",
    QuotaZnodes::PATH_MAX_LEN - 1,
    "The path of the subtree without its first '/'; may contain '/'. /v1/tree-quotas/ with nothing behind it is the whole tree",
)
.needed("cfg");

const TOKEN_ID: Param =
    Param::name("id", AccessTokenId::LEN, "The id of the access token, which is not secret")
        .needed("0123456789abc");
const CERTIFICATE_ID: Param = Param::name(
    "certificate",
    CertificateId::MAX_LEN,
    "The serial number of the certificate, or sha256: and its fingerprint, in hexadecimal digits",
)
.needed("4a3b");
const SUBJECT_NAME: Param = Param::path(
    "subject",
    SubjectName::MAX_LEN,
    "The subject, without white space, ':' and '*'; may contain '/'",
)
.needed("ci/deploy");
const ROLE_NAME: Param =
    Param::name("role", RoleName::MAX_LEN, "The role; contains neither '/' nor white space")
        .needed("deploy");
const NAMESPACE_NAME: Param = Param::name(
    "namespace",
    NamespaceName::MAX_LEN,
    "The namespace; contains neither '/' nor white space",
)
.needed("team-a");

const MEMBER_ID: Param = Param::name("id", 20, "The id of the member, a number").needed("2");

/// The chapters of the description, with their purposes.
pub(crate) const CHAPTERS: [(&str, &str); 7] = [
    ("locks", "Acquire, release, read and administer locks. A name may contain '/'."),
    (
        "sessions",
        "Open, renew, read and close sessions. A session holds locks until its TTL expires.",
    ),
    (
        "tree",
        "Read, change and watch znodes, the entries of the tree; transactions; quotas of subtrees.",
    ),
    ("recipes", "Latches, barriers, counters and elections."),
    (
        "authorization",
        "Subjects, their roles and access tokens; namespaces; the mode of the authorization; the audit trail.",
    ),
    (
        "cluster and node",
        "The members of the cluster and their changes, alarms, health checks, metrics and the version.",
    ),
    ("this description", "This document, the page /docs, and a page for each error code."),
];

pub(crate) static LOCK: Route = Route::new("/v1/locks/{name}", "locks", Some(LOCK_NAME));
pub(crate) static LOCKS: Route = Route::new("/v1/locks", "locks", None);
pub(crate) static TRANSFER: Route = Route::new("/v1/transfers/{name}", "locks", Some(LOCK_NAME));
pub(crate) static RELEASE_REQUEST: Route =
    Route::new("/v1/release-requests/{name}", "locks", Some(LOCK_NAME));
pub(crate) static FORCE_RELEASE: Route =
    Route::new("/v1/force-releases/{name}", "locks", Some(LOCK_NAME));
pub(crate) static POLICY: Route = Route::new("/v1/policies/{name}", "locks", Some(LOCK_NAME));
pub(crate) static SESSION: Route = Route::new("/v1/sessions/{id}", "sessions", Some(SESSION_ID));
pub(crate) static SESSIONS: Route = Route::new("/v1/sessions", "sessions", None);
pub(crate) static KEEP_ALIVE: Route =
    Route::new("/v1/sessions/{id}/keepalive", "sessions", Some(SESSION_ID));
pub(crate) static KEEP_MANY_ALIVE: Route = Route::new("/v1/keepalive", "sessions", None);
pub(crate) static HISTORY: Route = Route::new("/v1/history/{name}", "locks", Some(LOCK_NAME));
pub(crate) static FENCE: Route = Route::new("/v1/fence/{name}", "locks", Some(LOCK_NAME));
pub(crate) static TREE: Route = Route::new("/v1/tree/{path}", "tree", Some(ZNODE_PATH));
pub(crate) static TXN: Route = Route::new("/v1/txn", "tree", None);
pub(crate) static WATCH: Route = Route::new("/v1/watch", "tree", None);
pub(crate) static TREE_QUOTA: Route =
    Route::new("/v1/tree-quotas/{subtree}", "tree", Some(SUBTREE_PATH));
pub(crate) static TREE_QUOTAS: Route = Route::new("/v1/tree-quotas", "tree", None);
pub(crate) static CLUSTER: Route = Route::new("/v1/cluster", "cluster and node", None);
pub(crate) static ALARMS: Route = Route::new("/v1/alarms", "cluster and node", None);
pub(crate) static RECENT: Route = Route::new("/v1/recent", "cluster and node", None);
pub(crate) static NODE: Route = Route::new("/v1/node", "cluster and node", None);
pub(crate) static TRANSFER_LEADERSHIP: Route =
    Route::new("/v1/cluster/transfer", "cluster and node", None);
pub(crate) static FEATURE_LEVEL: Route = Route::new("/v1/cluster/level", "cluster and node", None);
pub(crate) static VERIFY_STATE: Route = Route::new("/v1/cluster/verify", "cluster and node", None);
pub(crate) static SEAL: Route = Route::new("/v1/cluster/seal", "cluster and node", None);
pub(crate) static MEMBERS: Route = Route::new("/v1/members", "cluster and node", None);
pub(crate) static MEMBER: Route =
    Route::new("/v1/members/{id}", "cluster and node", Some(MEMBER_ID));
pub(crate) static BACKUP: Route = Route::new("/v1/cluster/backup", "cluster and node", None);
pub(crate) static LIVE: Route = Route::new("/livez", "cluster and node", None);
pub(crate) static READY: Route = Route::new("/readyz", "cluster and node", None);
pub(crate) static METRICS: Route = Route::new("/metrics", "cluster and node", None);
pub(crate) static VERSION: Route = Route::new("/version", "cluster and node", None);
pub(crate) static EXPLAIN: Route = Route::new(
    "/errors/{code}",
    "this description",
    Some(Param::text("code", "The error code").needed("lock-busy")),
);
pub(crate) static OPEN_API: Route = Route::new("/openapi.json", "this description", None);
pub(crate) static DOCS: Route = Route::new("/docs", "this description", None);
pub(crate) static TRY_IT: Route = Route::new("/docs/try-it.js", "this description", None);
pub(crate) static RECIPES: Route = Route::new("/v1/recipes", "recipes", None);
pub(crate) static LATCH: Route = Route::new("/v1/latches/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static BARRIER: Route = Route::new("/v1/barriers/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static DOUBLE_BARRIER: Route =
    Route::new("/v1/double-barriers/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static COUNTER: Route = Route::new("/v1/counters/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static ELECTION: Route =
    Route::new("/v1/elections/{name}", "recipes", Some(ELECTION_NAME));
pub(crate) static AUTH: Route = Route::new("/v1/auth", "authorization", None);
pub(crate) static AUDIT: Route = Route::new("/v1/audit", "authorization", None);
pub(crate) static BOOTSTRAP: Route = Route::new("/v1/auth/bootstrap", "authorization", None);
pub(crate) static RECOVER: Route = Route::new("/v1/auth/recover", "authorization", None);
pub(crate) static ME: Route = Route::new("/v1/auth/me", "authorization", None);
pub(crate) static CAN: Route = Route::new("/v1/auth/can", "authorization", None);
pub(crate) static TOKENS: Route = Route::new("/v1/auth/tokens", "authorization", None);
pub(crate) static TOKEN_POLICY: Route = Route::new("/v1/auth/token-policy", "authorization", None);
pub(crate) static TOKEN: Route =
    Route::new("/v1/auth/tokens/{id}", "authorization", Some(TOKEN_ID));
pub(crate) static ROTATE_TOKEN: Route =
    Route::new("/v1/auth/tokens/{id}/rotate", "authorization", Some(TOKEN_ID));
pub(crate) static DENIED_CERTIFICATES: Route =
    Route::new("/v1/auth/denied-certificates", "authorization", None);
pub(crate) static DENIED_CERTIFICATE: Route =
    Route::new("/v1/auth/denied-certificates/{certificate}", "authorization", Some(CERTIFICATE_ID));
pub(crate) static SUBJECTS: Route = Route::new("/v1/auth/subjects", "authorization", None);
pub(crate) static SUBJECT: Route =
    Route::new("/v1/auth/subjects/{subject}", "authorization", Some(SUBJECT_NAME));
pub(crate) static DEFAULT_QUOTAS: Route = Route::new("/v1/auth/quotas", "authorization", None);
pub(crate) static SUBJECT_QUOTAS: Route =
    Route::new("/v1/auth/quotas/{subject}", "authorization", Some(SUBJECT_NAME));
pub(crate) static ROLES: Route = Route::new("/v1/auth/roles", "authorization", None);
pub(crate) static ROLE: Route =
    Route::new("/v1/auth/roles/{role}", "authorization", Some(ROLE_NAME));
pub(crate) static NAMESPACES: Route = Route::new("/v1/namespaces", "authorization", None);
pub(crate) static NAMESPACE: Route =
    Route::new("/v1/namespaces/{namespace}", "authorization", Some(NAMESPACE_NAME));
/// The route of unknown paths.
pub(crate) static OTHER: Route = Route::new("other", "", None);
