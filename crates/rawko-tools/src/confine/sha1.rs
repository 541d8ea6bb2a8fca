//! SHA-1, with which git ends its index. It is a checksum here and protects nothing.

/// The digest of the bytes.
pub(super) fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let blocks = bytes.chunks_exact(64);
    let mut rest = blocks.remainder().to_vec();
    blocks.for_each(|block| mix(&mut state, block));
    rest.push(0x80);
    while rest.len() % 64 != 56 {
        rest.push(0);
    }
    rest.extend((bytes.len() as u64 * 8).to_be_bytes());
    rest.chunks_exact(64).for_each(|block| mix(&mut state, block));
    let mut digest = [0; 20];
    for (place, word) in digest.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn mix(state: &mut [u32; 5], block: &[u8]) {
    let mut words: Vec<u32> = block
        .chunks_exact(4)
        .map(|word| word.iter().fold(0, |all, byte| (all << 8) | u32::from(*byte)))
        .collect();
    for i in 16..80 {
        words.push((words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1));
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (i, word) in words.iter().enumerate() {
        let (f, k) = match i {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999_u32),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d, e]) {
        *old = old.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], digest: &str) {
        assert_eq!(hex::encode(sha1(bytes)), digest);
    }

    /// The examples of FIPS 180, and lengths around a block.
    #[test]
    fn published_digests() {
        check(b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        check(b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        );
        check(&[b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        check(&[b'a'; 64], "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    }
}
