//! What can be asked: one table, from which the router, the index and the check of arguments come.

use crate::api::{self, View};
use crate::control;
use crate::failback;
use crate::guard::guard;
use crate::metrics;
use crate::params::Params;
use crate::refusal::{Refusal, quoted};
use crate::state::State;
use crate::stream;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as FromState};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::Serialize;
use std::fmt::Write;

/// Something that can be asked.
#[derive(Clone, Copy)]
struct Route {
    path: &'static str,
    /// For the index.
    what: &'static str,
    arguments: &'static [&'static str],
    answer: Answer,
}

/// How it is answered.
#[derive(Clone, Copy)]
enum Answer {
    /// From what is published, or a row.
    Light(Look),
    /// From the whole RTT table: apart from the runtime's threads, one at a time.
    Heavy(Look),
    /// By POST: it changes something.
    Act(Act),
    /// As long as both ends want.
    Stream(fn(State, &HeaderMap) -> Result<Response, Refusal>),
}

type Look = fn(&View<'_>, &Params) -> Result<Response, Refusal>;

type Act = fn(&State, &Params) -> Result<Response, Refusal>;

const ROUTES: &[Route] = &[
    Route::light("/v1/status", "this node at a glance, and what is wrong", &[], |v, _| ok(&api::status(v))),
    Route::light("/v1/peers", "the other nodes of the group", &[], |v, _| ok(&api::peers(v))),
    Route {
        path: "/v1/peers/stream",
        what: "the same as events, and their changes as they happen (SSE)",
        arguments: &[],
        answer: Answer::Stream(stream::open),
    },
    Route::light("/v1/sites", "the sites and their nodes", &[], |v, _| ok(&api::sites(v))),
    Route::light("/v1/domains", "the GSLB domains", &[], |v, _| ok(&api::domains(v))),
    Route::light("/v1/vservers", "the GSLB and LB virtual servers", &[], |v, _| ok(&api::vservers(v))),
    Route::light("/v1/services", "the services and their monitors", &[], |v, _| ok(&api::services(v))),
    Route::act(
        "/v1/services/{service}/drain",
        "keep new clients from a service, and cut what runs after so long (60)",
        &["seconds"],
        |state, params| ok(&control::drain(state, params)?),
    ),
    Route::act("/v1/services/{service}/disable", "give a service nothing new", &[], |state, params| {
        ok(&control::disable(state, params)?)
    }),
    Route::act("/v1/services/{service}/enable", "let it take part, and end a drain", &[], |state, params| {
        ok(&control::enable(state, params)?)
    }),
    Route::act(
        "/v1/vservers/{vserver}/failback",
        "bring the clients of a GSLB virtual server back to what is preferred",
        &[],
        |state, params| ok(&failback::bring_back(state, params)?),
    ),
    Route {
        path: "/v1/ldns",
        what: "the RTT table in pages, by address",
        arguments: &["after", "limit", "site"],
        answer: Answer::Heavy(|view, params| ok(&api::ldns_page(view, params)?)),
    },
    Route::light("/v1/ldns/{ip}", "what is known of one LDNS", &["site"], |v, p| ok(&api::ldns(v, p)?)),
    Route::light(
        "/v1/explain",
        "what an LDNS would be answered now, and why",
        &["name", "type", "ldns", "ecs"],
        |view, params| ok(&api::explain(view, params)?),
    ),
    Route::light("/metrics", "numbers for Prometheus", &[], |view, _| metrics::answer(view)),
    Route::light("/live", "200 as long as the process runs", &[], |_, _| ok(&api::Live { live: true })),
    Route::light("/ready", "200 while the node task publishes, else 503", &[], |view, _| ready(view)),
    Route::light("/", "this list", &[], |_, _| Ok(index().into_response())),
];

impl Route {
    const fn light(
        path: &'static str,
        what: &'static str,
        arguments: &'static [&'static str],
        answer: Look,
    ) -> Self {
        Route { path, what, arguments, answer: Answer::Light(answer) }
    }

    const fn act(
        path: &'static str,
        what: &'static str,
        arguments: &'static [&'static str],
        act: Act,
    ) -> Self {
        Route { path, what, arguments, answer: Answer::Act(act) }
    }

    /// Whether a request for this path is one for the route.
    fn is_at(&self, path: &str) -> bool {
        let (own, asked) = (self.path.split('/'), path.split('/'));
        own.clone().count() == asked.clone().count()
            && own.zip(asked).all(|(own, asked)| own.starts_with('{') || own == asked)
    }
}

/// Whether what stands at this path changes something: it is asked for by POST, everything else by GET.
pub(crate) fn is_act(path: &str) -> bool {
    ROUTES.iter().any(|route| matches!(route.answer, Answer::Act(_)) && route.is_at(path))
}

/// All routes, behind the guard.
pub(crate) fn router(state: State) -> Router {
    let routes = ROUTES.iter().fold(Router::new(), |router, route| {
        let handler =
            move |FromState(state): FromState<State>, segment: Segment, uri: Uri, headers: HeaderMap| {
                answer(route, state, segment, uri, headers)
            };
        let method = if matches!(route.answer, Answer::Act(_)) { post(handler) } else { get(handler) };
        router.route(route.path, method)
    });
    let guarded = middleware::from_fn_with_state(state.clone(), guard);
    routes.fallback(nothing_there).layer(guarded).with_state(state)
}

/// What the path's `{…}` stands for, if there is one.
type Segment = Result<Option<Path<String>>, PathRejection>;

async fn answer(
    route: &'static Route,
    state: State,
    segment: Segment,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let segment = segment.map_err(|error| Refusal::bad(format!("the path can't be read: {error}")))?;
    let segment = segment.map(|Path(segment)| segment);
    let params = Params::of(&uri, segment, route.arguments)?;
    let answer = match route.answer {
        Answer::Light(answer) => return answer(&state.view(), &params),
        Answer::Act(act) => return act(&state, &params),
        Answer::Stream(open) => return open(state, &headers),
        Answer::Heavy(answer) => answer,
    };
    let turns = state.turns().clone();
    let answering = turns.take(move || answer(&state.view(), &params));
    answering.await.unwrap_or_else(|error| {
        tracing::error!(path = route.path, %error, "an admin request failed");
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "this request failed; the log says more"))
    })
}

async fn nothing_there(uri: Uri) -> Refusal {
    Refusal::not_found(format!("there is no {}; / lists what there is", quoted(uri.path())))
}

fn ok(answer: &impl Serialize) -> Result<Response, Refusal> {
    Ok(Json(answer).into_response())
}

fn ready(view: &View<'_>) -> Result<Response, Refusal> {
    let ready = api::ready(view);
    let status = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(ready)).into_response())
}

/// The routes as plain text, for whoever opens the address and wonders.
fn index() -> impl IntoResponse {
    let mut text =
        String::from("gslb-dns admin API. GET unless POST is said, JSON unless said otherwise.\n\n");
    for route in ROUTES {
        let arguments = match route.arguments {
            [] => String::new(),
            some => format!("?{}=", some.join("=&")),
        };
        // Writing to a string does not fail.
        let method = if matches!(route.answer, Answer::Act(_)) { "POST " } else { "" };
        let _ = writeln!(text, "{:<44} {}", format!("{method}{}{arguments}", route.path), route.what);
    }
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text)
}
