//! Administering subjects, roles and access tokens.
//!
//! This node generates the secret of a new token and returns it once: the log has only the hash. Each change writes one
//! line to the audit log.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_machine::{AccessTokenRecord, CertificateDenial, Machine, SubjectRecord};
use holdfast_raft::take_owner_proof;
use holdfast_types::{
    AccessTokenId, Actor, AuthChange, AuthMode, AuthRejection, CertificateId, Command,
    NamespaceName, NewAccessToken, Permission, Quotas, Reason, Reply, Revision, Right, RoleName,
    SessionId, SessionName, SessionView, Stamp, SubjectName, TokenLifetime, TokenPolicy, millis,
};
use tokio::sync::watch;

use crate::auth::access_token::AccessTokenSecret;
use crate::auth::refusals::RefusalCount;
use crate::request::{Failure, ReadMode, Response};
use crate::service::Service;

/// Sessions read at once, because `apply` waits meanwhile.
const SESSIONS_PAGE: usize = 1_000;

/// A new access token with its secret.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    pub token: AccessTokenSecret,
    pub subject: SubjectName,
    pub expires_at: Option<Stamp>,
}

/// The first administrator, and the mode from now on.
#[derive(Clone, Debug)]
pub struct FirstAdministrator {
    pub issued: IssuedToken,
    pub mode: AuthMode,
    /// As [`AuthStatus::sessions_without_credential`], before the call.
    pub sessions_without_credential: u64,
}

/// The authorization of the cluster, and the refusals of this node.
#[derive(Clone, Debug)]
pub struct AuthStatus {
    pub mode: AuthMode,
    /// Whether this node applies the mode `on`, whatever the mode of the cluster is.
    pub required_here: bool,
    pub has_had_administrator: bool,
    pub token_policy: TokenPolicy,
    /// Sessions that a caller without a credential opened, and that are in use. In the mode `on`, they end
    /// with their TTL.
    pub sessions_without_credential: u64,
    /// The latest first.
    pub refusals: Vec<RefusalCount>,
}

/// The caller, as the cluster knows it.
#[derive(Clone, Debug)]
pub struct KnownCaller {
    pub actor: Actor,
    pub subject: Option<SubjectName>,
    pub roles: Vec<RoleName>,
    /// The namespace to which the subject belongs.
    pub namespace: Option<NamespaceName>,
    /// Of its access token.
    pub expires_at: Option<Stamp>,
    /// The mode of the authorization on this node.
    pub mode: AuthMode,
}

/// The answer to the question whether a subject has a permission.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The role and the permission that allow it; `None` if nothing does.
    pub allowed_by: Option<(String, Permission)>,
    /// The namespace of the subject, if the name lies outside of it.
    pub outside_of: Option<NamespaceName>,
}

impl Service {
    /// Adds the first administrator with an access token, and sets the mode. Without `mode`, it is `shadow` while sessions
    /// without a credential are in use, and otherwise `on`.
    ///
    /// # Errors
    /// [`AuthRejection::HasAdministrator`] after the first one; otherwise the errors of any write.
    pub async fn add_first_administrator(
        &self,
        subject: SubjectName,
        mode: Option<AuthMode>,
    ) -> Result<Response<FirstAdministrator>, Failure> {
        let sessions_without_credential = self.sessions_without_credential().await?;
        let default = if sessions_without_credential > 0 { AuthMode::Shadow } else { AuthMode::On };
        let mode = mode.unwrap_or(default);
        let issued = self.generate_token(subject.clone(), TokenLifetime::UpToMax(None))?;
        let token = issued.replicated();
        let change = AuthChange::AddAdministrator { subject, token, mode: Some(mode) };
        let added = self.change_auth(change).await?;
        Ok(added.map(|_| FirstAdministrator { issued, mode, sessions_without_credential }))
    }

    /// Counts the sessions of callers without a credential whose end would end something else, such as a hold, a place in
    /// a group or an ephemeral znode of a ZooKeeper client.
    async fn sessions_without_credential(&self) -> Result<u64, Failure> {
        self.read_barrier().await?;
        let mut count = 0;
        self.each_session_of(None, |machine, session| {
            count += u64::from(machine.is_session_in_use(session.id));
        });
        Ok(count)
    }

    /// Adds an administrator with an access token, for the owner of this node's data directory. The caller has proved
    /// that it is the owner.
    pub async fn recover_administrator(
        &self,
        subject: SubjectName,
    ) -> Result<Response<IssuedToken>, Failure> {
        let issued = self.generate_token(subject.clone(), TokenLifetime::UpToMax(None))?;
        let token = issued.replicated();
        let change = AuthChange::AddAdministrator { subject, token, mode: None };
        Ok(self.as_node().change_auth(change).await?.map(|_| issued))
    }

