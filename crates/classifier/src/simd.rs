//! Products of integer rows with packed weights, with the widest instructions that the processor has. Sums of integers are
//! exact, so every path gives the same bits. The only module of this crate with unsafe code: it calls functions that
//! need certain instructions, after a check that the processor has them, and loads whole vectors.
#![expect(unsafe_code, reason = "vector instructions; each block says why it is sound")]

/// Outputs that are computed together, and rows.
pub(crate) const PANEL: usize = 64;
pub(crate) const ROWS: usize = 6;
/// Bytes of a panel for two inputs: for each output its two weights.
pub(crate) const STEP: usize = 2 * PANEL;

pub(crate) type Sums = [[i32; PANEL]; ROWS];

/// A computation that needs many products. It is compiled once for each kind of instructions, so it must be inlined.
pub(crate) trait Forward {
    /// Memory for one call, reused for the next.
    type Scratch;
    fn forward(
        &self,
        ids: &[u32],
        scratch: &mut Self::Scratch,
        product: impl Fn([&[i16]; ROWS], &[i8], &mut Sums),
    ) -> f32;
}

/// The vector instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The instructions of this processor, from the narrowest to the widest.
    pub(crate) fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "one path"))]
        let mut found = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                found.push(Self::Avx2);
            }
            let features = [
                is_x86_feature_detected!("avx512f"),
                is_x86_feature_detected!("avx512bw"),
                is_x86_feature_detected!("avx512vl"),
                is_x86_feature_detected!("avx512vnni"),
            ];
            if features.iter().all(|has| *has) {
                found.push(Self::Avx512);
            }
        }
        found
    }

    pub(crate) fn widest() -> Self {
        Self::available().last().copied().unwrap_or(Self::Portable)
    }

    /// The raw score of one window.
    pub(crate) fn score<F: Forward>(self, encoder: &F, ids: &[u32], scratch: &mut F::Scratch) -> f32 {
        match self {
            Self::Portable => encoder.forward(ids, scratch, portable),
            // SAFETY: a value of this kind comes from `available`, which checked the processor.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86::with_avx2(encoder, ids, scratch) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { x86::with_avx512(encoder, ids, scratch) },
        }
    }
}

