//! Vectors of meaning: how near two are, and how one is kept.
//!
//! Owns cosine, the brute-force search and the packed form. A search over every vector is exact and needs no index: at
//! ten thousand memories it costs a fraction of embedding the one query.

/// Numbers in a vector of the model that rawko uses.
pub const DIMENSIONS: usize = 384;

/// The cosine of the angle between two vectors: 1 where they point the same way. 0 where one is nothing, or they have not the
/// same number of dimensions.
#[must_use]
pub fn cosine(one: &[f32], other: &[f32]) -> f32 {
    if one.len() != other.len() {
        return 0.0;
    }
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    let lengths = (dot(one, one) * dot(other, other)).sqrt();
    if lengths > 0.0 { (dot(one, other) / lengths).clamp(-1.0, 1.0) } else { 0.0 }
}

/// The `count` vectors nearest to `query`, best first, as (place, cosine). Equal ones keep their order.
#[must_use]
pub fn nearest<'a>(
    query: &Packed,
    all: impl IntoIterator<Item = &'a Packed>,
    count: usize,
) -> Vec<(usize, f32)> {
    let mut found: Vec<(usize, f32)> =
        all.into_iter().enumerate().map(|(at, vector)| (at, query.cosine(vector))).collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    found.truncate(count);
    found
}

/// A vector in one byte a number: a quarter of the space, and an error of the cosine in the third decimal, where the
/// threshold is one of the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    bytes: Box<[i8]>,
    /// The sum of the squares, so that a comparison need not walk twice.
    square: i64,
}

impl Packed {
    /// Packs a vector. A value that is not a number counts as 0.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "held between -127 and 127")]
    pub fn new(vector: &[f32]) -> Self {
        let largest = vector.iter().filter(|x| x.is_finite()).fold(0.0_f32, |most, x| most.max(x.abs()));
        let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        let byte = |x: &f32| if x.is_finite() { (x * factor).round().clamp(-127.0, 127.0) as i8 } else { 0 };
        Self::from_bytes(vector.iter().map(byte).collect())
    }

    pub(crate) fn from_bytes(bytes: Box<[i8]>) -> Self {
        let square = bytes.iter().map(|x| i64::from(*x) * i64::from(*x)).sum();
        Self { bytes, square }
    }

    pub(crate) fn bytes(&self) -> &[i8] {
        &self.bytes
    }

    /// The cosine of the angle to another; only directions count, so that no scale needs to be kept.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "at most 384 · 127²")]
    pub fn cosine(&self, other: &Self) -> f32 {
        if self.bytes.len() != other.bytes.len() || self.square == 0 || other.square == 0 {
            return 0.0;
        }
        let dot: i32 = self.bytes.iter().zip(&other.bytes).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum();
        let lengths = (self.square as f64 * other.square as f64).sqrt();
        (f64::from(dot) / lengths).clamp(-1.0, 1.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_directions_count() {
        let check = |one: &[f32], other: &[f32], expected: f32| {
            assert!((cosine(one, other) - expected).abs() < 1e-6, "{one:?} {other:?}");
            assert!(
                (Packed::new(one).cosine(&Packed::new(other)) - expected).abs() < 0.01,
                "{one:?} {other:?}"
            );
        };
        check(&[1.0, 0.0], &[7.0, 0.0], 1.0);
        check(&[1.0, 0.0], &[0.0, 3.0], 0.0);
        check(&[1.0, 0.0], &[-2.0, 0.0], -1.0);
        check(&[1.0, 1.0], &[1.0, 0.0], std::f32::consts::FRAC_1_SQRT_2);
        check(&[0.0, 0.0], &[1.0, 0.0], 0.0);
        check(&[1.0], &[1.0, 0.0], 0.0);
        check(&[], &[], 0.0);
    }

    #[test]
    fn the_nearest_come_first_and_ties_keep_their_order() {
        let packed = |vector: [f32; 2]| Packed::new(&vector);
        let all = [packed([0.0, 1.0]), packed([1.0, 0.0]), packed([1.0, 1.0]), packed([2.0, 0.0])];
        let places: Vec<usize> = nearest(&packed([1.0, 0.0]), &all, 3).iter().map(|(at, _)| *at).collect();
        assert_eq!(places, [1, 3, 2]);
        assert!(nearest(&packed([1.0, 0.0]), &[], 3).is_empty());
    }

    proptest! {
        #[test]
        fn packing_costs_less_than_a_hundredth(
            one in prop::collection::vec(-1.0_f32..1.0, DIMENSIONS),
            other in prop::collection::vec(-1.0_f32..1.0, DIMENSIONS),
        ) {
            let exact = cosine(&one, &other);
            prop_assert!((Packed::new(&one).cosine(&Packed::new(&other)) - exact).abs() < 0.01);
        }

        #[test]
        fn no_vector_makes_nonsense(vector in prop::collection::vec(any::<f32>(), 0..8)) {
            let packed = Packed::new(&vector);
            prop_assert!((-1.0..=1.0).contains(&packed.cosine(&packed)));
        }
    }
}
