use proptest::prelude::*;

use super::*;

/// A vector that depends on the text, and how often it was computed.
fn counting(count: &mut usize) -> impl FnMut(&[&str]) -> Result<Vec<Vec<f32>>, Error> + '_ {
    |texts| {
        *count += texts.len();
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

fn vector(text: &str) -> Vec<f32> {
    let seed = text.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (0..DIMENSIONS).map(|n| ((seed as usize + n * n) % 101) as f32 - 50.0).collect()
}

fn filled(texts: &[&str], model: [u8; 32]) -> Vectors {
    let mut vectors = Vectors::new(model);
    vectors.fill(texts.iter().copied(), usize::MAX, &mut counting(&mut 0)).unwrap();
    vectors
}

#[test]
fn a_text_is_embedded_once_in_its_life() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let mut first = filled(&["one", "two", "one"], [1; 32]);
    assert_eq!(first.len(), 2);
    assert!(first.save(&path).unwrap());
    assert!(!first.save(&path).unwrap(), "nothing changed since");

    let mut count = 0;
    let mut second = Vectors::open(&path, [1; 32]);
    second.fill(["two", "three"], usize::MAX, &mut counting(&mut count)).unwrap();
    assert_eq!(count, 1);
    assert_eq!(second.get("two"), Some(&Packed::new(&vector("two"))));
    second.save(&path).unwrap();
    let third = Vectors::open(&path, [1; 32]);
    assert!(third.get("one").is_none() && third.get("three").is_some(), "what nobody uses goes");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn another_model_shares_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    filled(&["one"], [1; 32]).save(&path).unwrap();
    assert!(Vectors::open(&path, [2; 32]).is_empty());
    assert!(Vectors::open(&folder.path().join("absent"), [1; 32]).is_empty());
    assert!(Vectors::open(folder.path(), [1; 32]).is_empty());
}

#[test]
fn a_file_of_which_half_is_useless_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    filled(&["1", "2", "3", "4"], [1; 32]).save(&path).unwrap();
    for (used, written, left) in [(&["1", "2"][..], false, 4), (&["1"], true, 1)] {
        let mut vectors = Vectors::open(&path, [1; 32]);
        vectors.fill(used.iter().copied(), usize::MAX, &mut counting(&mut 0)).unwrap();
        assert_eq!((vectors.save(&path).unwrap(), Vectors::open(&path, [1; 32]).len()), (written, left));
    }
}

#[test]
#[cfg(unix)]
fn a_link_is_not_followed_but_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (target, path) = (folder.path().join("target"), folder.path().join(FILE_NAME));
    filled(&["one"], [1; 32]).save(&target).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(Vectors::open(&path, [1; 32]).is_empty());
    let before = std::fs::read(&target).unwrap();
    filled(&["two"], [1; 32]).save(&path).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), before);
}

#[test]
fn what_a_model_gives_wrong_is_not_kept() {
    let mut vectors = Vectors::new([1; 32]);
    let check = |vectors: &mut Vectors, given: Vec<Vec<f32>>| {
        let error = vectors.fill(["one"], usize::MAX, &mut |_| Ok(given.clone())).unwrap_err();
        assert!(matches!(error, Error::Embedding(_)) && vectors.is_empty(), "{error}");
    };
    check(&mut vectors, Vec::new());
    check(&mut vectors, vec![vec![1.0; 3]]);
}

#[test]
fn a_folder_that_is_not_there_is_an_error_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let error = filled(&["one"], [1; 32]).save(&folder.path().join("no/such/folder/.vectors")).unwrap_err();
    assert!(error.help().contains("safe to delete"), "{error:?}");
}

proptest! {
    #[test]
    fn one_wrong_byte_spoils_the_file_and_nothing_else(at in 0_usize..1_000, bit in 0_u8..8, cut in 0_usize..1_000) {
        let mut bytes = filled(&["one", "two"], [1; 32]).bytes();
        prop_assert_eq!(parse(&bytes, &[1; 32]).map(|entries| entries.len()), Some(2));
        prop_assert!(parse(&bytes[..cut % bytes.len()], &[1; 32]).is_none());
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(parse(&bytes, &[1; 32]).is_none());
    }

    #[test]
    fn any_bytes_are_no_reason_to_fall_over(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&bytes, &[1; 32]).is_none());
    }
}
