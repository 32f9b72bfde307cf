//! A short run of every fuzz target: the seeds and a fixed sequence of mutations of them. `fuzz/README.md` says how to run
//! them for longer.

use crate::fuzz_targets::TARGETS;

/// A sequence that is the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).unwrap()
    }
}

/// Bytes that readers treat in a way of their own.
const SPECIAL: &[&[u8]] = &[
    b"\0",
    b"\r\n",
    b"\n",
    b"\xff",
    b"%",
    b"..",
    b"/",
    b":",
    b"\"",
    b"{",
    b"\x80",
    b"\xc0\x0c",
    b"\x7f\xff\xff\xff",
];

fn mutate(bytes: &mut Vec<u8>, seeds: &[&[u8]], numbers: &mut Numbers) {
    for _ in 0..=numbers.next(4) {
        let at = numbers.next(bytes.len() + 1);
        let end = (at + numbers.next(8)).min(bytes.len());
        match numbers.next(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << numbers.next(8),
            1 if at < bytes.len() => bytes[at] = u8::try_from(numbers.next(256)).unwrap(),
            2 => drop(bytes.splice(at..end, SPECIAL[numbers.next(SPECIAL.len())].iter().copied())),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let part = bytes[at..end].to_vec();
                let to = numbers.next(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            _ => {
                let other = seeds[numbers.next(seeds.len())];
                let from = numbers.next(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes.truncate(64 << 10);
}

#[test]
fn no_mutation_of_a_seed_makes_a_reader_panic() {
    for target in TARGETS {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        target.seeds.iter().for_each(|seed| (target.run)(seed));
        let mut bytes = target.seeds[0].to_vec();
        for round in 0..target.rounds {
            if round % 8 == 0 {
                bytes = target.seeds[numbers.next(target.seeds.len())].to_vec();
            }
            mutate(&mut bytes, target.seeds, &mut numbers);
            let ended = std::panic::catch_unwind(|| (target.run)(&bytes));
            assert!(
                ended.is_ok(),
                "{} panics in round {round} on {:?}",
                target.name,
                bytes.escape_ascii().to_string()
            );
        }
    }
}

/// Every target has a program for libFuzzer.
#[test]
fn every_target_can_be_fuzzed_for_longer() {
    let root = crate::support::root();
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}
