//! Proofs that a node knows a secret of the cluster, each with the claims that go with it.
//!
//! An offer is an HMAC-SHA256 under a secret, followed by claims that are sealed with ChaCha20-Poly1305. The HMAC covers the side's
//! name and all that was sent before, and the sealed claims. Each hello has a random nonce, so a proof and a key are for one
//! connection, and nothing can be changed on the way. The secret never travels.
//!
//! A dialer with two secrets makes an offer under each. The acceptor answers under the first of its own that fits one of them. So a
//! cluster changes its secret node by node, and two nodes are linked if they share a secret.

use boxoffice_env::secret::Secret;
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;

use super::{config::SECRETS_MAX, hello::CLAIMS_BYTES_MAX};

/// Bytes of a proof.
const PROOF_BYTES: usize = 32;

/// Bytes by which sealed claims are longer.
const TAG_BYTES: usize = 16;

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Dialer,
    Acceptor,
}

/// Both hellos of a connection, as they were sent.
#[derive(Clone, Copy)]
pub(super) struct Hellos<'a> {
    pub(super) dialer: &'a [u8],
    pub(super) acceptor: &'a [u8],
}

impl Hellos<'_> {
    /// The body of the dialer's `Proof`: the number of offers and an offer under each secret.
    pub(super) fn offers(self, secrets: &[Secret], claims: &[u8]) -> Vec<u8> {
        let mut offers = vec![u8::try_from(secrets.len()).expect("there are two at most")];
        for secret in secrets {
            offers.extend_from_slice(&self.offer(secret, Side::Dialer, &[], claims));
        }
        offers
    }

    /// The first of these secrets that an offer of the dialer proves, and the dialer's claims.
    pub(super) fn accept<'s>(self, secrets: &'s [Secret], offers: &[u8]) -> Option<(&'s Secret, Vec<u8>)> {
        let offers = split(offers)?;
        let tried = secrets.iter().flat_map(|secret| offers.iter().map(move |offer| (secret, offer)));
        tried.filter_map(|(secret, offer)| Some((secret, self.open(secret, Side::Dialer, &[], offer)?))).next()
    }

    /// The body of the acceptor's `Welcome` after these offers.
    pub(super) fn welcome(self, secret: &Secret, offers: &[u8], claims: &[u8]) -> Vec<u8> {
        self.offer(secret, Side::Acceptor, offers, claims)
    }

    /// The acceptor's claims, if its `Welcome` proves that it knows one of these secrets.
    pub(super) fn welcomed(self, secrets: &[Secret], offers: &[u8], welcome: &[u8]) -> Option<Vec<u8>> {
        secrets.iter().find_map(|secret| self.open(secret, Side::Acceptor, offers, welcome))
    }

    /// The body of the acceptor's `Removed` after these offers: a proof and the reason.
    pub(super) fn removal(self, secret: &Secret, offers: &[u8], reason: &str) -> Vec<u8> {
        let proof: [u8; PROOF_BYTES] =
            self.removal_mac(secret, offers, reason.as_bytes()).finalize().into_bytes().into();
        [&proof, reason.as_bytes()].concat()
    }

    /// The reason of a removal, if the acceptor has proved that it knows one of these secrets.
    pub(super) fn removed<'r>(self, secrets: &[Secret], offers: &[u8], removed: &'r [u8]) -> Option<&'r [u8]> {
        let (proof, reason) = removed.split_at_checked(PROOF_BYTES)?;
        let is_proof = |secret| self.removal_mac(secret, offers, reason).verify_slice(proof).is_ok();
        secrets.iter().any(is_proof).then_some(reason)
    }

    fn offer(self, secret: &Secret, side: Side, before: &[u8], claims: &[u8]) -> Vec<u8> {
        let mut sealed = claims.to_vec();
        let key = self.key(secret, side, before);
        key.seal_in_place_append_tag(only_nonce(), Aad::empty(), &mut sealed).expect("claims are short");
        let proof: [u8; PROOF_BYTES] = self.proof_mac(secret, side, before, &sealed).finalize().into_bytes().into();
        [&proof[..], &sealed].concat()
    }

    /// The claims of an offer by `side`, if it proves the secret. The proof is compared in constant time.
    fn open(self, secret: &Secret, side: Side, before: &[u8], offer: &[u8]) -> Option<Vec<u8>> {
        let (proof, sealed) = offer.split_at_checked(PROOF_BYTES)?;
        if !(TAG_BYTES..=CLAIMS_BYTES_MAX + TAG_BYTES).contains(&sealed.len()) {
            return None;
        }
        self.proof_mac(secret, side, before, sealed).verify_slice(proof).ok()?;
        let mut claims = sealed.to_vec();
        let length = self.key(secret, side, before).open_in_place(only_nonce(), Aad::empty(), &mut claims).ok()?.len();
        claims.truncate(length);
        Some(claims)
    }

    fn proof_mac(self, secret: &Secret, side: Side, before: &[u8], sealed: &[u8]) -> Hmac<Sha256> {
        let name: &[u8] = match side {
            Side::Dialer => b"boxoffice link, dialer: ",
            Side::Acceptor => b"boxoffice link, answerer: ",
        };
        self.mac(secret, name, &[before, sealed])
    }

    fn removal_mac(self, secret: &Secret, offers: &[u8], reason: &[u8]) -> Hmac<Sha256> {
        self.mac(secret, b"boxoffice link, dismissal: ", &[offers, reason])
    }

    /// The key for the claims of one side on one connection.
    fn key(self, secret: &Secret, side: Side, before: &[u8]) -> LessSafeKey {
        let name: &[u8] = match side {
            Side::Dialer => b"boxoffice link, claims of the dialer: ",
            Side::Acceptor => b"boxoffice link, claims of the answerer: ",
        };
        let key: [u8; 32] = self.mac(secret, name, &[before]).finalize().into_bytes().into();
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).expect("a key has 32 bytes"))
    }

    fn mac(self, secret: &Secret, name: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_ref()).expect("HMAC takes keys of any length");
        mac.update(name);
        for part in [self.dialer, self.acceptor].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// Each key seals one message, because its sender has drawn a nonce of its hello for this connection.
