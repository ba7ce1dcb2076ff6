//! What a peer may not do: counted, skipped, and not for long (threat T8).

use crate::link::Disorder;
use crate::mep::Mep;
use crate::output::DownReason;
use crate::wire::{Incoming, Relayed, Said, Word};
use gslb_types::Timestamp;

/// Violations in one session after which the peer is not listened to any longer (threat T8).
const MOST_VIOLATIONS: u64 = 1000;

impl Mep {
    /// Takes bytes that are no frame.
    pub(crate) fn garbage_arrived(&mut self, now: Timestamp, place: usize, length: usize) {
        let Some(session) = self.peers[place].session.as_mut() else { return };
        let disorder = session.link.received_garbage(now, length).err();
        self.violated(now, place, 1);
        if let Some(disorder) = disorder {
            self.disordered(now, place, disorder);
        }
    }

    /// Counts what is wrong with a frame.
    pub(crate) fn doubted(&mut self, now: Timestamp, place: usize, frame: &Incoming) {
        let told = match &frame.word {
            // What a relay tells is judged with what it has measured: it says both.
            Some(Word::Rtts(rows) | Word::Relayed(Relayed { said: Said::Rtts(rows), .. })) => {
                rows.iter().filter(|row| row.reach.rtt().is_some()).count() as u64
            }
            _ => 0,
        };
        let peer = &mut self.peers[place];
        peer.status.implausible_rows += frame.doubts.implausible;
        if let Some(session) = peer.session.as_mut() {
            session.values_in += told + frame.doubts.faults;
            session.implausible += frame.doubts.implausible;
            peer.status.implausible = session.implausible > session.values_in / 2;
        }
        self.violated(now, place, frame.doubts.faults);
    }

    /// Counts what was not allowed; who does it too often is left alone.
    pub(crate) fn violated(&mut self, now: Timestamp, place: usize, violations: u64) {
        let peer = &mut self.peers[place];
        peer.status.violations += violations;
        let Some(session) = peer.session.as_mut() else { return };
        session.violations += violations;
        if session.violations > MOST_VIOLATIONS {
            let reason = format!("more than {MOST_VIOLATIONS} violations");
            self.session_lost(now, place, DownReason::Misbehaved(reason));
        }
    }

    pub(crate) fn disordered(&mut self, now: Timestamp, place: usize, disorder: Disorder) {
        self.violated(now, place, 1);
        let reason = match disorder {
            Disorder::Repeated => return,
            Disorder::Gap { expected, found } => format!("frame {found} came in place of {expected}"),
            Disorder::TooMany => "too many frames in a second".to_owned(),
        };
        self.session_lost(now, place, DownReason::Misbehaved(reason));
    }
}
