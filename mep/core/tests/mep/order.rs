//! What a site says is in the relay's table before it is told on, however the relay's owner takes turns.

use crate::net::{address, ldns, ms, node, place_address, secs, settings};
use gslb_types::{Ldns, Reach, Rtt, SiteName, Timestamp};
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, Over};
use mep_core::proto::{self, frame::Body, relayed::What};
use mep_core::{KnownLdns, Mep, Output, Values};
use prost::Message;
use std::time::Duration;

const FRA: ConnId = ConnId(1);
const BER: ConnId = ConnId(2);

/// One LDNS, with what the owner has written into the column of ber, in milliseconds.
struct Column(u32);

impl Values for Column {
    fn known(&self, _: Ldns) -> Option<KnownLdns> {
        None
    }

    fn known_after(&self, _: Option<Ldns>, _: usize) -> Vec<KnownLdns> {
        Vec::new()
    }

    fn column(&self, _: &SiteName, of: Ldns) -> Option<KnownLdns> {
        let reach = Reach::Known(Rtt::from_micros(self.0 * 1000));
        let (seen, age) = (Duration::ZERO, Duration::ZERO);
        (of == ldns(1)).then_some(KnownLdns { ldns: of, address: address(1), seen, reach, kind: None, age })
    }

    fn column_after(&self, site: &SiteName, after: Option<Ldns>, _: usize) -> Vec<KnownLdns> {
        self.column(site, ldns(1)).filter(|known| Some(known.ldns) > after).into_iter().collect()
    }
}

/// Node par/1 between fra/1, which wants ber relayed, and ber/1.
struct Between {
    mep: Mep,
    now: Timestamp,
    seq: [u64; 2],
}

impl Between {
    fn new() -> Self {
        let now = Timestamp::from_micros(5_000_000);
        let mep = Mep::new(now, node("par/1"), 7, settings(&["fra/1", "par/1", "ber/1"]), 1);
        let mut between = Between { mep, now, seq: [0; 2] };
        for (conn, peer) in [(FRA, "fra/1"), (BER, "ber/1")] {
            let connected = CarrierEvent::Connected {
                conn,
                peer: node(peer),
                dialled: false,
                address: place_address(0),
                certificate_expires: 9,
                over: Over::Quic,
            };
            between.mep.handle_carrier(between.now, connected);
            let site = peer.split('/').next().unwrap().to_owned();
            between.take(conn, Body::Hello(proto::Hello { site, minor: 1, ..crate::refusals::hello() }));
        }
        between
    }

    fn take(&mut self, conn: ConnId, body: Body) {
        let seq = &mut self.seq[usize::from(conn == BER)];
        *seq += 1;
        let frame = proto::Frame { seq: *seq, ack: 0, heard_ms: None, body: Some(body) };
        let frame = frame.encode_to_vec().into();
        self.mep.handle_carrier(self.now, CarrierEvent::Received { conn, frame });
    }

    /// Lets the machine work without taking what comes of it.
    fn work(&mut self, column: u32) {
        self.mep.handle_timeout(self.now, &Column(column));
    }

    /// The RTTs in milliseconds that were told to fra since the last call.
    fn told(&mut self) -> Vec<u32> {
        let outputs = std::iter::from_fn(|| self.mep.poll_output());
        let frames = outputs.filter_map(|output| match output {
            Output::Carrier(CarrierCommand::Send { conn: FRA, frame }) => Some(frame),
            _ => None,
        });
        let rtts = frames.filter_map(|frame| match proto::Frame::decode(frame).unwrap().body {
            Some(Body::Relayed(proto::Relayed { what: Some(What::Rtts(rows)), .. })) => {
                Some(rows.groups[0].v4_rtt_us[0] / 1000)
            }
            _ => None,
        });
        rtts.collect()
    }
}

fn row(millis: u32) -> Body {
    let group = proto::RttGroup {
        reach: proto::Reach::Known as i32,
        v4: vec![0x0A00_0002],
        v4_rtt_us: vec![millis * 1000],
        ..Default::default()
    };
    Body::Rtts(proto::RttRows { groups: vec![group] })
}

#[test]
fn a_change_is_told_on_once_the_owner_has_taken_it() {
    let mut between = Between::new();
    between.take(FRA, Body::RelayRequest(proto::RelayRequest { sites: vec!["ber".to_owned()] }));
    between.work(27);
    between.now += ms(20);
    between.work(27);
    assert_eq!(between.told(), [27], "the walk");
    // The owner is late: the timer of the news has come before it takes them.
    between.take(BER, row(90));
    between.take(FRA, Body::Keepalive(proto::Keepalive {}));
    between.now += ms(50);
    between.work(27);
    assert_eq!(between.told(), Vec::<u32>::new(), "what the table has is no news");
    between.now += ms(50);
    between.work(90);
    assert_eq!(between.told(), [90]);
    between.now += secs(2);
    between.work(90);
    assert_eq!(between.told(), Vec::<u32>::new());
}
