//! What a node without a log makes of its peers: found a cluster with them, join one, or wait, and for what.
//!
//! Pure: what each peer said comes in, and one step comes out. The rule behind it all: a cluster is founded only by
//! nodes of which none has ever had a log. Two exceptions to "by all members" exist, and both need an operator: the
//! absent may be left out ([`Setting::alone`]), and whoever remembers another cluster may be stopped first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use holdfast_types::{Incarnation, NodeId};

use super::roster::Roster;
use crate::wire::SurveyDto;

/// What is known of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// It answered.
    Told(SurveyDto),
    /// It knows this node's id by another data directory.
    Disowned,
    /// No answer, because.
    Silent(String),
}

/// What a node knows of itself.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) members: BTreeSet<NodeId>,
    pub(crate) roster: Option<Roster>,
    /// An operator wants a cluster without waiting for absent members.
    pub(crate) alone: bool,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask the others on this roster to agree to it; then make the first entry.
    Found(Roster),
    /// A cluster has registered this node: its roster is ours.
    Join(Roster),
    /// Nothing yet, because.
    Wait(String),
}

type Views = BTreeMap<NodeId, View>;

/// Decides.
pub(crate) fn judge(setting: &Setting, views: &Views) -> Step {
    if let Some(step) = existing_cluster(setting, views) {
        return step;
    }
    let own = setting.roster.as_ref().map(|roster| roster.founder);
    if own.is_some_and(|founder| founder != setting.incarnation) {
        return Step::Wait(format!(
            "this node agreed to the founding of a cluster and has no log yet: it waits for {} to call; if the data \
             of that node is lost, empty the data directory of this one, too",
            founder_of(setting)
        ));
    }
    if let Some(node) = promised_elsewhere(setting, views) {
        return Step::Wait(format!(
            "node {node} agreed to the founding of another cluster: a member's data was lost meanwhile; if that \
             cluster never wrote anything, empty the data directory of node {node}"
        ));
    }
    let lowest = setting.members.first() == Some(&setting.node);
    let present = present(setting, views);
    let complete = present.len() == setting.members.len();
    let enough = complete || (setting.alone && present.len() > setting.members.len() / 2);
    if (lowest || setting.alone) && enough {
        return Step::Found(Roster { founder: setting.incarnation, members: present });
    }
    Step::Wait(absent(setting, views, complete))
}

/// Somebody has a log: then there is nothing to found.
fn existing_cluster(setting: &Setting, views: &Views) -> Option<Step> {
    let mut wait = None;
    for (node, view) in views {
        match view {
            View::Told(SurveyDto {
                blank: false, knows_you: true, roster: Some(roster), ..
            }) => {
                if setting.roster.as_ref() != Some(roster) {
                    return Some(Step::Join(roster.clone()));
                }
                wait = Some(format!(
                    "a member of the cluster that has begun: waiting for its leader, beside node {node}"
                ));
            }
            View::Told(SurveyDto { blank: false, .. }) => {
                wait.get_or_insert_with(|| format!("node {node} belongs to a cluster: waiting until its leader has registered this node"));
            }
            View::Disowned => {
                return Some(Step::Wait(format!(
                    "node {node} belongs to a cluster that knows this node's id by another data directory: restore \
                     that directory, or join under a new id"
                )));
            }
            View::Told(_) | View::Silent(_) => {}
        }
    }
    wait.map(Step::Wait)
}

fn present(setting: &Setting, views: &Views) -> BTreeMap<NodeId, Incarnation> {
    let told = views.iter().filter_map(|(node, view)| match view {
        View::Told(survey) => Some((*node, survey.incarnation)),
        View::Disowned | View::Silent(_) => None,
    });
    told.chain([(setting.node, setting.incarnation)]).collect()
}

fn promised_elsewhere(setting: &Setting, views: &Views) -> Option<NodeId> {
    let found = views.iter().find(|(_, view)| match view {
        View::Told(survey) => survey.roster.as_ref().is_some_and(|roster| {
            let lowest = setting.members.first() == Some(&setting.node);
            (lowest || setting.alone) && roster.founder != setting.incarnation
        }),
        View::Disowned | View::Silent(_) => false,
    });
    found.map(|(node, _)| *node)
}

fn founder_of(setting: &Setting) -> String {
    let founder = setting.roster.as_ref().and_then(|roster| {
        let named = roster.members.iter().find(|(_, incarnation)| **incarnation == roster.founder);
        named.map(|(node, _)| *node)
    });
    founder.map_or_else(|| "its founder".to_owned(), |node| format!("node {node}"))
}

