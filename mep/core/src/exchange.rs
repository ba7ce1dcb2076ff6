//! What passes within a session: frames in, frames out.

use crate::carrier::ConnId;
use crate::mep::{Mep, Timer, queues};
use crate::outbox::{Part, Step};
use crate::output::{DownReason, Output};
use crate::peer::Session;
use crate::proto;
use crate::values::{RttRow, Sighting, Values};
use crate::wire::{self, Incoming, Refusal, Word};
use bytes::Bytes;
use gslb_types::{Ldns, Timestamp};
use std::time::Duration;

/// Steps taken for one peer before others have their turn; each looks up about a chunk at most.
const MOST_STEPS: usize = 16;

/// The others' turn.
const BREATH: Duration = Duration::from_millis(1);

impl Mep {
    /// Takes a frame.
    pub(crate) fn received(&mut self, now: Timestamp, conn: ConnId, bytes: Bytes) {
        let Some(place) = self.conns.get(&conn).copied() else { return };
        let length = bytes.len();
        let status = &mut self.peers[place].status;
        status.frames_in += 1;
        status.bytes_in += length as u64;
        match wire::decode(bytes) {
            Some(frame) if self.peers[place].has_session_on(conn) => {
                self.word_arrived(now, place, frame, length);
            }
            Some(frame) => self.first_word_arrived(now, place, conn, frame, length),
            None if self.peers[place].has_session_on(conn) => self.garbage_arrived(now, place, length),
            None => self.refuse(now, place, conn, &Refusal::NoHello),
        }
    }

    pub(crate) fn path_rtt(&mut self, conn: ConnId, rtt: Duration) {
        if let Some(place) = self.conns.get(&conn).copied() {
            self.peers[place].status.path_rtt = Some(rtt);
        }
    }

    /// Sends what is due, as far as there is room.
    pub(crate) fn pump(&mut self, now: Timestamp, place: usize, values: &dyn Values) {
        self.say_of_the_mesh(now, place);
        let is_done = self.take_steps(now, place, values);
        let Some(session) = self.peers[place].session.as_ref() else { return };
        let more = (!is_done).then_some(now + BREATH);
        let next = session.queue.next_at().into_iter().chain(more).min().filter(|_| session.link.has_room());
        if session.link.owes_acknowledgement() {
            self.keep_alive(now, place);
        }
        if let Some(next) = next {
            self.set_no_later(Timer::Pump(place), next);
        }
    }

    /// Takes so many steps at most. Returns whether nothing is due any longer, or there is no room for more.
    fn take_steps(&mut self, now: Timestamp, place: usize, values: &dyn Values) -> bool {
        for _ in 0..MOST_STEPS {
            let Some(session) = self.peers[place].session.as_mut() else { return true };
            if !session.link.has_room() {
                return true;
            }
            match self.outbox.next(now, &mut session.queue, values) {
                Step::Idle => return true,
                Step::Went(parts) => parts.iter().for_each(|part| self.say(now, place, part)),
            }
        }
        false
    }

    /// Sends what is not read from the table: links, whom it is to relay, whether it is to tell all once more.
    fn say_of_the_mesh(&mut self, now: Timestamp, place: usize) {
        let Some(session) = self.peers[place].session.as_mut().filter(|s| s.link.has_room()) else { return };
        let request = std::mem::take(&mut session.request_due)
            .then(|| Part::new(wire::relay_request(session.requested.iter())));
        let snapshot = std::mem::take(&mut session.snapshot_wanted)
            .then(|| Part::new(proto::frame::Body::SnapshotRequest(proto::SnapshotRequest {})));
        let links = std::mem::take(&mut session.links_due).then(|| self.links(now));
        let is_request = request.is_some();
        for part in [links, snapshot, request].into_iter().flatten() {
            self.say(now, place, &part);
        }
        if let Some(session) = self.peers[place].session.as_mut().filter(|_| is_request) {
            session.request_number = session.link.sent;
        }
    }

    /// Sends a word for the sake of it.
    pub(crate) fn keep_alive(&mut self, now: Timestamp, place: usize) {
        self.say(now, place, &Part::new(proto::frame::Body::Keepalive(proto::Keepalive {})));
    }

