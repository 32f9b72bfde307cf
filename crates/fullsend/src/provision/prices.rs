//! The prices of one run: the built-in list or the newer one that `fullsend models update` installed, with the prices of the
//! configuration above it.

use std::path::PathBuf;

use model::{ListedPrice, PriceError, PriceList};

use crate::harness::config::ModelPrice;
use crate::resolve::variables::VariableLookup;

#[derive(Debug)]
pub enum PriceFileError {
    Read { path: PathBuf, source: std::io::Error },
    Content { path: PathBuf, source: PriceError },
    Configured(PriceError),
}

impl std::fmt::Display for PriceFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "{} cannot be read: {source}", path.display()),
            Self::Content { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Configured(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for PriceFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Content { source, .. } | Self::Configured(source) => Some(source),
        }
    }
}

/// Where `fullsend models update` puts a list. `None`: HOME is not set.
pub fn installed(variables: VariableLookup<'_>) -> Option<PathBuf> {
    let data = variables("XDG_DATA_HOME").filter(|path| path.starts_with('/')).map(PathBuf::from);
    let home = || variables("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    data.or_else(home).map(|data| data.join("fullsend/prices.json"))
}

/// A list that is older than the program's own is not used.
pub fn load(configured: &[ModelPrice], variables: VariableLookup<'_>) -> Result<PriceList, PriceFileError> {
    let mut list = PriceList::built_in();
    if let Some(path) = installed(variables).filter(|path| path.exists()) {
        let newer = read(path)?;
        if newer.version > list.version {
            list = newer;
        }
    }
    list.with_configured(configured.iter().map(listed)).map_err(PriceFileError::Configured)
}

pub fn read(path: PathBuf) -> Result<PriceList, PriceFileError> {
    match std::fs::read(&path) {
        Err(source) => Err(PriceFileError::Read { path, source }),
        Ok(text) => PriceList::parse(&text).map_err(|source| PriceFileError::Content { path, source }),
    }
}

fn listed(price: &ModelPrice) -> (String, ListedPrice) {
    let ModelPrice { model, input, output, cache_read, cache_write, cache_write_hour, max_output_tokens } =
        price;
    let amount = |price: &Option<yaml::Spanned<crate::harness::names::TokenPrice>>| {
        price.as_ref().map(|price| price.get())
    };
    let listed = ListedPrice {
        input: input.get(),
        output: output.get(),
        cache_read: amount(cache_read),
        cache_write: amount(cache_write),
        cache_write_hour: amount(cache_write_hour),
        max_output_tokens: max_output_tokens.as_ref().map(|tokens| tokens.get()),
        ..ListedPrice::default()
    };
    (model.to_string(), listed)
}

/// What to write into `config.yaml` for models without a price.
pub fn lines_to_paste(models: &[String]) -> String {
    let price = if models.len() == 1 { "its price" } else { "their prices" };
    let line = |model: &String| format!("\n  - {{model: \"{model}\", input: 1.00, output: 4.00}}");
    let lines: String = models.iter().map(line).collect();
    format!(
        "add {price} to .fullsend/config.yaml, in dollars for a million tokens, for example:\nprices:{lines}"
    )
}
