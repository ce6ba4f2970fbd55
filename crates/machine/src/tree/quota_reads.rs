//! Reads of the quotas of subtrees. Bound: a page reads at most [`SCAN_MAX`] quotas.

use holdfast_types::{Page, SubtreeQuotaView, ZnodePath};

use crate::{Machine, SCAN_MAX};

impl Machine {
    /// The quota of a subtree, without an access check.
    pub fn subtree_quota(&self, path: &ZnodePath) -> Option<SubtreeQuotaView> {
        self.tree.quotas.get(path)
    }

    /// A page of the quotas for whose path `is_visible` holds, by path, after one. A page may be short or empty, and still
    /// have a `next`.
    pub fn subtree_quotas(
        &self,
        after: Option<&ZnodePath>,
        limit: usize,
        is_visible: impl Fn(&ZnodePath) -> bool,
    ) -> Page<SubtreeQuotaView> {
        let mut page = Page { items: Vec::new(), next: None, revision: self.revision };
        let mut last: Option<ZnodePath> = None;
        for (read, quota) in self.tree.quotas.after(after).enumerate() {
            if page.items.len() >= limit || read >= SCAN_MAX {
                page.next = last.map(|path| path.to_string());
                break;
            }
            last = Some(quota.path.clone());
            if is_visible(&quota.path) {
                page.items.push(quota);
            }
        }
        page
    }

    /// The quotas of which a soft limit is exceeded, by path.
    pub fn quotas_above_soft_limit(&self) -> impl Iterator<Item = SubtreeQuotaView> + use<'_> {
        self.tree.quotas.above_soft()
    }

    /// The quotas of which a hard limit is nearly reached, by path.
    pub fn quotas_near_hard_limit(&self) -> impl Iterator<Item = SubtreeQuotaView> + use<'_> {
        self.tree.quotas.near_hard()
    }
}
