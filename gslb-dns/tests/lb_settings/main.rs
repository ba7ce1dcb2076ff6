//! Each setting of `[[lb_vservers]]`, from the text of the configuration to what clients and services of a running node see
//! (behaviour 5, faults I-72).
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../process/mod.rs"]
mod process;
mod scene;

use scene::{SOON, Scene, Service, ask, until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Two services, the second of which is slow to be checked.
fn pair() -> [Service; 2] {
    [Service::start("s1", Duration::from_millis(20)), Service::start("s2", Duration::from_millis(400))]
}

fn addresses(services: &[Service]) -> Vec<SocketAddr> {
    services.iter().map(|service| service.address).collect()
}

const BOTH: &str = "services = [\"s1\", \"s2\"]\n";

/// [S-LRTM] in a whole node: real monitors measure, real requests are held, and N decides.
#[test]
fn what_monitors_measure_steers_real_requests() {
    let services = pair();
    let scene = Scene::start(
        &addresses(&services),
        &format!("method = \"least_response_time_monitors\"\nstartup_rr_factor = 0\n{BOTH}"),
    );
    until("measured", || (1..=2).all(|n| scene.member(n)["response_time_us"].is_u64()));
    let held: Vec<_> = (0..6).map(|_| scene.hold()).collect();
    let names: Vec<&str> = held.iter().map(|(_, name)| name.as_str()).collect();
    // Both idle: the first. Then s2, which has nothing open. Then s1 until 20 ms for each of its own are 400 ms.
    assert_eq!(names, ["s1", "s2", "s1", "s1", "s1", "s1"]);
    until("counted", || {
        (scene.member(1)["active"].as_u64(), scene.member(2)["active"].as_u64()) == (Some(5), Some(1))
    });
    let members = scene.live()["members"].clone();
    println!("LRTM in a whole node: {names:?}; N of each: {} and {}", members[0]["n"], members[1]["n"]);
    for n in 0..2 {
        let number = |key: &str| members[n][key].as_u64().unwrap();
        assert_eq!(number("n"), number("active") * number("response_time_us"));
        assert_eq!(members[n]["nw"], (number("n") * 10_000).to_string());
    }
    assert!((400_000..700_000).contains(&members[1]["response_time_us"].as_u64().unwrap()), "{members}");
    assert_eq!((&scene.live()["pointer"], &scene.live()["startup_left"]), (&"s1".into(), &0.into()));
}

#[test]
fn startup_rr_factor_goes_round_for_so_many_requests_per_service() {
    let services = pair();
    let scene =
        Scene::start(&addresses(&services), &format!("method = \"lrtm\"\nstartup_rr_factor = 2\n{BOTH}"));
    until("measured", || (1..=2).all(|n| scene.member(n)["response_time_us"].is_u64()));
    assert_eq!(scene.live()["startup_left"], 4);
    let held: Vec<_> = (0..6).map(|_| scene.hold()).collect();
    let names: Vec<&str> = held.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["s1", "s2", "s1", "s2", "s1", "s1"], "round, then by what monitors measure");
}

/// Faults I-72, through the whole program.
#[test]
fn max_clients_holds_and_a_virtual_server_that_is_full_is_down() {
    let services = pair();
    let front = "method = \"round_robin\"\nservices = [{ service = \"s1\", max_clients = 1 }, { service = \"s2\", max_clients = 1 }]";
    let scene = Scene::start(&addresses(&services), front);
    let state = || scene.live()["state"].clone();
    until("up", || state() == "up");
    let (first, second, third) = (scene.hold(), scene.hold(), scene.hold());
    assert_eq!((first.1.as_str(), second.1.as_str(), third.1.as_str()), ("s1", "s2", "503"));
    let down = until("down", || state() == "down");
    assert_eq!(scene.member(1)["out"], "max_clients");
    drop((first, second));
    let up = until("up", || state() == "up");
    println!("I-72: full: down after {down:?}; room: up after {up:?}");
    assert!(down < Duration::from_secs(2) && up > Duration::from_secs(1), "{down:?} {up:?}");
    assert_eq!(scene.names(2), ["s1", "s2"]);
}

#[test]
fn max_bandwidth_and_weight_arrive() {
    let services = pair();
    let front = "method = \"round_robin\"\nservices = [{ service = \"s1\", weight = 3 }, { service = \"s2\", max_bandwidth = \"8kbps\" }]";
    let scene = Scene::start(&addresses(&services), front);
    let shares = |names: &[String]| names.iter().filter(|name| *name == "s2").count();
    assert_eq!(shares(&scene.names(8)), 2);
    // 20,000 bytes in 14 s are 11 kbps.
    (0..4).for_each(|_| drop(scene.body(HOME, "/big")));
    until("over its limit", || scene.member(2)["out"] == "max_bandwidth");
    assert_eq!((shares(&scene.names(8)), &scene.member(1)["weight"]), (0, &3.into()));
}

