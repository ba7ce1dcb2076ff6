//! EDNS: the OPT record of a request, and the one of the reply (RFC 6891, RFC 7871, RFC 5001).

use ipnet::IpNet;
use std::net::IpAddr;

/// Bytes of an OPT record without options.
pub(super) const OPT_BYTES: usize = 11;

const NSID: u16 = 3;
const CLIENT_SUBNET: u16 = 8;
const DO: u16 = 0x8000;

/// What the OPT record of a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edns<'a> {
    /// The largest UDP reply the asker takes; below 512 counts as 512.
    pub(super) size: u16,
    /// Only 0 exists.
    pub(super) version: u8,
    /// The DO flag, copied into the reply.
    pub(super) dnssec_ok: bool,
    /// The client subnet option.
    pub(super) ecs: Option<ClientSubnet<'a>>,
    /// Whether the name of this server is asked for.
    pub(super) nsid: bool,
}

/// An option that is not what its RFC says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadOption;

impl<'a> Edns<'a> {
    /// Reads the fixed fields of an OPT record: its CLASS is the size, its TTL the rest.
    pub(super) fn fixed(class: u16, ttl: u32) -> Self {
        let [_, version, flags @ ..] = ttl.to_be_bytes();
        Edns { size: class, version, dnssec_ok: u16::from_be_bytes(flags) & DO != 0, ecs: None, nsid: false }
    }

    /// Reads the options. Unknown ones are skipped (RFC 6891 section 6.1.2); of a known one the first counts.
    pub(super) fn read_options(&mut self, mut rdata: &'a [u8]) -> Result<(), BadOption> {
        while !rdata.is_empty() {
            let (&[c0, c1, l0, l1], rest) = rdata.split_first_chunk().ok_or(BadOption)?;
            let length = usize::from(u16::from_be_bytes([l0, l1]));
            let (data, rest) = rest.split_at_checked(length).ok_or(BadOption)?;
            match u16::from_be_bytes([c0, c1]) {
                CLIENT_SUBNET => {
                    if let Some(subnet) = ClientSubnet::read(data)? {
                        self.ecs.get_or_insert(subnet);
                    }
                }
                NSID => self.nsid = true,
                _ => {}
            }
            rdata = rest;
        }
        Ok(())
    }
}

/// A client subnet option that obeys RFC 7871 section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientSubnet<'a>(&'a [u8]);

impl<'a> ClientSubnet<'a> {
    /// Family 1 or 2, a source prefix that fits it, scope 0, exactly the octets the prefix needs, and no bit beyond it.
    /// Family 0 stands for "no address", is taken with prefix 0, as some stubs send it and BIND takes it, and counts as no
    /// option: decoders refuse it in a reply.
    fn read(data: &'a [u8]) -> Result<Option<Self>, BadOption> {
        let (&[f0, f1, source, scope], address) = data.split_first_chunk().ok_or(BadOption)?;
        let bits = match u16::from_be_bytes([f0, f1]) {
            0 => 0,
            1 => 32,
            2 => 128,
            _ => return Err(BadOption),
        };
        let whole = address.len() == usize::from(source).div_ceil(8);
        if scope != 0 || source > bits || !whole {
            return Err(BadOption);
        }
        let beyond = match source % 8 {
            0 => 0,
            used => u8::MAX >> used,
        };
        match address.last() {
            Some(last) if last & beyond != 0 => Err(BadOption),
            Some(_) | None => Ok((bits > 0).then_some(ClientSubnet(data))),
        }
    }
}

impl ClientSubnet<'_> {
    /// The prefix it names. One of length 0 names nobody: its sender wants that its clients are not told apart (RFC 7871
    /// section 7.1.2, faults I-28). Nor does one that no client can have: multicast, "this host" and the like.
    pub(super) fn prefix(&self) -> Option<IpNet> {
        let (&[_, family, source, _], octets) = self.0.split_first_chunk()?;
        let address = match family {
            1 => IpAddr::from(filled::<4>(octets)),
            _ => IpAddr::from(filled::<16>(octets)),
        };
        let is_nobodys = match address {
            IpAddr::V4(a) => a.is_broadcast() || a.is_multicast() || a.octets()[0] == 0,
            IpAddr::V6(a) => a.is_unspecified() || a.is_multicast() || a.to_ipv4_mapped().is_some(),
        };
        IpNet::new(address, source).ok().filter(|prefix| prefix.prefix_len() > 0 && !is_nobodys)
    }
}

/// The octets, and zeros for those left out.
fn filled<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut whole = [0; N];
    for (to, from) in whole.iter_mut().zip(octets) {
        *to = *from;
    }
    whole
}

/// The OPT record of a reply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OptReply<'a> {
    /// This server's own size, never the asker's.
    pub(super) size: u16,
    /// The upper eight bits of the response code.
    pub(super) extended_rcode: u8,
    /// As in the request.
    pub(super) dnssec_ok: bool,
    /// The request's client subnet, to be echoed.
    pub(super) ecs: Option<ClientSubnet<'a>>,
    /// For addresses of which prefix the reply holds: the length, 0 where it did not depend on the subnet (RFC 7871 section
    /// 7.2.1, faults I-27).
    pub(super) scope: u8,
    /// The name of this server.
    pub(super) nsid: Option<&'a [u8]>,
}

