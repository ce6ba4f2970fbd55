//! Who calls, and what the caller may do: the checks of this node before a read or a proposal.
//!
//! The rules are those of the state machine ([`ActorRights`]). `apply` checks each command again. A denied command is checked
//! a second time after a read barrier, because this node may not have applied a new role or access token yet.

use std::borrow::Cow;

use holdfast_machine::{ActorRights, Machine};
use holdfast_types::{
    AccessTokenId, Actor, AuthChange, AuthMode, AuthRejection, CertificateName, Command, Identity,
    Multi, NameError, NumberedCall, Rejection, Right, SecretHash, SessionName, SessionScope, Stamp,
    SubjectName, ZnodePath,
};
use tokio::sync::watch;

use crate::auth::access_token::AccessTokenSecret;
use crate::request::{Failure, Principal, RequestContext};
use crate::service::Service;

impl Service {
    /// The service for one call.
    #[must_use]
    pub fn for_call(&self, context: RequestContext) -> Self {
        Self { parts: self.parts.clone(), context: context.into(), call: None }
    }

    /// The service for a numbered call: each change is executed once.
    #[must_use]
    pub fn once(&self, call: NumberedCall) -> Self {
        Self { call: Some(call.into()), ..self.clone() }
    }

    pub fn is_numbered(&self) -> bool {
        self.call.is_some()
    }

    /// The service for the further changes of a numbered call, which have names of their own.
    pub(crate) fn without_number(&self) -> Self {
        Self { call: None, ..self.clone() }
    }

    /// The service for another caller of the same request.
    #[must_use]
    pub fn for_principal(&self, principal: Principal) -> Self {
        self.for_call(RequestContext { principal, request_id: self.context.request_id.clone() })
    }

    /// The service for work of this node itself, which needs no permission.
    pub(crate) fn as_node(&self) -> Self {
        self.for_principal(Principal::of(Actor::Node))
    }

    pub(crate) fn actor(&self) -> &Actor {
        &self.context.principal.actor
    }

    pub(crate) fn identities(&self) -> &[Identity] {
        &self.context.principal.identities
    }