#[test]
fn persistence_by_source_ip_keeps_clients_of_a_prefix_for_the_timeout() {
    let services = pair();
    let persistence = "persistence = \"source_ip\"\npersistence_mask_v4 = 24\npersistence_timeout = \"1s\"\npersistence_cap = 2\n";
    let scene =
        Scene::start(&addresses(&services), &format!("method = \"round_robin\"\n{persistence}{BOTH}"));
    let of = |a: u8, b: u8| scene.body(Ipv4Addr::new(127, 3, a, b), "/").chars().take(2).collect::<String>();
    let first = of(1, 1);
    assert_eq!((of(1, 1), of(1, 2), of(1, 77)), (first.clone(), first.clone(), first.clone()), "one /24");
    assert_ne!(of(2, 1), first, "another one has the next turn");
    let _ = (of(3, 1), of(4, 1));
    until("two sessions at most", || scene.live()["sessions"] == 2);
    until("forgotten", || scene.live()["sessions"] == 0);
}

#[test]
fn persistence_by_cookie_has_the_name_of_the_configuration() {
    let services = pair();
    let scene = Scene::start(
        &addresses(&services),
        &format!("method = \"round_robin\"\npersistence = \"cookie\"\ncookie = \"stay\"\n{BOTH}"),
    );
    let answer = ask(HOME, scene.vip(), "/");
    let line = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = line.split(';').next().unwrap();
    assert!(cookie.starts_with("stay="), "{answer}");
    let name = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.chars().take(2).collect::<String>();
    let kept: Vec<_> =
        (0..5).map(|_| name(&ask(HOME, scene.vip(), &format!("/\nCookie: {cookie}\r\n")))).collect();
    assert_eq!(kept, vec![name(&answer); 5]);
    assert_eq!(scene.names(2).len(), 2);
}

#[test]
fn slow_start_holds_a_service_back_that_came_back() {
    let services = pair();
    let scene = Scene::start(
        &addresses(&services),
        &format!("method = \"round_robin\"\nslow_start = \"60s\"\n{BOTH}"),
    );
    let even = scene.names(20);
    assert_eq!(even.iter().filter(|name| *name == "s2").count(), 10, "nobody has a ramp at the start");
    services[1].is_well.store(false, Ordering::Relaxed);
    until("out", || scene.member(2)["out"] == "down");
    services[1].is_well.store(true, Ordering::Relaxed);
    until("back", || scene.member(2)["out"].is_null());
    let begun = Instant::now();
    let names = scene.names(40);
    let (took, percent) = (begun.elapsed(), scene.member(2)["ramp_percent"].clone());
    let got = names.iter().filter(|name| *name == "s2").count();
    println!("slow_start 60s: {got} of 40 requests in the {took:?} after it came back, at {percent} % then");
    assert!(percent.as_u64() < Some(60), "{percent}");
    // At most its share at the end of them, and one turn.
    let percent = percent.as_u64().unwrap();
    assert!(got as u64 <= 1 + 40 * percent / (100 + percent), "{got} at {percent} %");
}

#[test]
fn retries_and_timeouts_arrive() {
    let service = Service::start("s1", Duration::ZERO);
    let front = |retries: u8| {
        format!(
            "method = \"round_robin\"\nretries = {retries}\nfirst_byte_timeout = \"300ms\"\nrequest_header_timeout = \"400ms\"\n\
             idle_timeout = \"500ms\"\nconnect_timeout = \"250ms\"\nservices = [\"s1\", \"s2\"]\n"
        )
    };
    // Checks of both go to s1; requests for s2 go where nobody listens.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let monitor = format!("kind = \"http\"\npath = \"/check\"\nport = {}", service.address.port());
    for (retries, expected) in [(0, ["s1", "50"]), (1, ["s1", "s1"])] {
        let scene = Scene::run(&[service.address, closed], &front(retries), &monitor).await_checks(2);
        assert_eq!(scene.names(2), expected, "{retries} retries");
        if retries == 1 {
            assert_eq!(scene.body(HOME, "/late"), "504");
            for (sent, timeout) in [("GET / HT", 400), ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 500)] {
                let (took, least) = (ended_after(scene.vip(), sent), Duration::from_millis(timeout));
                assert!(took >= least && took < least + LATE, "{sent:?}: {took:?}");
            }
        }
    }
}

