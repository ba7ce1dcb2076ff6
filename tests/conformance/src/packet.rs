//! Requests made by hand: well formed unless a test wants otherwise.

/// Record types that tests ask for by number.
#[allow(missing_docs, reason = "the names say it")]
pub mod rtype {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const DS: u16 = 43;
    pub const DNSKEY: u16 = 48;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
    pub const ANY: u16 = 255;
    pub const CAA: u16 = 257;
}

/// Octets of a header.
pub const HEADER: usize = 12;

/// A request under construction.
#[derive(Clone, Debug)]
pub struct Packet {
    id: u16,
    flags: u16,
    /// Of questions and of the other three sections.
    counts: [u16; 4],
    body: Vec<u8>,
    opt: Option<Opt>,
}

#[derive(Clone, Debug)]
struct Opt {
    size: u16,
    version: u8,
    flags: u16,
    options: Vec<u8>,
}

/// A query of class IN without EDNS.
pub fn query(name: &str, rtype: u16) -> Packet {
    Packet::new().question(&wire(name), rtype, 1)
}

/// A name in wire form: every byte of a label is one octet, whatever the case.
pub fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut wire: Vec<u8> =
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    wire.push(0);
    wire
}

/// An OPT record with these options, octets as they come.
pub fn opt_record(size: u16, options: &[u8]) -> Vec<u8> {
    Opt { size, version: 0, flags: 0, options: options.to_vec() }.bytes()
}

impl Packet {
    /// A header alone, with all counts 0.
    #[allow(clippy::new_without_default, reason = "a packet without a question is nobody's default")]
    pub fn new() -> Packet {
        Packet { id: 0x1234, flags: 0, counts: [0; 4], body: Vec::new(), opt: None }
    }

    /// Sets the ID, which is the same for all packets otherwise.
    pub fn id(self, id: u16) -> Packet {
        Packet { id, ..self }
    }

    /// Adds a question.
    pub fn question(mut self, name: &[u8], rtype: u16, class: u16) -> Packet {
        self.counts[0] += 1;
        self.body.extend([name, &rtype.to_be_bytes(), &class.to_be_bytes()].concat());
        self
    }

    /// The second word of the header: QR, opcode, flags, rcode.
    pub fn flags(self, flags: u16) -> Packet {
        Packet { flags, ..self }
    }

    /// Sets the opcode.
    pub fn opcode(self, opcode: u16) -> Packet {
        Packet { flags: self.flags & !0x7800 | opcode << 11, ..self }
    }

    /// Sets a count to what is not there: section 0 to 3.
    pub fn lie(mut self, section: usize, count: u16) -> Packet {
        self.counts[section] = count;
        self
    }

    /// Adds octets, counted as one record of the additional section.
    pub fn additional(mut self, record: &[u8]) -> Packet {
        self.counts[3] += 1;
        self.raw(record)
    }

    /// Adds octets that nothing counts.
    pub fn raw(mut self, octets: &[u8]) -> Packet {
        self.body.extend(octets);
        self
    }

    /// EDNS, with this size for UDP replies.
    pub fn edns(mut self, size: u16) -> Packet {
        self.opt = Some(Opt { size, version: 0, flags: 0, options: Vec::new() });
        self
    }

    /// Sets version and flags of EDNS.
    pub fn edns_version(mut self, version: u8, flags: u16) -> Packet {
        let opt = self.opt.take().map(|opt| Opt { version, flags, ..opt });
        Packet { opt, ..self }
    }

    /// Adds an EDNS option.
    pub fn option(mut self, code: u16, data: &[u8]) -> Packet {
        let opt = self.opt.get_or_insert(Opt { size: 1232, version: 0, flags: 0, options: Vec::new() });
        let length = data.len() as u16;
        opt.options.extend([&code.to_be_bytes(), &length.to_be_bytes(), data].concat());
        self
    }

    /// Adds a client subnet option (RFC 7871 section 6).
    pub fn client_subnet(self, family: u16, source: u8, address: &[u8]) -> Packet {
        self.option(8, &[&family.to_be_bytes()[..], &[source, 0], address].concat())
    }

    /// What is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let [questions, answers, authorities, additionals] = self.counts;
        let opt = self.opt.as_ref().map(Opt::bytes);
        let additionals = additionals.saturating_add(u16::from(opt.is_some()));
        let header = [self.id, self.flags, questions, answers, authorities, additionals];
        [header.map(u16::to_be_bytes).concat(), self.body.clone(), opt.unwrap_or_default()].concat()
    }
}

impl Opt {
    fn bytes(&self) -> Vec<u8> {
        let length = self.options.len() as u16;
        let fixed =
            [&[0, 0, 41][..], &self.size.to_be_bytes(), &[0, self.version], &self.flags.to_be_bytes()];
        [fixed.concat(), length.to_be_bytes().to_vec(), self.options.clone()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_what_the_rfc_draws() {
        let plain = query("a.bc", rtype::A).bytes();
        assert_eq!(plain, b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x01a\x02bc\0\0\x01\0\x01");
        let edns = query("", rtype::NS).edns(512).client_subnet(1, 24, &[192, 0, 2]).bytes();
        assert_eq!(edns[10..12], [0, 1]);
        assert_eq!(edns[17..], *b"\0\0\x29\x02\0\0\0\0\0\0\x0b\0\x08\0\x07\0\x01\x18\0\xc0\0\x02");
    }
}
