//! What people see for the answers that the API's own tests hold, and how it ends.

use super::*;
use clap::Parser;
use gslb_core::{Birth, Node as Machine, Shared};
use gslb_types::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The API's golden file of this name.
macro_rules! api {
    ($name:literal) => {
        include_bytes!(concat!("../../../admin/tests/api/golden/", $name))
    };
}

/// What is shown, compared with a file under `golden`; `UPDATE=1` rewrites it, to be reviewed like code.
fn assert_shown(name: &str, shown: &Shown) {
    let path = format!("{}/src/client/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &shown.text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == shown.text, "{name} differs (UPDATE=1 rewrites it); it is now:\n{}", shown.text);
}

#[test]
fn tables_show_what_the_api_says() {
    assert_shown("status.txt", &status::show(api!("status.json")).unwrap());
    assert_shown("peers.txt", &peers::show(api!("peers.json")).unwrap());
    assert_shown("peers_watch.txt", &peers::show_changes(api!("peers.json")).unwrap());
    assert_shown("peers_matrix.txt", &peers::show_matrix(api!("peers.json")).unwrap());
    assert_shown("sites.txt", &sites::show(api!("sites.json")).unwrap());
    assert_shown("services.txt", &services::show(api!("services.json")).unwrap());
    assert_shown("domains.txt", &domains::show(api!("domains.json")).unwrap());
    assert_shown("ldns.txt", &ldns::show_page(api!("ldns.json")).unwrap());
    assert_shown("explain_nearest.txt", &explain::show(api!("explain_nearest.json")).unwrap());
    assert_shown("explain_all_down.txt", &explain::show(api!("explain_all_down.json")).unwrap());
    assert_shown("explain_dropped.txt", &explain::show(api!("explain_dropped.json")).unwrap());
}

#[test]
fn one_ldns_has_a_line_for_each_site() {
    let page: serde_json::Value = serde_json::from_slice(api!("ldns.json")).unwrap();
    let row = serde_json::to_vec(&page["ldns"][0]).unwrap();
    assert_shown("ldns_one.txt", &ldns::show(&row).unwrap());
}

#[test]
fn a_site_says_what_its_silence_does() {
    let shown = |changes: &[(&str, u64)]| {
        let mut sites: serde_json::Value = serde_json::from_slice(api!("sites.json")).unwrap();
        let site = &mut sites["sites"][2];
        site["relay"] = serde_json::Value::Null;
        changes.iter().for_each(|(key, value)| site[*key] = (*value).into());
        let text = sites::show(&serde_json::to_vec(&sites).unwrap()).unwrap().text;
        let line = text.lines().last().unwrap().to_owned();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (silent, taken, held) = (("silent_ms", 10_000), ("taken_down_age_ms", 5000), ("held_ms", 9000));
    for (changes, heard, note) in [
        (vec![silent, ("down_in_ms", 5000)], "not for 10.0s", "silence decides in 5.0s"),
        (vec![silent, ("down_in_ms", 0), taken], "not for 10.0s", "silence decides since 5.0s"),
        (vec![taken, held], "-", "heard again, held for 9.0s more"),
    ] {
        let cells = shown(&changes);
        assert_eq!((cells[1].as_str(), cells.last().unwrap().as_str()), (heard, note), "{cells:?}");
    }
}

#[test]
fn a_node_with_problems_is_not_well() {
    assert!(!status::show(api!("status.json")).unwrap().healthy);
    assert!(peers::show(api!("peers.json")).unwrap().healthy, "only status judges");
}

#[test]
fn a_certificate_that_has_expired_is_not_about_to() {
    let mut status: serde_json::Value = serde_json::from_slice(api!("status.json")).unwrap();
    status["certificate"]["expires_in_s"] = (-90_000).into();
    let text = status::show(&serde_json::to_vec(&status).unwrap()).unwrap().text;
    assert!(text.contains("certificate  expired 1d01h ago\n"), "{text}");
}

/// What the settings were in the last session does not explain why there is none.
#[test]
fn a_peer_that_is_down_says_why_before_other_settings() {
    let mut peers: serde_json::Value = serde_json::from_slice(api!("peers.json")).unwrap();
    peers["peers"][0]["state"] = "down".into();
    peers["peers"][0]["reason"] = "this node is unknown there".into();
    let text = peers::show(&serde_json::to_vec(&peers).unwrap()).unwrap().text;
    assert!(text.contains("this node is unknown there; other settings: rtt_tolerance\n"), "{text}");
}

#[test]
fn words_of_other_machines_do_not_reach_the_terminal_raw() {
    let mut peers: serde_json::Value = serde_json::from_slice(api!("peers.json")).unwrap();
    peers["peers"][0]["version"] = "\u{1b}[2J1.0\n".into();
    peers["strangers"]["last_reason"] = "\u{1b}]0;x".into();
    let text = peers::show(&serde_json::to_vec(&peers).unwrap()).unwrap().text;
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2J1.0\\n"), "{text}");
}

#[derive(Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

fn path_of(line: &str) -> Result<String, clap::Error> {
    let words = ["gslb-dns"].into_iter().chain(line.split(' '));
    CommandLine::try_parse_from(words).map(|line| Question::of(&line.command).path)
}

#[test]
fn a_command_asks_for_one_path() {
    for (line, path) in [
        ("status", "/v1/status"),
        ("peers --watch", "/v1/peers"),
        ("peers --matrix", "/v1/peers"),
        ("sites", "/v1/sites"),
        ("ldns", "/v1/ldns?limit=100"),
        (
            "ldns --limit 5 --after 2001:db8::1 --site fra",
            "/v1/ldns?limit=5&after=2001%3Adb8%3A%3A1&site=fra",
        ),
        ("ldns 2001:db8::1", "/v1/ldns/2001:db8::1"),
        ("ldns 192.0.2.1 --site fra", "/v1/ldns/192.0.2.1?site=fra"),
        ("explain www.gslb.test --ldns 192.0.2.1", "/v1/explain?name=www.gslb.test&type=A&ldns=192.0.2.1"),
        (
            "explain a&b --ldns ::1 --type aaaa --ecs 192.0.2.0/24",
            "/v1/explain?name=a%26b&type=AAAA&ldns=%3A%3A1&ecs=192.0.2.0%2F24",
        ),
    ] {
        assert_eq!(path_of(line).unwrap(), path, "{line}");
    }
    for wrong in [
        "ldns fra",
        "ldns --limit 0",
        "ldns --limit 1001",
        "ldns 192.0.2.1 --limit 5",
        "explain www.gslb.test",
        "explain www.gslb.test --ldns 192.0.2.1 --type MX",
    ] {
        assert_eq!(path_of(wrong).unwrap_err().exit_code(), i32::from(USAGE), "{wrong}");
    }
}

const ALONE: &str = "version = 1\n\
    [[sites]]\nname = \"fra\"\n\
    [[nodes]]\nname = \"fra/1\"\nmep = \"127.0.0.1:4353\"\n";

/// The API of a node without peers and services; well if its machine has run.
async fn api(well: bool) -> SocketAddr {
    let read = &mut |_: &Path| Ok(ALONE.as_bytes().to_vec());
    let config = Arc::new(config::load(Path::new("alone.toml"), read, Some("fra/1")).unwrap());
    let shared = Arc::new(Shared::new(&config, 1, Timestamp::ZERO));
    if well {
        let birth = Birth { seed: 1, boot: 1, local: Vec::new(), coalesce: Duration::ZERO };
        drop(Machine::new(config, shared.clone(), &birth, Timestamp::ZERO));
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = admin::State::new(shared, || Timestamp::ZERO);
    tokio::spawn(admin::serve(listener, state, CancellationToken::new()));
    address
}

async fn printed(command: Command, address: SocketAddr, format: Format) -> (Result<u8, Failed>, String) {
    let mut out = Vec::new();
    let done = answer(&command, address, format, &mut out).await;
    (done, String::from_utf8(out).unwrap())
}

fn ldns(ip: Option<&str>, site: Option<&str>) -> Command {
    let ip = ip.map(|ip| ip.parse().unwrap());
    Command::Ldns { ip, limit: 100, after: None, site: site.map(str::to_owned) }
}

#[tokio::test]
async fn the_exit_code_says_whether_the_node_is_well() {
    let (done, text) = printed(Command::Status, api(true).await, Format::Table).await;
    assert_eq!((done.unwrap(), text.ends_with("\nall is well\n")), (0, true), "{text}");
    let (done, text) = printed(Command::Status, api(false).await, Format::Table).await;
    assert_eq!(done.unwrap(), UNHEALTHY);
    assert!(text.ends_with("\nproblems\n  the node task has not published yet\n"), "{text}");
}

#[tokio::test]
async fn json_is_what_the_api_says_on_one_line() {
    let address = api(true).await;
    let (done, text) = printed(Command::Domains, address, Format::Json).await;
    assert_eq!((done.unwrap(), text.as_str()), (0, "{\"domains\":[]}\n"));
    let (_, text) = printed(Command::Status, address, Format::Json).await;
    let status: admin::api::Status = serde_json::from_str(&text).unwrap();
    assert_eq!((status.node.as_str(), text.lines().count()), ("fra/1", 1));
}

#[tokio::test]
async fn what_the_node_refuses_is_usage_and_what_it_does_not_know_is_not() {
    let address = api(true).await;
    let (refused, text) = printed(ldns(None, Some("ams")), address, Format::Table).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), text.as_str()), (USAGE, ""));
    assert_eq!(
        refused.to_string(),
        format!("the node at {address} says: there is no site 'ams'; there are: fra (status 400)")
    );
    let (absent, _) = printed(ldns(Some("192.0.2.1"), None), address, Format::Table).await;
    assert_eq!(absent.unwrap_err().code(), UNHEALTHY);
}