/// How late a busy machine may be: less than the defaults of the timeouts, which are seconds.
const LATE: Duration = Duration::from_millis(1500);

/// How long the proxy keeps a connection on which this was sent.
fn ended_after(vip: SocketAddr, sent: &str) -> Duration {
    let mut stream = TcpStream::connect(vip).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let begun = Instant::now();
    let _ = stream.read_to_end(&mut Vec::new());
    begun.elapsed()
}

#[test]
fn what_services_learn_of_the_client_and_where_they_are_asked_from() {
    let services = pair();
    for (forwarded, expected, absent) in [
        ("x_forwarded", "x-forwarded-for: 127.4.0.1", "forwarded: for="),
        ("rfc7239", "forwarded: for=127.4.0.1", "x-forwarded-for"),
        ("none", "s1 127.0.0.9", "127.4.0.1"),
    ] {
        let scene = Scene::start(
            &addresses(&services),
            &format!(
                "method = \"round_robin\"\nforwarded = \"{forwarded}\"\nsource = \"127.0.0.9\"\nmax_idle = 1\nservices = [\"s1\"]\n"
            ),
        );
        let seen = scene.body(Ipv4Addr::new(127, 4, 0, 1), "/").to_lowercase();
        assert!(seen.starts_with("s1 127.0.0.9\n"), "{seen}");
        assert!(seen.contains(expected), "{forwarded}: {seen}");
        assert!(!seen.contains(absent), "{forwarded}: {seen}");
    }
}

#[test]
fn max_idle_decides_whether_connections_to_services_are_kept() {
    for (max_idle, connections) in [(0, 10), (4, 1)] {
        let service = Service::start("s1", Duration::ZERO);
        let scene = Scene::start(
            &[service.address],
            &format!("method = \"round_robin\"\nmax_idle = {max_idle}\nservices = [\"s1\"]\n"),
        );
        assert_eq!(scene.names(10), vec!["s1"; 10]);
        assert_eq!(service.connections.load(Ordering::Relaxed), connections, "max_idle {max_idle}");
    }
}

/// Faults I-72: whoever is answered such a front waits in the kernel.
#[test]
fn a_front_at_max_connections_is_down() {
    let service = Service::start("s1", Duration::ZERO);
    let scene = Scene::start(
        &[service.address],
        "method = \"round_robin\"\nmax_connections = 3\nservices = [\"s1\"]\n",
    );
    until("up", || scene.live()["state"] == "up");
    assert_eq!(scene.live()["max_connections"], 3);
    let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(scene.vip()).unwrap()).collect();
    let down = until("down", || scene.live()["state"] == "down");
    assert_eq!(scene.live()["reason"], "all its 3 places for client connections are taken");
    let all = scene.get("/v1/services");
    let vip = all["services"].as_array().unwrap().iter().find(|s| s["service"] == "vip").unwrap().clone();
    assert_eq!((&vip["state"], &vip["judge"]), (&"down".into(), &"lb_vserver".into()));
    drop(clients);
    let up = until("up", || scene.live()["state"] == "up");
    println!("I-72: at max_connections: down after {down:?}, up {up:?} after the clients left");
    assert!(down < Duration::from_secs(3) && up > Duration::from_secs(1), "{down:?} {up:?}");
}

#[test]
fn a_tcp_virtual_server_tells_its_service_who_the_client_is_by_the_proxy_protocol() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scene = Scene::run(
        &[listener.local_addr().unwrap()],
        "kind = \"tcp\"\nproxy_protocol = true\nmethod = \"least_connections\"\nservices = [\"s1\"]\n",
        "kind = \"tcp\"",
    );
    until("listens", || TcpStream::connect(scene.vip()).is_ok());
    let signature = *b"\r\n\r\n\0\r\nQUIT\n";
    let seen = std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 28];
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            if stream.read_exact(&mut head).is_ok()
                && head[..12] == signature
                && head[16..20] == [127, 5, 0, 1]
            {
                return head;
            }
        }
        panic!("no such connection")
    });
    until("told", || {
        drop(ask(Ipv4Addr::new(127, 5, 0, 1), scene.vip(), "/"));
        seen.is_finished()
    });
    assert_eq!(seen.join().unwrap()[20..24], [127, 0, 0, 1], "where it came to");
}

