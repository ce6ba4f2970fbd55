//! A value for each registered namespace.

use holdfast_types::NamespaceName;
use imbl::OrdMap;

/// One value for each registered namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerNamespace<T>(OrdMap<NamespaceName, T>);

impl<T> Default for PerNamespace<T> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<T: Clone + Default> PerNamespace<T> {
    pub(crate) fn get(&self, namespace: &str) -> Option<&T> {
        self.0.get(namespace)
    }

    /// `None` if the namespace is not registered.
    pub(crate) fn get_mut(&mut self, namespace: &str) -> Option<&mut T> {
        // Most clusters have no namespace, and every change of a znode comes here.
        if self.0.is_empty() { None } else { self.0.get_mut(namespace) }
    }

    pub(crate) fn set(&mut self, namespace: NamespaceName, value: T) {
        self.0.insert(namespace, value);
    }

    pub(crate) fn remove(&mut self, namespace: &NamespaceName) {
        self.0.remove(namespace);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &NamespaceName> {
        self.0.keys()
    }

    /// The same namespaces, each with the default value.
    pub(crate) fn zeroed(&self) -> Self {
        Self(self.0.keys().map(|namespace| (namespace.clone(), T::default())).collect())
    }
}
