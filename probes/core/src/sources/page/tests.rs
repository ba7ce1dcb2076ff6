//! Pages in their programs' formats, written by hand with what is rare in them; that of Envoy after envoy.admin.v3.Clusters, beside one
//! that it wrote itself.
//! HAProxy and nginx themselves are read by the tests of probes-io.

use super::*;
use crate::sources::{Counts, Health, Timed};
use gslb_types::{Quantities, Rtt, Series, TimeUnit, Timing};
use proptest::prelude::*;

fn haproxy(name: &str) -> SourceItem {
    let (proxy, server) = name.split_once('/').unwrap();
    SourceItem::Haproxy { proxy: proxy.to_owned(), server: server.to_owned() }
}

fn one(kind: SourceKind, page: &str, item: SourceItem) -> Result<Reading, String> {
    read(kind, page.as_bytes(), &[item]).and_then(|mut readings| readings.remove(0))
}

fn ms(n: u32) -> Option<Timed> {
    Some(Timed::Mean(Rtt::from_micros(n * 1000)))
}

fn counts<const N: usize>(counts: [(&str, u64); N]) -> Option<Counts> {
    Some(counts.map(|(name, n)| (name.to_owned(), n)).into())
}

const CSV: &str = "\
# pxname,svname,scur,stot,bin,bout,status,check_status,lbtot,mode,rtime,ctime,ttime,req_tot,last_chk,new_column,
web,FRONTEND,7,40,100,2000,OPEN,,,http,,,,45,,,
web,s1,2,30,80,1500,UP,L7OK,30,http,12,1,60,,\"HTTP status, \"\"200\"\"\",,
web,s2,0,0,0,0,no check,,0,http,0,0,0,,,,
web,s3,0,5,8,8,DOWN,* L4CON,5,http,0,0,1,,Connection refused,,
web,s4,1,9,8,8,DRAIN,L7OK,9,http,0,1,1,,,x,
web,BACKEND,3,44,96,1516,UP,,44,http,11,1,60,45,,,
db,s1,4,6,1,2,UP 1/3,L4OK,6,tcp,0,3,900,,,,
";

#[test]
fn a_row_of_haproxy_tells_state_sessions_bytes_and_response_time() {
    let of = |name| one(SourceKind::Haproxy, CSV, haproxy(name)).unwrap();
    assert_eq!(
        of("web/s1"),
        Reading {
            health: Health::Up,
            words: "UP".to_owned(),
            active: Some(2),
            connections: None,
            bytes: counts([("bin", 80), ("bout", 1500)]),
            requests: counts([("stot", 30)]),
            timing: ms(12),
            load: None,
        }
    );
    assert_eq!((of("web/s2").health, of("web/s2").timing), (Health::Unsaid, None), "nothing was sent there");
    let s3 = of("web/s3");
    assert_eq!((s3.health, s3.words.as_str()), (Health::Down, "DOWN, L4CON: Connection refused"));
    assert_eq!((of("web/s4").health, of("web/s4").timing), (Health::Down, ms(1)), "below a millisecond");
    let front = of("web/FRONTEND");
    assert_eq!((front.health, front.connections, front.timing), (Health::Unsaid, Some(7), None));
    assert_eq!((front.requests, of("web/BACKEND").timing), (counts([("stot", 45)]), ms(11)));
    let db = of("db/s1");
    assert_eq!((db.health, db.connections, db.timing), (Health::Up, Some(4), ms(3)), "the connection's time");
}

#[test]
fn each_status_of_haproxy_is_up_down_unsaid_or_unknown() {
    for (status, health) in [
        ("UP", Health::Up),
        ("UP 2/3", Health::Up),
        ("OPEN", Health::Up),
        ("DOWN", Health::Down),
        ("DOWN 1/2", Health::Down),
        ("DOWN (agent)", Health::Down),
        ("MAINT", Health::Down),
        ("MAINT (via web/s1)", Health::Down),
        ("MAINT(resolution)", Health::Down),
        ("DRAIN", Health::Down),
        ("NOLB 1/2", Health::Down),
        ("STOP", Health::Down),
        ("no check", Health::Unsaid),
        ("no idea", Health::Unknown),
        ("UPWARDS", Health::Unknown),
        ("up", Health::Unknown),
        ("", Health::Unknown),
    ] {
        let page = format!("# pxname,svname,status\nweb,s1,{status}\n");
        assert_eq!(one(SourceKind::Haproxy, &page, haproxy("web/s1")).unwrap().health, health, "{status}");
    }
}

