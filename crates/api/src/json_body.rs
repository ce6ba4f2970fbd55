//! Parsers of the bodies that programs read from replies.

/// A body that a program reads from a reply.
///
/// Its parser is compiled once, in this crate. A type of your own implements it with one line: `serde_json::from_slice(json)`.
pub trait JsonBody: Sized {
    /// Parses the whole of `json`.
    ///
    /// # Errors
    /// If it is not JSON of this type.
    fn from_json(json: &[u8]) -> serde_json::Result<Self>;
}

macro_rules! json_bodies {
    ($($body:ident),* $(,)?) => {
        $(impl JsonBody for crate::$body {
            #[inline(never)]
            fn from_json(json: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(json)
            }
        })*
    };
}

json_bodies!(
    AccessTokensBody,
    AclBody,
    AlarmsBody,
    AuditBody,
    AuthBody,
    BarrierBody,
    CallerBody,
    ChildrenBody,
    ClosedSessionsBody,
    ClusterBody,
    ContentionBody,
    CounterBody,
    DeniedCertificatesBody,
    ElectionBody,
    ExplainedBody,
    FeatureLevelBody,
    FenceBody,
    FirstAdministratorBody,
    ForceReleasedBody,
    GapBody,
    GrantAllBody,
    GrantBody,
    HandedOverBody,
    HealthBody,
    HistoryBody,
    InvitedMemberBody,
    IssuedTokenBody,
    KeepaliveBody,
    KeepaliveManyBody,
    LatchBody,
    LatchCountBody,
    LeadershipBody,
    LeftBody,
    LockBody,
    LocksBody,
    NamespaceBody,
    NamespacesBody,
    NodeLogBody,
    PolicyBody,
    Problem,
    RecentBody,
    RecipesBody,
    ReleaseRequestedBody,
    RolesBody,
    SealBody,
    SessionBody,
    SessionEventsBody,
    SessionsBody,
    StatBody,
    StateVerificationBody,
    SubjectQuotasBody,
    SubjectsBody,
    SubtreeBody,
    TokenPolicyBody,
    TransferredLeadershipBody,
    TreeQuotaBody,
    TreeQuotasBody,
    TrippedBody,
    TxnBody,
    VerdictBody,
    VersionBody,
    WatchBody,
    ZnodeBody,
);

impl JsonBody for serde_json::Value {
    fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }
}
