//! The namespaces: their quotas, and what they use.

use std::collections::BTreeMap;

use holdfast_machine::Machine;
use holdfast_types::{AuthRejection, NamespaceName, QuotaKind, Quotas, Rejection, Right};

use crate::context::{ReadMode, Response};
use crate::failure::Failure;
use crate::service::Service;

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
