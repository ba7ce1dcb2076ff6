//! Why a request is not answered.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A request turned down: a status, and the reason in words for whoever sent it. It changed nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Refusal {
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    reason: String,
}

impl Refusal {
    /// An argument is missing, unknown, or makes no sense.
    pub(crate) fn bad(reason: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, reason)
    }

    /// What was asked for does not exist.
    pub(crate) fn not_found(reason: impl Into<String>) -> Self {
        Refusal::new(StatusCode::NOT_FOUND, reason)
    }

    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Refusal { status, reason: reason.into() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}

fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

/// A stranger's word, short enough to be quoted in a reason.
pub(crate) fn quoted(word: &str) -> String {
    const LONGEST: usize = 100;
    if word.chars().count() <= LONGEST {
        return format!("'{word}'");
    }
    format!("'{}…'", word.chars().take(LONGEST).collect::<String>())
}
