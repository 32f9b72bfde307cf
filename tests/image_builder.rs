//! Makes images byte by byte, honest ones and hostile ones: whatever a tar header can say, this can write.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value as Json, json};

/// One layer, as a tar archive that grows.
#[derive(Clone, Default)]
pub struct Layer(Vec<u8>);

/// How a layer is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Layer {
    pub fn file(self, path: &str, contents: impl AsRef<[u8]>) -> Self {
        self.entry(b'0', path, "", 0o644, contents.as_ref())
    }

    pub fn program(self, path: &str, contents: impl AsRef<[u8]>) -> Self {
        self.entry(b'0', path, "", 0o755, contents.as_ref())
    }

    pub fn directory(self, path: &str) -> Self {
        self.entry(b'5', path, "", 0o755, b"")
    }

    pub fn link(self, path: &str, to: &str) -> Self {
        self.entry(b'2', path, to, 0o777, b"")
    }

    pub fn hard_link(self, path: &str, to: &str) -> Self {
        self.entry(b'1', path, to, 0o644, b"")
    }

    /// Any header at all, with a right checksum.
    pub fn entry(self, kind: u8, path: &str, link: &str, mode: u32, contents: &[u8]) -> Self {
        self.entry_of_size(kind, path, link, mode, contents, contents.len() as u64)
    }

    pub fn entry_of_size(
        mut self,
        kind: u8,
        path: &str,
        link: &str,
        mode: u32,
        contents: &[u8],
        size: u64,
    ) -> Self {
        let mut header = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, path.as_bytes());
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"14000000000\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(header);
        self.0.extend(contents);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// With the two empty blocks that end an archive.
    pub fn bytes(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    fullsend::event::log::sha256(bytes)
}

pub fn pack(plain: &[u8], packing: Packing) -> Vec<u8> {
    match packing {
        Packing::Plain => plain.to_vec(),
        Packing::Gzip => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(plain).unwrap();
            gzip.finish().unwrap()
        }
        Packing::Zstd => {
            ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
        }
    }
}

fn configuration(layers: &[Vec<u8>], environment: &[&str]) -> Vec<u8> {
    let digests: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
    let text = json!({
        "os": "linux", "architecture": architecture(), "config": { "Env": environment, "User": "0:0" },
        "rootfs": { "type": "layers", "diff_ids": digests },
    });
    text.to_string().into_bytes()
}

pub fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// An OCI layout directory of these layers, the lowest first.
pub fn layout(directory: &Path, layers: &[Layer], packing: Packing, environment: &[&str]) {
    let plain: Vec<Vec<u8>> = layers.iter().cloned().map(Layer::bytes).collect();
    let packed: Vec<Vec<u8>> = plain.iter().map(|layer| pack(layer, packing)).collect();
    layout_of(directory, &configuration(&plain, environment), &packed);
}

/// The same from parts that need not fit each other.
pub fn layout_of(directory: &Path, configuration: &[u8], blobs: &[Vec<u8>]) {
    let store = directory.join("blobs/sha256");
    fs::create_dir_all(&store).unwrap();
    let put = |bytes: &[u8]| -> Json {
        fs::write(store.join(sha256(bytes)), bytes).unwrap();
        json!({ "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() })
    };
    let layers: Vec<Json> = blobs.iter().map(|blob| put(blob)).collect();
    let manifest = json!({ "schemaVersion": 2, "config": put(configuration), "layers": layers });
    let index = json!({ "schemaVersion": 2, "manifests": [put(manifest.to_string().as_bytes())] });
    fs::write(directory.join("index.json"), index.to_string()).unwrap();
    fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

/// A directory as one archive, as `oci-archive:` has it.
pub fn archive_of(directory: &Path) -> Vec<u8> {
    let mut archive = Layer::default();
    for name in ["oci-layout", "index.json"] {
        archive = archive.file(name, fs::read(directory.join(name)).unwrap());
    }
    for blob in fs::read_dir(directory.join("blobs/sha256")).unwrap() {
        let blob = blob.unwrap();
        let name = format!("blobs/sha256/{}", blob.file_name().to_str().unwrap());
        archive = archive.file(&name, fs::read(blob.path()).unwrap());
    }
    archive.bytes()
}

/// What `docker save` writes, in its older form: a layer that occurs twice is a link.
pub fn docker_archive(layers: &[Layer]) -> Vec<u8> {
    let plain: Vec<Vec<u8>> = layers.iter().cloned().map(Layer::bytes).collect();
    let config = configuration(&plain, &[]);
    let name = format!("{}.json", sha256(&config));
    let names: Vec<String> = (0..plain.len()).map(|index| format!("{index}/layer.tar")).collect();
    let manifest = json!([{ "Config": name, "RepoTags": ["a:b"], "Layers": names }]);
    let mut archive = Layer::default().file(&name, &config).file("manifest.json", manifest.to_string());
    for (index, layer) in plain.iter().enumerate() {
        archive = match plain.iter().position(|earlier| earlier == layer) {
            Some(first) if first < index => archive.link(&names[index], &format!("../{first}/layer.tar")),
            _ => archive.file(&names[index], layer),
        };
    }
    archive.bytes()
}
