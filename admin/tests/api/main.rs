//! The admin API over real sockets.

mod explain;
mod fixture;
mod http;
mod metrics;
mod node;
mod routes;
mod safety;