    pub(crate) fn say(&mut self, now: Timestamp, place: usize, part: &Part) {
        let peer = &mut self.peers[place];
        let Some(session) = peer.session.as_mut() else { return };
        let (command, length) = session.link.send(now, &part.body);
        if let Some(upto) = part.withdraws {
            session.queue.withdrew(session.link.sent, upto);
        }
        let status = &mut peer.status;
        status.frames_out += 1;
        status.bytes_out += length as u64;
        status.rows_out += part.rows;
        status.relayed_rows_out += part.relayed;
        if part.ends_snapshot {
            status.snapshot_out = Some(now.since(session.since));
        }
        let next = now + session.pause;
        self.command(command);
        self.timers.set(Timer::Word(place), next);
    }

    fn first_word_arrived(
        &mut self,
        now: Timestamp,
        place: usize,
        conn: ConnId,
        frame: Incoming,
        length: usize,
    ) {
        let Some(candidate) = self.peers[place].candidate(conn) else { return };
        let in_order = candidate.link.received(now, &frame, length);
        match frame.word {
            Some(Word::Hello(hello)) if in_order == Ok(true) => {
                self.peers[place].status.unknown += u64::from(frame.doubts.unknown);
                self.hello_arrived(now, place, conn, &hello);
            }
            _ => self.refuse(now, place, conn, &Refusal::NoHello),
        }
    }

    fn word_arrived(&mut self, now: Timestamp, place: usize, frame: Incoming, length: usize) {
        let Some(session) = self.peers[place].session.as_mut() else { return };
        match session.link.received(now, &frame, length) {
            Err(disorder) => return self.disordered(now, place, disorder),
            Ok(true) => {}
            Ok(false) => self.violated(now, place, 1),
        }
        self.timers.set(Timer::Silence(place), now + self.settings.keepalive);
        self.timers.set(Timer::Quiet(place), now + self.doubtful());
        self.outbox.node_word(now, &self.peers[place].id);
        if let Some(session) = self.peers[place].session.as_mut() {
            session.acknowledged(frame.ack);
        }
        let status = &mut self.peers[place].status;
        status.last_word = Some(now);
        status.hears_us = frame.heard;
        status.unknown += u64::from(frame.doubts.unknown);
        if let Some(unheard) = frame.heard.filter(|heard| *heard >= self.settings.keepalive) {
            return self.session_lost(now, place, DownReason::NotHeard(unheard));
        }
        self.heard(now, place, frame.heard);
        self.doubted(now, place, &frame);
        if let Some(word) = frame.word {
            self.understood(now, place, word);
        }
        if self.peers[place].session.as_ref().is_some_and(Session::can_go_on) {
            self.timers.set(Timer::Pump(place), now);
        }
    }

    fn understood(&mut self, now: Timestamp, place: usize, word: Word) {
        match word {
            Word::Hello(_) => self.violated(now, place, 1),
            Word::SnapshotBegin => self.snapshot_began(now, place),
            Word::SnapshotEnd => self.snapshot_ended(now, place),
            Word::Rtts(rows) => self.rtts_arrived(now, place, rows),
            Word::Sightings(sightings) => self.sightings_arrived(now, place, sightings),
            Word::Wanted(wanted) => self.asked(now, place, wanted.into_iter(), false),
            Word::Metrics { age, services } => {
                self.keep_metrics(now, now.before(age), place, &services);
                let peer = self.peers[place].id.clone();
                let site = peer.site.clone();
                self.outputs.push_back(Output::Metrics {
                    peer,
                    site,
                    age,
                    services,
                    via: None,
                    word_age: Duration::ZERO,
                });
            }
            Word::Keepalive => {}
            Word::Goodbye(reason) => self.session_lost(now, place, DownReason::Goodbye(reason)),
            Word::Links(links) => self.links_arrived(now, place, links),
            Word::RelayRequest(sites) => self.relay_requested(now, place, sites),
            Word::Relayed(relayed) => self.relayed_arrived(now, place, relayed),
            Word::SnapshotRequest => self.snapshot_asked(now, place),
            Word::Sessions(sessions) if sessions.is_empty() => {}
            Word::Sessions(sessions) => {
                let peer = self.peers[place].id.clone();
                self.outputs.push_back(Output::Sessions { peer, sessions });
            }
        }
    }

