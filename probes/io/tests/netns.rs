//! Probes through a router that drops, rejects and lies, in network namespaces. Root only; skipped with a line otherwise.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::echo::{Echoing, LDNS_V6, Say};
use common::net::Lab;
use common::{LONG, Ldns, Running, answered, ms, rtt};
use gslb_types::HttpCheck;
use gslb_types::ProbeKind::{self, DnsTcp, DnsUdp, Ping};
use probes_core::wire::{Check, CheckOutcome, ProbeOutcome};
use probes_io::Settings;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

const LDNS_V4: &str = "10.77.2.53";
const KINDS: [ProbeKind; 3] = [Ping, DnsUdp, DnsTcp];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// One probe of each kind from the client, with these settings.
fn probe_all(lab: &Lab, settings: Settings, target: &'static str, timeout: Duration) -> Vec<ProbeOutcome> {
    lab.as_client(move || async move {
        let mut running = Running::start(settings);
        let outcomes = running.probes(&KINDS.map(|kind| (ip(target), kind, timeout))).await;
        running.stop().await;
        outcomes
    })
}

/// A host that answers DNS over UDP and accepts on TCP, port 53, in the lab's LDNS namespace.
fn serve_dns(lab: &Lab, address: &'static str) -> (Ldns, TcpListener) {
    let serve = move || {
        let at = SocketAddr::new(ip(address), 53);
        let refuse = |socket: &std::net::UdpSocket, query: &[u8], from| {
            socket.send_to(&answered(query, 5), from).unwrap();
        };
        (Ldns::start(at, refuse), TcpListener::bind(at).unwrap())
    };
    lab.inside("l", serve).join().unwrap()
}

#[test]
fn a_host_that_serves_is_measured_by_every_kind() {
    let Some(lab) = Lab::build() else { return };
    for target in [LDNS_V4, LDNS_V6] {
        let _served = serve_dns(&lab, target);
        let outcomes = probe_all(&lab, Settings::default(), target, LONG);
        assert!(
            matches!(
                outcomes[..],
                [ProbeOutcome::EchoReply(_), ProbeOutcome::DnsAnswer(_), ProbeOutcome::Connected(_)]
            ),
            "{target}: {outcomes:?}"
        );
    }
}

#[test]
fn a_host_that_serves_nothing_is_measured_by_its_refusals() {
    let Some(lab) = Lab::build() else { return };
    for target in [LDNS_V4, LDNS_V6] {
        let outcomes = probe_all(&lab, Settings::default(), target, LONG);
        assert!(
            matches!(
                outcomes[..],
                [ProbeOutcome::EchoReply(_), ProbeOutcome::PortUnreachable(_), ProbeOutcome::Reset(_)]
            ),
            "{target}: {outcomes:?}"
        );
    }
}

#[test]
fn a_router_on_the_way_does_not_measure() {
    let Some(lab) = Lab::build() else { return };
    for (target, rejects) in [
        (
            LDNS_V4,
            &[
                "icmp type host-unreachable",
                "icmp type net-unreachable",
                "icmp type admin-prohibited",
                "icmp type port-unreachable",
            ][..],
        ),
        (
            LDNS_V6,
            &[
                "icmpv6 type no-route",
                "icmpv6 type admin-prohibited",
                "icmpv6 type addr-unreachable",
                "icmpv6 type port-unreachable",
            ][..],
        ),
    ] {
        for reject in rejects {
            let family = if ip(target).is_ipv4() { "ip" } else { "ip6" };
            lab.forwards_by(&format!("{family} daddr {target} reject with {reject}"));
            let outcomes = probe_all(&lab, Settings::default(), target, LONG);
            assert_eq!(outcomes, [ProbeOutcome::RouterError; 3], "{reject}");
        }
    }
}

#[test]
fn a_ttl_that_ran_out_does_not_measure() {
    let Some(lab) = Lab::build() else { return };
    for (target, rule) in
        [(LDNS_V4, "ip ttl set 1"), (LDNS_V6, "icmpv6 type echo-request ip6 hoplimit set 1")]
    {
        lab.takes_by(rule);
        let outcome = probe_all(&lab, Settings::default(), target, LONG)[0];
        assert_eq!(outcome, ProbeOutcome::RouterError, "{rule}");
    }
    lab.takes_by("ip ttl set 1");
    let outcomes = probe_all(&lab, Settings::default(), LDNS_V4, LONG);
    assert_eq!(outcomes, [ProbeOutcome::RouterError; 3]);
}

