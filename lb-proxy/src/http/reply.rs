//! What a client is answered: a response of the service, or a word of the proxy's own.

use super::download::Download;
use crate::client::Running;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, SERVER};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The header that says why the proxy answered in place of a service: one of the words in [`Refusal::word`].
const REASON: HeaderName = HeaderName::from_static("gslb-reason");

/// How long a client had better wait before it asks again, in seconds: a monitor's usual interval.
const PATIENCE: HeaderValue = HeaderValue::from_static("5");

/// The body of an answer. The request counts as running until it is dropped.
pub(crate) struct Reply {
    content: Content,
    _running: Option<Running>,
}

/// What is in it.
enum Content {
    Empty,
    /// The proxy's own words.
    Words(Option<Bytes>),
    /// The service's, as it comes.
    Service(Box<Download>),
}

impl Reply {
    /// What the service sends after its response's head.
    pub(super) fn of_service(download: Option<Box<Download>>) -> Self {
        Reply { content: download.map_or(Content::Empty, Content::Service), _running: None }
    }

    pub(super) fn while_running(self, running: Running) -> Self {
        Reply { _running: Some(running), ..self }
    }
}

/// Why the proxy answers in place of a service.
///
/// The answer has this status, a line of text, `Server: gslb-dns`, and `Gslb-Reason` with the word; a response without
/// `Gslb-Reason` is always a service's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// No service can take it: 503, and `Retry-After`.
    NoService(lb_core::NoService),
    /// As many members as may be tried could not be reached: 502.
    ConnectFailed,
    /// The same, and the last one did not answer at all: 504.
    ConnectTimeout,
    /// The service took the request and closed the connection, or answered nonsense: 502.
    BadResponse,
    /// The service took the request and said nothing for too long: 504.
    ResponseTimeout,
    /// The client did not send the rest of its request: 408.
    RequestTimeout,
    /// The request's body broke off, or is malformed: 400.
    Body,
    /// The request was running as its service's drain ended: 503.
    Cut,
    /// CONNECT would make an open proxy: 405.
    Method,
    /// No Host, or several, or one that is none: 400.
    Host,
    /// Its length can be read in two ways: 400.
    Framing,
    /// A transfer coding other than chunked: 501.
    TransferCoding,
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Refusal::NoService(_) | Refusal::Cut => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::ConnectFailed | Refusal::BadResponse => StatusCode::BAD_GATEWAY,
            Refusal::ConnectTimeout | Refusal::ResponseTimeout => StatusCode::GATEWAY_TIMEOUT,
            Refusal::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Body | Refusal::Host | Refusal::Framing => StatusCode::BAD_REQUEST,
            Refusal::TransferCoding => StatusCode::NOT_IMPLEMENTED,
        }
    }

    /// The word in the header `Gslb-Reason`.
    fn word(self) -> &'static str {
        match self {
            Refusal::NoService(none) => match none {
                lb_core::NoService::Empty => "empty",
                lb_core::NoService::AllDisabled => "all_disabled",
                lb_core::NoService::AllDown => "all_down",
                lb_core::NoService::AllDraining => "all_draining",
                lb_core::NoService::AllFull => "all_full",
                lb_core::NoService::AllTried => "all_tried",
            },
            Refusal::ConnectFailed => "connect_failed",
            Refusal::ConnectTimeout => "connect_timeout",
            Refusal::BadResponse => "bad_response",
            Refusal::ResponseTimeout => "response_timeout",
            Refusal::RequestTimeout => "request_timeout",
            Refusal::Body => "body",
            Refusal::Cut => "drained",
            Refusal::Method => "method",
            Refusal::Host => "host",
            Refusal::Framing => "framing",
            Refusal::TransferCoding => "transfer_coding",
        }
    }

    /// The line of text.
    fn text(self) -> &'static str {
        match self {
            Refusal::NoService(none) => none.as_str(),
            Refusal::ConnectFailed => "the service could not be reached",
            Refusal::ConnectTimeout => "the service could not be reached in time",
            Refusal::BadResponse => "the service gave no proper response",
            Refusal::ResponseTimeout => "the service gave no response in time",
            Refusal::RequestTimeout => "the rest of the request did not come in time",
            Refusal::Body => "the body of the request is malformed",
            Refusal::Cut => "the service was taken out while it worked on the request",
            Refusal::Method => "CONNECT is not served here",
            Refusal::Host => "one Host is needed, and a proper one",
            Refusal::Framing => "the length of the request can be read in two ways",
            Refusal::TransferCoding => "only the transfer coding chunked is served here",
        }
    }

    /// Whether what follows on the connection can't be trusted to be another request.
    fn closes(self) -> bool {
        matches!(self, Refusal::Framing | Refusal::TransferCoding | Refusal::RequestTimeout | Refusal::Body)
    }

    pub(crate) fn response(self) -> Response<Reply> {
        let line = format!("{} {}\n", self.status().as_u16(), self.text());
        let mut response =
            Response::new(Reply { content: Content::Words(Some(line.into())), _running: None });
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("gslb-dns"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(REASON, HeaderValue::from_static(self.word()));
        if matches!(self, Refusal::NoService(_) | Refusal::Cut) {
            headers.insert(RETRY_AFTER, PATIENCE);
        }
        if self.closes() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.content {
            Content::Empty => Poll::Ready(None),
            Content::Words(words) => Poll::Ready(words.take().map(|words| Ok(Frame::data(words)))),
            Content::Service(download) => Pin::new(&mut **download).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty | Content::Words(None) => true,
            Content::Words(Some(_)) => false,
            Content::Service(download) => download.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Words(words) => SizeHint::with_exact(words.as_ref().map_or(0, Bytes::len) as u64),
            Content::Service(download) => download.size_hint(),
        }
    }
}