#[test]
fn columns_of_haproxy_may_stand_in_any_order_and_be_missing() {
    let page = "# status,extra,svname,bout,pxname\r\nUP,\"a\nb\",s1,9,web\r\nUP,,s2,9,web\r\n";
    let reading = one(SourceKind::Haproxy, page, haproxy("web/s1")).unwrap();
    assert_eq!((reading.health, reading.bytes), (Health::Up, counts([("bout", 9)])));
    assert_eq!((reading.active, reading.requests, reading.timing), (None, None, None), "unknown, never zero");
}

#[test]
fn that_a_frontend_listens_says_nothing_of_what_stands_behind_it() {
    for (status, health) in [("OPEN", Health::Unsaid), ("STOP", Health::Down), ("FULL", Health::Down)] {
        let page = format!("# pxname,svname,status\nweb,FRONTEND,{status}\n");
        assert_eq!(one(SourceKind::Haproxy, &page, haproxy("web/FRONTEND")).unwrap().health, health);
    }
}

/// However much of a page is missing, its numbers are those of the whole one, or it is none.
#[test]
fn half_a_page_is_none() {
    let up = Series::new("up").unwrap();
    let metrics =
        Quantities { up: Some(up), active: Some(Series::new("a").unwrap()), ..Quantities::default() };
    let metrics = SourceItem::Prometheus(Box::new(metrics));
    let row = "# pxname,svname,scur,status,\ndb,s1,1,UP,\nweb,s1,123,DOWN,\n";
    let envoy = SourceItem::Envoy { cluster: "c".to_owned(), host: None };
    let clusters = r#"{"cluster_statuses":[{"name":"c","host_statuses":[{"stats":[{"name":"rq_active","value":"123"}]}]}]}"#;
    for (kind, page, item) in [
        (SourceKind::Haproxy, row, haproxy("web/s1")),
        (SourceKind::Nginx, STUB, SourceItem::Nginx),
        (SourceKind::Prometheus, "# HELP up x\nup 1\na 1234.5\n", metrics),
        (SourceKind::Envoy, clusters, envoy),
    ] {
        assert!(one(kind, page, item.clone()).is_ok(), "{kind}");
        for half in 0..page.len() {
            let read = one(kind, &page[..half], item.clone());
            assert!(read.is_err(), "{kind}, {half} of {} bytes: {read:?}", page.len());
        }
    }
    let short = "# pxname,svname,scur,status,\nweb,s1,1,UP,\nweb,s2,\n";
    let why = one(SourceKind::Haproxy, short, haproxy("web/s1")).unwrap_err();
    assert_eq!(why, "line 3 has 3 fields, the first line has 5: half a page?");
}

#[test]
fn what_is_wrong_with_a_page_of_haproxy_is_said_with_its_place() {
    let read = |page: &str| one(SourceKind::Haproxy, page, haproxy("web/s1")).unwrap_err();
    assert_eq!(
        read("<html>\n<body>"),
        "the first line has no column 'pxname': no statistics in CSV; does the URL end in ';csv'?"
    );
    assert_eq!(read("# pxname,svname\nweb,s2\n"), "haproxy has no 'web/s1'");
    assert_eq!(
        read("# pxname,svname,scur\nweb,s2,0\nweb,s1,-1\n"),
        "line 3, column 'scur': '-1' is no number"
    );
    assert!(read("").contains("no column 'pxname'"));
}

const STUB: &str = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630947 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n";

