//! HTTP: a client's requests, passed on to services.

mod cookie;
mod download;
mod exchange;
mod forwarded;
mod front;
mod hop;
mod reply;
mod tunnel;
mod upload;

pub(crate) use front::Front;
pub(crate) use reply::Reply;
pub(crate) use upload::Upload;