#[test]
fn what_is_dropped_times_out() {
    let Some(lab) = Lab::build() else { return };
    for target in [LDNS_V4, LDNS_V6] {
        let family = if ip(target).is_ipv4() { "ip" } else { "ip6" };
        lab.forwards_by(&format!("{family} daddr {target} drop"));
        let outcomes = probe_all(&lab, Settings::default(), target, ms(200));
        assert_eq!(outcomes, [ProbeOutcome::TimedOut; 3], "{target}");
    }
}

#[test]
fn without_a_route_nothing_is_sent() {
    let Some(lab) = Lab::build() else { return };
    let cut = lab.inside("c", || {
        let delete = ["route", "del", "default"];
        std::process::Command::new("ip").args(delete).status().unwrap().success()
    });
    assert!(cut.join().unwrap());
    let outcomes = probe_all(&lab, Settings::default(), LDNS_V4, LONG);
    assert_eq!(outcomes, [ProbeOutcome::SendFailed; 3]);
}

#[test]
fn every_kind_leaves_from_the_configured_source() {
    let Some(lab) = Lab::build() else { return };
    for (target, rule) in [
        (LDNS_V4, "ip daddr 10.77.2.53 ip saddr != 10.77.1.3 drop"),
        (LDNS_V6, "ip6 daddr fd77:2::53 ip6 saddr != fd77:1::3 drop"),
    ] {
        lab.forwards_by(rule);
        let chosen = Settings {
            source_v4: Some(Ipv4Addr::new(10, 77, 1, 3)),
            source_v6: "fd77:1::3".parse().ok(),
            ..Settings::default()
        };
        let outcomes = probe_all(&lab, chosen, target, LONG);
        assert!(outcomes.iter().all(|o| rtt(*o).is_some()), "{target}: {outcomes:?}");
        let others = probe_all(&lab, Settings::default(), target, ms(200));
        assert_eq!(others, [ProbeOutcome::TimedOut; 3], "the rule holds for {target}");
    }
}

#[test]
fn a_check_names_what_stands_in_the_way() {
    let Some(lab) = Lab::build() else { return };
    lab.forwards_by("ip daddr 10.77.2.53 reject with icmp type admin-prohibited");
    let target = SocketAddr::new(ip(LDNS_V4), 80);
    let http = Check::Http(HttpCheck::get("/"));
    let outcomes = lab.as_client(move || async move {
        let mut running = Running::on_port(53);
        let mut outcomes = Vec::new();
        for check in [Check::Ping, Check::Tcp, http] {
            outcomes.push(running.check(target, check, LONG).await);
        }
        outcomes
    });
    let reason = CheckOutcome::Failed("administratively prohibited, says 10.77.1.1".into());
    assert_eq!(outcomes, [reason.clone(), reason.clone(), reason]);

    lab.forwards_by("ip daddr 10.77.2.53 drop");
    let outcomes = lab.as_client(move || async move {
        let mut running = Running::on_port(53);
        [running.check(target, Check::Ping, ms(200)).await, running.check(target, Check::Tcp, ms(200)).await]
    });
    let failed = |reason: &str| CheckOutcome::Failed(reason.into());
    assert_eq!(outcomes, [failed("no answer within 200ms"), failed("no connection within 200ms")]);
}

#[test]
fn a_forged_reply_or_error_is_passed_over_and_the_true_one_still_counts() {
    let Some(lab) = Lab::build() else { return };
    for (target, reply, error) in [(LDNS_V4, 0, (3, 1)), (LDNS_V6, 129, (1, 3))] {
        let _host = Echoing::start(&lab, ip(target).is_ipv4(), move |asked| {
            let mut forged = Vec::new();
            for (what, at) in
                [("identifier", 4), ("sequence", 6), ("first byte of the token", 8), ("last", 23)]
            {
                let mut icmp = asked.icmp.clone();
                assert!(icmp.len() > at, "{what}");
                icmp[at] ^= 1;
                forged.push(asked.say(ms(1), asked.error(error.0, error.1, &icmp)));
                icmp[0] = reply;
                forged.push(asked.say(ms(1), icmp));
            }
            let stranger = Say { from: ip("10.77.2.54"), ..asked.say(ms(2), asked.reply()) };
            forged.extend(asked.to.is_ipv4().then_some(stranger));
            let true_ones = [80, 81, 82].map(|after| asked.say(ms(after), asked.reply()));
            forged.into_iter().chain(true_ones).collect()
        });
        let outcomes = lab.as_client(move || async move {
            let mut running = Running::on_port(53);
            let outcomes = running.probes(&[(ip(target), Ping, LONG); 5]).await;
            running.assert_silent();
            outcomes
        });
        for outcome in outcomes {
            let ProbeOutcome::EchoReply(rtt) = outcome else { panic!("{target}: {outcome:?}") };
            assert!(rtt.as_duration() >= ms(79), "{target}: a forgery was taken, {rtt}");
        }
    }
}