    fn snapshot_asked(&mut self, now: Timestamp, place: usize) {
        let peer = &mut self.peers[place];
        if let Some(session) = peer.session.as_mut() {
            session.queue.snapshot_again();
            peer.status.snapshot_out = None;
            self.timers.set(Timer::Pump(place), now);
        }
    }

    fn snapshot_began(&mut self, now: Timestamp, place: usize) {
        if let Some(session) = self.peers[place].session.as_mut() {
            session.snapshot_began = Some(now);
            session.synced = false;
            session.queue.wants_nothing();
        }
    }

    fn snapshot_ended(&mut self, now: Timestamp, place: usize) {
        let peer = &mut self.peers[place];
        let began = peer.session.as_mut().and_then(|session| {
            session.synced = true;
            self.outbox.wants_from_here(&mut session.queue);
            session.snapshot_began.take()
        });
        match began {
            Some(began) => {
                peer.status.snapshot_in = Some(now.since(began));
                let synced = Output::Synced { peer: peer.id.clone() };
                self.outputs.push_back(synced);
                // It can be asked to relay.
                self.timers.set(Timer::Relays, now);
            }
            None => self.violated(now, place, 1),
        }
    }

    fn rtts_arrived(&mut self, now: Timestamp, place: usize, mut rows: Vec<RttRow>) {
        for row in &mut rows {
            row.ldns = Ldns::of(row.ldns.address(), self.settings.masks);
        }
        if rows.is_empty() {
            return;
        }
        self.keep_changes(now, place, &rows);
        let peer = &mut self.peers[place];
        peer.status.rows_in += rows.len() as u64;
        let rtts = Output::Rtts {
            peer: peer.id.clone(),
            site: peer.id.site.clone(),
            rows,
            via: None,
            word_age: Duration::ZERO,
        };
        self.outputs.push_back(rtts);
    }

    /// A fresh sighting asks for values, too: the teller has none.
    fn sightings_arrived(&mut self, now: Timestamp, place: usize, sightings: Vec<Sighting>) {
        let masks = self.settings.masks;
        let fresh = sightings.iter().filter(|sighting| sighting.fresh);
        self.asked(now, place, fresh.map(|sighting| Ldns::of(sighting.address, masks)), true);
        if !sightings.is_empty() {
            let peer = self.peers[place].id.clone();
            self.outputs.push_back(Output::Sightings { peer, sightings });
        }
    }

    fn asked(&mut self, now: Timestamp, place: usize, asked: impl Iterator<Item = Ldns>, fresh: bool) {
        let peer = &mut self.peers[place];
        let Some(session) = peer.session.as_mut() else { return };
        let dropped = asked.filter(|ldns| !session.queue.asked(*ldns, fresh)).count();
        peer.status.asks_dropped += dropped as u64;
        if session.queue.len() > 0 {
            self.set_no_later(Timer::Pump(place), now);
        }
    }

    /// Tells everybody what one peer missed, with the next batch: by then they have an entry to write it into. Between turns, since
    /// it moves what the others are just being told.
    pub(crate) fn tell_missed(&mut self, now: Timestamp) {
        for ldns in self.outbox.take_missed() {
            self.outbox.rtt_missed(ldns, queues(&mut self.peers));
            self.set_no_later(Timer::Rtts, now + self.settings.rtt_interval);
        }
    }
}

impl Session {
    /// The peer has read so far: it does not relay any longer what the last request took back.
    fn acknowledged(&mut self, ack: u64) {
        self.queue.acknowledged(ack);
        self.request_read = !self.request_due && ack >= self.request_number;
        if self.request_read {
            self.released.clear();
        }
    }

    /// Whether there may be something to send that waited for room, or an acknowledgement to give.
    fn can_go_on(&self) -> bool {
        let of_the_mesh = self.links_due || self.request_due || self.snapshot_wanted;
        self.link.owes_acknowledgement()
            || (self.link.has_room() && (of_the_mesh || self.queue.has_waiting()))
    }
}
