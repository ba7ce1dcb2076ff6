//! Connections in, answers out, until the node stops.

use crate::connections::{Connections, Place};
use crate::routes;
use crate::state::State;
use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections at once: a scraper, a dashboard, some people with the command line, and plenty to spare.
const CONNECTIONS: usize = 128;

/// The head of a request must have come after this long (reliability R7). axum's own server knows no such limit.
const HEAD: Duration = Duration::from_secs(5);

/// A connection without a request for this long is closed; also one that does not read its answer.
const IDLE: Duration = Duration::from_secs(30);

/// The largest head of a request, in bytes.
const BUFFER: usize = 16 * 1024;

/// How long answers under way may take once the node stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// Before the next try when a connection can't be accepted: no descriptor is free, and none will be at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers on `listener` until `stop` is cancelled. Returns when the last connection is closed, shortly after.
pub async fn serve(listener: TcpListener, state: State, stop: CancellationToken) {
    let router = routes::router(state.serving(listener.local_addr().ok(), stop.clone()));
    let connections = Connections::new(CONNECTIONS, IDLE);
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            accepted = accept(&listener) => if let Some(stream) = accepted {
                tasks.spawn(converse(stream, router.clone(), connections.admit(), stop.clone()));
            },
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::debug!(%error, "admin connection not accepted");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

fn is_stream(answer: &Response) -> bool {
    answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// Notes that something could be sent, whenever it could.
fn watched(answer: Response, place: Arc<Place>) -> Response {
    answer.map(|body| {
        Body::new(body.map_frame(move |frame| {
            place.streams();
            frame
        }))
    })
}

/// One connection from its first request to its end.
async fn converse(stream: TcpStream, router: Router, place: Place, stop: CancellationToken) {
    let place = Arc::new(place);
    let service = TowerToHyperService::new(router);
    let noting = service_fn(|request: hyper::Request<Incoming>| {
        let (place, answer) = (place.clone(), service.call(request));
        place.asked();
        async move {
            let answer = answer.await?;
            place.answered();
            Ok::<_, Infallible>(if is_stream(&answer) { watched(answer, place) } else { answer })
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), noting));
    tokio::select! {
        // What goes wrong on a connection concerns its other end alone.
        _ = connection.as_mut() => return,
        () = place.must_close() => return,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(FAREWELL, connection).await;
}