#[test]
fn an_error_that_quotes_no_more_than_it_must_is_recognised() {
    let Some(lab) = Lab::build() else { return };
    let _host = Echoing::start(&lab, true, |asked| {
        vec![asked.say(ms(1), asked.error(3, 1, asked.icmp.first_chunk::<8>().unwrap()))]
    });
    let outcome = probe_all(&lab, Settings::default(), LDNS_V4, ms(2000))[0];
    assert_eq!(outcome, ProbeOutcome::RouterError);
}

#[test]
fn two_hundred_hosts_and_two_senders_keep_every_rtt_apart() {
    let Some(lab) = Lab::build() else { return };
    let hosts = Echoing::start(&lab, true, |asked| {
        let IpAddr::V4(to) = asked.to else { return Vec::new() };
        let delay = u64::from(to.octets()[3]);
        // Every reply twice, the second after its ping has ended.
        [delay, delay + 1].map(|after| asked.say(ms(after), asked.reply())).into()
    });
    // A busy machine holds up the packets themselves: of some rounds the least disturbed one shows our own error.
    let mut off = Vec::new();
    for _ in 0..20 {
        let rtts = two_hundred_twice(&lab);
        let took: Vec<_> = hosts.took.try_iter().collect();
        let mut errors: Vec<_> = rtts.iter().map(|&(host, rtt)| error(host, rtt, &took)).collect();
        errors.sort_unstable();
        off.push(errors[200]);
        if errors[200] < ms(1) {
            return;
        }
    }
    panic!("half of the RTTs are off by more than {off:?}");
}

/// Two senders' RTTs to the same 200 hosts at the same time, each told by its last octet.
fn two_hundred_twice(lab: &Lab) -> Vec<(u8, Duration)> {
    let pings: Vec<_> = (1..=200).map(|host| (IpAddr::from([10, 77, 3, host]), Ping, LONG)).collect();
    let outcomes = lab.as_client(move || async move {
        let (mut one, mut two) = (Running::on_port(53), Running::on_port(53));
        let (first, second) = tokio::join!(one.probes(&pings), two.probes(&pings));
        one.assert_silent();
        two.assert_silent();
        [first, second]
    });
    let rtts = outcomes.into_iter().flat_map(|of_one| (1..).zip(of_one));
    rtts.map(|(host, outcome)| (host, rtt(outcome).unwrap().as_duration())).collect()
}

/// How far the RTT is from what the host took for one of the two.
fn error(host: u8, rtt: Duration, took: &[(IpAddr, Duration)]) -> Duration {
    assert!(rtt >= ms(host.into()), "host {host}: {rtt:?} is another's");
    let own = took.iter().filter(|(from, _)| *from == IpAddr::from([10, 77, 3, host]));
    own.map(|(_, took)| took.abs_diff(rtt)).min().unwrap()
}

/// Set for [`unprivileged`] by the test that runs it in the lab: nowhere else may it send.
const IN_LAB: &str = "PROBES_IO_IN_LAB";

/// Runs [`unprivileged`] as nobody in the client's namespace, and returns what it printed.
fn as_nobody(lab: &Lab, capabilities: &'static str) -> Option<String> {
    let run = move || {
        let mut setpriv = std::process::Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        setpriv.arg(format!("--inh-caps={capabilities}")).arg(format!("--ambient-caps={capabilities}"));
        let test = ["--exact", "unprivileged", "--ignored", "--nocapture", "--test-threads=1"];
        setpriv.arg(std::env::current_exe().unwrap()).args(test).env(IN_LAB, "1").output()
    };
    let output = lab.inside("c", run).join().unwrap();
    let printed = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let line = printed.lines().find_map(|line| line.split_once("outcomes: "));
    if line.is_none() {
        common::skipped("this test can't be run as nobody by setpriv");
    }
    line.map(|(_, line)| line.to_owned())
}

