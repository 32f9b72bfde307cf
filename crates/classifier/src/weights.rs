//! The weights file: a magic word, a JSON header that names tensors, and their bytes. Everything is checked before use,
//! because the file may be a user's own.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

const MAGIC: &[u8; 8] = b"FSINJ001";
/// The only layout that this code reads.
const VERSION: u32 = 1;

/// Why a weights file cannot be used.
#[derive(Debug)]
pub enum WeightsError {
    NotWeights,
    Header(serde_json::Error),
    Version(u32),
    Missing(String),
    Shape(String),
}

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWeights => f.write_str("the file is not a weights file of the learned scanner"),
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
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    kind: Kind,
    shape: Vec<usize>,
    at: usize,
    bytes: usize,
    scale_at: usize,
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

/// How raw scores become probabilities, and where benign text ends.
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

/// Small integers with one scale for each row.
pub(crate) struct Scaled {
    pub(crate) values: Vec<i8>,
    pub(crate) scales: Vec<f32>,
    pub(crate) columns: usize,
}

impl Scaled {
    /// One row as floats.
    pub(crate) fn row(&self, number: usize) -> impl Iterator<Item = f32> {
        let scale = self.scales[number];
        self.values[number * self.columns..(number + 1) * self.columns]
            .iter()
            .map(move |value| f32::from(*value) * scale)
    }
}

pub(crate) struct Weights<'a> {
    entries: BTreeMap<String, Entry>,
    blob: &'a [u8],
    calibration: Calibration,
}

impl<'a> Weights<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, WeightsError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(WeightsError::NotWeights)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(WeightsError::NotWeights)?;
        let length = u32::from_le_bytes(*length) as usize;
        let header = rest.get(..length).ok_or(WeightsError::NotWeights)?;
        let header: Header = serde_json::from_slice(header).map_err(WeightsError::Header)?;
        if header.version != VERSION {
            return Err(WeightsError::Version(header.version));
        }
        let entries = header.tensors.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        Ok(Self { entries, blob: &rest[length..], calibration: header.calibration })
    }

    pub(crate) fn calibration(&self) -> Calibration {
        self.calibration.clone()
    }

    fn entry(&self, name: &str, kinds: &[Kind]) -> Result<&Entry, WeightsError> {
        let entry =
            self.entries.get(name).ok_or_else(|| WeightsError::Missing(format!("the tensor `{name}`")))?;
        if kinds.contains(&entry.kind) { Ok(entry) } else { Err(WeightsError::Shape(name.to_owned())) }
    }

    fn slice(&self, name: &str, at: usize, bytes: usize) -> Result<&'a [u8], WeightsError> {
        let end = at.checked_add(bytes);
        end.and_then(|end| self.blob.get(at..end)).ok_or_else(|| WeightsError::Shape(name.to_owned()))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str, WeightsError> {
        let entry = self.entry(name, &[Kind::Text])?;
        std::str::from_utf8(self.slice(name, entry.at, entry.bytes)?)
            .map_err(|_| WeightsError::Shape(name.to_owned()))
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let entry = self.entry(name, &[Kind::F32])?;
        let values = to_floats(self.slice(name, entry.at, entry.bytes)?);
        let expected: usize = entry.shape.iter().product();
        if values.len() == expected { Ok(values) } else { Err(WeightsError::Shape(name.to_owned())) }
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<Scaled, WeightsError> {
        let entry = self.entry(name, &[Kind::I8, Kind::I4])?;
        let packed = self.slice(name, entry.at, entry.bytes)?;
        let scales = to_floats(self.slice(name, entry.scale_at, entry.scale_bytes)?);
        let values: Vec<i8> = match entry.kind {
            Kind::I4 => packed
                .iter()
                .flat_map(|byte| [byte & 15, byte >> 4])
                .map(|half| half.cast_signed() - 8)
                .collect(),
            _ => packed.iter().map(|byte| byte.cast_signed()).collect(),
        };
        let columns = if entry.shape.len() == 2 { entry.shape[1] } else { values.len() };
        let is_whole = values.len() == entry.shape.iter().product::<usize>() && columns > 0;
        if is_whole && scales.len() * columns == values.len() {
            Ok(Scaled { values, scales, columns })
        } else {
            Err(WeightsError::Shape(name.to_owned()))
        }
    }
}

fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}
