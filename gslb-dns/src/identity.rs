//! Keeps this node's certificate up to date with its files, and says in time when it ends (faults I-48).

use mep_io::{Date, Identity, IdentityStatus, News};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often the files are looked at. They may be mounted from elsewhere, or be links that are pointed to another folder, of
/// which no notification tells; to look costs three system calls.
const LOOK: Duration = Duration::from_secs(3);

/// From so many days before its end a certificate is warned of: renewals come earlier, and two weeks leave time to act.
const WARN_DAYS: i64 = 14;

/// Watches the files until `stop`. Whoever has just replaced them need not wait: `asked` makes it look at once, and say what
/// it finds.
pub(crate) async fn watch(identity: Arc<Identity>, asked: Arc<Notify>, stop: CancellationToken) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut warned = None;
    loop {
        let asks = tokio::select! {
            () = stop.cancelled() => return,
            () = asked.notified() => true,
            _ = ticks.tick() => false,
        };
        let looked = identity.clone();
        // A file system that hangs must not take a thread from the runtime, nor keep the node from stopping.
        let looking = tokio::task::spawn_blocking(move || looked.refresh(asks));
        let news = tokio::select! {
            () = stop.cancelled() => return,
            news = looking => news,
        };
        let Ok(news) = news else { continue };
        match news {
            News::None => {}
            News::Renewed(subject) => {
                let expires = Date::of(subject.expires);
                let serial = subject.serial;
                tracing::info!(%expires, serial, "certificate taken: new connections to peers use it");
            }
            News::Refused(reason) => {
                tracing::warn!(
                    reason,
                    "certificate files can't be used: the certificate before them stays in use"
                );
            }
        }
        warn(&identity.status(), unix_now(), &mut warned);
    }
}

/// What the admin API tells of it.
pub(crate) fn told(identity: &Identity) -> admin::Identity {
    let status = identity.status();
    admin::Identity {
        expires: Some(status.subject.expires),
        loaded_age: Some(status.loaded.elapsed()),
        reloads: status.reloads,
        error: status.error.map(|(reason, since)| (reason, since.elapsed())),
    }
}

/// Once a day, from two weeks before the end on.
fn warn(status: &IdentityStatus, now: i64, warned: &mut Option<i64>) {
    let days_left = status.days_left(now);
    if days_left >= WARN_DAYS || *warned == Some(days_left) {
        return;
    }
    *warned = Some(days_left);
    let expires = Date::of(status.subject.expires);
    if days_left < 0 {
        tracing::error!(%expires, "this node's certificate has expired: no peer talks to it");
    } else {
        tracing::warn!(%expires, days_left, "this node's certificate expires soon");
    }
}

fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mep_io::pki::{Authority, Validity};

    const DAY: i64 = 86_400;

    /// Behaviour 4: expiry is warned of from 14 days before, and not again with every look.
    #[test]
    fn an_end_that_comes_near_is_warned_of_once_a_day() {
        let group = "test".parse().unwrap();
        let node = "fra/1".parse().unwrap();
        let now = unix_now();
        let validity = Validity { from: now - DAY, until: now + 20 * DAY };
        let pem = Authority::new(&group).unwrap().issue_for(&node, validity).unwrap();
        let status = Identity::from_pem(&pem, &group, &node).unwrap().status();
        let mut warned = None;
        let mut look = |at: i64| {
            warn(&status, at, &mut warned);
            warned
        };
        assert_eq!(look(now), None);
        assert_eq!(look(now + 6 * DAY), None, "14 days are left");
        assert_eq!(look(now + 6 * DAY + 1), Some(13));
        assert_eq!(look(now + 20 * DAY), Some(0));
        assert_eq!(look(now + 20 * DAY + 1), Some(-1));
    }
}
