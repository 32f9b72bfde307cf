//! `fullsend image`: pulls images from registries, and lists and removes those in the cache.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::json;

use super::configuration::{ConfigurationOptions, variable};
use super::exit::{Exit, Failure};
use super::pull_options::{PullOptions, pull_image, store_directory};
use crate::harness::image::ImageName;
use crate::image;
use crate::provision::image::cache;
use crate::registry::ImageStore;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Pull images from their registries into the cache
    #[command(after_help = "Example:\n  fullsend image pull quay.io/acme/tools:1")]
    Pull(PullArguments),
    /// List the images in the cache
    #[command(after_help = "Example:\n  fullsend image list")]
    List(ListArguments),
    /// Remove images from the cache; `fullsend image gc` frees their space
    #[command(after_help = "Example:\n  fullsend image rm quay.io/acme/tools:1")]
    Rm(RemoveArguments),
    /// Remove what no image in the cache needs: unused blobs, incomplete downloads, and layers unused for a week
    #[command(after_help = "Example:\n  fullsend image gc")]
    Gc,
}

#[derive(Args, Debug)]
struct PullArguments {
    /// The images, such as quay.io/acme/tools:1 or quay.io/acme/tools@sha256:DIGEST
    #[arg(required = true, value_name = "IMAGE", value_parser = parse_name)]
    names: Vec<ImageName>,
    #[command(flatten)]
    pull: PullOptions,
    #[command(flatten)]
    place: ConfigurationOptions,
}

#[derive(Args, Debug)]
struct ListArguments {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct RemoveArguments {
    /// The images, as `fullsend image list` shows them
    #[arg(required = true, value_name = "IMAGE", value_parser = parse_name)]
    names: Vec<ImageName>,
}

fn parse_name(text: &str) -> Result<ImageName, String> {
    let name = ImageName::parse(text.strip_prefix("docker://").unwrap_or(text));
    name.ok_or_else(|| "write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST".to_owned())
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Pull(arguments) => pull(arguments),
        Command::List(arguments) => list(arguments),
        Command::Rm(arguments) => remove(arguments),
        Command::Gc => collect(),
    }
}

fn pull(arguments: &PullArguments) -> Result<Exit, Failure> {
    let store = store_directory()?;
    for name in &arguments.names {
        pull_image(name, &arguments.pull, &arguments.place)?;
        let pulled = ImageStore::at(&store).find(name);
        let digest = pulled.map(|(image, _)| image.sha256).unwrap_or_default();
        writeln!(std::io::stdout(), "{name} sha256:{digest}")?;
    }
    Ok(Exit::Done)
}

fn open() -> Result<ImageStore, Failure> {
    let store = store_directory()?;
    ImageStore::open(&store).map_err(|error| unusable(&store, &error))
}

fn unusable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    let message = format!("the cache of images {} cannot be used: {error}", path.display());
    Failure::new(Exit::Missing, message)
}

fn list(arguments: &ListArguments) -> Result<Exit, Failure> {
    let store = open()?;
    let images = store.list().map_err(|error| unusable(store.path(), &error))?;
    let mut out = std::io::stdout().lock();
    for image in images {
        let bytes = image.bytes();
        if arguments.json {
            let line =
                json!({ "name": image.name, "sha256": image.sha256, "bytes": bytes, "pulled": image.pulled });
            writeln!(out, "{line}")?;
        } else {
            let short = image.sha256.get(..12).unwrap_or_default();
            writeln!(
                out,
                "{short}  {:>8.1} MiB  {}  {}",
                bytes as f64 / 1_048_576.0,
                image.pulled,
                image.name
            )?;
        }
    }
    Ok(Exit::Done)
}

fn remove(arguments: &RemoveArguments) -> Result<Exit, Failure> {
    let store = open()?;
    let _lock = store.exclusive().map_err(|error| unusable(store.path(), &error))?;
    for name in &arguments.names {
        if !store.remove(name).map_err(|error| unusable(store.path(), &error))? {
            return Err(Failure::new(Exit::Missing, format!("the image {name} is not in the cache"))
                .help("`fullsend image list` shows what is"));
        }
    }
    Ok(Exit::Done)
}

fn collect() -> Result<Exit, Failure> {
    let store = open()?;
    let lock = store.exclusive().map_err(|error| unusable(store.path(), &error))?;
    let mut freed = store.collect().map_err(|error| unusable(store.path(), &error))?;
    drop(lock);
    if let Some(cache) = cache(&variable) {
        freed += image::collect(&cache, image::UNUSED_TIME).map_err(|error| unusable(&cache, &error))?;
    }
    writeln!(std::io::stdout(), "freed {:.1} MiB", freed as f64 / 1_048_576.0)?;
    Ok(Exit::Done)
}
