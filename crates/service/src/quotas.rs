//! The quotas of subjects and namespaces: their limits in the state ([`QuotaKind`]), and the limits of the caller on this node:
//! calls a second, connections and event streams, which each node counts for itself. Renewals of sessions are never limited.
//! Bound: one count for each subject with a connection or stream.

pub(crate) mod local_uses;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use holdfast_machine::Machine;
use holdfast_types::{
    Actor, AuthRejection, NamespaceName, QuotaFull, QuotaKind, QuotaOwner, Quotas, Rejection,
    Right, SubjectName,
};

use self::local_uses::{ConnectionPlace, LocalUse};
use crate::request::{Failure, ReadMode, Response};
use crate::service::Service;

/// How long the refusal of a call takes.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);
/// The shortest time between two tries of a call that waits for the rate.
const RETRY_MIN: Duration = Duration::from_millis(10);

/// The limits of a subject in effect, and what it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectLimits {
    /// `None` for the defaults.
    pub subject: Option<SubjectName>,
    pub limits: BTreeMap<QuotaKind, u64>,
    /// The connections and streams are those of this node.
    pub used: BTreeMap<QuotaKind, u64>,
}

impl Service {
    /// Counts a connection or a stream of the caller. `None` for a caller without a credential, which has no limit.
    ///
    /// # Errors
    /// [`Failure::CallerLimited`].
    pub fn count_use(&self, quota: QuotaKind) -> Result<Option<LocalUse>, Failure> {
        if self.has_no_limit() {
            return Ok(None);
        }
        let limited = self.raft().read(|machine| {
            let subject = self.subject_in(machine)?;
            Some((subject.clone(), machine.subject_limit(subject, quota).unwrap_or(u64::MAX)))
        });
        let Some((subject, limit)) = limited else { return Ok(None) };
        let taken = self.parts.local_uses.take((subject.clone(), quota), limit);
        taken.map(Some).map_err(|used| {
            let full = QuotaFull { owner: QuotaOwner::Subject(subject), quota, limit, used };
            Failure::CallerLimited(Box::new(full))
        })
    }

    /// Counts a connection for its latest caller.
    ///
    /// # Errors
    /// As [`Service::count_use`].
    pub fn count_connection(&self, place: &ConnectionPlace) -> Result<(), Failure> {
        let mut place = place.0.lock();
        if place.as_ref().is_some_and(|(actor, _)| actor == self.actor()) {
            return Ok(());
        }
        *place = None;
        let counted = self.count_use(QuotaKind::Connections)?;
        *place = Some((self.actor().clone(), counted));
        Ok(())
    }

    /// The limits of a subject, or the default ones, and what it uses. A subject may read its own without a permission.
    ///
    /// # Errors
    /// [`AuthRejection::NoSubject`]; [`AuthRejection::Forbidden`] without the right to read; otherwise the errors of any
    /// read.
    pub async fn subject_limits(
        &self,
        subject: Option<SubjectName>,
    ) -> Result<Response<SubjectLimits>, Failure> {
        self.read(ReadMode::Linearizable, |machine| {
            let caller = self.subject_in(machine);
            if caller.is_none() || caller != subject.as_ref() {
                self.check(machine, Right::AuthRead, "")?;
            }
            match subject {
                Some(subject) if machine.subject(&subject).is_none() => {
                    Err(Rejection::from(AuthRejection::NoSubject { subject }))
                }
                subject => Ok(self.limits_of(machine, subject.as_ref())),
            }
        })
        .await
    }

    fn limits_of(&self, machine: &Machine, subject: Option<&SubjectName>) -> SubjectLimits {
        let mut limits = SubjectLimits { subject: subject.cloned(), ..SubjectLimits::default() };
        for quota in QuotaKind::OF_SUBJECT {
            let limit = match subject {
                Some(subject) => machine.subject_limit(subject, quota),
                None => machine.default_subject_limit(quota),
            };
            limits.limits.extend(limit.map(|limit| (quota, limit)));
            let Some(subject) = subject else { continue };
            let is_local = matches!(quota, QuotaKind::Streams | QuotaKind::Connections);
            let local = is_local.then(|| self.parts.local_uses.used(subject, quota));
            let used = local.or_else(|| machine.subject_used(subject, quota));
            limits.used.extend(used.map(|used| (quota, used)));
        }
        limits
    }

    /// As [`Service::count_call`], but the refusal takes 100 ms. So a caller that does not wait for
    /// `retry_after` costs the node little.
    ///
    /// # Errors
    /// As [`Service::count_call`].
    pub async fn count_call_slowly(&self) -> Result<(), Failure> {
        let counted = self.count_call();
        if counted.is_err() {
            tokio::time::sleep(REFUSAL_DELAY).await;
        }
        counted
    }

