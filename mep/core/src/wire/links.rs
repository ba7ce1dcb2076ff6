//! A node's links, as it sees them.

use super::{Allowance, Doubts, from_millis, millis};
use crate::proto::{self, frame::Body};
use crate::{LinkStatus, PeerState};
use gslb_types::{NodeId, NodeName, SiteName};

/// The body that tells these links.
pub(crate) fn links(links: &[LinkStatus]) -> Body {
    let links = links.iter().map(|link| proto::Link {
        site: link.peer.site.as_str().to_owned(),
        node: link.peer.node.as_str().to_owned(),
        state: state_to_wire(link.state) as i32,
        word_age_ms: link.word_age.map(millis),
    });
    Body::Links(proto::Links { links: links.collect() })
}

/// The links of a body; names that are none are left out and counted.
pub(super) fn read_links(told: proto::Links, doubts: &mut Doubts) -> Vec<LinkStatus> {
    if !Allowance::of_names().take(told.links.len(), doubts) {
        return Vec::new();
    }
    told.links.into_iter().filter_map(|link| read_link(&link, doubts)).collect()
}

fn read_link(link: &proto::Link, doubts: &mut Doubts) -> Option<LinkStatus> {
    let Some(peer) = node(&link.site, &link.node) else {
        doubts.faults += 1;
        return None;
    };
    let state = state_from_wire(link.state, doubts);
    Some(LinkStatus { peer, state, word_age: link.word_age_ms.map(from_millis) })
}

/// A node by its two names, if they are names.
pub(super) fn node(site: &str, node: &str) -> Option<NodeId> {
    Some(NodeId { site: SiteName::new(site).ok()?, node: NodeName::new(node).ok()? })
}

fn state_to_wire(state: PeerState) -> proto::LinkState {
    match state {
        PeerState::Connecting => proto::LinkState::Connecting,
        PeerState::Up => proto::LinkState::Up,
        PeerState::Suspect => proto::LinkState::Suspect,
        PeerState::Down => proto::LinkState::Down,
    }
}

/// A state this version does not know is never "heard" (behaviour 8).
fn state_from_wire(state: i32, doubts: &mut Doubts) -> PeerState {
    match proto::LinkState::try_from(state) {
        Ok(proto::LinkState::Connecting) => PeerState::Connecting,
        Ok(proto::LinkState::Up) => PeerState::Up,
        Ok(proto::LinkState::Suspect) => PeerState::Suspect,
        Ok(proto::LinkState::Down) => PeerState::Down,
        Ok(proto::LinkState::Unspecified) => {
            doubts.faults += 1;
            PeerState::Down
        }
        Err(_) => {
            doubts.unknown = true;
            PeerState::Down
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Word, body, decode};
    use std::time::Duration;

    #[test]
    fn links_come_out_as_they_went_in() {
        let states = [PeerState::Connecting, PeerState::Up, PeerState::Suspect, PeerState::Down];
        let told: Vec<LinkStatus> = states
            .into_iter()
            .map(|state| LinkStatus {
                peer: "fra/1".parse().unwrap(),
                state,
                word_age: (state != PeerState::Connecting).then_some(Duration::from_millis(70)),
            })
            .collect();
        let read = decode(body(links(&told))).unwrap();
        assert_eq!((read.word, read.doubts), (Some(Word::Links(told)), Doubts::default()));
    }

    #[test]
    fn a_state_this_version_does_not_know_is_no_link() {
        let link = |name: &str, state| proto::Link {
            site: name.to_owned(),
            node: "1".to_owned(),
            state,
            word_age_ms: None,
        };
        let mut doubts = Doubts::default();
        let told = proto::Links { links: vec![link("fra", 9), link("par", 0), link("\n", 2)] };
        let states: Vec<PeerState> = read_links(told, &mut doubts).iter().map(|link| link.state).collect();
        assert_eq!(states, [PeerState::Down, PeerState::Down]);
        assert_eq!(doubts, Doubts { unknown: true, faults: 2, implausible: 0 });
    }
}
