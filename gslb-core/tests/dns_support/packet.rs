//! Request packets, well formed unless a test wants otherwise.

/// Query type ANY.
pub(crate) const ANY: u16 = 255;

/// A request under construction.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) id: u16,
    pub(crate) flags: u16,
    pub(crate) counts: [u16; 4],
    pub(crate) body: Vec<u8>,
    pub(crate) opt: Option<(u16, u8, u16, Vec<u8>)>,
}

/// A query of class IN.
pub(crate) fn query(name: &str, qtype: u16) -> Packet {
    Packet::new().question(&wire(name), qtype, 1)
}

/// A name in wire form. Every character is one octet; `\DDD` is the octet of that number.
pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(u8::try_from(label.len()).unwrap());
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

impl Packet {
    pub(crate) fn new() -> Self {
        Packet { id: 0x1234, flags: 0, counts: [0; 4], body: Vec::new(), opt: None }
    }

    pub(crate) fn question(mut self, name: &[u8], qtype: u16, qclass: u16) -> Self {
        self.counts[0] += 1;
        self.body.extend_from_slice(name);
        self.body.extend_from_slice(&qtype.to_be_bytes());
        self.body.extend_from_slice(&qclass.to_be_bytes());
        self
    }

    pub(crate) fn flags(mut self, flags: u16) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) fn opcode(self, opcode: u16) -> Self {
        let flags = self.flags;
        self.flags(flags & !0x7800 | opcode << 11)
    }

    /// EDNS with this size.
    pub(crate) fn edns(mut self, size: u16) -> Self {
        self.opt = Some((size, 0, 0, Vec::new()));
        self
    }

    pub(crate) fn version(mut self, version: u8) -> Self {
        self.opt.as_mut().expect("EDNS first").1 = version;
        self
    }

    pub(crate) fn edns_flags(mut self, flags: u16) -> Self {
        self.opt.as_mut().expect("EDNS first").2 = flags;
        self
    }

    pub(crate) fn option(mut self, code: u16, data: &[u8]) -> Self {
        let options = &mut self.opt.as_mut().expect("EDNS first").3;
        options.extend_from_slice(&code.to_be_bytes());
        options.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        options.extend_from_slice(data);
        self
    }

    /// A client subnet option.
    pub(crate) fn ecs(self, family: u16, source: u8, scope: u8, address: &[u8]) -> Self {
        self.option(8, &[&family.to_be_bytes()[..], &[source, scope], address].concat())
    }

    /// Bytes after everything else, counted as so many additional records.
    pub(crate) fn additional(mut self, records: u16, bytes: &[u8]) -> Self {
        self.counts[3] += records;
        self.body.extend_from_slice(bytes);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut counts = self.counts;
        let mut tail = Vec::new();
        if let Some((size, version, flags, options)) = &self.opt {
            counts[3] += 1;
            tail.extend_from_slice(&[0, 0, 41]);
            tail.extend_from_slice(&size.to_be_bytes());
            tail.extend_from_slice(&[0, *version]);
            tail.extend_from_slice(&flags.to_be_bytes());
            tail.extend_from_slice(&u16::try_from(options.len()).unwrap().to_be_bytes());
            tail.extend_from_slice(options);
        }
        let words = [self.id, self.flags, counts[0], counts[1], counts[2], counts[3]];
        [words.map(u16::to_be_bytes).concat(), self.body.clone(), tail].concat()
    }
}