#[test]
fn an_ssl_virtual_server_reads_the_certificates_that_the_configuration_names() {
    let service = Service::start("s1", Duration::ZERO);
    let mut scene = Scene::run(
        &[service.address],
        "kind = \"ssl\"\ncertificates = [{ certificate = \"no-such.crt\", key = \"no-such.key\" }]\nservices = [\"s1\"]\n",
        "kind = \"tcp\"",
    );
    assert!(!scene.node.wait(SOON).success());
    let said = scene.node.stderr();
    let path = scene.folder().join("no-such.crt");
    assert!(said.contains(path.to_str().unwrap()), "{said}");
}

/// Bar R20, without traffic: clients that are connected and ask nothing hold nobody up. And with some: what runs ends by itself.
#[test]
fn a_node_that_stops_answers_what_is_under_way_and_waits_for_nothing_else() {
    let service = Service::start("s1", Duration::ZERO);
    for is_busy in [false, true] {
        let mut scene = Scene::start(&[service.address], "method = \"round_robin\"\nservices = [\"s1\"]\n");
        let mut idle: Vec<_> = (0..20).map(|_| TcpStream::connect(scene.vip()).unwrap()).collect();
        for client in idle.iter_mut().take(10) {
            // One answer, and the connection is kept.
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
        }
        let vip = scene.vip();
        let late = is_busy.then(|| std::thread::spawn(move || ask(HOME, vip, "/late")));
        if is_busy {
            until("under way", || scene.member(1)["active"] == 1);
        }
        scene.node.signal(nix::sys::signal::Signal::SIGTERM);
        let asked = Instant::now();
        let status = scene.node.wait(SOON);
        let took = asked.elapsed();
        println!(
            "R20: 20 idle clients, {}: ended {took:?} after SIGTERM",
            if is_busy { "a request of 1 s" } else { "no request" }
        );
        assert!(status.success() && took < Duration::from_secs(2), "{status} after {took:?}");
        if let Some(late) = late {
            let answer = late.join().unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("s1"), "{answer}");
        }
    }
}

/// Bar R20: what does not end by itself is cut at the deadline of the drain.
#[test]
fn a_request_that_never_ends_holds_a_node_up_until_the_deadline_and_no_longer() {
    let service = Service::start("s1", Duration::ZERO);
    let mut scene = Scene::start(&[service.address], "method = \"round_robin\"\nservices = [\"s1\"]\n");
    let (mut client, name) = scene.hold();
    assert_eq!(name, "s1");
    scene.node.signal(nix::sys::signal::Signal::SIGTERM);
    let asked = Instant::now();
    let status = scene.node.wait(SOON);
    let took = asked.elapsed();
    println!("R20: a response that does not end: ended {took:?} after SIGTERM");
    assert!(status.success(), "{status}");
    assert!((Duration::from_millis(1400)..Duration::from_secs(2)).contains(&took), "{took:?}");
    assert!(!matches!(client.read(&mut [0; 64]), Ok(1..)), "cut");
}

/// The operator's own number, through the whole program: what commands print decides who gets the requests.
#[test]
fn the_load_that_user_monitors_print_steers_real_requests() {
    let services = pair();
    let folder = tempfile::tempdir().unwrap();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), readable).unwrap();
    let set = |loads: [&str; 2]| {
        for (service, load) in services.iter().zip(loads) {
            let place = folder.path().join(service.address.port().to_string());
            let new = folder.path().join("new");
            std::fs::write(&new, load).unwrap();
            std::fs::rename(new, place).unwrap();
        }
    };
    set(["1.5", "0.25"]);
    let script = format!("echo \"OK | load=$(cat {}/$GSLB_PORT);;;0 time=3ms\"", folder.path().display());
    let monitor = format!("kind = \"user\"\ncommand = ['/bin/sh', '-c', '{script}']\nload_label = \"load\"");
    let front = format!("method = \"custom_load\"\nstartup_rr_factor = 0\n{BOTH}");
    let scene = Scene::run(&addresses(&services), &front, &monitor).await_checks(2);
    let shown = |loads: [u64; 2]| {
        until("told", || [1, 2].map(|n| scene.member(n)["load_thousandths"].as_u64()) == loads.map(Some));
    };
    shown([1_500, 250]);
    assert_eq!(scene.names(6), ["s2"; 6]);
    assert_eq!((&scene.member(1)["n"], &scene.member(1)["nw"]), (&1_500.into(), &"15000000".into()));
    set(["1.5", "3"]);
    shown([1_500, 3_000]);
    assert_eq!(scene.names(6), ["s1"; 6], "they move");
}