    /// Compares a proof with the file in the data directory of this node, and deletes the file. Returns false if they
    /// differ or there is no file.
    pub fn takes_owner_proof(&self, proof: &str) -> bool {
        take_owner_proof(&self.parts.data_dir, proof)
    }

    /// Whether the cluster has had an administrator, as applied by this node.
    pub fn has_had_administrator(&self) -> bool {
        self.raft().read(Machine::has_had_administrator)
    }

    /// Creates an access token of a subject.
    ///
    /// # Errors
    /// [`AuthRejection::NoSubject`], [`AuthRejection::TokenLifetime`]; otherwise the errors of any write.
    pub async fn issue_token(
        &self,
        subject: SubjectName,
        lifetime: TokenLifetime,
    ) -> Result<Response<IssuedToken>, Failure> {
        let issued = self.generate_token(subject.clone(), lifetime)?;
        let change = AuthChange::AddToken { subject, token: issued.replicated() };
        Ok(self.change_auth(change).await?.map(|_| issued))
    }

    /// Creates an access token for the subject of another one, which expires after `grace`. Without `lifetime`, the new one
    /// has that of the old one.
    ///
    /// # Errors
    /// [`AuthRejection::NoToken`], [`AuthRejection::TokenLifetime`]; otherwise the errors of any write.
    pub async fn rotate_token(
        &self,
        old: AccessTokenId,
        grace: Duration,
        lifetime: Option<TokenLifetime>,
    ) -> Result<Response<IssuedToken>, Failure> {
        // Whether the token exists is for administrators.
        self.authorize(&Command::Auth(AuthChange::DeleteToken { token: old })).await?;
        self.read_barrier().await?;
        let no_token = || Failure::Rejected(AuthRejection::NoToken { token: old }.into());
        let known = self.raft().read(|machine| machine.access_token(old).cloned());
        let known = known.ok_or_else(no_token)?;
        let lifetime = lifetime.unwrap_or(TokenLifetime::UpToMax(known.ttl_ms));
        let issued = self.generate_token(known.subject, lifetime)?;
        let old_expires_at = self.stamp_after(grace);
        let token = issued.replicated();
        let change = AuthChange::RotateToken { old, token, old_expires_at };
        Ok(self.change_auth(change).await?.map(|_| issued))
    }

    /// Changes subjects, roles, access tokens or the mode. Returns the last session that was opened before the change; of a copy of
    /// the call, before its first execution.
    ///
    /// # Errors
    /// A rejection with its reason; otherwise the errors of any write.
    pub async fn change_auth(&self, change: AuthChange) -> Result<Response<SessionId>, Failure> {
        let what = shown(&change);
        let changed = self.propose(Command::Auth(change), Reply::into_auth_changed).await;
        let done = changed.is_ok();
        let by = self.shown_caller();
        tracing::info!(target: "audit", action = "change-auth", what, by, done,
            request = self.context.request_id, "the authorization was changed");
        changed
    }

    /// Closes the sessions of a subject up to this one, as an operator, and returns their number. They are one record of the audit
    /// trail. Later sessions are of a subject that was created again.
    ///
    /// # Errors
    /// The errors of any write; some sessions may be closed.
    pub async fn close_sessions_of(
        &self,
        subject: &SubjectName,
        newest: SessionId,
    ) -> Result<u64, Failure> {
        let reason = Reason::new("the access was revoked");
        let reason = reason.map_err(|error| Failure::Failed(error.to_string()))?;
        self.read_barrier().await?;
        let mut sessions = Vec::new();
        self.each_session_of(Some(subject), |_, SessionView { session, id, .. }| {
            if id <= newest {
                sessions.push((session, id));
            }
        });
        let ending = self.without_number();
        // Only the first command that closes one leaves a record.
        let (mut total, mut closed) = (Some(sessions.len() as u64), 0);
        for some in sessions.chunks(Command::END_SESSIONS_MAX) {
            let (sessions, reason) = (some.to_vec(), reason.clone());
            let end = Command::EndSessions { subject: subject.clone(), sessions, reason, total };
            let ended = ending.propose(end, Reply::into_sessions_ended).await?.value;
            total = total.filter(|_| ended == 0);
            closed += ended;
        }
        let (by, subject) = (self.shown_caller(), subject.as_str());
        tracing::info!(target: "audit", action = "end-sessions", subject, closed, by,
            request = self.context.request_id, "an operator ended the sessions of a subject");
        Ok(closed)
    }

