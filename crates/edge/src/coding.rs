//! Content codings: which one a client takes, and the compression of what is public.
//!
//! Only files of the page and layouts that every stranger may read are compressed. Where a secret stands beside text that a stranger
//! chooses, the length of the compressed answer would tell how much the two have in common.

use std::io::Write;

use axum::http::{HeaderMap, HeaderValue, header};
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

use crate::planted;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Brotli,
}

impl Coding {
    /// Its name in headers, in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
        }
    }

    /// What an entity tag has for it. A tag stands for bytes, so each coding has a tag of its own.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            _ if planted::is("codings share a tag") => "",
            Coding::Identity => "",
            Coding::Gzip => "-gz",
            Coding::Brotli => "-br",
        }
    }

    /// Says in an answer that it has this coding, and that another client may get another one.
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        if self != Coding::Identity {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(self.name()));
        }
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// The coding that the client likes most among those that are `there`, with the smallest first. The identity is always there, and
/// is sent even to a client that refuses everything else, because that is better than nothing.
pub(crate) fn preferred(headers: &HeaderMap, there: &[Coding]) -> Coding {
    let liking = |coding: Coding| liking(headers, coding).unwrap_or(0);
    let mut best = (Coding::Identity, liking(Coding::Identity));
    // With the same weight the smaller one is sent.
    for coding in there.iter().rev() {
        let weight = liking(*coding);
        if weight > 0 && weight >= best.1 {
            best = (*coding, weight);
        }
    }
    best.0
}

/// The weight of a coding for the client, in thousandths. `None` if the client does not know it.
fn liking(headers: &HeaderMap, coding: Coding) -> Option<u16> {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    let (mut named, mut any) = (None, None);
    for entry in lists.flat_map(|list| list.split(',')) {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(1_000, thousandths);
        let is_it =
            name.eq_ignore_ascii_case(coding.name()) || (coding == Coding::Gzip && name.eq_ignore_ascii_case("x-gzip"));
        if is_it {
            named = Some(weight);
        } else if name == "*" {
            any = Some(weight);
        }
    }
    // Without a word on it the identity is liked least of all that is taken.
    named.or(any).or((coding == Coding::Identity).then_some(1))
}

/// A weight between 0 and 1, in thousandths. What is no weight is 0.
pub(crate) fn thousandths(weight: &str) -> u16 {
    weight.parse::<f32>().map_or(0, |weight| (weight.clamp(0.0, 1.0) * 1_000.0) as u16)
}

/// These bytes with the coding gzip, by a level from 1, quick, to 9, small.
pub(crate) fn gzip(plain: &[u8], level: u32) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    written.expect("a vector takes everything").into()
}

/// These bytes with the coding brotli, by a quality from 0, quick, to 11, small.
pub(crate) fn brotli(plain: &[u8], quality: i32) -> Bytes {
    let parameters = BrotliEncoderParams { quality, size_hint: plain.len(), ..BrotliEncoderParams::default() };
    let mut coded = Vec::new();
    brotli::BrotliCompress(&mut &plain[..], &mut coded, &parameters).expect("a vector takes everything");
    coded.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_decides_and_then_the_size() {
        let all = [Coding::Brotli, Coding::Gzip];
        let chosen = |lists: &[&str], there: &[Coding]| {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_str(list).expect("a header"));
            }
            preferred(&headers, there).name()
        };
        let cases: [(&[&str], &str, &str); 19] = [
            (&[], "identity", "identity"),
            (&[""], "identity", "identity"),
            (&["gzip, deflate, br, zstd"], "br", "gzip"),
            (&["gzip, deflate"], "gzip", "gzip"),
            (&["GZIP"], "gzip", "gzip"),
            (&["x-gzip"], "gzip", "gzip"),
            (&["gzip;q=1.0, br;q=0.5"], "gzip", "gzip"),
            (&["gzip;q=0.5, br;q=0.8"], "br", "gzip"),
            (&["gzip", "br"], "br", "gzip"),
            (&["br;q=0, gzip"], "gzip", "gzip"),
            (&["gzip;q=0"], "identity", "identity"),
            (&["*"], "br", "gzip"),
            (&["*;q=0"], "identity", "identity"),
            (&["gzip;q=0, *"], "br", "identity"),
            (&["identity"], "identity", "identity"),
            (&["identity;q=0.9, gzip;q=0.5"], "identity", "identity"),
            (&["identity;q=0, gzip;q=0.001"], "gzip", "gzip"),
            (&["gzip ; q=0.4 , br ;q=wrong"], "gzip", "gzip"),
            (&["deflate, zstd"], "identity", "identity"),
        ];
        for (lists, of_all, of_gzip) in cases {
            assert_eq!(chosen(lists, &all), of_all, "{lists:?}");
            assert_eq!(chosen(lists, &[Coding::Gzip]), of_gzip, "{lists:?}");
            assert_eq!(chosen(lists, &[]), "identity", "{lists:?}");
        }
    }
}
