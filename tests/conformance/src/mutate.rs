//! Packets nobody would send on purpose: well-formed ones, built ones that lie, and what random changes make of them. The same
//! seed gives the same packets.

use crate::packet::{Packet, opt_record, query, wire};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Octets of a packet at most.
const LONGEST: usize = 4000;

/// Names that exist, that don't, and that no resolver would ask for.
const NAMES: [&str; 12] = [
    "gslb.test",
    "www.gslb.test",
    "alias.gslb.test",
    "chain.gslb.test",
    "x.y.wild.gslb.test",
    "b.ent.gslb.test",
    "huge.gslb.test",
    "x.sub.gslb.test",
    "nope.gslb.test",
    "example.org",
    "version.bind",
    "",
];

const TYPES: [u16; 16] = [1, 2, 5, 6, 15, 16, 28, 33, 41, 43, 65, 250, 251, 252, 255, 257];

/// An endless source of them.
pub struct Mutator {
    rng: Pcg64Mcg,
    built: Vec<Vec<u8>>,
}

impl Mutator {
    /// From this seed.
    pub fn new(seed: u64) -> Mutator {
        Mutator { rng: Pcg64Mcg::seed_from_u64(seed), built: built() }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.rng.next_u64() % bound as u64) as usize
    }

    /// The next packet.
    pub fn packet(&mut self) -> Vec<u8> {
        let mut packet = match self.below(4) {
            0 => {
                let at = self.below(self.built.len());
                self.built[at].clone()
            }
            _ => self.plausible(),
        };
        for _ in 0..[0, 0, 1, 1, 2, 4, 16][self.below(7)] {
            self.change(&mut packet);
        }
        packet.truncate(LONGEST);
        packet
    }

    /// A query as resolvers send them, or nearly.
    fn plausible(&mut self) -> Vec<u8> {
        let name = wire(NAMES[self.below(NAMES.len())]);
        let labels: Vec<u8> = (0..self.below(4)).flat_map(|_| self.label()).collect();
        let rtype =
            if self.below(8) == 0 { self.rng.next_u32() as u16 } else { TYPES[self.below(TYPES.len())] };
        let class = [1, 1, 1, 1, 3, 4, 254, 255][self.below(8)];
        let flags = [0, 0, 0x100, 0x20, 0x10, 0x8000, 0x2800, self.rng.next_u32() as u16][self.below(8)];
        let mut packet = Packet::new().flags(flags).question(&[labels, name].concat(), rtype, class);
        if self.below(3) > 0 {
            packet = packet.edns([0, 512, 1232, 4096, 65_535][self.below(5)]);
            packet = packet.edns_version([0, 0, 0, 1][self.below(4)], [0, 0x8000, 0x7fff][self.below(3)]);
            for _ in 0..self.below(4) {
                let length = [0, 1, 4, 7, 8, 11, 20, 300][self.below(8)];
                let data: Vec<u8> = (0..length).map(|_| self.octet()).collect();
                packet = packet.option([3, 8, 8, 8, 10, 12, 65_001][self.below(7)], &data);
            }
            if self.below(4) == 0 {
                let address = [192, 0, 2, 1];
                let source = [0, 1, 8, 20, 24, 32, 33, 255][self.below(8)];
                packet = packet.client_subnet(self.below(4) as u16, source, &address[..self.below(5)]);
            }
        }
        packet.bytes()
    }

    fn label(&mut self) -> Vec<u8> {
        let length = [1, 3, 20, 63][self.below(4)];
        let octets: Vec<u8> = (0..length).map(|_| self.octet()).collect();
        [vec![length], octets].concat()
    }

    fn octet(&mut self) -> u8 {
        self.rng.next_u32() as u8
    }

    fn change(&mut self, packet: &mut Vec<u8>) {
        if packet.is_empty() {
            return;
        }
        let at = self.below(packet.len());
        let some = at..packet.len().min(at + 1 + self.below(8));
        match self.below(6) {
            0 => packet[at] ^= 1 << self.below(8),
            1 => packet[at] = [0, 1, 63, 64, 127, 128, 191, 192, 255][self.below(9)],
            2 => drop(packet.drain(some)),
            3 => {
                let new: Vec<u8> = some.map(|_| self.octet()).collect();
                packet.splice(at..at, new);
            }
            4 => packet.truncate(at),
            _ => packet.extend_from_within(at..packet.len().min(at + 200)),
        }
    }
}

/// Packets that were built to break parsers.
fn built() -> Vec<Vec<u8>> {
    let zone = wire("gslb.test");
    let asked = |name: &[u8]| Packet::new().lie(0, 1).raw(name).raw(&[0, 1, 0, 1]);
    let soa = || query("gslb.test", 6);
    let mut packets = vec![
        // A name that points to itself, to its successor, beyond the end, and one that would grow for ever.
        asked(b"\xc0\x0c"),
        asked(b"\xc0\x0e\xc0\x0c"),
        asked(b"\xff\xff"),
        asked(b"\x01a\xc0\x0c"),
        // Labels of no known kind, a name of 255 octets and one of 257.
        asked(b"\x40aaaa\0"),
        asked(b"\x80aaaa\0"),
        asked(&[b"\x01a".repeat(127), vec![0]].concat()),
        asked(&[b"\x01a".repeat(128), vec![0]].concat()),
        // Questions: none, two, and a class and type cut off.
        Packet::new(),
        soa().question(&zone, 6, 1),
        Packet::new().lie(0, 1).raw(&zone),
        // Two OPT, options longer than the record, an OPT whose owner is a pointer, a signature.
        soa().additional(&opt_record(1232, b"")).additional(&opt_record(1232, b"")),
        soa().additional(b"\0\0\x29\x10\0\0\0\0\0\xff\xff"),
        soa().additional(b"\xc0\x0c\0\x29\x10\0\0\0\0\0\0\0"),
        soa().additional(&opt_record(1232, b"\0\x08\xff\xff\0\x01")),
        soa().additional(
            &[b"\0\0\xfa\0\xff\0\0\0\0\0\x3a\x08hmac-md5\x07sig-alg\x03reg\x03int\0", &[0; 30][..]].concat(),
        ),
        // An update, a notification, a session signalling request, and what follows a question that should not.
        soa().opcode(5),
        soa().opcode(4),
        Packet::new().opcode(6).raw(&[0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1]),
        soa().raw(&[0; 3000]),
    ];
    packets.extend((0..4).map(|section| soa().lie(section, u16::MAX)));
    packets.extend((0..16).flat_map(|opcode| [soa().opcode(opcode), soa().flags(0x8000 | opcode << 11)]));
    let whole = soa().bytes();
    let mut packets: Vec<_> = packets.iter().map(Packet::bytes).collect();
    packets.extend((0..whole.len()).map(|length| whole[..length].to_vec()));
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_packets_and_another_one_others() {
        let some = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..200).map(|_| mutator.packet()).collect::<Vec<_>>()
        };
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
        assert!(some(1).iter().all(|packet| packet.len() <= LONGEST));
    }
}