#[test]
fn nginx_tells_connections_and_requests_of_all_of_it() {
    let reading = one(SourceKind::Nginx, STUB, SourceItem::Nginx).unwrap();
    assert_eq!((reading.health, reading.connections), (Health::Unsaid, Some(291)));
    assert_eq!(reading.active, Some(184), "reading and writing, but for the look itself");
    assert_eq!(reading.requests, counts([("requests", 31_070_465)]));
    assert_eq!((reading.bytes, reading.timing), (None, None));
    let wrong = one(SourceKind::Nginx, "Active connections: many\n", SourceItem::Nginx);
    assert_eq!(
        wrong.unwrap_err(),
        "line 1: no Active connections: in 'Active connections: many': not a page of stub_status"
    );
}

const CLUSTERS: &str = r#"{"cluster_statuses":[
 {"name":"api","added_via_api":true,"host_statuses":[
  {"address":{"socket_address":{"address":"192.0.2.1","port_value":80}},
   "stats":[{"value":"12","name":"cx_total"},{"name":"rq_error"},{"value":"90","name":"rq_total"},
            {"type":"GAUGE","value":"3","name":"cx_active"},{"type":"GAUGE","value":"2","name":"rq_active"}],
   "health_status":{"eds_health_status":"HEALTHY"},"weight":1,"success_rate":{"value":-1}},
  {"address":{"socket_address":{"address":"2001:db8::1","port_value":80}},
   "stats":[{"value":"10","name":"rq_total"},{"type":"GAUGE","value":"1","name":"cx_active"},{"type":"GAUGE","name":"rq_active"}],
   "health_status":{"failed_active_health_check":true,"eds_health_status":"HEALTHY"}}]},
 {"name":"none","host_statuses":[]},
 {"name":"new","host_statuses":[{"health_status":{"eds_health_status":"SPLENDID"}}]}]}"#;

#[test]
fn envoy_tells_of_a_cluster_and_of_each_host() {
    let of = |cluster: &str, host: Option<&str>| {
        let item = SourceItem::Envoy { cluster: cluster.to_owned(), host: host.map(str::to_owned) };
        one(SourceKind::Envoy, CLUSTERS, item)
    };
    let all = of("api", None).unwrap();
    assert_eq!((all.health, all.words.as_str()), (Health::Up, "1 of 2 hosts healthy"));
    assert_eq!((all.active, all.connections, all.bytes), (Some(2), Some(4), None));
    assert_eq!(all.requests, counts([("192.0.2.1:80", 90), ("[2001:db8::1]:80", 10)]));
    let six = of("api", Some("[2001:db8::1]:80")).unwrap();
    assert_eq!((six.health, six.words.as_str()), (Health::Down, "failed_active_health_check"));
    assert_eq!((six.active, six.connections), (Some(0), Some(1)), "a number left out is 0");
    assert_eq!(of("none", None).unwrap().health, Health::Down, "nobody is there");
    assert_eq!(of("new", None).unwrap().health, Health::Unknown, "an unknown state is never healthy");
    assert_eq!(of("apo", None).unwrap_err(), "envoy has no cluster 'apo'");
    assert_eq!(
        of("api", Some("192.0.2.9:80")).unwrap_err(),
        "envoy has no host 192.0.2.9:80 in cluster 'api'"
    );
    let broken = read(SourceKind::Envoy, b"{\"cluster_statuses\":7}", &[]).unwrap_err();
    assert!(broken.starts_with("no clusters in JSON: ") && broken.contains("line 1 column 21"), "{broken}");
}

/// What Envoy 1.40 told of a cluster of three hosts: one that had answered five requests and held two more, one where nobody
/// listened, and one that was draining.
const RECORDED: &str = include_str!("recorded/envoy-1.40-clusters.json");