    /// Reads the open sessions of a subject, or those without one, by the state of this node.
    fn each_session_of(
        &self,
        subject: Option<&SubjectName>,
        mut each: impl FnMut(&Machine, SessionView),
    ) {
        let mut after = None::<String>;
        loop {
            after = self.raft().read(|machine| {
                let is_theirs =
                    |session: &SessionName| machine.subject_of_session(session) == subject;
                let page = machine.sessions(after.as_deref(), SESSIONS_PAGE, is_theirs);
                page.items.into_iter().for_each(|session| each(machine, session));
                page.next
            });
            if after.is_none() {
                return;
            }
        }
    }

    /// # Errors
    /// [`AuthRejection::Forbidden`] without the right to read; otherwise the errors of any read.
    pub async fn auth_status(&self) -> Result<Response<AuthStatus>, Failure> {
        let status = self.read_auth(|machine| AuthStatus {
            mode: machine.auth_mode(),
            required_here: self.config().requires_authentication,
            has_had_administrator: machine.has_had_administrator(),
            token_policy: machine.token_policy(),
            sessions_without_credential: 0,
            refusals: self.parts.refusals.list(),
        });
        let status = status.await?;
        let sessions_without_credential = self.sessions_without_credential().await?;
        Ok(status.map(|status| AuthStatus { sessions_without_credential, ..status }))
    }

    /// Access tokens by id, without their secrets.
    ///
    /// # Errors
    /// As [`Service::auth_status`].
    pub async fn access_tokens(
        &self,
    ) -> Result<Response<Vec<(AccessTokenId, AccessTokenRecord)>>, Failure> {
        let list = |machine: &Machine| {
            machine.access_tokens().map(|(id, token)| (id, token.clone())).collect()
        };
        self.read_auth(list).await
    }

    /// The roles that clients have created, by name.
    ///
    /// # Errors
    /// As [`Service::auth_status`].
    pub async fn roles(&self) -> Result<Response<Vec<(RoleName, Vec<Permission>)>>, Failure> {
        let list = |machine: &Machine| {
            machine
                .roles()
                .map(|(role, permissions)| (role.clone(), permissions.to_vec()))
                .collect()
        };
        self.read_auth(list).await
    }

    /// The denied certificates, by the state of this node. Its listeners need no permission.
    pub fn denied_certificates(&self) -> BTreeSet<CertificateId> {
        self.raft()
            .read(|machine| machine.denied_certificates().map(|(id, _)| id.clone()).collect())
    }

    /// Changes with every change of the authorization. A snapshot of another node changes it without a notice.
    pub fn auth_changes(&self) -> watch::Receiver<()> {
        self.observer().auth_changes.subscribe()
    }

    /// The revision of the last change of the authorization, as applied by this node.
    pub fn auth_changed_in(&self) -> Revision {
        self.raft().read(Machine::auth_changed_in)
    }

    /// The denied certificates.
    ///
    /// # Errors
    /// As [`Service::auth_status`].
    pub async fn certificate_denials(
        &self,
    ) -> Result<Response<Vec<(CertificateId, CertificateDenial)>>, Failure> {
        let list = |machine: &Machine| {
            machine.denied_certificates().map(|(id, denial)| (id.clone(), denial.clone())).collect()
        };
        self.read_auth(list).await
    }

    /// Subjects, by name.
    ///
    /// # Errors
    /// As [`Service::auth_status`].
    pub async fn subjects(&self) -> Result<Response<Vec<(SubjectName, SubjectRecord)>>, Failure> {
        let list = |machine: &Machine| {
            machine.subjects().map(|(name, subject)| (name.clone(), subject.clone())).collect()
        };
        self.read_auth(list).await
    }

    /// Who the caller is. Every caller may ask.
    pub async fn known_caller(&self, mode: ReadMode) -> Result<Response<KnownCaller>, Failure> {
        let actor = self.actor().clone();
        self.read(mode, |machine| {
            let rights = self.rights(machine)?;
            let subject = rights.subject().cloned();
            let known = subject.as_ref().and_then(|subject| machine.subject(subject));
            let roles = known.map_or_else(Vec::new, |subject| subject.roles.clone());
            let token = match &actor {
                Actor::Token(id) => machine.access_token(*id),
                Actor::Node | Actor::Anonymous | Actor::Subject(_) => None,
            };
            let expires_at = token.and_then(|token| token.expires_at);
            let namespace = subject.as_ref().and_then(|subject| machine.namespace_of(subject));
            let namespace = namespace.cloned();
            let mode = self.auth_mode(machine);
            Ok(KnownCaller { actor: actor.clone(), subject, roles, namespace, expires_at, mode })
        })
        .await
    }