/// Six rows times one panel. The rows have as many values as the panel has inputs.
fn portable(rows: [&[i16]; ROWS], panel: &[i8], sums: &mut Sums) {
    *sums = [[0; PANEL]; ROWS];
    for (step, weights) in panel.as_chunks::<STEP>().0.iter().enumerate() {
        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
            let first = i32::from(row[2 * step]);
            let second = i32::from(row[2 * step + 1]);
            for (sum, pair) in sums.iter_mut().zip(weights.as_chunks::<2>().0) {
                *sum += first * i32::from(pair[0]) + second * i32::from(pair[1]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_loadu_si256,
        _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
        _mm512_cvtepi8_epi16, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
    };

    use super::{Forward, PANEL, ROWS, STEP, Sums};

    #[target_feature(enable = "avx2")]
    pub(super) fn with_avx2<F: Forward>(encoder: &F, ids: &[u32], scratch: &mut F::Scratch) -> f32 {
        encoder.forward(ids, scratch, |rows, panel, sums| avx2(rows, panel, sums))
    }

    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn with_avx512<F: Forward>(encoder: &F, ids: &[u32], scratch: &mut F::Scratch) -> f32 {
        encoder.forward(ids, scratch, |rows, panel, sums| avx512(rows, panel, sums))
    }

    /// Two neighbouring values of a row, in the format of the instructions.
    fn pair([first, second]: [i16; 2]) -> i32 {
        i32::from(second) << 16 | i32::from(first.cast_unsigned())
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(rows: [&[i16]; ROWS], panel: &[i8], sums: &mut Sums) {
        // Sixteen registers hold six rows of sixteen outputs.
        const PART: usize = 16;
        let steps = panel.as_chunks::<STEP>().0;
        let [a, b, c, d, e, f] = rows.map(|row| &row.as_chunks::<2>().0[..steps.len()]);
        for part in 0..PANEL / PART {
            let mut totals = [[_mm256_setzero_si256(); 2]; ROWS];
            for step in 0..steps.len() {
                let halves = steps[step].as_chunks::<16>().0;
                let low = widen(&halves[2 * part]);
                let high = widen(&halves[2 * part + 1]);
                let pairs = [a[step], b[step], c[step], d[step], e[step], f[step]];
                for row in 0..ROWS {
                    let values = _mm256_set1_epi32(pair(pairs[row]));
                    totals[row][0] = _mm256_add_epi32(totals[row][0], _mm256_madd_epi16(values, low));
                    totals[row][1] = _mm256_add_epi32(totals[row][1], _mm256_madd_epi16(values, high));
                }
            }
            for (totals, sums) in totals.iter().zip(sums.iter_mut()) {
                let target = sums[PART * part..PART * (part + 1)].as_chunks_mut::<8>().0;
                for (total, target) in totals.iter().zip(target) {
                    // SAFETY: eight integers have the size of the vector, and the store needs no alignment.
                    unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), *total) };
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn widen(weights: &[i8; 16]) -> __m256i {
        // SAFETY: sixteen bytes have the size of the vector, and the load needs no alignment.
        _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(weights.as_ptr().cast()) })
    }

    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn avx512(rows: [&[i16]; ROWS], panel: &[i8], sums: &mut Sums) {
        let steps = panel.as_chunks::<STEP>().0;
        let [a, b, c, d, e, f] = rows.map(|row| &row.as_chunks::<2>().0[..steps.len()]);
        let mut totals = [[_mm512_setzero_si512(); 4]; ROWS];
        for step in 0..steps.len() {
            let quarters = steps[step].as_chunks::<32>().0;
            let first = widen_twice(&quarters[0]);
            let second = widen_twice(&quarters[1]);
            let third = widen_twice(&quarters[2]);
            let fourth = widen_twice(&quarters[3]);
            let pairs = [a[step], b[step], c[step], d[step], e[step], f[step]];
            for row in 0..ROWS {
                let values = _mm512_set1_epi32(pair(pairs[row]));
                multiply_add(&mut totals[row][0], values, first);
                multiply_add(&mut totals[row][1], values, second);
                multiply_add(&mut totals[row][2], values, third);
                multiply_add(&mut totals[row][3], values, fourth);
            }
        }
        for (totals, sums) in totals.iter().zip(sums.iter_mut()) {
            for (total, target) in totals.iter().zip(sums.as_chunks_mut::<16>().0) {
                // SAFETY: sixteen integers have the size of the vector, and the store needs no alignment.
                unsafe { _mm512_storeu_si512(target.as_mut_ptr().cast(), *total) };
            }
        }
    }

    /// Adds the products of pairs. Written as assembly, because the compiler replaces the intrinsic with two instructions,
    /// which is slower here.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn multiply_add(total: &mut __m512i, values: __m512i, weights: __m512i) {
        // SAFETY: the instruction reads and writes these registers alone.
        unsafe {
            asm!(
                "vpdpwssd {0}, {1}, {2}",
                inout(zmm_reg) *total,
                in(zmm_reg) values,
                in(zmm_reg) weights,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw")]
    fn widen_twice(weights: &[i8; 32]) -> __m512i {
        // SAFETY: thirty-two bytes have the size of the vector, and the load needs no alignment.
        _mm512_cvtepi8_epi16(unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, the same in every run.
    fn numbers(count: usize) -> impl Iterator<Item = u32> {
        let mut state = 9_u32;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        })
        .take(count)
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_path_gives_the_same_sums() {
        const INPUTS: usize = 96;
        let values: Vec<i16> = numbers(ROWS * INPUTS)
            .map(|n| i16::try_from(i64::from(n % 65_535) - 32_767).unwrap_or(0))
            .collect();
        let panel: Vec<i8> =
            numbers(INPUTS * PANEL).map(|n| i8::try_from(i64::from(n % 255) - 127).unwrap_or(0)).collect();
        let rows: [&[i16]; ROWS] = std::array::from_fn(|row| &values[row * INPUTS..(row + 1) * INPUTS]);
        let mut expected = [[0; PANEL]; ROWS];
        portable(rows, &panel, &mut expected);
        assert_eq!(expected[1][3], direct(rows[1], &panel, 3));
        let mut found = expected;
        for instructions in Instructions::available() {
            found[0][0] = 1;
            match instructions {
                Instructions::Portable => portable(rows, &panel, &mut found),
                // SAFETY: `available` checked the processor.
                Instructions::Avx2 => unsafe { x86::avx2(rows, &panel, &mut found) },
                // SAFETY: as above.
                Instructions::Avx512 => unsafe { x86::avx512(rows, &panel, &mut found) },
            }
            assert_eq!(found, expected, "{instructions:?}");
        }
    }

    /// One sum, written as the definition says.
    fn direct(row: &[i16], panel: &[i8], output: usize) -> i32 {
        let weight = |input: usize| panel[input / 2 * STEP + 2 * output + input % 2];
        (0..row.len()).map(|input| i32::from(row[input]) * i32::from(weight(input))).sum()
    }
}
