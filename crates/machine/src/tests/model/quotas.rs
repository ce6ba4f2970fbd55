//! The model's quotas and sweep, recounted on each call.

use holdfast_types::*;

use super::{Model, Node, quota_exceeded, znode};

impl Model {
    /// Every quota: the path of its subtree and the text of its limits.
    pub(in crate::tests) fn quotas(&self) -> Vec<(String, String)> {
        let text = |node: &Node| String::from_utf8_lossy(&node.data).into_owned();
        let limited = |node: &Node| {
            let path = node.path.strip_prefix("/zookeeper/quota")?;
            let path = path.strip_suffix("/zookeeper_limits")?;
            let path = if path.is_empty() { "/" } else { path };
            Some((path.to_owned(), text(node)))
        };
        self.nodes.iter().filter_map(limited).collect()
    }

    /// The znodes and bytes of a subtree. Znodes below `/zookeeper` do not count.
    pub(in crate::tests) fn used(&self, top: &str) -> (u64, u64) {
        let counted = |node: &&Node| {
            let zookeeper = node.path == "/zookeeper" || node.path.starts_with("/zookeeper/");
            is_inside(&node.path, top) && !zookeeper
        };
        let counted = self.nodes.iter().filter(counted);
        counted.fold((0, 0), |(count, bytes), node| (count + 1, bytes + node.data.len() as u64))
    }

    pub(super) fn room_in_quotas(
        &self,
        path: &str,
        new: &[String],
        bytes: usize,
    ) -> Result<(), Rejection> {
        if path == "/zookeeper" || path.starts_with("/zookeeper/") {
            return Ok(());
        }
        let mut quotas = self.quotas();
        quotas.sort();
        for (top, text) in quotas.iter().filter(|(top, _)| is_inside(path, top)) {
            let hard = |key: &str| limit_of(text, key);
            let (count, bytes_now) = self.used(top);
            let more = new.iter().filter(|new| is_inside(new, top)).count() as u64;
            if let Some(limit) = hard("countHardLimit=").filter(|l| more > 0 && count + more > *l) {
                return Err(quota_exceeded(top, QuotaKind::Znodes, limit, count));
            }
            let bytes = bytes as u64;
            if let Some(limit) =
                hard("byteHardLimit=").filter(|l| bytes > 0 && bytes_now + bytes > *l)
            {
                return Err(quota_exceeded(top, QuotaKind::Bytes, limit, bytes_now));
            }
        }
        Ok(())
    }

    /// The paths of the quotas of which a soft limit is exceeded, and of those of which 90 % of a hard one are used.
    pub(in crate::tests) fn raised_quotas(&self) -> [Vec<String>; 2] {
        let mut quotas = self.quotas();
        quotas.sort();
        let above = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used > limit);
        let near = |limit: Option<u64>, used: u64| {
            limit.is_some_and(|limit| limit > 0 && used * 10 >= limit * 9)
        };
        let those = |is_raised: &dyn Fn(&str, (u64, u64)) -> bool| {
            let raised = quotas.iter().filter(|(top, text)| is_raised(text, self.used(top)));
            raised.map(|(top, _)| top.clone()).collect()
        };
        [
            those(&|text, (count, bytes)| {
                above(limit_of(text, "count="), count) || above(limit_of(text, "bytes="), bytes)
            }),
            those(&|text, (count, bytes)| {
                near(limit_of(text, "countHardLimit="), count)
                    || near(limit_of(text, "byteHardLimit="), bytes)
            }),
        ]
    }

    pub(super) fn sweep(&mut self, empty_before: u64, count_max: u32) -> Reply {
        for count in 0..count_max {
            let idle = self.now.saturating_sub(empty_before);
            let unused_before = empty_before.saturating_sub(4 * idle);
            let rank = |node: &&Node| {
                let Stat { ephemeral_owner: owner, num_children, mtime, .. } = node.stat;
                // A policy set by an operator and a lock in cooldown prevent the sweep.
                let stays =
                    node.cooldown_state.is_some() || node.policy.is_some_and(|(_, kept)| kept);
                let ends = mtime.0 + (owner - TTL_OWNER).cast_unsigned();
                match owner {
                    _ if num_children > 0 || owner >= 0 || stays => None,
                    CONTAINER_OWNER if node.created > 0 => {
                        (node.emptied_at < empty_before).then_some((0, node.emptied_at))
                    }
                    CONTAINER_OWNER => {
                        (node.emptied_at < unused_before).then_some((1, node.emptied_at))
                    }
                    _ => (ends <= self.now).then_some((2, ends)),
                }
            };
            let due = self.nodes.iter().filter(|node| rank(node).is_some());
            let first = due.min_by_key(|node| (rank(node), znode(&node.path)));
            match first.map(|node| node.path.clone()) {
                Some(path) => self.remove(&path),
                None => return Reply::Swept { count },
            }
        }
        Reply::Swept { count: count_max }
    }
}

fn limit_of(text: &str, key: &str) -> Option<u64> {
    let value = text.split([',', ';']).find_map(|pair| pair.strip_prefix(key))?;
    value.trim_end_matches('=').parse().ok()
}

fn is_inside(path: &str, top: &str) -> bool {
    top == "/" || path == top || path.starts_with(&format!("{top}/"))
}
