//! The namespaces: their quotas, what they use, and the rate of their calls to this node.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use holdfast_machine::Machine;
use holdfast_types::{
    Actor, AuthRejection, NamespaceName, NamespaceQuota, NamespaceQuotas, Rejection, Right,
};

use crate::context::{ReadMode, Response};
use crate::failure::Failure;
use crate::service::Service;

/// How long the refusal of a call takes.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);
/// The shortest time between two tries of a call that waits for the rate.
const RETRY_MIN: Duration = Duration::from_millis(10);

/// A namespace at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    pub namespace: NamespaceName,
    pub quotas: NamespaceQuotas,
    pub used: BTreeMap<NamespaceQuota, u64>,
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
        .await?
        .accepted()
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
            let rights = machine.rights_of(self.actor(), self.credential_time()).ok();
            let subject = rights.and_then(|rights| rights.subject());
            let own = subject.and_then(|subject| machine.namespace_of(subject));
            if own != Some(&namespace) {
                self.check(machine, Right::AuthRead, "")?;
            }
            match machine.namespace_quotas(&namespace) {
                Some(quotas) => Ok(view(machine, &namespace, quotas)),
                None => Err(Rejection::from(AuthRejection::NoNamespace { namespace })),
            }
        })
        .await?
        .accepted()
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

    /// Counts a call of the caller's namespace.
    ///
    /// # Errors
    /// [`Failure::RateLimited`] above the rate. The call was not counted.
    pub fn count_call(&self) -> Result<(), Failure> {
        if matches!(self.actor(), Actor::Node | Actor::Anonymous) {
            return Ok(());
        }
        let limited = self.raft().read(|machine| {
            machine.namespaces().next()?;
            let rights = machine.rights_of(self.actor(), self.credential_time()).ok()?;
            let namespace = machine.namespace_of(rights.subject()?)?;
            let limit = machine.namespace_quotas(namespace)?.get(NamespaceQuota::CallsPerSecond)?;
            Some((namespace.clone(), NonZeroU32::new(u32::try_from(limit).ok()?)?))
        });
        let Some((namespace, limit)) = limited else { return Ok(()) };
        self.parts.call_rates.count(&namespace, limit).map_err(|retry_after| {
            self.metrics().calls_limited(&namespace).inc();
            Failure::RateLimited { namespace, limit, retry_after }
        })
    }

    /// Waits until the rate of the caller's namespace allows a call, and counts it.
    pub async fn wait_for_call(&self) {
        while let Err(Failure::RateLimited { retry_after, .. }) = self.count_call() {
            tokio::time::sleep(retry_after.max(RETRY_MIN)).await;
        }
    }
}

fn view(machine: &Machine, namespace: &NamespaceName, quotas: &NamespaceQuotas) -> NamespaceView {
    let used = NamespaceQuota::ALL
        .into_iter()
        .filter_map(|quota| Some((quota, machine.namespace_used(namespace, quota)?)));
    NamespaceView { namespace: namespace.clone(), quotas: quotas.clone(), used: used.collect() }
}