#[tokio::test]
async fn a_node_that_is_not_there_is_said_with_its_address() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (done, text) = printed(Command::Peers { watch: true, matrix: false }, free, Format::Table).await;
    let failed = done.unwrap_err();
    assert_eq!((failed.code(), text.as_str()), (UNREACHABLE, ""));
    assert!(
        failed
            .to_string()
            .starts_with(&format!("cannot reach the node's admin API at {free}: Connection refused")),
        "{failed}"
    );
}

#[tokio::test]
async fn somebody_else_is_not_taken_for_a_node() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
        }
    });
    let (done, _) = printed(Command::Services, address, Format::Json).await;
    let failed = done.unwrap_err();
    assert!(matches!(failed, Failed::NotUnderstood(_)) && failed.code() == UNHEALTHY, "{failed}");
}

/// Takes what is printed until this part of it has come; then it is closed, as a pipe is whose reader has read enough.
struct Until(Vec<u8>, &'static str);

impl Until {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl Write for Until {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.text().contains(self.1) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

/// What `peers --watch` prints until this has come.
async fn watched(address: SocketAddr, format: Format, until: &'static str) -> String {
    let mut out = Until(Vec::new(), until);
    let command = Command::Peers { watch: true, matrix: false };
    let watching = answer(&command, address, format, &mut out);
    let done = tokio::time::timeout(Duration::from_secs(30), watching).await;
    let Ok(Err(Failed::Print(_))) = done else { panic!("{done:?}: {:.2000}", out.text()) };
    out.text()
}

/// A node that answers streams by these bodies, one after the other, and then not at all; it says what it was asked.
async fn streams(
    bodies: &'static [&'static str],
) -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, requests) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut bodies = bodies.iter();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") {
                request.push(char::from(stream.read_u8().await.unwrap()));
            }
            let (status, body) = match request.starts_with("GET /v1/peers/stream ") {
                true => bodies.next().map_or(
                    ("404 Not Found", r#"{"status":404,"reason":"there is no '/v1/peers/stream'"}"#),
                    |body| ("200 OK", *body),
                ),
                false => ("200 OK", std::str::from_utf8(api!("peers.json")).unwrap()),
            };
            let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n{body}");
            let _ = asked.send(request);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, requests)
}

