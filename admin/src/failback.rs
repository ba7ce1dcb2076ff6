//! `POST /v1/vservers/NAME/failback`: clients come back to what is preferred (`failback = "manual"`).

use crate::params::Params;
use crate::refusal::{Refusal, quoted};
use crate::state::State;
use axum::http::StatusCode;
use config::Failback;
use gslb_types::VserverName;
use serde::Serialize;

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Done {
    vserver: String,
    /// Whether clients were kept somewhere: else they are where they should be already.
    was_kept: bool,
}

/// All nodes of the group follow within an exchange interval.
pub(crate) fn bring_back(state: &State, params: &Params) -> Result<Done, Refusal> {
    let vserver: VserverName = params.segment("vserver", "the name of a GSLB virtual server")?;
    let view = state.view();
    let missing =
        || Refusal::not_found(format!("there is no GSLB virtual server {}", quoted(vserver.as_str())));
    let index = view.config().vservers.iter().position(|v| v.name == vserver).ok_or_else(missing)?;
    if view.config().vservers.get(index).is_some_and(|v| v.failback == Failback::AtOnce) {
        let why = format!("clients of '{vserver}' come back at once by themselves: `failback` says so");
        return Err(Refusal::new(StatusCode::CONFLICT, why));
    }
    if !state.failback(&vserver) {
        let why = "the node task takes nothing at the moment; ask again";
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    tracing::info!(%vserver, "failback asked by an operator");
    let was_kept = [false, true].map(|v6| view.published.standing(index, v6)).iter().any(Option::is_some);
    Ok(Done { vserver: vserver.to_string(), was_kept })
}
