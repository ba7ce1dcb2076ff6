//! Domain names in wire form: a length byte before each label, a zero byte at the end.
//!
//! Names inside the index and inside a request's buffer are known to be well-formed; the functions here still stop at the
//! end of the slice whatever it holds.

/// The longest name, in bytes with its length bytes (RFC 1035 section 2.3.4).
pub(super) const MAX_NAME: usize = 255;
/// The most labels a name of 255 bytes can have, the root not counted.
pub(super) const MAX_LABELS: usize = 127;
/// The root.
pub(super) const ROOT: &[u8] = &[0];

/// A name in lower case: the key of the index. Lives on the stack, so that looking up allocates nothing.
#[derive(Clone)]
pub(super) struct LowerName {
    bytes: [u8; MAX_NAME],
    len: usize,
}

impl LowerName {
    /// The root.
    pub(super) const fn root() -> Self {
        LowerName { bytes: [0; MAX_NAME], len: 1 }
    }

    /// Takes over a name in wire form. Returns whether it fitted; if not, the name stays what it was.
    pub(super) fn set(&mut self, wire: &[u8]) -> bool {
        let Some(place) = self.bytes.get_mut(..wire.len()) else { return false };
        place.copy_from_slice(wire);
        // Length bytes are at most 63 and so below 'A': folding the whole name leaves them alone. Only ASCII is folded
        // (RFC 4343 section 3).
        place.make_ascii_lowercase();
        self.len = wire.len();
        true
    }

    /// Puts `tail` in the place of everything after the first `keep` bytes (RFC 6672 section 2.2). Returns whether the
    /// result is short enough for a name; if not, nothing changed.
    pub(super) fn graft(&mut self, keep: usize, tail: &[u8]) -> bool {
        let Some(place) = self.bytes.get_mut(keep..).and_then(|rest| rest.get_mut(..tail.len())) else {
            return false;
        };
        place.copy_from_slice(tail);
        place.make_ascii_lowercase();
        self.len = keep + tail.len();
        true
    }

    /// The name in wire form.
    pub(super) fn as_wire(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(ROOT)
    }
}

/// The length of the uncompressed name at the start of `bytes`, if there is a well-formed one.
pub(super) fn measure(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some(at + 1),
            1..=63 => at += 1 + length,
            _ => return None,
        }
        // The zero byte must fit as well.
        if at >= MAX_NAME {
            return None;
        }
    }
}

/// The name without its first label; `None` for the root.
pub(super) fn parent(name: &[u8]) -> Option<&[u8]> {
    match name.first() {
        None | Some(0) => None,
        Some(length) => name.get(1 + usize::from(*length)..),
    }
}

/// The name itself, its parent, and so on down to the root.
pub(super) fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |n| parent(n))
}

/// How many labels the name has, the root not counted.
pub(super) fn labels(name: &[u8]) -> usize {
    suffixes(name).count() - 1
}

/// Whether `name` is `apex` or lies below it. Case counts: both come from the index.
pub(super) fn is_within(name: &[u8], apex: &[u8]) -> bool {
    suffixes(name).any(|suffix| suffix.len() == apex.len() && suffix.eq_ignore_ascii_case(apex))
}

/// Whether the first label is the asterisk alone.
pub(super) fn is_wildcard(name: &[u8]) -> bool {
    name.starts_with(b"\x01*")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = b"\x03wWw\x04GsLb\x04test\0";

    #[test]
    fn a_name_ends_at_its_zero_byte() {
        assert_eq!(measure(NAME), Some(NAME.len()));
        assert_eq!(measure(b"\0rest"), Some(1));
        assert_eq!(measure(b"\x03ww"), None, "cut off");
        assert_eq!(measure(b"\x40a"), None, "a label type nobody uses");
        assert_eq!(measure(b"\xc0\x0c"), None, "a pointer");
        assert_eq!(measure(b""), None);
    }

    #[test]
    fn a_name_may_have_255_bytes_and_no_more() {
        let longest = [b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(3);
        let at_limit = [longest.as_slice(), b"\x3d", &[b'b'; 61], b"\0"].concat();
        assert_eq!(measure(&at_limit), Some(255));
        let beyond = [longest.as_slice(), b"\x3e", &[b'b'; 62], b"\0"].concat();
        assert_eq!(measure(&beyond), None);
        assert_eq!(labels(&[b"\x01a".repeat(127), vec![0]].concat()), MAX_LABELS);
    }

    #[test]
    fn only_ascii_letters_are_folded() {
        let mut name = LowerName::root();
        assert!(name.set(b"\x04A\xc1\xe1z\0"));
        assert_eq!(name.as_wire(), b"\x04a\xc1\xe1z\0");
    }

    #[test]
    fn grafting_replaces_the_tail_or_leaves_everything() {
        let mut name = LowerName::root();
        name.set(NAME);
        assert!(name.graft(4, b"\x03NEW\0"));
        assert_eq!(name.as_wire(), b"\x03www\x03new\0");
        assert!(!name.graft(4, &[1; 252]));
        assert_eq!(name.as_wire(), b"\x03www\x03new\0");
    }

    #[test]
    fn a_name_is_within_itself_and_its_ancestors() {
        assert!(is_within(NAME, NAME));
        assert!(is_within(NAME, b"\x04test\0"));
        assert!(is_within(NAME, ROOT));
        assert!(!is_within(b"\x04test\0", NAME));
        assert!(!is_within(b"\x05atest\0", b"\x04test\0"), "a label is not a suffix of another");
    }
}
