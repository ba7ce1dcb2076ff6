//! The numbers of the DNS that decide something here (IANA, Domain Name System Parameters).

/// Record and query types.
pub(super) const A: u16 = 1;
pub(super) const NS: u16 = 2;
pub(super) const CNAME: u16 = 5;
pub(super) const SOA: u16 = 6;
pub(super) const MX: u16 = 15;
pub(super) const TXT: u16 = 16;
pub(super) const AAAA: u16 = 28;
pub(super) const SRV: u16 = 33;
pub(super) const DNAME: u16 = 39;
pub(super) const OPT: u16 = 41;
pub(super) const DS: u16 = 43;
pub(super) const TSIG: u16 = 250;
pub(super) const IXFR: u16 = 251;
pub(super) const AXFR: u16 = 252;
pub(super) const ANY: u16 = 255;

/// Classes.
pub(super) const CLASS_IN: u16 = 1;
pub(super) const CLASS_CH: u16 = 3;
pub(super) const CLASS_ANY: u16 = 255;

/// Response codes; those above 15 need OPT.
pub(super) const NOERROR: u16 = 0;
pub(super) const FORMERR: u16 = 1;
pub(super) const NXDOMAIN: u16 = 3;
pub(super) const NOTIMP: u16 = 4;
pub(super) const REFUSED: u16 = 5;
pub(super) const YXDOMAIN: u16 = 6;
pub(super) const NOTAUTH: u16 = 9;
pub(super) const BADVERS: u16 = 16;

/// How names lie in the RDATA of the types of RFC 1035, the only ones whose names may be compressed (RFC 3597 section 4):
/// so many bytes before them, and so many names. Whatever follows the names is copied.
pub(super) const fn compressible(rtype: u16) -> Option<(usize, usize)> {
    match rtype {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR
        2..=5 | 7..=9 | 12 => Some((0, 1)),
        // SOA, MINFO
        6 | 14 => Some((0, 2)),
        // MX
        15 => Some((2, 1)),
        _ => None,
    }
}
