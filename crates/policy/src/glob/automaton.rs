//! A pattern as a set of positions: each position reads one byte of a set, and knows which positions may come next.
//! Matching walks all open positions at once, so no text makes it backtrack.

use super::bitmask::BitmaskAutomaton;
use super::machine::Machine;
use super::parse::{ByteSet, PatternError, Token};

/// How many positions and how many steps between them a pattern may have.
const MAX_POSITIONS: usize = 2048;
const MAX_STEPS: usize = 32_768;

#[derive(Clone, Debug)]
pub(super) struct Automaton {
    /// The literal start of every text that matches; compared first.
    pub(super) literal_start: Vec<u8>,
    /// The literal end of every text that matches.
    pub(super) literal_end: Vec<u8>,
    /// The different sets that positions read.
    pub(super) sets: Vec<ByteSet>,
    reads: Vec<ByteSet>,
    next: Vec<Vec<u16>>,
    first: Vec<u16>,
    accepts: Vec<bool>,
    accepts_empty: bool,
    /// The same as bit masks, for patterns that are short enough; nearly all are.
    bitmask: Option<Box<BitmaskAutomaton>>,
}

/// A piece of the pattern under construction: its first positions, its last positions, whether it may be empty.
struct PatternPart {
    first: Vec<u16>,
    last: Vec<u16>,
    empty: bool,
}

impl PatternPart {
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
    fn one(&mut self, set: ByteSet) -> Result<PatternPart, PatternError> {
        let position = u16::try_from(self.reads.len()).map_err(|_| PatternError::TooComplex)?;
        if self.reads.len() >= MAX_POSITIONS {
            return Err(PatternError::TooComplex);
        }
        self.reads.push(set);
        self.next.push(Vec::new());
        Ok(PatternPart { first: vec![position], last: vec![position], empty: false })
    }

    fn many(&mut self, set: ByteSet) -> Result<PatternPart, PatternError> {
        let piece = self.one(set)?;
        self.connect(&piece.last, &piece.first)?;
        Ok(PatternPart { empty: true, ..piece })
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

    fn then(&mut self, before: PatternPart, after: PatternPart) -> Result<PatternPart, PatternError> {
        self.connect(&before.last, &after.first)?;
        let mut first = before.first;
        if before.empty {
            first.extend_from_slice(&after.first);
        }
        let mut last = after.last;
        if after.empty {
            last.extend_from_slice(&before.last);
        }
        Ok(PatternPart { first, last, empty: before.empty && after.empty })
    }

    fn either(&mut self, branches: &[Vec<Token>]) -> Result<PatternPart, PatternError> {
        let mut all = PatternPart { empty: false, ..PatternPart::nothing() };
        for branch in branches {
            let piece = self.sequence(branch)?;
            all.first.extend(piece.first);
            all.last.extend(piece.last);
            all.empty |= piece.empty;
        }
        Ok(all)
    }

    fn sequence(&mut self, tokens: &[Token]) -> Result<PatternPart, PatternError> {
        tokens.iter().try_fold(PatternPart::nothing(), |before, token| {
            let after = self.token(token)?;
            self.then(before, after)
        })
    }

    fn token(&mut self, token: &Token) -> Result<PatternPart, PatternError> {
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
        for position in &piece.last {
            accepts[usize::from(*position)] = true;
        }
        let literal = |token: &Token| super::parse::literal(std::slice::from_ref(token));
        let mut literal_end: Vec<u8> = tokens.iter().rev().map_while(literal).flatten().collect();
        literal_end.reverse();
        let Builder { reads, next, steps: _ } = builder;
        Ok(Self {
            literal_start: tokens.iter().map_while(literal).flatten().collect(),
            literal_end,
            sets: distinct(&reads),
            bitmask: BitmaskAutomaton::new(&reads, &next, &piece.first, &accepts, piece.empty).map(Box::new),
            reads,
            next,
            first: piece.first,
            accepts,
            accepts_empty: piece.empty,
        })
    }

    pub(super) fn bitmask(&self) -> Option<&BitmaskAutomaton> {
        self.bitmask.as_deref()
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        if !text.starts_with(&self.literal_start) || !text.ends_with(&self.literal_end) {
            return false;
        }
        match &self.bitmask {
            Some(bitmask) => bitmask.matches(text),
            None => self.accepts_from_start(text),
        }
    }

    fn accepts_from_start(&self, text: &[u8]) -> bool {
        let mut state = self.start();
        for byte in text {
            state = self.step(&state, *byte);
            if self.is_dead(&state) {
                return false;
            }
        }
        self.accepting(&state)
    }
}

impl Machine for Automaton {
    type State = GlobState;

    fn start(&self) -> GlobState {
        GlobState { at_start: true, positions: Vec::new() }
    }

    fn step(&self, state: &GlobState, byte: u8) -> GlobState {
        let mut seen = vec![0u64; self.reads.len().div_ceil(64)];
        let mut positions = Vec::new();
        let mut visit = |candidates: &[u16]| {
            for candidate in candidates {
                let index = usize::from(*candidate);
                let word = index / 64;
                let bit = 1 << (index % 64);
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
        GlobState { at_start: false, positions }
    }

    fn accepting(&self, state: &GlobState) -> bool {
        (state.at_start && self.accepts_empty)
            || state.positions.iter().any(|position| self.accepts[usize::from(*position)])
    }

    fn is_dead(&self, state: &GlobState) -> bool {
        !state.at_start && state.positions.is_empty()
    }
}

fn distinct(sets: &[ByteSet]) -> Vec<ByteSet> {
    let mut different = sets.to_vec();
    different.sort_unstable();
    different.dedup();
    different
}

/// The positions that the text so far may have ended in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GlobState {
    at_start: bool,
    positions: Vec<u16>,
}