/// For whom, and what an operator can do.
fn absent(setting: &Setting, views: &Views, complete: bool) -> String {
    let lowest = setting.members.first().copied().unwrap_or(setting.node);
    if complete {
        return format!("all members are here: waiting for node {lowest} to found the cluster");
    }
    let mut text =
        "a new cluster begins when all its members have been met; waiting for".to_owned();
    for (node, view) in views {
        if let View::Silent(reason) = view {
            // Writing to a string does not fail.
            write!(text, " node {node} ({reason})").ok();
        }
    }
    text.push_str(
        ": start them; if they cannot be started, and the members never were a cluster, start one node that is here \
         with --bootstrap",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);
    const THREE: NodeId = NodeId(3);

    fn setting(node: NodeId) -> Setting {
        Setting {
            node,
            incarnation: Incarnation(node.0 * 11),
            members: BTreeSet::from([ONE, TWO, THREE]),
            roster: None,
            alone: false,
        }
    }

    fn blank(node: NodeId) -> (NodeId, View) {
        let incarnation = Incarnation(node.0 * 11);
        let survey = SurveyDto { incarnation, blank: true, knows_you: false, roster: None };
        (node, View::Told(survey))
    }

    fn silent(node: NodeId) -> (NodeId, View) {
        (node, View::Silent("connection refused".into()))
    }

    fn roster(founder: NodeId, members: &[NodeId]) -> Roster {
        let member = |node: &NodeId| (*node, Incarnation(node.0 * 11));
        Roster {
            founder: Incarnation(founder.0 * 11),
            members: members.iter().map(member).collect(),
        }
    }

    fn told(node: NodeId, blank: bool, knows_you: bool, roster: Option<Roster>) -> (NodeId, View) {
        let incarnation = Incarnation(node.0 * 11);
        (node, View::Told(SurveyDto { incarnation, blank, knows_you, roster }))
    }

    #[track_caller]
    fn waits(step: Step, word: &str) {
        let Step::Wait(text) = step else { panic!("{step:?}") };
        assert!(text.contains(word), "{text}");
    }

    #[test]
    fn the_lowest_founds_when_all_are_here_and_blank() {
        let views = Views::from([blank(TWO), blank(THREE)]);
        let all = roster(ONE, &[ONE, TWO, THREE]);
        assert_eq!(judge(&setting(ONE), &views), Step::Found(all));
        let views = Views::from([blank(ONE), blank(THREE)]);
        waits(judge(&setting(TWO), &views), "node 1");
    }

    #[test]
    fn an_absent_member_is_waited_for_by_name() {
        let views = Views::from([blank(TWO), silent(THREE)]);
        waits(judge(&setting(ONE), &views), "node 3 (connection refused)");
        let views = Views::from([silent(ONE), blank(THREE)]);
        waits(judge(&setting(TWO), &views), "--bootstrap");
    }

    #[test]
    fn an_operator_may_leave_the_absent_out_but_not_a_majority() {
        let alone = |node| Setting { alone: true, ..setting(node) };
        let views = Views::from([silent(ONE), blank(THREE)]);
        assert_eq!(judge(&alone(TWO), &views), Step::Found(roster(TWO, &[TWO, THREE])));
        let views = Views::from([silent(ONE), silent(THREE)]);
        waits(judge(&alone(TWO), &views), "node 1");
    }

    /// Not even an operator founds a cluster beside one that is there.
    #[test]
    fn beside_a_node_with_a_log_nothing_is_founded() {
        for alone in [false, true] {
            let setting = Setting { alone, ..setting(ONE) };
            let views = Views::from([blank(TWO), (THREE, View::Disowned)]);
            waits(judge(&setting, &views), "another data directory");
            let data = told(THREE, false, false, Some(roster(TWO, &[TWO, THREE])));
            waits(judge(&setting, &Views::from([blank(TWO), data])), "registered");
            let promised = told(THREE, true, false, Some(roster(TWO, &[TWO, THREE])));
            waits(judge(&setting, &Views::from([blank(TWO), promised])), "node 3");
        }
    }

    #[test]
    fn a_registered_newcomer_takes_over_the_roster() {
        let founded = roster(TWO, &[TWO, THREE]);
        let views = Views::from([told(TWO, false, true, Some(founded.clone())), silent(THREE)]);
        assert_eq!(judge(&setting(ONE), &views), Step::Join(founded.clone()));
        let joined = Setting { roster: Some(founded), ..setting(ONE) };
        waits(judge(&joined, &views), "leader");
    }

    #[test]
    fn whoever_agreed_to_a_founding_waits_for_its_founder() {
        let agreed = Setting { roster: Some(roster(ONE, &[ONE, TWO, THREE])), ..setting(TWO) };
        waits(judge(&agreed, &Views::from([silent(ONE), blank(THREE)])), "node 1 to call");
        let resumed = Setting { roster: Some(roster(ONE, &[ONE, TWO])), ..setting(ONE) };
        let promised = told(TWO, true, true, Some(roster(ONE, &[ONE, TWO])));
        let all = roster(ONE, &[ONE, TWO, THREE]);
        assert_eq!(judge(&resumed, &Views::from([promised, blank(THREE)])), Step::Found(all));
    }
}
