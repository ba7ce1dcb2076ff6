//! What this node finds out itself: by queries, probes and checks. And where it belongs.

use super::own_column::Advertised;
use super::{Heard, Node, Output};
use gslb_types::{Ldns, Reach, Rtt, Timestamp};
use mep_core::ServiceMetric;
use probes_core::prober::{Origin, Sighting};
use probes_core::{monitors, prober};
use std::net::IpAddr;
use std::time::Duration;

/// Refreshes of an LDNS's last-seen time are told to peers once in this part of the idle timeout.
const REFRESHES_IN_IDLE_TIMEOUT: u32 = 6;

impl Node {
    pub(super) fn sighting(&mut self, now: Timestamp, address: IpAddr, age: Duration, heard: Heard) {
        let ldns = Ldns::of(address, self.config.ldns.masks);
        let before = (heard == Heard::ByUs).then(|| self.shared.rtts.last_seen(ldns)).flatten();
        let origin = if heard == Heard::ByUs { Origin::Own } else { Origin::Peer };
        let sighting = self.prober.handle_sighting(now, address, age, origin);
        match (sighting, heard) {
            // The row is made when the prober says so (`prober_said`).
            (Sighting::Admitted, Heard::ByUs) => self.mep.note_sighting(now, address, age, true),
            // A fresh one makes the peers tell what they have; another one they may have told before there was a row.
            (Sighting::Admitted, Heard::ByPeer { fresh: false }) => self.mep.want(now, ldns),
            (Sighting::Admitted, Heard::ByPeer { fresh: true }) => {}
            (Sighting::Refreshed, heard) => {
                self.shared.rtts.sighted(ldns, now.before(age));
                let part = |t: Timestamp| t.as_micros() / self.refresh_interval();
                if heard == Heard::ByUs && before.is_none_or(|before| part(before) < part(now)) {
                    self.mep.note_sighting(now, address, age, false);
                }
            }
            (Sighting::NeverProbed | Sighting::TooOld | Sighting::TurnedAway, _) => {}
        }
    }

    /// Microseconds.
    fn refresh_interval(&self) -> u64 {
        let part = self.config.ldns.idle_timeout / REFRESHES_IN_IDLE_TIMEOUT;
        u64::try_from(part.as_micros()).unwrap_or(u64::MAX).max(1)
    }

    pub(super) fn prober_said(&mut self, now: Timestamp, output: prober::Output) {
        match output {
            prober::Output::Send(request) => self.outputs.push_back(Output::Probe(request)),
            prober::Output::Admitted { ldns, .. } => {
                self.own.admitted(ldns);
                let seen = self.prober.entry(ldns).map_or(now, |entry| entry.last_seen);
                self.shared.rtts.admitted(ldns, now, seen);
                self.look_later(now, ldns);
            }
            // A newcomer tells its values already; the prober leaves them to it within a second.
            prober::Output::Sample { ldns, .. } | prober::Output::Unreachable { ldns }
                if !self.neighbours.is_ours(ldns) => {}
            prober::Output::Sample { ldns, rtt, kind } => {
                match self.own.sample(now, ldns, rtt, kind, &self.shared.rtts) {
                    Some(advertised) => self.advertise(now, advertised),
                    None => self.stats.samples_within_tolerance += 1,
                }
                self.ask_for_missing(now, ldns);
            }
            prober::Output::Unreachable { ldns } => {
                if let Some(advertised) = self.own.unreachable(now, ldns, &self.shared.rtts) {
                    self.advertise(now, advertised);
                }
                self.ask_for_missing(now, ldns);
            }
            prober::Output::Removed { ldns, was_idle } => {
                let here = self.config.this_site();
                let row = self.shared.rtts.row(ldns).filter(|_| !was_idle);
                let is_missed = row.is_some_and(|row| row.cell(here).reach() != Reach::Pending);
                self.own.removed(ldns);
                self.shared.rtts.remove(ldns);
                // Nothing here will tell when the value changes, yet this node's words would go on confirming it (I-46).
                if is_missed {
                    self.mep.note_withdrawn(now, ldns);
                }
            }
        }
    }

    fn advertise(&mut self, now: Timestamp, advertised: Advertised) {
        self.stats.advertised += 1;
        self.mep.note_rtt(now, advertised.ldns, advertised.first);
    }

    pub(super) fn monitors_said(&mut self, now: Timestamp, output: monitors::Output) {
        match output {
            monitors::Output::Check(request) => self.outputs.push_back(Output::Check(request)),
            monitors::Output::Verdict { service, state, reason } => {
                if self.fed.note_verdict(service, state, &reason) {
                    return self.judge_fed(now, [service]);
                }
                self.health.own_verdict(now, service, state, &reason);
                self.tell_local(service);
                self.metrics_changed(now);
            }
            monitors::Output::Measured { service, mean, .. } => self.mean_is(now, service, Some(mean)),
            monitors::Output::Remeaned { service, mean } => self.mean_is(now, service, mean),
            monitors::Output::Load { service, load } => self.load_is(now, service, load),
        }
    }

    /// The response time of a service, as its monitors have it.
    fn mean_is(&mut self, now: Timestamp, service: usize, mean: Option<Rtt>) {
        if self.fed.note_response_time(service, mean) {
            return self.judge_fed(now, [service]);
        }
        self.health.own_response_time(now, service, mean);
        self.tell_local(service);
        self.metrics_moved(now);
    }

    /// The load of a service, as its monitors tell it.
    fn load_is(&mut self, now: Timestamp, service: usize, load: Option<u64>) {
        self.health.own_load(service, load);
        self.tell_local(service);
        self.metrics_moved(now);
    }

    /// Numbers of this site's services moved. That goes out with the next word of the exchange about them, so it is put together
    /// then: each check of each service brings a number.
    pub(super) fn metrics_moved(&mut self, now: Timestamp) {
        self.metrics_are_old = true;
        self.publish_soon(now);
    }

    /// Tells the exchange how this site's services are; that one changed its state is told at once.
    pub(super) fn metrics_changed(&mut self, now: Timestamp) {
        self.metrics_are_old = false;
        let here = self.config.this_site();
        let services = self.config.services.iter().zip(self.health.services());
        let own = services.filter(|(service, _)| service.site == here);
        // What this node itself sees: else two nodes of a site would keep a service up by each other's word.
        let metrics = own.map(|(service, judged)| {
            let state = judged.own.as_ref().map_or(judged.state, |own| own.state);
            let response_time = judged.own.as_ref().and_then(|own| own.response_time);
            let told = ServiceMetric::new(service.name.clone(), state);
            judged.own_traffic().told_in(ServiceMetric { response_time, ..told })
        });
        let metrics: Vec<_> = metrics.collect();
        self.stats.metrics_told += metrics.len() as u64;
        self.mep.set_metrics(now, metrics);
        self.publish_soon(now);
    }
}