#[test]
fn what_envoy_really_said_is_understood() {
    let of = |cluster: &str, host: Option<&str>| {
        let item = SourceItem::Envoy { cluster: cluster.to_owned(), host: host.map(str::to_owned) };
        one(SourceKind::Envoy, RECORDED, item).unwrap()
    };
    let all = of("web", None);
    assert_eq!((all.health, all.words.as_str()), (Health::Up, "1 of 3 hosts healthy"));
    assert_eq!((all.active, all.connections), (Some(2), Some(2)));
    assert_eq!(
        all.requests,
        counts([("127.0.0.1:19101", 7), ("127.0.0.1:19102", 0), ("127.0.0.1:19103", 0)])
    );
    let well = of("web", Some("127.0.0.1:19101"));
    assert_eq!((well.health, well.active, well.connections), (Health::Up, Some(2), Some(2)));
    for (host, words) in [("127.0.0.1:19102", "failed_active_health_check"), ("127.0.0.1:19103", "DRAINING")]
    {
        let host = of("web", Some(host));
        assert_eq!((host.health, host.words.as_str(), host.active), (Health::Down, words, Some(0)));
    }
    assert_eq!(of("empty", None).health, Health::Down);
}

fn prometheus(of: impl FnOnce(&mut Quantities)) -> SourceItem {
    let mut quantities = Quantities::default();
    of(&mut quantities);
    SourceItem::Prometheus(Box::new(quantities))
}

fn series(text: &str) -> Option<Series> {
    Some(Series::new(text).unwrap())
}

const EXPOSITION: &str = r#"# HELP rq_active Requests.
# TYPE rq_active gauge
rq_active{svc="a",pod="1"} 3
rq_active{svc="a",pod="2"} 4 1395066363000
rq_active{svc="b,\"}"} 1e2
ready{svc="a"} 1
ready{svc="b"} 0
bytes_total{svc="a",dir="rx"} 1.5e3
bytes_total{svc="a",dir="tx"} 7 # {trace="x"} 1
other nonsense "{
took{svc="a"} 0.0125
took{svc="b"} NaN
took{svc="c"} +Inf
took_sum 2.5
took_count 100
"#;

