//! The text form of keys (BIP 173): a prefix, `1`, the bits of the key in groups of five, and a checksum.

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const CHECKSUM: usize = 6;

pub(super) fn encode(prefix: &str, key: [u8; 32]) -> String {
    let mut groups = regroup(&key, 8, 5);
    let sum = checksum(prefix, &[&groups[..], &[0; CHECKSUM]].concat()) ^ 1;
    groups
        .extend((0..CHECKSUM).map(|at| ((sum >> (5 * (CHECKSUM - 1 - at))) & 31).to_le_bytes()[0]));
    let text = groups.iter().map(|group| char::from(ALPHABET[usize::from(*group)]));
    [prefix, "1"].iter().flat_map(|part| part.chars()).chain(text).collect()
}

/// `None` for another prefix, length, character or checksum. The text is in lower case.
pub(super) fn decode(prefix: &str, text: &str) -> Option<[u8; 32]> {
    let data = text.strip_prefix(prefix)?.strip_prefix('1')?;
    let group = |byte| ALPHABET.iter().position(|known| *known == byte)?.try_into().ok();
    let groups: Vec<u8> = data.bytes().map(group).collect::<Option<_>>()?;
    if checksum(prefix, &groups) != 1 {
        return None;
    }
    let groups = groups.get(..groups.len().checked_sub(CHECKSUM)?)?;
    let bytes = regroup(groups, 5, 8);
    // The 52 groups of a key have four bits of padding.
    let key = bytes.get(..32)?.try_into().ok()?;
    (groups == &regroup(&bytes[..32], 8, 5)[..]).then_some(key)
}

/// Divides bits into groups of another size; zeros fill the last one.
fn regroup(values: &[u8], from: u32, to: u32) -> Vec<u8> {
    let (mut groups, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for value in values {
        bits = ((bits << from) | u32::from(*value)) & 0xffff;
        count += from;
        while count >= to {
            count -= to;
            groups.push(((bits >> count) & ((1 << to) - 1)).to_le_bytes()[0]);
        }
    }
    if count > 0 {
        groups.push(((bits << (to - count)) & ((1 << to) - 1)).to_le_bytes()[0]);
    }
    groups
}

fn checksum(prefix: &str, groups: &[u8]) -> u32 {
    const GENERATORS: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let all = high.chain([0]).chain(low).chain(groups.iter().copied());
    all.fold(1, |sum: u32, value| {
        let shifted = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
        let top = sum >> 25;
        let bits = GENERATORS.iter().enumerate().filter(|(bit, _)| (top >> bit) & 1 == 1);
        bits.fold(shifted, |sum, (_, generator)| sum ^ generator)
    })
}
