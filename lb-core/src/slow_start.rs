//! Slow start: a metric method begins with round robin.
//!
//! A service that has just come has no open transactions and no traffic, so every metric method would send it everything at
//! once. Instead the whole virtual server goes round for a while.
//!
//! ```text
//!            method changed, service bound, enabled or DOWN -> UP
//!           +------------------------------------------------------+
//!           v                                                      |
//!      [ Starting ] --- factor x services requests later ---> [ Settled ]
//! ```

use gslb_types::LbMethod;
use std::num::NonZeroU64;

/// How many requests per service go round before the method takes over, unless configured (behaviour 5).
pub const STARTUP_RR_FACTOR: u32 = 100;

/// Whether a virtual server still goes round before its metric method takes over.
///
/// Counts `startup_rr_factor` requests per service over all services together: with equal weights each gets exactly that
/// many, and a service of small weight does not hold the others back until its own hundredth request. A factor of 0
/// switches slow start off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStart {
    factor: u32,
    /// Services that take part.
    services: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Goes round for so many more requests.
    Starting { left: NonZeroU64 },
    /// The method decides.
    Settled,
}

impl SlowStart {
    /// A virtual server without services.
    pub const fn new(factor: u32) -> Self {
        SlowStart { factor, services: 0, state: State::Settled }
    }

    /// A service takes part from now on: it was bound, enabled, or came UP. All go round again.
    pub fn handle_service_joined(&mut self) {
        self.services = self.services.saturating_add(1);
        self.restart();
    }

    /// A service takes part no longer: it was unbound, disabled, or went DOWN. The rest need no more rounds for it.
    pub fn handle_service_left(&mut self) {
        self.services = self.services.saturating_sub(1);
        self.trim();
    }

    /// Another method decides from now on; its metrics may say nothing yet.
    pub fn handle_method_changed(&mut self) {
        self.restart();
    }

    /// So many requests per service from now on; a slow start under way lasts no longer than it would with them.
    pub fn handle_factor(&mut self, factor: u32) {
        self.factor = factor;
        self.trim();
    }

    /// A request was given to some service.
    pub fn handle_request(&mut self) {
        if let State::Starting { left } = self.state {
            self.state = State::after(left.get() - 1);
        }
    }

    /// Whether the virtual server goes round at this moment.
    pub fn is_starting(&self) -> bool {
        self.state != State::Settled
    }

    /// How many requests still go round.
    pub const fn left(&self) -> u64 {
        match self.state {
            State::Starting { left } => left.get(),
            State::Settled => 0,
        }
    }

    /// The method to choose the next service by, where `configured` is the virtual server's own.
    pub fn method(&self, configured: LbMethod) -> LbMethod {
        match configured {
            LbMethod::RoundRobin | LbMethod::SourceIpHash => configured,
            LbMethod::LeastResponseTimeMonitors
            | LbMethod::LeastResponseTime
            | LbMethod::LeastBandwidth
            | LbMethod::LeastPackets
            | LbMethod::LeastConnections
            | LbMethod::CustomLoad => {
                if self.is_starting() {
                    LbMethod::RoundRobin
                } else {
                    configured
                }
            }
        }
    }

    fn trim(&mut self) {
        if let State::Starting { left } = self.state {
            self.state = State::after(left.get().min(self.budget()));
        }
    }

    fn restart(&mut self) {
        self.state = State::after(self.budget());
    }

    fn budget(&self) -> u64 {
        u64::from(self.factor).saturating_mul(self.services as u64)
    }
}

impl State {
    fn after(left: u64) -> Self {
        NonZeroU64::new(left).map_or(State::Settled, |left| State::Starting { left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LRT: LbMethod = LbMethod::LeastResponseTime;

    fn with(factor: u32, services: usize) -> SlowStart {
        let mut slow = SlowStart::new(factor);
        for _ in 0..services {
            slow.handle_service_joined();
        }
        slow
    }

    fn requests(slow: &mut SlowStart, n: usize) {
        for _ in 0..n {
            slow.handle_request();
        }
    }

    #[test]
    fn it_lasts_the_factor_for_each_service_and_not_one_request_longer() {
        let mut slow = with(STARTUP_RR_FACTOR, 3);
        requests(&mut slow, 299);
        assert_eq!(slow.method(LRT), LbMethod::RoundRobin);
        requests(&mut slow, 1);
        assert_eq!(slow.method(LRT), LRT);
    }

    #[test]
    fn a_service_that_comes_back_and_a_new_method_start_it_again() {
        let mut slow = with(10, 2);
        requests(&mut slow, 20);
        slow.handle_method_changed();
        requests(&mut slow, 19);
        assert!(slow.is_starting());
        requests(&mut slow, 1);
        assert!(!slow.is_starting());

        slow.handle_service_left();
        assert!(!slow.is_starting());
        slow.handle_service_joined();
        requests(&mut slow, 19);
        assert!(slow.is_starting());
    }

    #[test]
    fn a_service_that_leaves_takes_its_rounds_along() {
        let mut slow = with(10, 3);
        slow.handle_service_left();
        requests(&mut slow, 20);
        assert!(!slow.is_starting());
    }

    #[test]
    fn no_services_and_no_factor_mean_no_slow_start() {
        assert!(!with(0, 5).is_starting());
        assert!(!with(100, 0).is_starting());
        let mut gone = with(100, 1);
        gone.handle_service_left();
        gone.handle_service_left();
        assert!(!gone.is_starting());
    }

    #[test]
    fn round_robin_and_hash_have_nothing_to_learn() {
        let slow = with(100, 2);
        assert_eq!(slow.method(LbMethod::SourceIpHash), LbMethod::SourceIpHash);
        assert_eq!(slow.method(LbMethod::RoundRobin), LbMethod::RoundRobin);
    }
}
