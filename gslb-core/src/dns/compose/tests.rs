//! Names, limits and rollbacks of a reply under construction.

use super::*;
use crate::dns::compress::MAX_MARKS;

const QUESTION_BYTES: &[u8] = b"\x03wWw\x04GsLb\x04tEsT\0\0\x01\0\x01";

fn a_set() -> RrSet {
    RrSet::new(A, 5, [[192, 0, 2, 1].as_slice(), &[192, 0, 2, 2]].into_iter())
}

/// Writes into a buffer full of rubbish and returns what came after the question.
fn written(
    limit: usize,
    write: impl FnOnce(&mut Reply<'_>) -> Result<(), Full>,
) -> (Result<(), Full>, Vec<u8>) {
    let mut out = [0xc0; 600];
    let mut reply = Reply::new(&mut out, limit, 0, QUESTION_BYTES).unwrap();
    let result = write(&mut reply);
    let len = reply.finish(1, 0, 0, None);
    (result, out[12 + QUESTION_BYTES.len()..len].to_vec())
}

#[test]
fn a_name_is_a_pointer_to_the_longest_suffix_there_is_whatever_the_case() {
    let (_, bytes) = written(600, |r| r.name(b"\x02ns\x04gslb\x04test\0"));
    assert_eq!(bytes, b"\x02ns\xc0\x10");
    let (_, bytes) = written(600, |r| r.name(b"\x03www\x04gslb\x04test\0"));
    assert_eq!(bytes, b"\xc0\x0c");
    let (_, bytes) = written(600, |r| {
        r.name(b"\x01a\x03org\0")?;
        r.name(b"\x01b\x01A\x03org\0")
    });
    assert_eq!(bytes, b"\x01a\x03org\0\x01b\xc0\x1f");
}

#[test]
fn the_root_is_written_in_full() {
    assert_eq!(written(600, |r| r.name(name::ROOT)).1, b"\0");
}

#[test]
fn a_name_is_never_compared_with_what_an_earlier_reply_left_in_the_buffer() {
    let mut out = [0; 100];
    out[31..34].copy_from_slice(b"\x01a\0");
    let reply = Reply::new(&mut out, 100, 0, QUESTION_BYTES).unwrap();
    assert!(!reply.name_at_is(31, b"\x01a\0"));
    assert!(reply.name_at_is(16, b"\x04gslb\x04test\0"));
    assert!(!reply.name_at_is(16, b"\x04gslb\0"));
}

#[test]
fn records_after_the_first_point_to_its_owner() {
    let (_, bytes) = written(600, |r| r.rrset(Section::Answer, Owner::Name(b"\x01x\x04test\0"), &a_set()));
    assert_eq!(bytes[..4], *b"\x01x\xc0\x15");
    assert_eq!(bytes[4 + 14..4 + 16], *b"\xc0\x1f", "the offset of the first owner");
    let (_, bytes) = written(600, |r| r.rrset(Section::Answer, Owner::Question, &a_set()));
    assert_eq!((bytes.len(), &bytes[..2], &bytes[16..18]), (32, &TO_QUESTION[..], &TO_QUESTION[..]));
}

#[test]
fn the_limit_is_reached_and_never_passed() {
    let whole = 12 + QUESTION_BYTES.len() + 32;
    let write = |r: &mut Reply<'_>| r.rrset(Section::Answer, Owner::Question, &a_set());
    assert_eq!(written(whole, write).0, Ok(()));
    assert_eq!(written(whole - 1, write).0, Err(Full));
}

#[test]
fn what_is_rolled_back_is_not_pointed_to() {
    let (_, bytes) = written(600, |r| {
        let before = r.checkpoint();
        r.name(b"\x01a\x03org\0")?;
        r.rollback(before);
        r.name(b"\x03com\0")?;
        r.name(b"\x01b\x01a\x03org\0")
    });
    assert_eq!(bytes, b"\x03com\0\x01b\x01a\x03org\0");
}

#[test]
fn the_question_is_pointed_to_after_a_rollback_as_well() {
    let (_, bytes) = written(600, |r| {
        let before = r.checkpoint();
        r.name(b"\x01a\x04test\0")?;
        r.rollback(before);
        r.name(b"\x01b\x04test\0")
    });
    assert_eq!(bytes, b"\x01b\xc0\x15");
}

#[test]
fn names_too_far_behind_are_written_in_full() {
    let mut out = vec![0; 65535];
    let mut reply = Reply::new(&mut out, 65535, 0, QUESTION_BYTES).unwrap();
    reply.slice(&vec![1; POINTER_LIMIT]).unwrap();
    let name = b"\x01a\x03org\0";
    for _ in 0..2 {
        let before = reply.len;
        reply.name(name).unwrap();
        assert_eq!(reply.len - before, name.len());
    }
}

#[test]
fn more_names_than_are_remembered_cost_bytes_and_not_correctness() {
    let mut out = vec![0; 65535];
    let mut reply = Reply::new(&mut out, 65535, 0, QUESTION_BYTES).unwrap();
    for n in 0..1000_u32 {
        let label = format!("{n:08}");
        let at = reply.len;
        let name = [b"\x08", label.as_bytes(), b"\x04test\0"].concat();
        reply.name(&name).unwrap();
        assert!(reply.name_at_is(at, &name));
    }
    assert_eq!(reply.marks.len(), MAX_MARKS);
}
