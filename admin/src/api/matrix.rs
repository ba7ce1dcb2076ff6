//! Who hears whom: what each node of the group says of its links, and which of them do not work as they should.

use super::{View, millis};
use gslb_core::{PeerState, PeerStatus};
use gslb_types::NodeId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Who hears whom: a row for each node, with what it says of its links to all the others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Matrix {
    /// A row for each node, in the order of the configuration.
    pub rows: Vec<MatrixRow>,
    /// The nodes that nobody hears: rather they are gone than every link to them.
    pub unheard: Vec<String>,
    /// The links that do not work as they should, between nodes that somebody hears.
    pub degraded: Vec<DegradedLink>,
}

/// What a node says of its links.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MatrixRow {
    /// SITE/NODE.
    pub node: String,
    /// How long ago it said so; 0 for this node, `null` for one that has not said anything.
    pub age_ms: Option<u64>,
    /// Whether it counts: of this node, or of a peer whose session stands, and not older than the keepalive.
    pub current: bool,
    /// A link to each other node, in the order of the configuration.
    pub links: Vec<Link>,
}

/// A link as one end sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// The other end.
    pub peer: String,
    /// `connecting`, `up`, `suspect` or `down`; `null` if the node has not said.
    pub state: Option<String>,
    /// How long ago this end had last heard the other one when it said so.
    pub word_age_ms: Option<u64>,
}

/// A link that does not work as it should.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DegradedLink {
    /// How it fails.
    pub kind: LinkFault,
    /// Whose words are lost.
    pub from: String,
    /// Who does not hear them.
    pub to: String,
    /// The node that relays `from`'s site to this one, if this node is one end.
    pub relay: Option<String>,
    /// For people.
    pub text: String,
}

/// How a link fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkFault {
    /// The session stands, and words are late.
    Suspect,
    /// Words get through in one direction only.
    OneWay,
    /// They do not get through at all, as far as the ends say.
    Cut,
}

/// What one end says of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Said {
    state: PeerState,
    /// How long ago the other one had been heard then.
    word_age: Option<Duration>,
    /// How long ago it was said.
    age: Duration,
}

impl Said {
    /// How long ago the last word was that is known of.
    fn since_word(&self) -> Option<Duration> {
        Some(self.word_age?.saturating_add(self.age))
    }
}

/// A row before it is written down; its links are in the order of the nodes, `None` for the node itself and where nothing
/// was said.
struct Row<'a> {
    node: &'a NodeId,
    age: Option<Duration>,
    current: bool,
    links: Vec<Option<Said>>,
}

pub(crate) fn matrix(view: &View<'_>) -> Matrix {
    let rows = rows(view);
    let unheard: Vec<bool> = (0..rows.len()).map(|index| is_unheard(view, &rows, index)).collect();
    let named = rows.iter().zip(&unheard).filter(|(_, unheard)| **unheard);
    Matrix {
        unheard: named.map(|(row, _)| row.node.to_string()).collect(),
        degraded: degraded(view, &rows, &unheard),
        rows: rows.iter().map(|row| written(row, &rows)).collect(),
    }
}

fn rows<'a>(view: &'a View<'_>) -> Vec<Row<'a>> {
    let nodes: Vec<&NodeId> = view.config().nodes.iter().map(|node| &node.id).collect();
    nodes.iter().map(|node| row(view, &nodes, node)).collect()
}

fn row<'a>(view: &View<'_>, nodes: &[&NodeId], node: &'a NodeId) -> Row<'a> {
    let none = |age, current| Row { node, age, current, links: vec![None; nodes.len()] };
    if *node == view.config().this_node().id {
        let said = |peer: &PeerStatus| Said {
            state: peer.state,
            word_age: peer.last_word.map(|then| view.age(then)),
            age: Duration::ZERO,
        };
        let links = nodes.iter().map(|to| status(view, to).map(said)).collect();
        return Row { links, ..none(Some(Duration::ZERO), true) };
    }
    let Some((peer, at)) = status(view, node).and_then(|peer| Some((peer, peer.links_at?))) else {
        return none(None, false);
    };
    let age = view.age(at);
    let said = |to: &&NodeId| {
        let link = peer.links.iter().find(|link| link.peer == **to)?;
        Some(Said { state: link.state, word_age: link.word_age, age })
    };
    let current = peer.state.has_session() && age <= view.config().mep.keepalive;
    Row { links: nodes.iter().map(said).collect(), ..none(Some(age), current) }
}

fn status<'a>(view: &'a View<'_>, node: &NodeId) -> Option<&'a PeerStatus> {
    view.published.peers.iter().find(|peer| peer.peer == *node)
}

/// Whether every node that has a say says that there is no session with this one. One that hears us and is not heard is gone
/// no more than this node is.
fn is_unheard(view: &View<'_>, rows: &[Row<'_>], index: usize) -> bool {
    let others = rows.iter().filter(|row| row.current);
    let mut said = others.filter_map(|row| row.links.get(index).copied().flatten()).peekable();
    let complains = rows.get(index).is_some_and(|row| said_not_to_hear_us(view, row.node));
    said.peek().is_some() && said.all(|said| !said.state.has_session()) && !complains
}

