//! What every authoritative DNS server must do, asked over the wire, by RFC and section. `SUBJECT=ADDRESS:PORT` points these
//! tests at another server with the fixture zone.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod rfc1034;
mod rfc1035;
mod rfc2181;
mod rfc2308;
mod rfc3597;
mod rfc4592;
mod rfc5936;
mod rfc6891;
mod rfc7766;
mod rfc7871;
mod rfc8482;
mod rfc8906;

/// The rcodes that tests name.
mod rcode {
    pub(crate) const NOERROR: u16 = 0;
    pub(crate) const FORMERR: u16 = 1;
    pub(crate) const NXDOMAIN: u16 = 3;
    pub(crate) const NOTIMP: u16 = 4;
    pub(crate) const REFUSED: u16 = 5;
    pub(crate) const NOTAUTH: u16 = 9;
    pub(crate) const BADVERS: u16 = 16;
}
