//! The side towards the clients: connections, and how long they may take for what.

mod activity;
mod converse;
mod delivery;
mod drive;
mod peek;
mod scan;
mod stream;
mod streams;

pub(crate) use activity::{Activity, Running};
pub(crate) use converse::converse;
pub(crate) use delivery::Delivery;
pub(crate) use stream::{ClientStream, Wire};
