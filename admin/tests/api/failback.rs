//! Clients brought back by an operator.

use crate::fixture::Fixture;
use crate::http::Server;
use crate::safety::request;
use serde_json::json;
use std::sync::{Arc, Mutex};

fn post(vserver: &str) -> Vec<u8> {
    request(&format!("POST /v1/vservers/{vserver}/failback"), &["Host: localhost", "Content-Length: 0"])
}

#[tokio::test]
async fn clients_are_brought_back_by_post_and_by_nothing_else() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let state = Fixture::new().state().with_failback(move |vserver| {
        noted.lock().unwrap().push(vserver.to_string());
        true
    });
    let server = Server::start(state).await;
    let done = server.send(&post("hash")).await;
    assert_eq!(done.status, 200);
    let body: serde_json::Value = serde_json::from_str(&done.body).unwrap();
    assert_eq!(body, json!({"vserver": "hash", "was_kept": false}));
    let get = request("GET /v1/vservers/hash/failback", &["Host: localhost"]);
    assert_eq!(server.send(&get).await.status, 405);
    assert_eq!(*asked.lock().unwrap(), ["hash"]);
}

#[tokio::test]
async fn what_can_not_be_brought_back_is_refused_with_a_reason() {
    let server = Fixture::new().serve().await;
    for (vserver, status, reason) in [
        ("nobody", 404, "there is no GSLB virtual server 'nobody'"),
        ("www", 409, "clients of 'www' come back at once by themselves: `failback` says so"),
        ("hash", 503, "the node task takes nothing at the moment; ask again"),
    ] {
        let answer = server.send(&post(vserver)).await;
        assert_eq!(answer.status, status, "{vserver}");
        assert!(answer.body.contains(reason), "{}", answer.body);
    }
}