impl OptReply<'_> {
    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        OPT_BYTES
            + self.ecs.map_or(0, |subnet| 4 + subnet.0.len())
            + self.nsid.map_or(0, |name| 4 + name.len())
    }

    /// Hands out its bytes piece by piece.
    pub(super) fn each_piece(&self, mut put: impl FnMut(&[u8])) {
        let flags = if self.dnssec_ok { DO } else { 0 };
        put(&[0, 0, 41]);
        put(&self.size.to_be_bytes());
        put(&[self.extended_rcode, 0]);
        put(&flags.to_be_bytes());
        put(&length(self.len() - OPT_BYTES));
        if let Some(ClientSubnet(data)) = self.ecs
            && let Some((&[f0, f1, source, _], address)) = data.split_first_chunk()
        {
            put(&CLIENT_SUBNET.to_be_bytes());
            put(&length(data.len()));
            put(&[f0, f1, source, self.scope]);
            put(address);
        }
        if let Some(name) = self.nsid {
            put(&NSID.to_be_bytes());
            put(&length(name.len()));
            put(name);
        }
    }
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(family: u16, source: u8, scope: u8, address: &[u8]) -> Vec<u8> {
        [&family.to_be_bytes()[..], &[source, scope], address].concat()
    }

    #[test]
    fn a_subnet_has_exactly_the_octets_its_prefix_needs() {
        for good in [
            subnet(1, 24, 0, &[198, 51, 100]),
            subnet(1, 20, 0, &[198, 51, 0x60]),
            subnet(1, 0, 0, &[]),
            subnet(1, 32, 0, &[198, 51, 100, 7]),
            subnet(2, 56, 0, &[0x20, 1, 0xd, 0xb8, 0, 1, 2]),
            subnet(2, 0, 0, &[]),
            subnet(2, 128, 0, &[1; 16]),
        ] {
            assert_eq!(ClientSubnet::read(&good), Ok(Some(ClientSubnet(&good))));
        }
        assert_eq!(
            ClientSubnet::read(&subnet(0, 0, 0, &[])),
            Ok(None),
            "no address: as if it were not there"
        );
        for (bad, why) in [
            (subnet(1, 24, 0, &[198, 51]), "too few octets"),
            (subnet(1, 24, 0, &[198, 51, 100, 0]), "too many octets"),
            (subnet(1, 20, 0, &[198, 51, 0x61]), "a bit beyond the prefix"),
            (subnet(1, 33, 0, &[1, 2, 3, 4, 0]), "longer than an IPv4 address"),
            (subnet(2, 129, 0, &[1; 17]), "longer than an IPv6 address"),
            (subnet(3, 24, 0, &[1, 2, 3]), "no such family"),
            (subnet(0, 8, 0, &[1]), "no family, but an address"),
            (subnet(1, 24, 24, &[198, 51, 100]), "a scope in a query"),
            (vec![0, 1, 24], "shorter than its fixed fields"),
        ] {
            assert_eq!(ClientSubnet::read(&bad), Err(BadOption), "{why}");
        }
    }

    #[test]
    fn a_subnet_names_a_prefix_and_one_of_length_zero_nobody() {
        let prefix = |raw: &[u8]| ClientSubnet::read(raw).unwrap().unwrap().prefix().map(|p| p.to_string());
        assert_eq!(prefix(&subnet(1, 20, 0, &[198, 51, 0x60])).as_deref(), Some("198.51.96.0/20"));
        let v6 = subnet(2, 56, 0, &[0x20, 1, 0xd, 0xb8, 0, 1, 2]);
        assert_eq!(prefix(&v6).as_deref(), Some("2001:db8:1:200::/56"));
        assert_eq!(prefix(&subnet(1, 0, 0, &[])), None);
        assert_eq!(prefix(&subnet(2, 0, 0, &[])), None);
        let mapped = [&[0; 10][..], &[0xff, 0xff, 192, 0, 2, 1]].concat();
        let nobodys = [
            subnet(1, 8, 0, &[0]),
            subnet(1, 32, 0, &[0, 0, 0, 1]),
            subnet(1, 32, 0, &[255; 4]),
            subnet(1, 4, 0, &[224]),
            subnet(2, 32, 0, &[0; 4]),
            subnet(2, 16, 0, &[0xff, 2]),
            subnet(2, 128, 0, &mapped),
        ];
        for raw in nobodys {
            assert_eq!(prefix(&raw), None, "{raw:?}");
        }
    }

    #[test]
    fn options_that_overrun_the_record_are_refused() {
        let read = |bytes: &[u8]| Edns::fixed(1232, 0).read_options(bytes);
        assert_eq!(read(&[]), Ok(()));
        assert_eq!(read(&[0xfd, 0xe9, 0, 3, 1, 2, 3]), Ok(()), "unknown, and well formed");
        assert_eq!(read(&[0xfd, 0xe9, 0, 4, 1, 2, 3]), Err(BadOption));
        assert_eq!(read(&[0xfd, 0xe9, 0]), Err(BadOption));
    }

    #[test]
    fn the_record_is_as_long_as_it_says() {
        let raw = subnet(1, 24, 0, &[198, 51, 100]);
        let opt = OptReply {
            size: 1232,
            extended_rcode: 1,
            dnssec_ok: true,
            ecs: ClientSubnet::read(&raw).unwrap(),
            scope: 20,
            nsid: Some(b"fra-1"),
        };
        let mut bytes = Vec::new();
        opt.each_piece(|piece| bytes.extend_from_slice(piece));
        assert_eq!(bytes.len(), opt.len());
        assert_eq!(bytes[..11], [0, 0, 41, 4, 0xd0, 1, 0, 0x80, 0, 0, 20]);
        assert_eq!(bytes[11..22], [0, 8, 0, 7, 0, 1, 24, 20, 198, 51, 100]);
        assert_eq!(bytes[22..], *b"\0\x03\0\x05fra-1");
    }
}