    /// Counts a call of the caller and of its namespace.
    ///
    /// # Errors
    /// [`Failure::RateLimited`] above the rate.
    pub fn count_call(&self) -> Result<(), Failure> {
        if self.has_no_limit() {
            return Ok(());
        }
        self.count_for(&mut Vec::new())
    }

    /// Counts a call of the owners that have not counted it, and adds them.
    fn count_for(&self, counted: &mut Vec<QuotaOwner>) -> Result<(), Failure> {
        let rates = self.raft().read(|machine| self.rates(machine));
        for (owner, limit) in rates.into_iter().flatten() {
            if counted.contains(&owner) {
                continue;
            }
            if let Err(retry_after) = self.parts.call_rates.count(&owner, limit) {
                self.metrics().calls_limited(&owner).inc();
                return Err(Failure::RateLimited { owner, limit, retry_after });
            }
            counted.push(owner);
        }
        Ok(())
    }

    /// Waits until the rates of the caller and of its namespace allow a call. Each of them counts it once.
    pub async fn wait_for_call(&self) {
        let mut counted = Vec::new();
        while !self.has_no_limit()
            && let Err(Failure::RateLimited { retry_after, .. }) = self.count_for(&mut counted)
        {
            tokio::time::sleep(retry_after.max(RETRY_MIN)).await;
        }
    }

    /// Nodes and callers without a credential have no limit.
    fn has_no_limit(&self) -> bool {
        matches!(self.actor(), Actor::Node | Actor::Anonymous)
    }

    /// The rates of the caller and of its namespace, if they have any.
    fn rates(&self, machine: &Machine) -> [Option<(QuotaOwner, NonZeroU32)>; 2] {
        let Some(subject) = self.subject_in(machine) else { return [None, None] };
        let namespace = machine.namespace_of(subject);
        let rate = |owner: Option<QuotaOwner>| {
            let owner = owner?;
            let rate = rate_of(machine, &owner)?;
            Some((owner, rate))
        };
        let has_rate = machine.subject_limit(subject, QuotaKind::CallsPerSecond).is_some();
        [
            rate(has_rate.then(|| QuotaOwner::Subject(subject.clone()))),
            rate(namespace.map(|namespace| QuotaOwner::Namespace(namespace.clone()))),
        ]
    }
}

/// The calls per second of an owner.
pub(crate) fn rate_of(machine: &Machine, owner: &QuotaOwner) -> Option<NonZeroU32> {
    let quota = QuotaKind::CallsPerSecond;
    let limit = match owner {
        QuotaOwner::Namespace(namespace) => machine.namespace_quotas(namespace)?.get(quota)?,
        QuotaOwner::Subject(subject) => machine.subject_limit(subject, quota)?,
    };
    NonZeroU32::new(u32::try_from(limit).ok()?)
}

/// A namespace at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    pub namespace: NamespaceName,
    pub quotas: Quotas,
    pub used: BTreeMap<QuotaKind, u64>,
}

impl Service {
    /// The namespaces, by name.
    ///
    /// # Errors
    /// [`AuthRejection::Forbidden`] without the right to read; otherwise the errors of any read.
    pub async fn namespaces(&self) -> Result<Response<Vec<NamespaceView>>, Failure> {
        self.read(ReadMode::Linearizable, |machine| {
            self.check(machine, Right::AuthRead, "")?;
            Ok(machine.namespaces().map(|(name, quotas)| view(machine, name, quotas)).collect())
        })
        .await
    }

    /// One namespace. A subject of the namespace may read it without a permission.
    ///
    /// # Errors
    /// [`AuthRejection::NoNamespace`]; otherwise as [`Service::namespaces`].
    pub async fn namespace(
        &self,
        namespace: NamespaceName,
    ) -> Result<Response<NamespaceView>, Failure> {
        self.read(ReadMode::Linearizable, |machine| {
            let subject = self.subject_in(machine);
            let own = subject.and_then(|subject| machine.namespace_of(subject));
            if own != Some(&namespace) {
                self.check(machine, Right::AuthRead, "")?;
            }
            match machine.namespace_quotas(&namespace) {
                Some(quotas) => Ok(view(machine, &namespace, quotas)),
                None => Err(Rejection::from(AuthRejection::NoNamespace { namespace })),
            }
        })
        .await
    }
}

fn view(machine: &Machine, namespace: &NamespaceName, quotas: &Quotas) -> NamespaceView {
    let used = QuotaKind::OF_NAMESPACE
        .into_iter()
        .filter_map(|quota| Some((quota, machine.namespace_used(namespace, quota)?)));
    NamespaceView { namespace: namespace.clone(), quotas: quotas.clone(), used: used.collect() }
}