    /// The identities of the caller for the access list of a path: also [`Identity::superuser`] with the permission
    /// `tree admin`.
    pub(crate) fn identities_on(&self, machine: &Machine, path: &ZnodePath) -> Cow<'_, [Identity]> {
        let is_superuser = || self.rights(machine)?.check(Right::TreeAdmin, path.as_str());
        let mut identities = Cow::Borrowed(self.identities());
        if *self.actor() != Actor::Node && is_superuser().is_ok() {
            identities.to_mut().push(Identity::superuser());
        }
        identities
    }

    /// The command with the identities of the caller: also [`Identity::superuser`] if the caller has the permission
    /// `tree admin` on every path of the multi.
    pub(crate) fn identified(&self, mut multi: Multi) -> Command {
        multi.caller.identities = self.identities().to_vec();
        let administers = *self.actor() != Actor::Node
            && self.raft().read(|machine| {
                self.rights(machine).is_ok_and(|rights| rights.administers(&multi))
            });
        if administers {
            multi.caller.identities.push(Identity::superuser());
        }
        Command::Multi(multi)
    }

    /// The subject of the caller, as applied by this node; `None` without a valid credential.
    pub fn subject(&self) -> Option<SubjectName> {
        self.raft().read(|machine| self.subject_in(machine).cloned())
    }

    pub(crate) fn subject_in<'a>(&'a self, machine: &'a Machine) -> Option<&'a SubjectName> {
        self.rights(machine).ok()?.subject()
    }

    pub(crate) fn rights<'a>(
        &'a self,
        machine: &'a Machine,
    ) -> Result<ActorRights<'a>, AuthRejection> {
        // The state machine sees the subject, not the certificate. So only a node that knows the latest denials names it.
        if self.context.principal.certificate.is_some() && self.raft().cannot_catch_up() {
            return Err(AuthRejection::NoCredential);
        }
        self.check_certificate(machine)?;
        machine.rights_of(self.actor(), self.credential_time())
    }

    /// The scopes of the names of the caller's sessions, as applied by this node; none without a credential.
    pub fn session_scopes(&self) -> Vec<SessionScope> {
        self.raft().read(|machine| machine.session_scopes(self.actor()))
    }

    /// The whole name of a session that the caller names.
    ///
    /// # Errors
    /// [`NameError`] if the whole name is too long.
    pub fn whole_session_name(&self, name: SessionName) -> Result<SessionName, NameError> {
        self.raft().read(|machine| machine.whole_session_name(self.actor(), name))
    }

    /// Returns the actor of an access token.
    ///
    /// # Errors
    /// [`AuthRejection::UnknownToken`] for an unknown id or a wrong secret; [`AuthRejection::TokenExpired`]; the errors of
    /// any read.
    pub async fn authenticate(&self, token: &AccessTokenSecret) -> Result<Actor, Failure> {
        let actor = Actor::Token(token.id);
        let check = |machine: &Machine| {
            // An unknown id costs the same time as a wrong secret.
            let hash =
                machine.access_token(token.id).map(holdfast_machine::AccessTokenRecord::hash);
            if !token.has_hash(hash.unwrap_or(SecretHash([0; 32]))) || hash.is_none() {
                return Err(AuthRejection::UnknownToken);
            }
            machine.rights_of(&actor, self.credential_time()).map(drop)
        };
        if self.raft().read(check).is_err() {
            self.read_barrier().await?;
            let checked = self.raft().read(|machine| {
                check(machine).inspect_err(|rejection| self.record(machine, rejection))
            });
            checked.map_err(|rejection| Failure::Rejected(rejection.into()))?;
        }
        Ok(actor)
    }

    /// The subject of an access token, as applied by this node.
    pub fn subject_of_token(&self, token: AccessTokenId) -> Option<SubjectName> {
        self.raft().read(|machine| machine.access_token(token).map(|token| token.subject.clone()))
    }

    /// The subject of an access token that the caller may delete.
    ///
    /// # Errors
    /// A rejection without the right; otherwise the errors of any read.
    pub async fn subject_to_revoke(
        &self,
        token: AccessTokenId,
    ) -> Result<Option<SubjectName>, Failure> {
        // Whether the token exists is for administrators.
        self.authorize(&Command::Auth(AuthChange::DeleteToken { token })).await?;
        self.read_barrier().await?;
        Ok(self.subject_of_token(token))
    }

    /// Returns the caller with a certificate of these names, as applied by this node. Its actor is
    /// [`Actor::Anonymous`] if no subject has one of the names.
    pub fn principal_of_certificate(&self, names: &[CertificateName]) -> Principal {
        self.raft().read(|machine| {
            let of = |name: &CertificateName| machine.subject_of_certificate(name).cloned();
            let found = names.iter().find_map(|name| Some((of(name)?, name.clone())));
            found.map_or_else(Principal::anonymous, |(subject, name)| Principal {
                certificate: Some(name),
                ..Principal::of(Actor::Subject(subject))
            })
        })
    }

    /// Whether the caller has proved a subject.
    pub fn is_known(&self) -> bool {
        *self.actor() != Actor::Anonymous
    }

    /// Whether a call needs a permission on this node.
    pub fn requires_permissions(&self) -> bool {
        self.raft().read(|machine| self.auth_mode(machine)) == AuthMode::On
    }

    /// Whether each call needs a credential on this node: the role `anonymous` may have permissions.
    pub fn requires_credential(&self) -> bool {
        self.raft().read(|machine| {
            let anonymous = machine.rights_of(&Actor::Anonymous, self.credential_time());
            self.auth_mode(machine) == AuthMode::On
                && !anonymous.is_ok_and(|rights| rights.check_caller().is_ok())
        })
    }

    /// The mode on this node: that of the cluster, or `on` if the node requires it.
    pub(crate) fn auth_mode(&self, machine: &Machine) -> AuthMode {
        if self.config().requires_authentication { AuthMode::On } else { machine.auth_mode() }
    }

    /// Checks a command before it is proposed. Changes of the authorization need a permission in every mode.
    pub(crate) async fn authorize(&self, command: &Command) -> Result<(), Failure> {
        let verdict = |machine: &Machine| self.rights(machine)?.check_command(command);
        let is_change = matches!(command, Command::Auth(_));
        let checked = self.raft().read(|machine| match self.auth_mode(machine) {
            AuthMode::Off if !is_change => Ok(()),
            AuthMode::Off | AuthMode::Shadow | AuthMode::On => verdict(machine),
        });
        if checked.is_ok() {
            return Ok(());
        }
        self.read_barrier().await?;
        let checked = self.raft().read(|machine| {
            if is_change {
                verdict(machine).inspect_err(|rejection| self.record(machine, rejection))
            } else {
                self.enforce(machine, || verdict(machine))
            }
        });
        checked.map_err(|rejection| Failure::Rejected(rejection.into()))
    }

    /// Checks, before the body of a call is read, that the caller could be allowed to make the call: it has a permission with
    /// one of the rights, on any name. Without rights, a credential suffices.
    ///
    /// # Errors
    /// [`AuthRejection`]; the errors of any read.
    pub async fn admit_caller(&self, rights: &[Right]) -> Result<(), Failure> {
        let verdict = |machine: &Machine| self.rights(machine)?.check_any_of(rights);
        let is_admitted = self
            .raft()
            .read(|machine| self.auth_mode(machine) != AuthMode::On || verdict(machine).is_ok());
        if is_admitted {
            return Ok(());
        }
        self.read_barrier().await?;
        let checked = self.raft().read(|machine| match self.auth_mode(machine) {
            // The call itself records what the mode `on` would refuse.
            AuthMode::Off | AuthMode::Shadow => Ok(()),
            AuthMode::On => self.enforce(machine, || verdict(machine)),
        });
        checked.map_err(|rejection| Failure::Rejected(rejection.into()))
    }

    /// Checks that the caller may use the session that remembers its response.
    pub(crate) async fn authorize_session(&self, session: &SessionName) -> Result<(), Failure> {
        let verdict = |machine: &Machine| {
            machine.rights_of(self.actor(), self.log_time())?.check_session(session)
        };
        let checked = |machine: &Machine| self.enforce(machine, || verdict(machine));
        if self.raft().read(checked).is_ok() {
            return Ok(());
        }
        self.read_barrier().await?;
        self.raft().read(checked).map_err(|rejection| Failure::Rejected(rejection.into()))
    }

    /// Adds the caller to a command, and the number of its call.
    pub(crate) fn signed(&self, command: Command) -> Command {
        command.once(self.call.as_deref().cloned()).by(self.actor().clone())
    }

    /// Checks a right on a name during a read.
    pub(crate) fn check(
        &self,
        machine: &Machine,
        right: Right,
        name: &str,
    ) -> Result<(), Rejection> {
        Ok(self.enforce(machine, || self.rights(machine)?.check(right, name))?)
    }

    /// Checks a right on every name that begins with `prefix`.
    pub(crate) fn check_below(
        &self,
        machine: &Machine,
        right: Right,
        prefix: &str,
    ) -> Result<(), Rejection> {
        Ok(self.enforce(machine, || self.rights(machine)?.check_below(right, prefix))?)
    }

    /// Checks a right without names, as applied by this node.
    ///
    /// # Errors
    /// [`AuthRejection::Forbidden`], [`AuthRejection::NoCredential`].
    pub fn require(&self, right: Right) -> Result<(), Failure> {
        let checked = self.raft().read(|machine| self.check(machine, right, ""));
        checked.map_err(Failure::Rejected)
    }

    /// Checks that an actor may use a session by its name.
    pub(crate) fn check_session_of(
        &self,
        machine: &Machine,
        actor: &Actor,
        session: &SessionName,
    ) -> Result<(), Rejection> {
        let verdict = || machine.rights_of(actor, self.credential_time())?.check_session(session);
        Ok(self.enforce(machine, verdict)?)
    }

    /// Checks that the caller may read a session.
    pub(crate) fn check_session_read(
        &self,
        machine: &Machine,
        session: &SessionName,
    ) -> Result<(), Rejection> {
        Ok(self.enforce(machine, || self.rights(machine)?.check_session_read(session))?)
    }

    /// The rights of the caller, for the filter of a list; `None` if the mode is not `on`. Rejects callers without a
    /// credential.
    pub(crate) fn enforced_rights<'a>(
        &'a self,
        machine: &'a Machine,
    ) -> Result<Option<ActorRights<'a>>, Rejection> {
        match self.auth_mode(machine) {
            AuthMode::Off | AuthMode::Shadow => Ok(None),
            AuthMode::On => {
                let rights = self.rights(machine)?;
                rights.check_caller()?;
                Ok(Some(rights))
            }
        }
    }

    /// Applies the mode to a verdict: in the mode `shadow` a denied call is only recorded.
    fn enforce(
        &self,
        machine: &Machine,
        verdict: impl FnOnce() -> Result<(), AuthRejection>,
    ) -> Result<(), AuthRejection> {
        match self.auth_mode(machine) {
            AuthMode::Off => Ok(()),
            AuthMode::Shadow => {
                if let Err(rejection) = verdict() {
                    self.record(machine, &rejection);
                }
                Ok(())
            }
            AuthMode::On => verdict().inspect_err(|rejection| self.record(machine, rejection)),
        }
    }

    fn record(&self, machine: &Machine, rejection: &AuthRejection) {
        self.metrics().auth_refused.inc();
        let subject = self.subject_in(machine).cloned();
        self.parts.refusals.record(rejection, subject, self.credential_time());
    }

    /// Watches the caller's access token or certificate; `None` without one.
    pub(crate) fn watch_credential(&self) -> Option<CredentialWatch> {
        match self.actor() {
            Actor::Token(_) | Actor::Subject(_) => Some(CredentialWatch {
                service: self.clone(),
                changes: self.observer().auth_changes.subscribe(),
            }),
            Actor::Node | Actor::Anonymous => None,
        }
    }

    /// Whether the access token of the caller has expired, and its subject has another one.
    pub(crate) fn has_newer_token(&self) -> bool {
        let (Actor::Token(id), now) = (self.actor(), self.credential_time()) else { return false };
        let is_valid = |expires_at: Option<Stamp>| expires_at.is_none_or(|at| at > now);
        self.raft().read(|machine| {
            let Some(expired) = machine.access_token(*id).filter(|t| !is_valid(t.expires_at))
            else {
                return false;
            };
            let mut tokens = machine.access_tokens();
            tokens.any(|(_, token)| token.subject == expired.subject && is_valid(token.expires_at))
        })
    }

    /// Rejects a caller whose certificate proves its subject no longer.
    fn check_certificate(&self, machine: &Machine) -> Result<(), AuthRejection> {
        let Principal { actor, certificate: Some(certificate), .. } = &self.context.principal
        else {
            return Ok(());
        };
        match (actor, machine.subject_of_certificate(certificate)) {
            (Actor::Subject(subject), Some(owner)) if owner == subject => Ok(()),
            _ => Err(AuthRejection::NoCredential),
        }
    }
}

