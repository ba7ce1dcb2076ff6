//! When a packet came in.

use gslb_types::Rtt;
use std::time::{Duration, Instant, SystemTime};

/// A packet does not wait longer than this to be read, unless the wall clock was set meanwhile.
const BELIEVABLE: Duration = Duration::from_secs(10);

/// When a packet came in that is read at this moment, by the kernel's stamp if there is one.
///
/// The kernel stamps by the wall clock. Only the time since then is taken from it, so that a step of the wall clock does
/// harm only between the stamp and this call, and even then no more than to a reply read without a stamp.
pub(crate) fn arrival(stamp: Option<SystemTime>) -> Instant {
    let (wall, now) = (SystemTime::now(), Instant::now());
    let waited = stamp.and_then(|at| wall.duration_since(at).ok()).filter(|w| *w < BELIEVABLE);
    now.checked_sub(waited.unwrap_or_default()).unwrap_or(now)
}

/// The RTT between the two, 1 µs at least (faults I-37).
pub(crate) fn rtt(sent: Instant, came: Instant) -> Rtt {
    Rtt::from_duration(came.saturating_duration_since(sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(stamp: Option<SystemTime>) -> Duration {
        let before = Instant::now();
        before.saturating_duration_since(arrival(stamp))
    }

    #[test]
    fn the_time_a_packet_waited_to_be_read_does_not_count() {
        let stamp = SystemTime::now() - Duration::from_millis(300);
        let waited = waited(Some(stamp));
        assert!((Duration::from_millis(250)..Duration::from_millis(301)).contains(&waited), "{waited:?}");
    }

    #[test]
    fn a_stamp_of_a_clock_that_was_set_is_not_believed() {
        let hour = Duration::from_secs(3600);
        assert_eq!(waited(Some(SystemTime::now() + hour)), Duration::ZERO);
        assert_eq!(waited(Some(SystemTime::now() - hour)), Duration::ZERO);
        assert_eq!(waited(None), Duration::ZERO);
    }

    #[test]
    fn a_reply_that_took_no_time_is_a_sample_of_a_microsecond() {
        let now = Instant::now();
        assert_eq!(rtt(now, now), Rtt::MIN);
        assert_eq!(rtt(now + Duration::from_micros(5), now), Rtt::MIN);
    }
}