#[tokio::test]
async fn watching_shows_each_event_on_one_line_for_programs() {
    let text = watched(api(true).await, Format::Json, "\n").await;
    let event: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&event["event"], &event["data"]["peers"]), (&"state".into(), &serde_json::json!([])));
    assert!(event["id"].as_str().unwrap().ends_with("-0"), "{event}");
}

#[tokio::test]
async fn watching_goes_on_after_the_last_event_when_a_stream_ends() {
    let bodies = &[
        "event: transition\nid: a-7\ndata: {\"n\":7}\n\nevent: transition\nid: a-8\ndata: {\"n\":8}\n\n",
        ": keep-alive\n\nevent: transition\nid: a-9\ndata: {\"n\":9}\n\n",
    ];
    let (address, mut requests) = streams(bodies).await;
    let text = watched(address, Format::Json, "\"n\":9").await;
    let line = |n| format!("{{\"data\":{{\"n\":{n}}},\"event\":\"transition\",\"id\":\"a-{n}\"}}\n");
    assert_eq!(text, [7, 8, 9].map(line).concat());
    let mut ids = Vec::new();
    while let Ok(request) = requests.try_recv() {
        let id = request
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("last-event-id: ").map(str::to_owned));
        ids.extend(request.contains("/stream").then_some(id));
    }
    assert_eq!(ids, [None, Some("a-8".to_owned())]);
}

#[tokio::test]
async fn a_node_without_a_stream_is_asked_every_second_and_people_are_told_why() {
    let (address, _requests) = streams(&[]).await;
    let text = watched(address, Format::Table, "shown every second only").await;
    assert!(text.contains("ams/1  up"), "{text}");
    let why = format!("the node at {address} says: there is no '/v1/peers/stream' (status 404)");
    assert!(text.ends_with(&format!("\nshown every second only: {why}\n")), "{text}");
    // Programs find the whole state, as the first event would have it.
    let (address, _requests) = streams(&[]).await;
    let text = watched(address, Format::Json, "\n").await;
    let event: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&event["event"], &event["data"]["peers"][0]["peer"]), (&"state".into(), &"ams/1".into()));
}
