//! What an operator may change while the node runs: which services behind its LB virtual servers take part.
//!
//! It holds for this node and until it restarts; what shall last belongs into the configuration.

use crate::api::{self, View};
use crate::params::Params;
use crate::refusal::{Refusal, quoted};
use crate::state::State;
use axum::http::StatusCode;
use gslb_types::ServiceName;
use serde::Serialize;
use std::time::Duration;

/// How long what runs at a service that drains may go on, unless the request says.
const DRAIN_S: u64 = 60;

/// A day: beyond that nobody waits.
const MOST_DRAIN_S: u64 = 86_400;

/// A change to a service of this site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    /// The service.
    pub service: ServiceName,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It takes nothing new but from clients that persistence keeps there; what still runs after so long is cut.
    Drain(Duration),
    /// It takes nothing new; what runs may end.
    Disable,
    /// It takes part; a drain ends.
    Enable,
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Done {
    service: String,
    /// `drain`, `disable` or `enable`.
    change: &'static str,
    /// When what still runs is cut, from now on.
    deadline_ms: Option<u64>,
    /// The LB virtual servers it is behind.
    lb_vservers: Vec<String>,
}

pub(crate) fn drain(state: &State, params: &Params) -> Result<Done, Refusal> {
    let seconds = params.parsed::<u64>("seconds", "whole seconds, 0 to 86400")?.unwrap_or(DRAIN_S);
    if seconds > MOST_DRAIN_S {
        return Err(Refusal::bad(format!("seconds: expected whole seconds, 0 to 86400, not {seconds}")));
    }
    carry_out(state, params, Change::Drain(Duration::from_secs(seconds)))
}

pub(crate) fn disable(state: &State, params: &Params) -> Result<Done, Refusal> {
    carry_out(state, params, Change::Disable)
}

pub(crate) fn enable(state: &State, params: &Params) -> Result<Done, Refusal> {
    carry_out(state, params, Change::Enable)
}

fn carry_out(state: &State, params: &Params, change: Change) -> Result<Done, Refusal> {
    let service: ServiceName = params.segment("service", "the name of a service")?;
    let lb_vservers = behind(&state.view(), &service)?;
    if !state.control(&Control { service: service.clone(), change }) {
        let why = "this node's LB virtual servers do not run";
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let (change, deadline) = match change {
        Change::Drain(deadline) => ("drain", Some(deadline)),
        Change::Disable => ("disable", None),
        Change::Enable => ("enable", None),
    };
    tracing::info!(%service, change, ?deadline, "asked by an operator");
    let deadline_ms = deadline.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    Ok(Done { service: service.to_string(), change, deadline_ms, lb_vservers })
}

/// The LB virtual servers of this site that the service is behind: one at least, or there is nothing to change. What the
/// configuration disables is nowhere answered nor checked, so nothing said here would bring it back.
fn behind(view: &View<'_>, service: &ServiceName) -> Result<Vec<String>, Refusal> {
    let place = view.config().services.iter().position(|s| s.name == *service);
    let index = place
        .ok_or_else(|| Refusal::not_found(format!("there is no service {}", quoted(service.as_str()))))?;
    if view.config().services.get(index).is_some_and(|service| !service.enabled) {
        let why =
            format!("service '{service}' is disabled in the configuration, which decides: change it there");
        return Err(Refusal::new(StatusCode::CONFLICT, why));
    }
    let behind = api::behind(view, index);
    if behind.is_empty() {
        let why = format!(
            "service '{service}' is behind no LB virtual server of this site: clients reach it past this node, so take it out by \
             its monitors or its configuration"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, why));
    }
    Ok(behind.into_iter().map(|b| b.lb_vserver).collect())
}
