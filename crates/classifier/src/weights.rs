//! The weights file: a magic word, a JSON header that names tensors, and their bytes. Everything is checked before use,
//! because the file may be a user's own. Tensors are read when they are asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde::Deserialize;

const MAGIC: &[u8; 8] = b"FSINJ001";
/// The only layout that this code reads.
const VERSION: u32 = 1;
/// The magic word and the length of the header.
const START: usize = 12;
/// A longer header is refused.
const MAX_HEADER: usize = 1 << 20;
/// A larger tensor is refused.
const MAX_TENSOR: usize = 64 << 20;

/// Reads this many bytes of a weights file from this offset, or fewer at the end of the file.
pub type ReadAt = Box<dyn Fn(u64, usize) -> io::Result<Vec<u8>> + Send + Sync>;

/// Why a weights file cannot be used.
#[derive(Debug)]
pub enum WeightsError {
    NotWeights,
    Read(io::Error),
    Header(serde_json::Error),
    Version(u32),
    Missing(String),
    Shape(String),
}

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWeights => f.write_str("the file is not a weights file of the learned scanner"),
            Self::Read(error) => write!(f, "the weights file cannot be read: {error}"),
            Self::Header(error) => write!(f, "the header of the weights file is damaged: {error}"),
            Self::Version(version) => {
                write!(f, "the weights file has version {version}; this program reads {VERSION}")
            }
            Self::Missing(what) => write!(f, "the weights file lacks {what}"),
            Self::Shape(name) => write!(f, "the tensor `{name}` of the weights file has the wrong size"),
        }
    }
}

impl std::error::Error for WeightsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Header(error) => Some(error),
            Self::NotWeights | Self::Version(_) | Self::Missing(_) | Self::Shape(_) => None,
        }
    }
}

#[derive(Deserialize)]
struct Header {
    version: u32,
    tensors: Vec<Entry>,
    #[serde(flatten)]
    calibration: Calibration,
    layers: usize,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    kind: Kind,
    shape: Vec<usize>,
    at: u64,
    bytes: usize,
    scale_at: u64,
    scale_bytes: usize,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    I4,
    I8,
    F32,
    Text,
}

/// How raw scores become probabilities, and the threshold of benign text.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Calibration {
    scale: f32,
    shift: f32,
    pub(crate) clear_below: f32,
    pub(crate) thresholds: BTreeMap<String, f32>,
}

impl Calibration {
    pub(crate) fn probability(&self, raw: f32) -> f32 {
        1.0 / (1.0 + (-(self.scale * raw + self.shift)).exp())
    }
}

/// Small integers with one scale for each row, as they are in the file.
pub(crate) struct ScaledRows {
    packed: Vec<u8>,
    kind: Kind,
    pub(crate) scales: Vec<f32>,
    pub(crate) columns: usize,
}

impl ScaledRows {
    /// One row as floats.
    pub(crate) fn row(&self, number: usize) -> impl Iterator<Item = f32> {
        let scale = self.scales[number];
        let first = number * self.columns;
        (first..first + self.columns).map(move |at| f32::from(self.value(at)) * scale)
    }

    fn value(&self, at: usize) -> i8 {
        match self.kind {
            Kind::I4 => ((self.packed[at / 2] >> (4 * (at % 2))) & 15).cast_signed() - 8,
            _ => self.packed[at].cast_signed(),
        }
    }

    /// All values, and the scale of each row.
    pub(crate) fn into_parts(self) -> (Vec<i8>, Vec<f32>) {
        let values = match self.kind {
            Kind::I4 => (0..self.scales.len() * self.columns).map(|at| self.value(at)).collect(),
            _ => self.packed.into_iter().map(u8::cast_signed).collect(),
        };
        (values, self.scales)
    }
}

pub(crate) struct Weights {
    entries: BTreeMap<String, Entry>,
    /// Where the tensors begin.
    blob: u64,
    read: ReadAt,
    calibration: Calibration,
    layers: usize,
}

impl Weights {
    pub(crate) fn open(read: ReadAt) -> Result<Self, WeightsError> {
        let start = read(0, START).map_err(WeightsError::Read)?;
        let length = start.strip_prefix(MAGIC).and_then(<[u8]>::first_chunk::<4>);
        let length = u32::from_le_bytes(*length.ok_or(WeightsError::NotWeights)?) as usize;
        if length > MAX_HEADER {
            return Err(WeightsError::NotWeights);
        }
        let header = read(START as u64, length).map_err(WeightsError::Read)?;
        if header.len() != length {
            return Err(WeightsError::NotWeights);
        }
        let header: Header = serde_json::from_slice(&header).map_err(WeightsError::Header)?;
        if header.version != VERSION {
            return Err(WeightsError::Version(header.version));
        }
        let entries = header.tensors.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        Ok(Self {
            entries,
            blob: (START + length) as u64,
            read,
            calibration: header.calibration,
            layers: header.layers,
        })
    }

    pub(crate) fn calibration(&self) -> Calibration {
        self.calibration.clone()
    }

    /// How many layers the encoder has.
    pub(crate) fn layers(&self) -> usize {
        self.layers
    }

    fn entry(&self, name: &str, kinds: &[Kind]) -> Result<&Entry, WeightsError> {
        let entry =
            self.entries.get(name).ok_or_else(|| WeightsError::Missing(format!("the tensor `{name}`")))?;
        if kinds.contains(&entry.kind) { Ok(entry) } else { Err(WeightsError::Shape(name.to_owned())) }
    }

    fn slice(&self, name: &str, at: u64, bytes: usize) -> Result<Vec<u8>, WeightsError> {
        let wrong = || WeightsError::Shape(name.to_owned());
        if bytes > MAX_TENSOR {
            return Err(wrong());
        }
        let at = self.blob.checked_add(at).ok_or_else(wrong)?;
        let found = (self.read)(at, bytes).map_err(WeightsError::Read)?;
        if found.len() == bytes { Ok(found) } else { Err(wrong()) }
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, WeightsError> {
        let entry = self.entry(name, &[Kind::Text])?;
        let bytes = self.slice(name, entry.at, entry.bytes)?;
        String::from_utf8(bytes).map_err(|_| WeightsError::Shape(name.to_owned()))
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let entry = self.entry(name, &[Kind::F32])?;
        let values = to_floats(&self.slice(name, entry.at, entry.bytes)?);
        if Some(values.len()) == entry.values() {
            Ok(values)
        } else {
            Err(WeightsError::Shape(name.to_owned()))
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<ScaledRows, WeightsError> {
        let entry = self.entry(name, &[Kind::I8, Kind::I4])?;
        let packed = self.slice(name, entry.at, entry.bytes)?;
        let scales = to_floats(&self.slice(name, entry.scale_at, entry.scale_bytes)?);
        let count = if entry.kind == Kind::I4 { packed.len() * 2 } else { packed.len() };
        let columns = if entry.shape.len() == 2 { entry.shape[1] } else { count };
        let is_whole = Some(count) == entry.values() && columns > 0;
        if is_whole && scales.len().checked_mul(columns) == Some(count) {
            Ok(ScaledRows { packed, kind: entry.kind, scales, columns })
        } else {
            Err(WeightsError::Shape(name.to_owned()))
        }
    }
}

impl Entry {
    /// How many values the tensor has.
    fn values(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |product, side| product.checked_mul(*side))
    }
}

fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}