/// Whether the session with this peer ended because it did not hear this node.
fn said_not_to_hear_us(view: &View<'_>, node: &NodeId) -> bool {
    let last = status(view, node).and_then(|peer| peer.transitions.back());
    last.is_some_and(|last| last.to == PeerState::Down && last.kind == NOT_HEARD)
}

/// The kind of reason by which a session ends at the end that is not heard.
const NOT_HEARD: &str = "not_heard";

fn degraded(view: &View<'_>, rows: &[Row<'_>], unheard: &[bool]) -> Vec<DegradedLink> {
    let mut all = Vec::new();
    for (index, one) in rows.iter().enumerate() {
        for (later, other) in rows.iter().enumerate().skip(index + 1) {
            if ![index, later].iter().any(|end| unheard.get(*end).copied().unwrap_or(true)) {
                let says =
                    |row: &Row<'_>, of: usize| row.links.get(of).copied().flatten().filter(|_| row.current);
                let ends = [(one.node, says(one, later)), (other.node, says(other, index))];
                all.extend(link(view, ends));
            }
        }
    }
    all
}

/// What is wrong with the link between two nodes, of what each says of the other.
fn link(view: &View<'_>, ends: [(&NodeId, Option<Said>); 2]) -> Option<DegradedLink> {
    let [(one, of_other), (other, of_one)] = ends;
    let late = view.config().mep.keepalive / 2;
    let heard = |said: Said| said.state.has_session();
    match (of_other, of_one) {
        (None, None) => None,
        (Some(a), Some(b)) if heard(a) && !heard(b) => Some(one_way(view, one, other)),
        (Some(a), Some(b)) if !heard(a) && heard(b) => Some(one_way(view, other, one)),
        (Some(a), Some(b)) if !heard(a) => Some(match (a.since_word(), b.since_word()) {
            // A whole cut ends both at the same moment.
            (Some(a), Some(b)) if a.saturating_sub(b) > late => one_way(view, other, one),
            (Some(a), Some(b)) if b.saturating_sub(a) > late => one_way(view, one, other),
            _ => cut(view, one, other),
        }),
        (Some(a), None) if !heard(a) => Some(known_by_one(view, one, other)),
        (None, Some(b)) if !heard(b) => Some(known_by_one(view, other, one)),
        (a, _) if a.is_some_and(|a| a.state == PeerState::Suspect) => Some(suspect(view, other, one, a)),
        (_, b) if b.is_some_and(|b| b.state == PeerState::Suspect) => Some(suspect(view, one, other, b)),
        _ => None,
    }
}

/// `at` has no session with `from`, of which nothing is known.
fn known_by_one(view: &View<'_>, at: &NodeId, from: &NodeId) -> DegradedLink {
    let here = *at == view.config().this_node().id;
    if here && said_not_to_hear_us(view, from) { one_way(view, at, from) } else { cut(view, from, at) }
}

fn one_way(view: &View<'_>, from: &NodeId, to: &NodeId) -> DegradedLink {
    fault(view, LinkFault::OneWay, from, to, format!("{to} does not hear {from}, but {from} hears {to}"))
}

fn cut(view: &View<'_>, from: &NodeId, to: &NodeId) -> DegradedLink {
    fault(view, LinkFault::Cut, from, to, format!("{from} and {to} do not hear each other"))
}

/// `to` suspects `from`: it has not heard it for some time, or has not been heard by it.
fn suspect(view: &View<'_>, from: &NodeId, to: &NodeId, said: Option<Said>) -> DegradedLink {
    let age = said.and_then(|said| said.word_age).unwrap_or_default();
    if age < view.config().mep.keepalive / 2 {
        return fault(view, LinkFault::Suspect, to, from, format!("{from} has not heard {to} lately"));
    }
    let (seconds, tenth) = (age.as_secs(), age.subsec_millis() / 100);
    let text = format!("{to} has not heard {from} for {seconds}.{tenth} s");
    fault(view, LinkFault::Suspect, from, to, text)
}

fn fault(view: &View<'_>, kind: LinkFault, from: &NodeId, to: &NodeId, text: String) -> DegradedLink {
    let relay = [from, to].iter().find_map(|end| status(view, end)?.relay.as_ref());
    let ours = [from, to].contains(&&view.config().this_node().id);
    let relay = relay.filter(|_| ours).map(NodeId::to_string);
    let text = relay.iter().fold(text, |text, relay| format!("{text}; {relay} relays"));
    DegradedLink { kind, from: from.to_string(), to: to.to_string(), relay, text }
}

fn written(row: &Row<'_>, rows: &[Row<'_>]) -> MatrixRow {
    let ends = rows.iter().zip(&row.links).filter(|(other, _)| other.node != row.node);
    let link = |(other, said): (&Row<'_>, &Option<Said>)| Link {
        peer: other.node.to_string(),
        state: said.map(|said| said.state.as_str().to_owned()),
        word_age_ms: said.and_then(|said| said.word_age).map(millis),
    };
    MatrixRow {
        node: row.node.to_string(),
        age_ms: row.age.map(millis),
        current: row.current,
        links: ends.map(link).collect(),
    }
}
