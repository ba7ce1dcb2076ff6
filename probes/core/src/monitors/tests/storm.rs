//! Reports in any order, of anything.

use super::*;

#[test]
fn random_reports_never_break_the_machine() {
    for seed in 0..30 {
        let mut chance = Chance::new(seed);
        let services = (0..20).map(|n| service(n, (0..n as u16 % 4).map(tcp).collect())).collect();
        let mut bench = Bench::new(services);
        for _ in 0..2000 {
            match chance.up_to(5) {
                0 => {}
                1 => bench.reply(
                    &CheckRequest {
                        id: ProbeId(chance.up_to(u32::MAX).into()),
                        check: Check::Tcp.into(),
                        target: at_port(0),
                        source: None,
                        timeout: Duration::ZERO,
                    },
                    failed(),
                ),
                n => {
                    if let Some(request) = bench.checks.pop_front() {
                        let outcome = [passed(n), failed(), CheckOutcome::NotPermitted]
                            [chance.up_to(2) as usize]
                            .clone();
                        bench.reply(&request, outcome);
                    }
                }
            }
            if let Some(next) = bench.machine.poll_timeout() {
                // Not always in time, as a busy node is not.
                bench.now = bench.now.max(next) + Duration::from_millis(chance.up_to(300).into());
                bench.machine.handle_timeout(bench.now);
                bench.collect();
                assert!(bench.machine.poll_timeout() > Some(bench.now), "seed {seed}");
            }
            let state_of = |n: usize| bench.state(n);
            assert!((0..20).filter(|n| n % 4 == 0).all(|n| state_of(n) == Up), "seed {seed}");
        }
    }
}
