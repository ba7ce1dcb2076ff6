//! What silence may do: take a site down that nobody hears, once in a hold time.

use super::Invariant;
use super::links::Links;
use crate::world::{Host, HostIndex};
use gslb_core::{Judge, Published};
use gslb_types::{ServiceState, SiteIndex, Timestamp};
use std::time::Duration;

/// How long a relay takes to be found and asked when the lines are good.
const FINDING: Duration = Duration::from_secs(2);

/// What silence did at one host, by service.
#[derive(Default)]
pub(super) struct Silence {
    services: Vec<(Fate, ServiceState)>,
}

/// A service as this node saw it last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nobody has said anything of it yet: there is nothing that could flap.
    Unheard,
    /// Silence has no part in it, since that time of the node's own if it had before.
    Spared(Option<Timestamp>),
    /// Taken down by it, at a time of the node's own.
    Taken(Timestamp),
}

impl Silence {
    /// A node has published.
    pub(super) fn published(
        &mut self,
        now: Timestamp,
        n: HostIndex,
        host: &Host,
        published: &Published,
        links: &Links,
    ) -> Result<(), (Invariant, String)> {
        self.services.resize(published.services.len(), (Fate::Unheard, ServiceState::Learning));
        let services = published.config.services.iter().zip(&published.services);
        for ((service, view), (fate, state)) in services.zip(&mut self.services) {
            let was = std::mem::replace(state, view.state);
            let is_taken = view.judge == Judge::Silence;
            let delay = published.config.mep.down_delay;
            let flap = |from: Timestamp, what: &str| {
                let apart = view.since.since(from);
                let why = format!(
                    "{} {what} {} by silence within {apart:?}, and the hold time is {delay:?}",
                    host.id(),
                    service.name
                );
                (apart < delay).then_some((Invariant::Hold, why))
            };
            match (*fate, is_taken) {
                (Fate::Unheard, true) => {}
                (Fate::Unheard, false) if view.state == ServiceState::Learning => {}
                (Fate::Unheard, false) => *fate = Fate::Spared(None),
                // It was down before, by the site's own word: nothing has changed for those who ask.
                (Fate::Spared(_), true) if was == ServiceState::Down => {
                    let site = published.sites.get(service.site.get());
                    *fate = Fate::Taken(site.and_then(|s| s.taken_down).unwrap_or(published.at));
                }
                (Fate::Spared(before), true) => {
                    *fate = Fate::Taken(view.since);
                    if let Some(broken) = before.and_then(|at| flap(at, "took down again")) {
                        return Err(broken);
                    }
                    // Without a delay there is no time to find a relay.
                    if delay >= FINDING {
                        heard_by_nobody(now, n, host, service.site, delay, links)?;
                    }
                }
                // Somebody judges it again, and finds it down as well: nothing has changed for those who ask.
                (Fate::Taken(_), false) if view.state == ServiceState::Down => *fate = Fate::Spared(None),
                (Fate::Taken(at), false) => {
                    *fate = Fate::Spared(Some(view.since));
                    if let Some(broken) = flap(at, "took back") {
                        return Err(broken);
                    }
                }
                (Fate::Taken(at), true) => {
                    let span = published.config.mep.keepalive + delay + FINDING;
                    if published.at.since(at) > span {
                        heard_by_nobody(now, n, host, service.site, span, links)?;
                    }
                }
                (Fate::Spared(_), false) => {}
            }
        }
        Ok(())
    }
}

/// A site that somebody hears whom this node hears must not be down by silence here.
fn heard_by_nobody(
    now: Timestamp,
    n: HostIndex,
    host: &Host,
    site: SiteIndex,
    span: Duration,
    links: &Links,
) -> Result<(), (Invariant, String)> {
    match links.relay(now, n, site, span) {
        None => Ok(()),
        Some(relay) => {
            let what = format!(
                "{} takes site {} for silent, and host {relay} has heard it for {span:?}",
                host.id(),
                site.get()
            );
            Err((Invariant::Relay, what))
        }
    }
}
