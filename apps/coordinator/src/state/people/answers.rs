//! Idempotency keys: a client that did not get the answer to a creation repeats the request with the same key, and gets the first answer instead of a second object.
//!
//! Answers to creations may contain secrets, of which the database has no copy. An answer is therefore sealed with a key that is derived from the client's credential,
//! whose hash alone is stored.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::super::{State, StateError, random};
use crate::clock::unix_now;
use crate::store::Party;

/// Time for which an answer is kept, 24 h in seconds.
pub(super) const ANSWER_LIFE: i64 = 24 * 3600;

/// Answers that are kept for one credential, 1,000.
const MOST: i64 = 1_000;

/// A request with an idempotency key.
pub(crate) struct Repeatable {
    party: [u8; 32],
    request: [u8; 32],
    content: [u8; 32],
    key: Zeroizing<[u8; 32]>,
}

/// Result of the search for an earlier request with the same idempotency key.
pub(crate) enum Earlier {
    /// There is no earlier request. The new one is noted now.
    New,
    /// The earlier request was answered with this status and body.
    Answered(u16, Vec<u8>),
    /// A request with other content had this key.
    Other,
    /// The earlier request is still being carried out, or its coordinator stopped before it was answered.
    Unknown,
    /// The credential has too many answers.
    Full,
}

impl Repeatable {
    /// `credential` is the secret that the client has sent, `content` are method, path and body.
    pub(crate) fn new(credential: &[u8], key: &str, content: &[&[u8]]) -> Self {
        let of = |label: &[u8]| taut_noise::hash(&[label, credential]);
        let parts: Vec<[u8; 32]> = content.iter().map(|part| taut_noise::hash(&[part])).collect();
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        Self {
            party: of(b"taut idempotent party"),
            request: taut_noise::hash(&[b"taut idempotency key", key.as_bytes()]),
            content: taut_noise::hash(&parts),
            key: Zeroizing::new(taut_noise::hash(&[&of(b"taut idempotent answer"), key.as_bytes()])),
        }
    }

    /// Seals a body. The nonce comes first.
    fn seal(&self, body: &[u8]) -> Option<Vec<u8>> {
        let (nonce, mut sealed): ([u8; 12], _) = (random(), body.to_vec());
        let unique = Nonce::assume_unique_for_key(nonce);
        self.aead()?.seal_in_place_append_tag(unique, Aad::from(self.content), &mut sealed).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<12>()?;
        let (nonce, mut sealed) = (Nonce::assume_unique_for_key(*nonce), sealed.to_vec());
        let body = self.aead()?.open_in_place(nonce, Aad::from(self.content), &mut sealed).ok()?;
        Some(body.to_vec())
    }

    fn aead(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.key[..]).ok().map(LessSafeKey::new)
    }
}

impl State {
    /// Searches for an earlier request with the same key, and notes a new one.
    pub(crate) async fn begin_repeatable(&self, request: &Repeatable) -> Result<Earlier, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        if let Some(kept) = tx.kept_answer(&request.party, &request.request).await? {
            if kept.content != request.content {
                return Ok(Earlier::Other);
            }
            let Some((status, sealed)) = kept.answer else { return Ok(Earlier::Unknown) };
            return Ok(request.open(&sealed).map_or(Earlier::Unknown, |body| Earlier::Answered(status, body)));
        }
        if tx.count_answers(&request.party).await? >= MOST {
            return Ok(Earlier::Full);
        }
        tx.begin_answer(&request.party, &request.request, &request.content, unix_now()).await?;
        tx.commit().await?;
        Ok(Earlier::New)
    }

    /// Keeps the answer of a request; forgets the request if it changed nothing (`None`).
    pub(crate) async fn end_repeatable(
        &self,
        request: &Repeatable,
        answer: Option<(u16, &[u8])>,
    ) -> Result<(), StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        match answer.and_then(|(status, body)| Some((status, request.seal(body)?))) {
            Some((status, sealed)) => tx.keep_answer(&request.party, &request.request, status, &sealed).await?,
            None => tx.drop_answer(&request.party, &request.request).await?,
        }
        tx.commit().await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_opened_by_the_same_request_only() {
        let sealed = Repeatable::new(b"credential", "key", &[b"POST", b"/keys", b"{}"]).seal(b"answer").unwrap();
        let open = |credential: &[u8], key, content: &[&[u8]]| Repeatable::new(credential, key, content).open(&sealed);
        assert_eq!(open(b"credential", "key", &[b"POST", b"/keys", b"{}"]).as_deref(), Some(&b"answer"[..]));
        assert_eq!(open(b"other", "key", &[b"POST", b"/keys", b"{}"]), None);
        assert_eq!(open(b"credential", "other", &[b"POST", b"/keys", b"{}"]), None);
        assert_eq!(open(b"credential", "key", &[b"POST", b"/keys{", b"}"]), None);
    }
}
