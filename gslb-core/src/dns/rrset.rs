//! Static records, composed once when the configuration is read.

use super::name;
use super::rtype::compressible;

/// All records of one owner and type.
#[derive(Debug)]
pub(super) struct RrSet {
    rtype: u16,
    ttl: u32,
    layout: Layout,
    /// Each record's RDATA, two bytes of length before it.
    data: Box<[u8]>,
}

/// What is to be known of RDATA to compress it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Copied as it is.
    Opaque,
    /// So many bytes, then so many names, then bytes again.
    Names {
        /// Bytes before the first name.
        before: usize,
        /// Names.
        names: usize,
    },
}

impl RrSet {
    /// A set of these records. Names in them are compressed only if every record really is built as its type says.
    pub(super) fn new<'a>(rtype: u16, ttl: u32, rdatas: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let layout = match compressible(rtype) {
            Some((before, names))
                if rdatas.clone().all(|rdata| names_end(rdata, before, names).is_some()) =>
            {
                Layout::Names { before, names }
            }
            Some(_) | None => Layout::Opaque,
        };
        let mut data = Vec::new();
        for rdata in rdatas {
            // Longer RDATA cannot exist: its length on the wire has 16 bits.
            let Ok(length) = u16::try_from(rdata.len()) else { continue };
            data.extend_from_slice(&length.to_be_bytes());
            data.extend_from_slice(rdata);
        }
        RrSet { rtype, ttl, layout, data: data.into() }
    }

    pub(super) fn rtype(&self) -> u16 {
        self.rtype
    }

    pub(super) fn ttl(&self) -> u32 {
        self.ttl
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// RDATA of each record, in the order of the configuration.
    pub(super) fn rdatas(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest: &[u8] = &self.data;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let (rdata, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            rest = after;
            Some(rdata)
        })
    }

    /// The first record's RDATA.
    pub(super) fn first(&self) -> Option<&[u8]> {
        self.rdatas().next()
    }

    /// Bytes of all RDATA.
    pub(super) fn size(&self) -> usize {
        self.data.len()
    }

    /// The name in each record that begins after `before` bytes: the targets of NS, MX, SRV.
    pub(super) fn targets(&self, before: usize) -> impl Iterator<Item = &[u8]> {
        self.rdatas().filter_map(move |rdata| {
            let rest = rdata.get(before..)?;
            rest.get(..name::measure(rest)?)
        })
    }
}

fn names_end(rdata: &[u8], before: usize, names: usize) -> Option<usize> {
    let mut at = before;
    for _ in 0..names {
        at += name::measure(rdata.get(at..)?)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::rtype::{A, MX, SOA, SRV};

    fn set(rtype: u16, rdatas: &[&[u8]]) -> RrSet {
        RrSet::new(rtype, 60, rdatas.iter().copied())
    }

    #[test]
    fn records_come_back_in_their_order() {
        let a = set(A, &[&[192, 0, 2, 2], &[192, 0, 2, 1]]);
        assert_eq!(a.rdatas().collect::<Vec<_>>(), [[192, 0, 2, 2], [192, 0, 2, 1]]);
        assert_eq!(a.first(), Some([192, 0, 2, 2].as_slice()));
        assert_eq!(a.layout(), Layout::Opaque);
    }

    #[test]
    fn only_types_of_rfc_1035_are_compressed() {
        assert_eq!(set(MX, &[b"\0\x0a\x02mx\0"]).layout(), Layout::Names { before: 2, names: 1 });
        assert_eq!(set(SOA, &[&[0; 22]]).layout(), Layout::Names { before: 0, names: 2 });
        assert_eq!(set(SRV, &[b"\0\0\0\0\0\x35\x02mx\0"]).layout(), Layout::Opaque);
    }

    #[test]
    fn rdata_that_is_not_what_its_type_says_is_copied_as_it_is() {
        assert_eq!(set(MX, &[b"\0\x0a\x02mx\0", b"\0"]).layout(), Layout::Opaque);
    }
}
