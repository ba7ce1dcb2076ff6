//! Pages of foreign load balancers: read whole, or refused with a reason that may be shown.

use gslb_types::{Quantities, Rtt, Series, SourceItem, SourceKind, TimeUnit, Timing};
use probes_core::sources::page;
use probes_core::sources::{Reading, Timed};

/// Reads the page, of the kind that its first byte says, and halves of it.
pub fn run(data: &[u8]) {
    let Some((kind, text)) = data.split_first() else { return };
    let (kind, items) = match kind % 4 {
        0 => (SourceKind::Haproxy, haproxy()),
        1 => (SourceKind::Envoy, envoy()),
        2 => (SourceKind::Nginx, vec![SourceItem::Nginx]),
        _ => (SourceKind::Prometheus, prometheus()),
    };
    look(&page::read(kind, text, &items), items.len());
    // What was cut off within a line is no page, wherever that was.
    for part in [1, 2, 3] {
        let half = &text[..text.len() * part / 4];
        let read = page::read(kind, half, &items);
        look(&read, items.len());
        if kind != SourceKind::Envoy && !half.is_empty() && !half.ends_with(b"\n") {
            let is_refused = read.as_ref().map_or(true, |items| items.iter().all(Result::is_err));
            assert!(is_refused, "{kind}: {read:?}");
        }
    }
}

fn look(read: &Result<Vec<Result<Reading, String>>, String>, items: usize) {
    match read {
        Err(why) => assert_shown(why),
        Ok(readings) => {
            assert_eq!(readings.len(), items, "one for each");
            for reading in readings {
                match reading {
                    Err(why) => assert_shown(why),
                    Ok(reading) => {
                        assert!(!reading.words.chars().any(char::is_control), "{reading:?}");
                        assert!(reading.timing != Some(Timed::Mean(Rtt::from_micros(0))), "never zero");
                    }
                }
            }
        }
    }
}

fn assert_shown(why: &str) {
    assert!(!why.is_empty() && why.len() < 2_000 && !why.chars().any(char::is_control), "{why:?}");
}

fn haproxy() -> Vec<SourceItem> {
    let item = |server: &str| SourceItem::Haproxy { proxy: "web".to_owned(), server: server.to_owned() };
    ["s1", "s2", "FRONTEND", "BACKEND"].map(item).into()
}

fn envoy() -> Vec<SourceItem> {
    let item =
        |host: Option<&str>| SourceItem::Envoy { cluster: "web".to_owned(), host: host.map(str::to_owned) };
    vec![item(None), item(Some("192.0.2.1:80"))]
}

fn prometheus() -> Vec<SourceItem> {
    let series = |text: &str| Series::new(text).expect("a series");
    let all = |timing| {
        SourceItem::Prometheus(Box::new(Quantities {
            up: Some(series("up{job=\"web\"}")),
            active: Some(series("active")),
            connections: Some(series("connections")),
            bytes: vec![series("rx"), series("tx")],
            requests: Some(series("requests")),
            response_time: Some(timing),
        }))
    };
    let sums = Timing::Sums { sum: series("t_sum"), count: series("t_count"), unit: TimeUnit::Seconds };
    vec![all(sums), all(Timing::Gauge { gauge: series("t"), unit: TimeUnit::Millis })]
}

/// A page of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let csv = "# pxname,svname,scur,stot,bin,bout,status,check_status,lbtot,mode,rtime,ctime,req_tot,last_chk,\n\
        web,FRONTEND,7,40,100,2000,OPEN,,,http,,,45,,\nweb,s1,2,30,80,1500,UP,L7OK,30,http,12,1,,\"HTTP status, \"\"200\"\"\",\n\
        web,s2,0,5,8,8,DOWN,* L4CON,5,tcp,0,3,,Connection refused,\nweb,BACKEND,3,44,96,1516,UP,,44,http,11,1,45,,\n\n";
    let clusters = r#"{"cluster_statuses":[{"name":"web","host_statuses":[{"address":{"socket_address":{"address":"192.0.2.1","port_value":80}},
        "stats":[{"type":"COUNTER","name":"rq_total","value":"7"},{"name":"rq_active","value":2},{"name":"cx_active"}],
        "health_status":{"eds_health_status":"HEALTHY","failed_active_health_check":false}},{"address":{"pipe":{"path":"/x"}}}]}]}"#;
    let stub = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630947 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n";
    let text = "# HELP up x\nup{job=\"web\"} 1\nup{job=\"db\"} 0\nactive 3\nconnections 4.0\nrx 1e9 1700000000\ntx{a=\"\\\"\\n\"} 5\nrequests 77\n\
        t_sum 1.5\nt_count 3\nt NaN\n";
    let page = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    vec![page(0, csv), page(1, clusters), page(2, stub), page(3, text)]
}
