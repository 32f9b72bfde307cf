//! A pattern as a set of positions: each position reads one byte of a set, and knows which positions may come next.
//! Matching walks all open positions at once, so no text makes it backtrack.

use std::collections::{HashSet, VecDeque};

use super::PatternError;
use super::parse::{ByteSet, Token};

/// How many positions and how many steps between them a pattern may have.
const MAX_POSITIONS: usize = 2048;
const MAX_STEPS: usize = 32_768;
/// How many pairs of states a proof may visit before it is given up.
const MAX_PROOF: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Automaton {
    /// What every text that matches begins with; compared before anything else.
    literal_start: Vec<u8>,
    reads: Vec<ByteSet>,
    next: Vec<Vec<u16>>,
    first: Vec<u16>,
    accepts: Vec<bool>,
    accepts_empty: bool,
}

/// A piece of the pattern under construction: where it begins, where it may end, whether it may be empty.
struct Piece {
    first: Vec<u16>,
    last: Vec<u16>,
    empty: bool,
}

impl Piece {
    fn nothing() -> Self {
        Self { first: Vec::new(), last: Vec::new(), empty: true }
    }
}

#[derive(Default)]
struct Builder {
    reads: Vec<ByteSet>,
    next: Vec<Vec<u16>>,
    steps: usize,
}

impl Builder {
    fn one(&mut self, set: ByteSet) -> Result<Piece, PatternError> {
        let position = u16::try_from(self.reads.len()).map_err(|_| PatternError::TooComplex)?;
        if self.reads.len() >= MAX_POSITIONS {
            return Err(PatternError::TooComplex);
        }
        self.reads.push(set);
        self.next.push(Vec::new());
        Ok(Piece { first: vec![position], last: vec![position], empty: false })
    }

    fn many(&mut self, set: ByteSet) -> Result<Piece, PatternError> {
        let piece = self.one(set)?;
        self.connect(&piece.last, &piece.first)?;
        Ok(Piece { empty: true, ..piece })
    }

    fn connect(&mut self, from: &[u16], to: &[u16]) -> Result<(), PatternError> {
        self.steps += from.len() * to.len();
        if self.steps > MAX_STEPS {
            return Err(PatternError::TooComplex);
        }
        for position in from {
            self.next[usize::from(*position)].extend_from_slice(to);
        }
        Ok(())
    }

    fn then(&mut self, before: Piece, after: Piece) -> Result<Piece, PatternError> {
        self.connect(&before.last, &after.first)?;
        let mut first = before.first;
        if before.empty {
            first.extend_from_slice(&after.first);
        }
        let mut last = after.last;
        if after.empty {
            last.extend_from_slice(&before.last);
        }
        Ok(Piece { first, last, empty: before.empty && after.empty })
    }

    fn either(&mut self, branches: &[Vec<Token>]) -> Result<Piece, PatternError> {
        let mut all = Piece { empty: false, ..Piece::nothing() };
        for branch in branches {
            let piece = self.sequence(branch)?;
            all.first.extend(piece.first);
            all.last.extend(piece.last);
            all.empty |= piece.empty;
        }
        Ok(all)
    }

    fn sequence(&mut self, tokens: &[Token]) -> Result<Piece, PatternError> {
        tokens.iter().try_fold(Piece::nothing(), |before, token| {
            let after = self.token(token)?;
            self.then(before, after)
        })
    }

    fn token(&mut self, token: &Token) -> Result<Piece, PatternError> {
        let slash = || Token::One(ByteSet::one(b'/'));
        match token {
            Token::One(set) => self.one(*set),
            Token::Many(set) => self.many(*set),
            Token::Everything => self.many(ByteSet::ALL),
            Token::Either(branches) => self.either(branches),
            // Nothing, or anything that ends in a slash.
            Token::Prefix => self.either(&[vec![], vec![Token::Everything, slash()]]),
            Token::Suffix => self.sequence(&[slash(), Token::Everything]),
            Token::Middle => self.either(&[vec![slash()], vec![slash(), Token::Everything, slash()]]),
        }
    }
}

impl Automaton {
    pub(super) fn new(tokens: &[Token]) -> Result<Self, PatternError> {
        let mut builder = Builder::default();
        let piece = builder.sequence(tokens)?;
        let mut accepts = vec![false; builder.reads.len()];
        for position in piece.last {
            accepts[usize::from(position)] = true;
        }
        let literal_start = tokens
            .iter()
            .map_while(|token| super::parse::literal(std::slice::from_ref(token)))
            .flatten()
            .collect();
        Ok(Self {
            literal_start,
            reads: builder.reads,
            next: builder.next,
            first: piece.first,
            accepts,
            accepts_empty: piece.empty,
        })
    }

