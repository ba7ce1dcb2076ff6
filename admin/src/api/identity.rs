//! How this node shows its peers who it is: its certificate, and the last attempt to take another one.

use super::{View, millis};
use serde::{Deserialize, Serialize};

/// A certificate with less time left is worth a warning: two weeks leave time to act, and renewals come earlier.
pub(crate) const WARNING_S: i64 = 14 * DAY_S;

const DAY_S: i64 = 24 * 3600;

/// This node's certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Its expiry, seconds since the Unix epoch.
    pub expires: Option<i64>,
    /// Seconds until then; negative afterwards.
    pub expires_in_s: Option<i64>,
    /// The same in whole days.
    pub days_left: Option<i64>,
    /// How long ago it was read from its files.
    pub loaded_age_ms: Option<u64>,
    /// How often another one was taken since this node started.
    pub reloads: u64,
    /// Why the files that are there now can't be used; the certificate before them goes on being used.
    pub error: Option<String>,
    /// How long ago that was found.
    pub error_age_ms: Option<u64>,
}

pub(crate) fn identity(view: &View<'_>) -> Identity {
    let crate::Identity { expires, loaded_age, reloads, error } = view.identity.clone();
    let left = expires.map(|at| at.saturating_sub(view.unix_time));
    Identity {
        expires,
        expires_in_s: left,
        days_left: left.map(|left| left.div_euclid(DAY_S)),
        loaded_age_ms: loaded_age.map(millis),
        reloads,
        error_age_ms: error.as_ref().map(|(_, age)| millis(*age)),
        error: error.map(|(reason, _)| reason),
    }
}
