//! Large payloads stay out of the engine's histories: they are kept in the store by their hash, and the history has the hash.
//! Workflow and activities see them whole.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
use temporalio_common::data_converters::{
    DataConverter, DefaultFailureConverter, PayloadCodec, PayloadConversionError, PayloadConverter,
    SerializationContextData,
};
use temporalio_common::protos::temporal::api::common::v1::Payload;

use crate::store::SharedStore;

/// A payload of more bytes is kept in the store.
pub const INLINE_BYTES: usize = 16 * 1024;
/// The most bytes of one payload.
pub const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Names the encoding of a payload that is a reference.
const REFERENCE: &[u8] = b"rawko/blob";
const ENCODING: &str = "encoding";
/// Where the encoding of the payload itself is kept.
const INNER: &str = "rawko-encoding";

/// Moves large payloads to the store and back.
#[derive(Debug, Clone)]
pub(crate) struct ClaimCheck {
    store: SharedStore,
}

/// The converter of all clients and workers of a fleet.
pub(crate) fn converter(store: &SharedStore) -> DataConverter {
    DataConverter::new(
        PayloadConverter::default(),
        DefaultFailureConverter::default(),
        ClaimCheck { store: store.clone() },
    )
}

impl ClaimCheck {
    async fn check_in(&self, mut payload: Payload) -> Result<Payload, PayloadConversionError> {
        if payload.data.len() <= INLINE_BYTES {
            return Ok(payload);
        }
        let bytes = payload.data.len();
        if bytes > MOST_BYTES {
            let message = format!("a message of {bytes} bytes is more than a fleet carries ({MOST_BYTES})");
            return Err(PayloadConversionError::EncodingError(message.into()));
        }
        let hash = self.store.put_blob(std::mem::take(&mut payload.data).into()).await.map_err(encoding)?;
        if let Some(inner) = payload.metadata.insert(ENCODING.to_owned(), REFERENCE.to_vec()) {
            payload.metadata.insert(INNER.to_owned(), inner);
        }
        payload.data = hash.into_bytes();
        Ok(payload)
    }

    async fn check_out(&self, mut payload: Payload) -> Result<Payload, PayloadConversionError> {
        if payload.metadata.get(ENCODING).map(Vec::as_slice) != Some(REFERENCE) {
            return Ok(payload);
        }
        let hash = String::from_utf8_lossy(&payload.data).into_owned();
        payload.data = self.store.blob(&hash).await.map_err(encoding)?.to_vec();
        match payload.metadata.remove(INNER) {
            Some(inner) => payload.metadata.insert(ENCODING.to_owned(), inner),
            None => payload.metadata.remove(ENCODING),
        };
        Ok(payload)
    }
}

fn encoding(error: impl std::error::Error + Send + Sync + 'static) -> PayloadConversionError {
    PayloadConversionError::EncodingError(Box::new(error))
}

impl PayloadCodec for ClaimCheck {
    fn encode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let codec = self.clone();
        async move { try_join_all(payloads.into_iter().map(|payload| codec.check_in(payload))).await }.boxed()
    }

    fn decode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let codec = self.clone();
        async move { try_join_all(payloads.into_iter().map(|payload| codec.check_out(payload))).await }
            .boxed()
    }
}