    /// Whether a subject has a right on a name, and by which permission. `None` asks about the caller.
    ///
    /// # Errors
    /// [`AuthRejection::Forbidden`] if the caller asks about another subject and may not read subjects; otherwise the
    /// errors of any read.
    pub async fn verdict(
        &self,
        subject: Option<SubjectName>,
        right: Right,
        name: &str,
    ) -> Result<Response<Verdict>, Failure> {
        let actor = subject.clone().map_or_else(|| self.actor().clone(), Actor::Subject);
        self.read(ReadMode::Linearizable, |machine| {
            if subject.is_some() {
                self.check(machine, Right::AuthRead, "")?;
            }
            let rights = machine.rights_of(&actor, self.credential_time())?;
            let allowed_by = rights.deciding_permission(right, name);
            let allowed_by = allowed_by.map(|(role, permission)| (role.to_owned(), permission));
            let outside_of = match rights.check(right, name) {
                Err(AuthRejection::OtherNamespace(outside)) => Some(outside.namespace),
                Ok(()) | Err(_) => None,
            };
            Ok(Verdict { allowed_by, outside_of })
        })
        .await
    }

    async fn read_auth<T>(&self, look: impl FnOnce(&Machine) -> T) -> Result<Response<T>, Failure> {
        self.read(ReadMode::Linearizable, |machine| {
            self.check(machine, Right::AuthRead, "")?;
            Ok(look(machine))
        })
        .await
    }

    fn generate_token(
        &self,
        subject: SubjectName,
        lifetime: TokenLifetime,
    ) -> Result<IssuedToken, Failure> {
        let ttl_ms = self.raft().read(|machine| machine.token_policy().ttl_ms(lifetime));
        let expires_at = ttl_ms.map(|ttl| self.stamp_after(Duration::from_millis(ttl)));
        Ok(IssuedToken { token: AccessTokenSecret::generate()?, subject, expires_at })
    }

    pub(crate) fn stamp_after(&self, duration: Duration) -> Stamp {
        Stamp(self.log_time().0.saturating_add(millis(duration)))
    }
}

impl IssuedToken {
    /// The part that the cluster keeps.
    fn replicated(&self) -> NewAccessToken {
        let Self { token, expires_at, .. } = self;
        NewAccessToken { id: token.id, hash: token.hash(), expires_at: *expires_at }
    }
}

/// The change in the audit log.
fn shown(change: &AuthChange) -> String {
    match change {
        AuthChange::AddAdministrator { subject, token, .. } => {
            format!("add the administrator {subject} with the access token {}", token.id)
        }
        AuthChange::SetRole { role, permissions } => {
            let permissions: Vec<_> = permissions.iter().map(Permission::to_string).collect();
            format!("set the role {role}: {}", permissions.join(", "))
        }
        AuthChange::DeleteRole { role } => format!("delete the role {role}"),
        AuthChange::SetSubject { subject, roles, .. } => {
            let roles: Vec<_> = roles.iter().map(RoleName::as_str).collect();
            format!("set the subject {subject} with the roles {}", roles.join(", "))
        }
        AuthChange::DeleteSubject { subject } => format!("delete the subject {subject}"),
        AuthChange::AddToken { subject, token } => {
            format!("add the access token {} of {subject}", token.id)
        }
        AuthChange::RotateToken { old, token, .. } => {
            format!("replace the access token {old} by {}", token.id)
        }
        AuthChange::DeleteToken { token } => format!("delete the access token {token}"),
        AuthChange::SetMode(mode) => format!("set the mode {}", mode.as_str()),
        AuthChange::DenyCertificate { certificate, reason } => {
            format!("deny the certificate {certificate}: {reason}")
        }
        AuthChange::AllowCertificate { certificate } => {
            format!("allow the certificate {certificate}")
        }
        AuthChange::SetTokenPolicy(TokenPolicy { default_ttl_ms, max_ttl_ms }) => format!(
            "set the lifetimes of access tokens: default {default_ttl_ms:?} ms, maximum {max_ttl_ms:?} ms"
        ),
        AuthChange::SetNamespace { namespace, quotas } => {
            format!("set the namespace {namespace}: {}", shown_quotas(quotas))
        }
        AuthChange::SetQuotas { subject: Some(subject), quotas } => {
            format!("set the quotas of {subject}: {}", shown_quotas(quotas))
        }
        AuthChange::SetQuotas { subject: None, quotas } => {
            format!("set the default quotas of subjects: {}", shown_quotas(quotas))
        }
        AuthChange::DeleteNamespace { namespace } => format!("delete the namespace {namespace}"),
    }
}

fn shown_quotas(quotas: &Quotas) -> String {
    let quotas = quotas.0.iter().map(|(quota, limit)| format!("{quota} {limit}"));
    quotas.collect::<Vec<_>>().join(", ")
}
