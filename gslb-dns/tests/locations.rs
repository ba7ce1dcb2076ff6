//! A running node whose databases of places are replaced under it: answers follow a good one, and a broken one changes nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use ipnet::IpNet;
use mmdb_writer::Writer;
use process::{Process, ask, free_ports};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// The resolver that asks.
const LDNS: Ipv4Addr = Ipv4Addr::new(127, 0, 3, 1);

/// What is answered where: the services' addresses, which really listen.
const FRA: Ipv4Addr = Ipv4Addr::new(127, 0, 3, 10);
const AMS: Ipv4Addr = Ipv4Addr::new(127, 0, 3, 20);

/// DNS, MEP, admin and the services.
const PORTS: u16 = 4;

fn text(port: u16) -> String {
    let [dns, mep, admin, web] = [0, 1, 2, 3].map(|n| port + n);
    let service = |site: &str, address: Ipv4Addr, monitors: &str| {
        format!(
            "[[services]]\nname = \"web-{site}\"\nsite = \"{site}\"\naddress = \"{address}\"\nport = {web}\n{monitors} = [\"up\"]\n"
        )
    };
    format!(
        "version = 1\nnode = \"fra/1\"\n[group]\nname = \"test\"\n[dns]\nlisten = [\"127.0.0.1:{dns}\"]\n\
         [mep]\nlisten = \"127.0.0.1:{mep}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [proximity]\ndatabases = [\"country.mmdb\"]\n\
         [[sites]]\nname = \"fra\"\nlocation = [\"EU\", \"DE\"]\n[[sites]]\nname = \"ams\"\nlocation = [\"EU\", \"NL\"]\n\
         [[nodes]]\nname = \"fra/1\"\nmep = \"127.0.0.1:{mep}\"\n\
         [[zones]]\nname = \"gslb.test\"\nrecords = '''\n@   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\n\
         ns1 A   127.0.0.1\n'''\n\
         [[monitors]]\nname = \"up\"\nkind = \"tcp\"\ninterval = \"1s\"\ntimeout = \"500ms\"\n{}{}\
         [[vservers]]\nname = \"www\"\nmethod = \"static_proximity\"\nservices = [\"web-fra\", \"web-ams\"]\n\
         [[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n",
        service("fra", FRA, "monitors"),
        service("ams", AMS, "remote_monitors")
    )
}

/// A database that puts the resolver into this country.
fn country(code: &str) -> Vec<u8> {
    let mut writer = Writer::new("GeoLite2-Country");
    let record = json!({ "continent": { "code": "EU" }, "country": { "iso_code": code } });
    writer.insert("127.0.3.0/24".parse::<IpNet>().unwrap(), &record).unwrap();
    writer.to_bytes().unwrap()
}

/// As an operator would: a new file in place of the old one, at once.
fn replace(folder: &Path, bytes: &[u8]) {
    std::fs::write(folder.join("new"), bytes).unwrap();
    std::fs::rename(folder.join("new"), folder.join("country.mmdb")).unwrap();
}

fn until(port: u16, wanted: Ipv4Addr) -> Duration {
    let begun = Instant::now();
    while ask(LDNS, (Ipv4Addr::LOCALHOST, port).into(), "www.gslb.test") != [wanted] {
        assert!(begun.elapsed() < SOON, "{wanted} is not answered");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

/// Two looks at the files and some more: the same is answered throughout.
fn stays(port: u16, answer: Ipv4Addr) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(7) {
        assert_eq!(ask(LDNS, (Ipv4Addr::LOCALHOST, port).into(), "www.gslb.test"), [answer]);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn answers_follow_the_databases_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pki = folder.path().join("pki");
    let pki = pki.to_str().unwrap();
    assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(SOON).success());
    assert!(Process::start(&["pki", "issue", pki, "fra/1"]).wait(SOON).success());
    let port = free_ports(PORTS);
    let _services = [FRA, AMS].map(|address| TcpListener::bind((address, port + 3)).unwrap());
    let file = folder.path().join("gslb.toml");
    std::fs::write(&file, text(port)).unwrap();
    replace(folder.path(), &country("NL"));

    let check = |file: &Path| Process::start(&["check", file.to_str().unwrap()]);
    assert!(check(&file).wait(SOON).success());
    let mut node = Process::start(&["--log", "info", "run", file.to_str().unwrap()]);
    process::wait_for_listener(&format!("127.0.0.1:{}", port + 2), SOON);
    until(port, AMS);

    replace(folder.path(), &country("DE"));
    println!("a new database decides after {:?}", until(port, FRA));

    let whole = country("NL");
    replace(folder.path(), &whole[..whole.len() / 2]);
    let mut broken = check(&file);
    assert!(!broken.wait(SOON).success());
    let refusal = broken.stderr();
    assert!(
        refusal.contains("proximity.databases: ") && refusal.contains("country.mmdb is no database"),
        "{refusal}"
    );
    stays(port, FRA);
    std::fs::remove_file(folder.path().join("country.mmdb")).unwrap();
    stays(port, FRA);

    replace(folder.path(), &whole);
    until(port, AMS);
    let admin = format!("127.0.0.1:{}", port + 2);
    let explain = ["explain", "www.gslb.test", "--ldns", "127.0.3.1", "--admin", &admin, "--json"];
    let mut explained = Process::start(&explain);
    assert!(explained.wait(SOON).success());
    let explained: Value = serde_json::from_str(&explained.stdout()).unwrap();
    let closest = explained["reasons"].as_array().unwrap().iter().find(|r| r["reason"] == "closest").unwrap();
    assert_eq!((&closest["site"], &closest["by"]), (&json!("ams"), &json!({ "qualifiers": 2 })));

    node.interrupt();
    assert!(node.wait(SOON).success());
    let said = node.stderr();
    let refused: Vec<&str> =
        said.lines().filter(|line| line.contains("databases of locations can't be used")).collect();
    assert!(refused.iter().any(|line| line.contains("is no database in MaxMind's format")), "{said}");
    assert!(refused.iter().any(|line| line.contains("cannot be read")), "{said}");
}
