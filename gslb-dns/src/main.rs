//! `gslb-dns`: the GSLB DNS server, one process per node.

mod clock;
mod listen;

fn main() {}
