//! A change reaches every peer, whatever another one asked for in the same moment.

use crate::group::Group;
use crate::net::{address, ldns, ms, secs};
use gslb_types::{Ldns, Reach, Rtt};
use mep_core::proto::{self, frame::Body};
use mep_core::{KnownLdns, Output, Values};
use std::time::Duration;

/// This site's value of one LDNS, in milliseconds.
struct Own(u32);

impl Values for Own {
    fn known(&self, of: Ldns) -> Option<KnownLdns> {
        let reach = Reach::Known(Rtt::from_micros(self.0 * 1000));
        let (seen, age) = (Duration::ZERO, Duration::ZERO);
        (of == ldns(1)).then_some(KnownLdns { ldns: of, address: address(1), seen, reach, kind: None, age })
    }

    fn known_after(&self, _: Option<Ldns>, _: usize) -> Vec<KnownLdns> {
        Vec::new()
    }
}

fn values(group: &Group, peer: &str, outputs: &[Output]) -> Vec<u32> {
    let groups = group.told(peer, outputs).into_iter().flat_map(|body| match body {
        Body::Rtts(rows) => rows.groups,
        _ => Vec::new(),
    });
    groups.flat_map(|group| group.v4_rtt_us).map(|us| us / 1000).collect()
}

/// Both hear the change in one turn, in which the first one's question moves it to the end of what is to be told.
#[test]
fn a_change_is_told_to_all_although_one_asked_for_it_when_the_last_one_was_told() {
    let mut group = Group::of(&["ber/1", "fra/1", "par/1"]);
    for peer in ["ber/1", "fra/1"] {
        group.meet(peer);
    }
    group.wait(secs(1), &Own(27));
    let now = group.now;
    group.mep.note_rtt(now, ldns(1), true);
    let fresh = proto::SightingGroup { fresh: true, v4: vec![0x0A00_0002], ..Default::default() };
    group.now += ms(6);
    group.take("ber/1", Body::Sightings(proto::Sightings { groups: vec![fresh] }));
    let outputs = group.wait(secs(7), &Own(27));
    assert_eq!(values(&group, "fra/1", &outputs), [27, 27], "the second time since others may lack it, too");
    let now = group.now;
    group.mep.note_rtt(now, ldns(1), false);
    let outputs = group.wait(secs(7), &Own(90));
    assert_eq!(["ber/1", "fra/1"].map(|peer| values(&group, peer, &outputs)), [[90], [90]]);
}
