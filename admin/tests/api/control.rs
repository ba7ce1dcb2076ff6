//! The one thing that can be changed: which services behind LB virtual servers take part.

use crate::fixture::Fixture;
use crate::http::Server;
use crate::safety::request;
use admin::{Change, Control};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An API, and what was asked of the data plane behind it.
async fn server(takes: bool) -> (Server, Arc<Mutex<Vec<Control>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let state = Fixture::new().state().with_control(move |control| {
        noted.lock().unwrap().push(control.clone());
        takes
    });
    (Server::start(state).await, asked)
}

fn post(path: &str) -> Vec<u8> {
    request(&format!("POST {path}"), &["Host: localhost", "Content-Length: 0"])
}

#[tokio::test]
async fn a_service_is_drained_disabled_and_enabled_by_post() {
    let (server, asked) = server(true).await;
    for (path, change, deadline) in [
        ("drain", Change::Drain(Duration::from_secs(60)), json!(60_000)),
        ("drain?seconds=0", Change::Drain(Duration::ZERO), json!(0)),
        ("drain?seconds=86400", Change::Drain(Duration::from_secs(86_400)), json!(86_400_000)),
        ("disable", Change::Disable, json!(null)),
        ("enable", Change::Enable, json!(null)),
    ] {
        let answer = server.send(&post(&format!("/v1/services/two-fra/{path}"))).await;
        assert_eq!(answer.status, 200, "{path}");
        let done: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let word = path.split('?').next().unwrap();
        let expected = json!({"service": "two-fra", "change": word, "deadline_ms": deadline, "lb_vservers": ["front-fra"]});
        assert_eq!(done, expected);
        let last = asked.lock().unwrap().pop().unwrap();
        assert_eq!(last, Control { service: "two-fra".parse().unwrap(), change });
    }
}

#[tokio::test]
async fn what_can_not_be_changed_is_refused_with_a_reason_and_changes_nothing() {
    let (server, asked) = server(true).await;
    let past = "is behind no LB virtual server of this site: clients reach it past this node, so take it out by its monitors \
                or its configuration";
    for (path, status, reason) in [
        ("/v1/services/nobody/drain", 404, "there is no service 'nobody'".to_owned()),
        (
            "/v1/services/Nobody/drain",
            400,
            "service: expected the name of a service, not 'Nobody'".to_owned(),
        ),
        ("/v1/services/web-fra/drain", 409, format!("service 'web-fra' {past}")),
        ("/v1/services/web-ams/disable", 409, format!("service 'web-ams' {past}")),
        (
            "/v1/services/off-fra/enable",
            409,
            "service 'off-fra' is disabled in the configuration, which decides: change it there".to_owned(),
        ),
        (
            "/v1/services/two-fra/drain?seconds=86401",
            400,
            "seconds: expected whole seconds, 0 to 86400, not 86401".to_owned(),
        ),
        (
            "/v1/services/two-fra/drain?seconds=5s",
            400,
            "seconds: expected whole seconds, 0 to 86400, not '5s'".to_owned(),
        ),
        (
            "/v1/services/two-fra/enable?seconds=5",
            400,
            "unknown argument 'seconds'; there is none here".to_owned(),
        ),
    ] {
        let answer = server.send(&post(path)).await;
        assert_eq!((answer.status, answer.reason()), (status, reason), "{path}");
    }
    assert_eq!(asked.lock().unwrap().len(), 0);
}

/// Threat T9: a link, an image or a form of another page changes nothing.
#[tokio::test]
async fn only_a_post_of_our_own_changes_anything() {
    let (server, asked) = server(true).await;
    let path = "/v1/services/two-fra/drain";
    for method in ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        let answer = server.send(&request(&format!("{method} {path}"), &["Host: localhost"])).await;
        assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "POST"), "{method}");
    }
    for (fields, status) in [
        (["Host: localhost", "Origin: https://evil.example"], 403),
        (["Host: localhost", "Origin: null"], 403),
        (["Host: localhost:8053", "Origin: http://localhost:3000"], 403),
        (["Host: evil.example", "X: y"], 403),
    ] {
        let fields = [&fields[..], &["Content-Length: 0"]].concat();
        assert_eq!(
            server.send(&request(&format!("POST {path}"), &fields)).await.status,
            status,
            "{fields:?}"
        );
    }
    for path in
        ["/v1/services", "/v1/services/two-fra", "/v1/services/two-fra/drain/", "/v1/services/two-fra/x"]
    {
        assert_eq!(server.send(&post(path)).await.status, 405, "{path}");
    }
    assert_eq!(asked.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_node_whose_data_plane_does_not_run_says_so() {
    let (server, _) = server(false).await;
    let answer = server.send(&post("/v1/services/two-fra/drain")).await;
    assert_eq!((answer.status, answer.reason().as_str()), (503, "this node's LB virtual servers do not run"));
}
