//! all-MiniLM-L6-v2: a text becomes a vector of meaning.
//!
//! Owns reading the model's three files and the arithmetic around the network: at most [`MAX_PIECES`] word pieces, the mean of the pieces'
//! vectors without the padding, length 1. The files are only read; nothing is fetched.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use sha2::{Digest, Sha256};
use tokenizers::{PaddingParams, Tokenizer, TruncationParams};

use crate::error::Error;
use crate::vector::DIMENSIONS;

/// Most word pieces of a text, as the model was trained; the text after them is not read.
pub const MAX_PIECES: usize = 256;
/// Texts that go through the network together: padding all to the longest costs more than a larger batch saves.
const BATCH: usize = 16;

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";

/// The model, ready to embed.
pub struct Model {
    network: BertModel,
    tokenizer: Tokenizer,
    digest: [u8; 32],
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Model {
    /// Reads the model from its directory.
    ///
    /// # Errors
    /// Where a file is missing, cannot be read or holds something else.
    pub fn load(directory: &Path) -> Result<Self, Error> {
        let mut hash = Sha256::new();
        let mut read = |file: &'static str| {
            let path = directory.join(file);
            let bytes = std::fs::read(&path).map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                    Error::Missing { directory: directory.to_path_buf(), file }
                }
                _ => Error::Unreadable { path, source },
            })?;
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(&bytes);
            Ok::<_, Error>(bytes)
        };
        let (config, tokenizer, weights) = (read(CONFIG)?, read(TOKENIZER)?, read(WEIGHTS)?);
        let damaged = |file: &str, why: String| Error::Damaged { path: directory.join(file), why };

        let config: Config =
            serde_json::from_slice(&config).map_err(|error| damaged(CONFIG, error.to_string()))?;
        if config.hidden_size != DIMENSIONS {
            let why = format!("its vectors have {} dimensions, not {DIMENSIONS}", config.hidden_size);
            return Err(damaged(CONFIG, why));
        }
        let tokenizer =
            tokenizer_from(&tokenizer, &config).map_err(|error| damaged(TOKENIZER, error.to_string()))?;
        let network = network_from(&weights, &config).map_err(|error| damaged(WEIGHTS, error.to_string()))?;
        Ok(Self { network, tokenizer, digest: hash.finalize().into() })
    }

    /// The digest of the model's files: vectors of different models are not comparable.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The vectors of these texts, each of length 1.
    ///
    /// # Errors
    /// Where the arithmetic fails, which a damaged model can cause.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, Error> {
        // Texts of about the same length go together, so that little padding is computed.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|at| texts[*at].len());
        let mut vectors = vec![Vec::new(); texts.len()];
        for batch in order.chunks(BATCH) {
            let of_batch: Vec<&str> = batch.iter().map(|at| texts[*at]).collect();
            let embedded = self.batch(&of_batch).map_err(|error| Error::Embedding(error.to_string()))?;
            for (at, vector) in batch.iter().zip(embedded) {
                vectors[*at] = vector;
            }
        }
        Ok(vectors)
    }

    fn batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, candle_core::Error> {
        let encoded = self.tokenizer.encode_batch(texts.to_vec(), true).map_err(candle_core::Error::msg)?;
        let pieces = encoded.first().map_or(0, |one| one.get_ids().len());
        let shape = (texts.len(), pieces);
        let ids: Vec<u32> = encoded.iter().flat_map(|one| one.get_ids().iter().copied()).collect();
        let mask: Vec<u32> =
            encoded.iter().flat_map(|one| one.get_attention_mask().iter().copied()).collect();
        let ids = Tensor::from_vec(ids, shape, &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
        let states = self.network.forward(&ids, &ids.zeros_like()?, Some(&mask))?;

        let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
        let sum = states.broadcast_mul(&mask)?.sum(1)?;
        let mean = sum.broadcast_div(&mask.sum(1)?)?;
        mean.broadcast_div(&mean.sqr()?.sum_keepdim(1)?.sqrt()?)?.to_vec2()
    }
}

fn tokenizer_from(bytes: &[u8], config: &Config) -> Result<Tokenizer, tokenizers::Error> {
    let mut tokenizer = Tokenizer::from_bytes(bytes)?;
    if tokenizer.get_vocab_size(true) > config.vocab_size {
        return Err("it has more word pieces than the model".into());
    }
    let max_length = MAX_PIECES.min(config.max_position_embeddings);
    tokenizer.with_truncation(Some(TruncationParams { max_length, ..TruncationParams::default() }))?;
    tokenizer.with_padding(Some(PaddingParams::default()));
    Ok(tokenizer)
}

/// The tensors are copied out of the file's bytes, which are dropped then. Mapping the file instead would rely on the
/// file not changing in the meantime.
fn network_from(bytes: &[u8], config: &Config) -> Result<BertModel, candle_core::Error> {
    let tensors = candle_core::safetensors::load_buffer(bytes, &Device::Cpu)?;
    BertModel::load(VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu), config)
}