#[test]
#[ignore = "run as nobody by the_permissions_decide_which_socket_there_is"]
fn unprivileged() {
    if std::env::var_os(IN_LAB).is_none() {
        return eprintln!("this is no test by itself");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let print = async {
        let mut running = Running::on_port(53);
        let icmp = running.io.icmp();
        let mut kinds = String::new();
        for target in [LDNS_V4, LDNS_V6] {
            for outcome in running.probes(&KINDS.map(|kind| (ip(target), kind, ms(5000)))).await {
                let text = format!("{outcome:?}");
                kinds += &format!(" {}", text.split('(').next().unwrap());
            }
        }
        let same: Vec<_> = running.probes(&[(ip(LDNS_V4), Ping, ms(5000)); 100]).await;
        let answered = same.iter().filter(|o| matches!(o, ProbeOutcome::EchoReply(_))).count();
        let check = running.check(SocketAddr::new(ip(LDNS_V4), 0), Check::Ping, ms(5000)).await;
        let check =
            if matches!(check, CheckOutcome::Passed(_)) { "Passed".into() } else { format!("{check:?}") };
        println!("outcomes: {} {}{kinds} {answered} {check}", icmp.v4, icmp.v6);
    };
    runtime.block_on(print);
}

#[test]
fn the_permissions_decide_which_socket_there_is_and_never_end_the_process() {
    const NONE: &str = "1 0";
    const ALL: &str = "0 2147483647";
    let Some(lab) = Lab::build() else { return };
    let (reply, rest) = ("EchoReply", "PortUnreachable Reset");
    let pings = format!("{reply} {rest} {reply} {rest} 100 Passed");
    let no_pings = format!("NotPermitted {rest} NotPermitted {rest} 0 NotPermitted");
    for (capabilities, range, expected) in [
        ("-all", NONE, format!("not permitted not permitted {no_pings}")),
        ("-all", ALL, format!("datagram datagram {pings}")),
        ("+net_raw", NONE, format!("raw raw {pings}")),
        ("+net_raw", ALL, format!("raw raw {pings}")),
    ] {
        lab.sysctl("c", "ipv4/ping_group_range", range);
        if let Some(printed) = as_nobody(&lab, capabilities) {
            assert_eq!(printed, expected, "{capabilities} {range}");
        }
    }
    lab.sysctl("c", "ipv4/ping_group_range", ALL);
    let errors = "RouterError RouterError RouterError";
    lab.forwards_by("meta l4proto { icmp, icmpv6, tcp, udp } reject with icmpx type admin-prohibited");
    if let Some(printed) = as_nobody(&lab, "-all") {
        let check = "Failed(\"administratively prohibited, says 10.77.1.1\")";
        assert_eq!(printed, format!("datagram datagram {errors} {errors} 0 {check}"), "errors by the queue");
    }
    lab.forwards_all();
}

#[test]
fn a_reply_is_stamped_when_it_comes_and_not_when_it_is_read() {
    let Some(lab) = Lab::build() else { return };
    let _host = Echoing::start(&lab, true, |asked| vec![asked.say(ms(60), asked.reply())]);
    let serve = || {
        Ldns::start(SocketAddr::new(ip(LDNS_V4), 53), |socket, query, from| {
            std::thread::sleep(ms(60));
            socket.send_to(&answered(query, 0), from).unwrap();
        })
    };
    let _served = lab.inside("l", serve).join().unwrap();
    let outcomes = lab.as_client(move || async move {
        let mut running = Running::on_port(53);
        // The runtime's only thread reads nothing from 20 to 320 ms, while the replies come.
        let busy = tokio::spawn(async {
            tokio::time::sleep(ms(20)).await;
            std::thread::sleep(ms(300));
        });
        let outcomes = running.probes(&[(ip(LDNS_V4), Ping, LONG), (ip(LDNS_V4), DnsUdp, LONG)]).await;
        busy.await.unwrap();
        outcomes
    });
    for outcome in outcomes {
        let rtt = rtt(outcome).unwrap().as_duration();
        assert!((ms(60)..ms(200)).contains(&rtt), "{outcome:?} has the time in it that the reply waited");
    }
}
