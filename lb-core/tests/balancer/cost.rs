//! What a pick costs.

use crate::fixture::{LRT, LRTM, Played, client, seconds, settings};
use gslb_types::{LbMethod, ServiceState};
use lb_core::{BalancerSettings, LocalPersistence};

/// It runs for each request under the lock of its virtual server.
#[test]
fn a_pick_allocates_nothing_whatever_the_method() {
    let persistence =
        LocalPersistence::SourceIp { mask_v4: 32, mask_v6: 128, timeout: seconds(120), cap: 100 };
    for method in [
        LRTM,
        LRT,
        LbMethod::LeastBandwidth,
        LbMethod::LeastPackets,
        LbMethod::LeastConnections,
        LbMethod::RoundRobin,
        LbMethod::SourceIpHash,
    ] {
        for persistence in [LocalPersistence::None, persistence] {
            let slow_start = seconds(60);
            let mut lb = Played::up(BalancerSettings { slow_start, persistence, ..settings(method, 64) });
            lb.health(7, ServiceState::Down);
            lb.health(7, ServiceState::Up);
            lb.serve(1);
            let mut picked = 0;
            let allocations = allocation_counter::measure(|| {
                for _ in 0..1_000 {
                    let pick = lb.lb.pick(lb.now, &client(), &[]).unwrap();
                    lb.lb.first_byte(lb.now, pick.member, crate::fixture::us(700));
                    lb.lb.traffic(lb.now, pick.member, 1_500, 1);
                    lb.lb.ended(lb.now, pick.member);
                    picked += 1;
                }
            });
            assert_eq!((picked, allocations.count_total), (1_000, 0), "{} {persistence:?}", method.as_str());
        }
    }
}