#[test]
fn metrics_are_found_by_name_and_labels_and_added_up() {
    let item = prometheus(|q| {
        q.up = series(r#"ready{svc="a"}"#);
        q.active = series(r#"rq_active{svc="a"}"#);
        q.connections = series(r#"rq_active{svc="b,\"}"}"#);
        q.bytes = vec![Series::new("bytes_total").unwrap()];
        q.load = series(r#"took{svc="a"}"#);
        q.response_time =
            Some(Timing::Gauge { gauge: series(r#"took{svc="a"}"#).unwrap(), unit: TimeUnit::Seconds });
    });
    let reading = one(SourceKind::Prometheus, EXPOSITION, item).unwrap();
    assert_eq!((reading.health, reading.words.as_str()), (Health::Up, r#"ready{svc="a"} 1"#));
    assert_eq!((reading.active, reading.connections), (Some(7), Some(100)));
    assert_eq!(reading.load, Some(12), "thousandths");
    let bytes = counts([(r#"bytes_total{dir="rx",svc="a"}"#, 1500), (r#"bytes_total{dir="tx",svc="a"}"#, 7)]);
    assert_eq!((reading.bytes, reading.timing), (bytes, Some(Timed::Mean(Rtt::from_micros(12_500)))));
}

#[test]
fn it_is_up_only_if_all_series_say_so_and_a_response_time_may_be_absent() {
    let gauge = |text: &str| Some(Timing::Gauge { gauge: series(text).unwrap(), unit: TimeUnit::Seconds });
    let item = prometheus(|q| (q.up, q.response_time) = (series("ready"), gauge(r#"took{svc="b"}"#)));
    let reading = one(SourceKind::Prometheus, EXPOSITION, item).unwrap();
    assert_eq!((reading.health, reading.words.as_str()), (Health::Down, r#"ready{svc="b"} 0"#));
    assert_eq!(reading.timing, None);
    let (sum, count) = (series("took_sum").unwrap(), series("took_count").unwrap());
    let item = prometheus(|q| q.response_time = Some(Timing::Sums { sum, count, unit: TimeUnit::Seconds }));
    let sums = Timed::Sums {
        micros: counts([("took_sum", 2_500_000)]).unwrap(),
        answers: counts([("took_count", 100)]).unwrap(),
    };
    assert_eq!(one(SourceKind::Prometheus, EXPOSITION, item).unwrap().timing, Some(sums));
    for (text, why) in [
        ("gone", "no sample of gone"),
        (r#"took{svc="c"}"#, r#"took{svc="c"}: line 13: inf is no count of took{svc="c"}"#),
        ("took", "3 samples fit the response time: name more labels"),
    ] {
        let item = prometheus(|q| q.response_time = gauge(text));
        assert_eq!(one(SourceKind::Prometheus, EXPOSITION, item), Err(why.to_owned()), "{text}");
    }
    let item = prometheus(|q| q.active = series("other"));
    assert_eq!(
        one(SourceKind::Prometheus, EXPOSITION, item),
        Err("line 10: 'nonsense' is no value".to_owned())
    );
}

/// Every row of the largest page is a service of ours: what the reader does must grow with the page, not with its square.
#[test]
fn the_largest_page_is_read_whole() {
    let row = |n: usize| format!("web,s{n},2,30,80,1500,UP,L7OK,30,http,12,1,60,,{},,\n", "x".repeat(400));
    let head = CSV.lines().next().unwrap().to_owned() + "\n";
    let mut page = head;
    let mut items = Vec::new();
    while page.len() + 600 < LARGEST {
        page += &row(items.len());
        items.push(haproxy(&format!("web/s{}", items.len())));
    }
    let readings = read(SourceKind::Haproxy, page.as_bytes(), &items).unwrap();
    println!("{} services on a page of {} bytes", readings.len(), page.len());
    assert!(readings.len() > 8000 && readings.iter().all(|r| r.as_ref().is_ok_and(|r| r.active == Some(2))));
}

fn items() -> Vec<SourceItem> {
    let cluster =
        |host: Option<&str>| SourceItem::Envoy { cluster: "api".to_owned(), host: host.map(str::to_owned) };
    let item = prometheus(|q| {
        (q.up, q.active, q.connections) = (series("ready"), series("rq_active"), series("took"));
        (q.requests, q.bytes) = (series("took_count"), vec![Series::new("bytes_total").unwrap()]);
        let (sum, count) = (series("took_sum").unwrap(), series("took_count").unwrap());
        q.response_time = Some(Timing::Sums { sum, count, unit: TimeUnit::Millis });
    });
    vec![
        haproxy("web/s1"),
        haproxy("web/BACKEND"),
        cluster(None),
        cluster(Some("192.0.2.1:80")),
        SourceItem::Nginx,
        item,
    ]
}

const KINDS: [(SourceKind, &str); 4] = [
    (SourceKind::Haproxy, CSV),
    (SourceKind::Envoy, CLUSTERS),
    (SourceKind::Nginx, STUB),
    (SourceKind::Prometheus, EXPOSITION),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for (kind, _) in KINDS {
            let _ = read(kind, &bytes, &items());
        }
    }

    /// A true page, with bytes changed, cut out and put in: what a reader must fear more than noise.
    #[test]
    fn no_page_that_is_almost_right_makes_it_panic(
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0..3u8, any::<u8>()), 1..12),
        stolen in "[\\\\\"{},;/#0-9eE.+\\- \r\n]{0,6}",
    ) {
        for (kind, page) in KINDS {
            let mut page = page.as_bytes().to_vec();
            for (place, what, byte) in &edits {
                let at = place.index(page.len().max(1)).min(page.len());
                match what {
                    0 if at < page.len() => page[at] = *byte,
                    1 => drop(page.drain(at..(at + usize::from(*byte)).min(page.len()))),
                    _ => drop(page.splice(at..at, stolen.bytes())),
                }
            }
            if let Ok(readings) = read(kind, &page, &items()) {
                prop_assert_eq!(readings.len(), items().len());
            }
        }
    }
}