/// Waits for the end of an access token or a certificate during a long call.
#[derive(Debug)]
pub(crate) struct CredentialWatch {
    service: Service,
    /// Changes with every change of the authorization.
    changes: watch::Receiver<()>,
}

impl CredentialWatch {
    /// Whether the authorization has changed since the last look.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes.has_changed().unwrap_or(true)
    }

    /// Resolves when the token is deleted or has expired, or the certificate is removed from its subject, if the mode is
    /// `on`.
    async fn ended(&mut self) -> Rejection {
        loop {
            self.changes.mark_unchanged();
            let service = &self.service;
            let now = service.credential_time();
            let expires_in = service.raft().read(|machine| {
                service.enforced_rights(machine)?;
                let Actor::Token(token) = service.actor() else { return Ok(None) };
                let expires_at = machine.access_token(*token).and_then(|token| token.expires_at);
                Ok(expires_at.map(|at| time_until(at, now)))
            });
            match expires_in {
                Err(rejection) => return rejection,
                Ok(Some(expires_in)) => {
                    let changed = self.changes.changed();
                    if let Ok(Err(_)) = tokio::time::timeout(expires_in, changed).await {
                        return std::future::pending().await;
                    }
                }
                Ok(None) => {
                    if self.changes.changed().await.is_err() {
                        return std::future::pending().await;
                    }
                }
            }
        }
    }
}

/// Resolves when the watched access token or certificate ends. Without one it never resolves.
pub(crate) async fn credential_ended(watched: &mut Option<CredentialWatch>) -> Rejection {
    match watched {
        Some(watched) => watched.ended().await,
        None => std::future::pending().await,
    }
}

/// At least 100 ms: the mode may be off while the token has expired, and the caller then asks again.
fn time_until(at: Stamp, now: Stamp) -> std::time::Duration {
    std::time::Duration::from_millis(at.0.saturating_sub(now.0).max(100))
}

/// Whether enforced rights allow a right on a name. `None` allows everything.
pub(crate) fn allows(rights: Option<ActorRights<'_>>, right: Right, name: &str) -> bool {
    rights.is_none_or(|rights| rights.check(right, name).is_ok())
}
