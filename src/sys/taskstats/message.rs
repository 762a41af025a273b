//! Messages of generic netlink that taskstats uses, as bytes.

use std::io::Cursor;

use neli::consts::nl::NlmF;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder};
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::types::{Buffer, GenlBuffer};
use neli::{Size, ToBytes};
use nix::errno::Errno;

const TASKSTATS_TYPE_PID: u16 = 1;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;

type Message = Nlmsghdr<u16, Genlmsghdr<u8, u16>>;

/// A request with one attribute, as bytes.
pub(super) fn request(family: u16, command: u8, sequence: u32, attribute: u16, value: &[u8]) -> Option<Vec<u8>> {
    let kind = AttrTypeBuilder::default().nla_type(attribute).build().ok()?;
    let attribute = NlattrBuilder::default().nla_type(kind).nla_payload(Buffer::from(value)).build().ok()?;
    let attributes: GenlBuffer<u16, Buffer> = [attribute].into_iter().collect();
    let payload = GenlmsghdrBuilder::default().cmd(command).version(1).attrs(attributes).build().ok()?;
    let message: Message = NlmsghdrBuilder::default()
        .nl_type(family)
        .nl_flags(NlmF::REQUEST)
        .nl_seq(sequence)
        .nl_payload(NlPayload::Payload(payload))
        .build()
        .ok()?;
    let mut bytes = Cursor::new(vec![0; message.padded_size()]);
    message.to_bytes(&mut bytes).ok()?;
    Some(bytes.into_inner())
}

/// The number of the request that a message answers, and its attributes or its error; `None` if it is
/// not a message. Parsed here because neli 0.7 panics at messages of impossible lengths.
pub(super) fn parse(bytes: &[u8]) -> Option<(u32, Result<&[u8], Errno>)> {
    const HEADERS: usize = 16 + 4;
    let length = usize::try_from(number(bytes, 0)?).ok()?;
    let sequence = number(bytes, 8)?.cast_unsigned();
    let attributes = match u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?) {
        ERROR => Err(Errno::from_raw(number(bytes, 16)?.saturating_neg())),
        _ => bytes.get(HEADERS..length).ok_or(Errno::EBADMSG),
    };
    Some((sequence, attributes))
}

/// Message type `NLMSG_ERROR` of netlink.
const ERROR: u16 = 2;

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The payload of the first attribute of that type (`struct nlattr`: length, type, payload, padding).
pub(super) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    // The upper two bits of a type are flags.
    const TYPE: u16 = 0x3fff;
    loop {
        let number = |at: usize| Some(u16::from_ne_bytes(attributes.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(number(0)?), number(2)?);
        let payload = attributes.get(4..length)?;
        if kind & TYPE == wanted {
            return Some(payload);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The struct in an answer, if the answer is about thread `tid`.
pub(super) fn stats(answer: &[u8], tid: u32) -> Option<&[u8]> {
    let about = attribute(answer, TASKSTATS_TYPE_AGGR_PID)?;
    (attribute(about, TASKSTATS_TYPE_PID)? == tid.to_ne_bytes()).then_some(())?;
    attribute(about, TASKSTATS_TYPE_STATS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one attribute as the kernel writes it: length, type, payload, padding.
    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + payload.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([kind.to_ne_bytes(), 0u16.to_ne_bytes()].concat());
        bytes.extend([sequence.to_ne_bytes(), 4711u32.to_ne_bytes()].concat());
        bytes.extend(body);
        bytes
    }

    fn reply(tid: u32, stats: &[u8]) -> Vec<u8> {
        let about = [attribute(1, &tid.to_ne_bytes()), attribute(3, stats)].concat();
        let body = [vec![2, 1, 0, 0], attribute(4, &about)].concat();
        message(30, 9, &body)
    }

    #[test]
    fn a_request_has_the_bytes_that_the_kernel_expects() {
        let bytes = request(30, 1, 9, 1, &7u32.to_ne_bytes()).unwrap();
        let body = [vec![1, 1, 0, 0], attribute(1, &7u32.to_ne_bytes())].concat();
        let mut expected = message(30, 9, &body);
        expected[6..8].copy_from_slice(&1u16.to_ne_bytes()); // NLM_F_REQUEST
        expected[12..16].fill(0);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn the_struct_in_a_reply_is_found_whole() {
        for length in [328, 344, 352, 368, 400, 416, 432, 560, 688, 1000] {
            let sent: Vec<u8> = (0..=250).cycle().take(length).collect();
            let reply = reply(7, &sent);
            let (sequence, answer) = parse(&reply).unwrap();
            let answer = answer.unwrap();
            assert_eq!(sequence, 9);
            assert_eq!(stats(answer, 7), Some(&sent[..]));
            assert_eq!(stats(answer, 8), None, "about another thread");
        }
    }

    #[test]
    fn errors_are_their_errno() {
        let asked = request(30, 1, 9, 1, &7u32.to_ne_bytes()).unwrap();
        let error = |errno: i32| message(2, 9, &[&errno.to_ne_bytes()[..], &asked].concat());
        assert_eq!(parse(&error(-1)), Some((9, Err(Errno::EPERM))));
        assert_eq!(parse(&error(-3)), Some((9, Err(Errno::ESRCH))));
    }

    #[test]
    fn messages_of_impossible_lengths_are_no_panic() {
        let mut short = reply(7, &[0; 328]);
        short[..4].copy_from_slice(&9u32.to_ne_bytes());
        assert_eq!(parse(&short), Some((9, Err(Errno::EBADMSG))));
        assert_eq!(
            parse(&message(2, 9, &[&(-1i32).to_ne_bytes()[..], &[0; 28]].concat())),
            Some((9, Err(Errno::EPERM)))
        );
        assert_eq!(parse(&message(2, 9, &[0; 3])), None);
    }

    #[test]
    fn a_damaged_reply_is_an_error_and_never_a_panic() {
        let whole = reply(7, &[1; 328]);
        for end in 0..whole.len() {
            let answer = parse(&whole[..end]);
            assert!(!matches!(answer, Some((_, Ok(answer))) if stats(answer, 7).is_some()), "{end}");
        }
        for at in 0..60 {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            if let Some((_, Ok(answer))) = parse(&bytes) {
                let _ = stats(answer, 7);
            }
        }
    }
}