    pub(super) fn literal(bytes: &[u8]) -> Self {
        let count = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        Self {
            literal_start: bytes.to_vec(),
            reads: bytes.iter().map(|byte| ByteSet::one(*byte)).collect(),
            next: (1..=count).map(|next| if next < count { vec![next] } else { vec![] }).collect(),
            first: if count == 0 { vec![] } else { vec![0] },
            accepts: (1..=count).map(|position| position == count).collect(),
            accepts_empty: count == 0,
        }
    }

    pub(super) fn everything() -> Self {
        Self {
            literal_start: Vec::new(),
            reads: vec![ByteSet::ALL],
            next: vec![vec![0]],
            first: vec![0],
            accepts: vec![true],
            accepts_empty: true,
        }
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        if !text.starts_with(&self.literal_start) {
            return false;
        }
        let mut state = State::start();
        for byte in text {
            state = self.step(&state, *byte);
            if state.positions.is_empty() {
                return false;
            }
        }
        self.accepting(&state)
    }

    /// The state after one more byte.
    fn step(&self, state: &State, byte: u8) -> State {
        let mut seen = vec![0u64; self.reads.len().div_ceil(64)];
        let mut positions = Vec::new();
        let mut visit = |candidates: &[u16]| {
            for candidate in candidates {
                let index = usize::from(*candidate);
                let (word, bit) = (index / 64, 1 << (index % 64));
                if seen[word] & bit == 0 && self.reads[index].has(byte) {
                    seen[word] |= bit;
                    positions.push(*candidate);
                }
            }
        };
        if state.at_start {
            visit(&self.first);
        }
        for position in &state.positions {
            visit(&self.next[usize::from(*position)]);
        }
        positions.sort_unstable();
        State { at_start: false, positions }
    }

    fn accepting(&self, state: &State) -> bool {
        (state.at_start && self.accepts_empty)
            || state.positions.iter().any(|position| self.accepts[usize::from(*position)])
    }

    /// Proves that everything this accepts, `upper` accepts.
    pub(super) fn within(&self, upper: &Self) -> bool {
        self.explore(upper, |lower_state, upper_state| {
            if lower_state.is_dead() {
                return Visit::Leave;
            }
            if self.accepting(lower_state) && !upper.accepting(upper_state) {
                return Visit::Stop;
            }
            Visit::Enter
        })
    }

    /// Whether some text may be accepted by both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        !self.explore(other, |one, two| {
            if one.is_dead() || two.is_dead() {
                return Visit::Leave;
            }
            if self.accepting(one) && other.accepting(two) {
                return Visit::Stop;
            }
            Visit::Enter
        })
    }

    /// Walks both automata over every text at once. False when `visit` stops it, or when there is too much to walk.
    fn explore(&self, other: &Self, visit: impl Fn(&State, &State) -> Visit) -> bool {
        let alphabet = self.alphabet(other);
        let mut known: HashSet<(State, State)> = HashSet::new();
        let mut open = VecDeque::from([(State::start(), State::start())]);
        while let Some((one, two)) = open.pop_front() {
            if known.contains(&(one.clone(), two.clone())) {
                continue;
            }
            match visit(&one, &two) {
                Visit::Stop => return false,
                Visit::Leave => continue,
                Visit::Enter => {}
            }
            if known.len() >= MAX_PROOF {
                return false;
            }
            open.extend(alphabet.iter().map(|byte| (self.step(&one, *byte), other.step(&two, *byte))));
            known.insert((one, two));
        }
        true
    }

    /// One byte for every way in which bytes can differ to these two automata.
    fn alphabet(&self, other: &Self) -> Vec<u8> {
        let sets: HashSet<ByteSet> = self.reads.iter().chain(&other.reads).copied().collect();
        let sets: Vec<ByteSet> = sets.into_iter().collect();
        let mut seen: HashSet<Vec<bool>> = HashSet::new();
        (0..=u8::MAX).filter(|byte| seen.insert(sets.iter().map(|set| set.has(*byte)).collect())).collect()
    }
}

enum Visit {
    Enter,
    Leave,
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    at_start: bool,
    positions: Vec<u16>,
}

impl State {
    fn start() -> Self {
        Self { at_start: true, positions: Vec::new() }
    }

    fn is_dead(&self) -> bool {
        !self.at_start && self.positions.is_empty()
    }
}
