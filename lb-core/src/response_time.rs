//! One response time out of several monitors.

use gslb_types::Rtt;

/// The arithmetic mean of the monitors' response times (behaviour 5, [S-LRTM]), in whole microseconds; `None` while no
/// monitor has one.
///
/// A monitor without a response time yet is left out rather than waited for: what the others measured is true already.
pub fn mean(times: impl IntoIterator<Item = Option<Rtt>>) -> Option<Rtt> {
    let known = times.into_iter().flatten();
    let (sum, count) =
        known.fold((0u64, 0u64), |(sum, n), t| (sum.saturating_add(t.as_micros().into()), n + 1));
    let micros = sum.checked_div(count)?;
    Some(Rtt::from_micros(u32::try_from(micros).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u32) -> Option<Rtt> {
        Some(Rtt::from_micros(n))
    }

    #[test]
    fn several_monitors_make_their_mean() {
        assert_eq!(mean([us(10), us(20), us(60)]), us(30));
        assert_eq!(mean([us(1), us(2)]), us(1));
        assert_eq!(mean([Some(Rtt::MAX); 1_000]), Some(Rtt::MAX));
    }

    #[test]
    fn a_monitor_not_measured_yet_counts_neither_as_zero_nor_as_a_reason_to_wait() {
        assert_eq!(mean([us(10), None]), us(10));
        assert_eq!(mean([None, None]), None);
        assert_eq!(mean([]), None);
    }
}