fn only_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// The offers of a `Proof`, which have one length. `None` if they are none, too many, too long or cut.
fn split(body: &[u8]) -> Option<Vec<&[u8]>> {
    let (&count, offers) = body.split_first()?;
    let count = usize::from(count);
    if count == 0 || count > SECRETS_MAX || !offers.len().is_multiple_of(count) {
        return None;
    }
    let length = offers.len() / count;
    let is_offer = (PROOF_BYTES + TAG_BYTES..=PROOF_BYTES + TAG_BYTES + CLAIMS_BYTES_MAX).contains(&length);
    is_offer.then(|| offers.chunks_exact(length).collect())
}

/// Whether any side takes these bytes as a proof under a secret that their sender does not know. For the fuzz tests.
pub(super) fn is_taken(bytes: &[u8]) -> bool {
    let secrets = [Secret("what the sender does not know".into()), Secret("and another one of them".into())];
    let hellos = Hellos { dialer: b"dialer", acceptor: b"acceptor" };
    hellos.accept(&secrets, bytes).is_some()
        || hellos.welcomed(&secrets, b"", bytes).is_some()
        || hellos.removed(&secrets, b"", bytes).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;

    fn secrets(names: &[&str]) -> Vec<Secret> {
        names.iter().map(|name| Secret(format!("a secret: {name}"))).collect()
    }

    const HELLOS: Hellos<'_> = Hellos { dialer: b"one", acceptor: b"two" };

    #[test]
    fn nodes_that_share_a_secret_prove_it_to_each_other() {
        let sets: [&[&str]; 5] = [&["old"], &["new", "old"], &["old", "new"], &["new"], &["other"]];
        for dialer in sets {
            for acceptor in sets {
                let is_shared = dialer.iter().any(|name| acceptor.contains(name));
                let (mine, theirs) = (secrets(dialer), secrets(acceptor));
                let offers = HELLOS.offers(&mine, b"claims of the dialer");
                let accepted = HELLOS.accept(&theirs, &offers);
                assert_eq!(accepted.is_some(), is_shared, "{dialer:?} dials {acceptor:?}");
                let Some((secret, claims)) = accepted else { continue };
                assert_eq!(claims, b"claims of the dialer");
                let welcome = HELLOS.welcome(secret, &offers, b"claims of the acceptor");
                assert_eq!(HELLOS.welcomed(&mine, &offers, &welcome).as_deref(), Some(&b"claims of the acceptor"[..]));
                let removed = HELLOS.removal(secret, &offers, "it was removed");
                assert_eq!(HELLOS.removed(&mine, &offers, &removed), Some(&b"it was removed"[..]));
            }
        }
    }

    #[test]
    fn a_proof_is_for_one_side_of_one_pair_of_hellos_under_one_secret() {
        let (known, other) = (secrets(&["known"]), secrets(&["other"]));
        let offers = HELLOS.offers(&known, b"claims");
        let offer = &offers[1..];
        let welcome = HELLOS.welcome(&known[0], &offers, b"claims");
        let removal = HELLOS.removal(&known[0], &offers, "removed");
        let swapped = Hellos { dialer: b"two", acceptor: b"one" };
        let shifted = Hellos { dialer: b"onet", acceptor: b"wo" };
        for hellos in [swapped, shifted, Hellos { acceptor: b"three", ..HELLOS }, Hellos { dialer: b"1", ..HELLOS }] {
            assert!(hellos.accept(&known, &offers).is_none());
            assert!(hellos.welcomed(&known, &offers, &welcome).is_none());
            assert!(hellos.removed(&known, &offers, &removal).is_none());
        }
        assert!(HELLOS.accept(&other, &offers).is_none());
        assert!(HELLOS.welcomed(&other, &offers, &welcome).is_none());
        assert!(HELLOS.removed(&other, &offers, &removal).is_none());
        // Neither the dialer's own offer nor an answer to other offers proves the acceptor.
        assert!(HELLOS.welcomed(&known, &offers, offer).is_none());
        assert!(HELLOS.welcomed(&known, &[], offer).is_none());
        assert!(HELLOS.welcomed(&known, &HELLOS.offers(&known, b"others"), &welcome).is_none());
        assert!(HELLOS.removed(&known, &offers, &[&welcome[..PROOF_BYTES], b"removed"].concat()).is_none());
        assert!(HELLOS.removed(&known, &offers, &[&removal[..], b"!"].concat()).is_none());
        assert!(HELLOS.accept(&known, &[&[1], &welcome[..]].concat()).is_none());
    }

    #[test]
    fn offers_are_one_or_two_of_bounded_length() {
        let known = secrets(&["known"]);
        let offer = HELLOS.offers(&known, b"claims")[1..].to_vec();
        let body = |count: u8, offers: usize| [vec![count], offer.repeat(offers)].concat();
        assert!(HELLOS.accept(&known, &body(1, 1)).is_some());
        assert!(HELLOS.accept(&known, &body(2, 2)).is_some());
        for wrong in [body(0, 0), body(0, 1), body(1, 0), body(1, 2), body(2, 1), body(3, 3), body(255, 255), vec![]] {
            assert!(HELLOS.accept(&known, &wrong).is_none(), "{wrong:?}");
        }
        assert!(HELLOS.accept(&known, &HELLOS.offers(&known, &[7; CLAIMS_BYTES_MAX])).is_some());
        assert!(HELLOS.accept(&known, &HELLOS.offers(&known, &[7; CLAIMS_BYTES_MAX + 1])).is_none());
    }

    #[test]
    fn claims_are_sealed() {
        let known = secrets(&["known", "other"]);
        let claims = b"the id of the cluster";
        let offers = HELLOS.offers(&known, claims);
        let welcome = HELLOS.welcome(&known[0], &offers, claims);
        for sent in [&offers, &welcome] {
            assert!(!sent.windows(4).any(|window| claims.windows(4).any(|part| part == window)));
        }
    }

    proptest! {
        #[test]
        fn no_changed_or_foreign_offer_is_accepted(bytes in vec(any::<u8>(), 0..400), at in any::<Index>(), change in 1..=255_u8) {
            let known = secrets(&["known", "old"]);
            prop_assert!(HELLOS.accept(&known, &bytes).is_none());
            prop_assert!(HELLOS.welcomed(&known, b"", &bytes).is_none());
            prop_assert!(HELLOS.removed(&known, b"", &bytes).is_none());
            let mut offers = HELLOS.offers(&known[..1], b"claims");
            let at = at.index(offers.len());
            offers[at] ^= change;
            prop_assert!(HELLOS.accept(&known, &offers).is_none());
        }
    }
}
