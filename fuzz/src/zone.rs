//! Master-file text: what is taken can be served and decoded.

use crate::dns::{query, reply};
use crate::group::{self, GROUP, ZONE};
use gslb_core::dns::Transport;
use std::sync::Arc;

/// Records that are asked for, each: a large zone would only be slow.
const ASKED: usize = 20;

/// NAPTR, of which hickory-proto decodes only what RFC 3403 allows.
const NAPTR: u16 = 35;

/// Loads the text as the zone of the group, and asks for its records.
pub fn run(text: &[u8]) {
    let config = match group::load(GROUP.as_bytes(), text, Some("fra/1")) {
        Ok(config) => Arc::new(config),
        Err(errors) => return assert!(!errors.to_string().is_empty()),
    };
    let shared = group::shared(&config);
    let records = config.zones.iter().flat_map(|zone| &zone.records).filter(|record| record.rtype != NAPTR);
    for record in records.take(ASKED) {
        let mut request = query("", record.rtype, None);
        request.splice(
            12..13,
            record.owner.iter().flat_map(|label| [&[label.len() as u8], label].concat()).chain([0]),
        );
        let message = reply(&shared, &request, Transport::Tcp).expect("a reply");
        assert!(u16::from(message.metadata.response_code) < 16);
    }
}

/// Whole and in lines.
pub fn seeds() -> Vec<Vec<u8>> {
    let soa = "@ SOA a b 1 1h 15m 1w 5s\n@ NS a\na A 192.0.2.1\n";
    let more = [
        "$TTL 1h\n$ORIGIN x.gslb.test.\n",
        "x ( TYPE1 \\# 4 ( 01020304 ) ) ; comment\n",
        "\\000\\046 600 IN TXT \"\\\"\\200\" a\\032b\n",
        "s SVCB 1 . alpn=\"h2,h3\" port=1 ipv4hint=192.0.2.1\n",
        "l LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m\n",
        "k DNSKEY 256 3 8 AwEAAa==\nr RP @ @\nh HINFO \"a\" b\nu URI 1 2 \"http://x/\"\n",
    ];
    let lines = more.iter().map(|line| format!("{soa}{line}"));
    [ZONE.to_owned()].into_iter().chain(lines).map(String::into_bytes).collect()
}
