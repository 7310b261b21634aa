//! Bytes that arrive before a request is understood: heads of HTTP, headers of proxies, tokens.

use std::net::{IpAddr, Ipv4Addr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_core::{access::Role, time::Timestamp};
use boxoffice_edge::{
    Proxies, ProxyWay, decoders,
    token::{TokenKey, TokenKeys},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::property::{Bound, bounded};

/// The proxy in front of the node.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// A client behind it.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

fn proxies(way: ProxyWay) -> Proxies {
    Proxies { networks: vec!["10.0.0.0/8".parse().expect("a network")], way }
}

/// The first byte says how the others arrive.
pub(crate) fn http_heads(input: &[u8]) {
    let Some((step, stream)) = input.split_first() else { return };
    let (mut whole, mut pieces) = (stream.to_vec(), stream.to_vec());
    let none = Bound { base: 0, per_byte: 0 };
    bounded(stream, none, || decoders::heads(&mut whole, usize::MAX));
    bounded(stream, none, || decoders::heads(&mut pieces, usize::from(*step % 16) + 1));
    assert!(whole == pieces, "what is made of a stream depends on its pieces");
    let kept = stream.iter().zip(&whole).all(|(before, after)| before == after || (*before, *after) == (b'\n', 0));
    assert!(kept, "only line feeds are made unreadable");
    each_head(stream, &whole);
}

/// How a request's body ends.
enum Body {
    Length(usize),
    Chunked,
    /// The server refuses the request, or closes the connection after it.
    Last,
}

/// Goes from request to request as the HTTP parser does. No head that it accepts has a bare line feed, and no body is changed.
fn each_head(before: &[u8], after: &[u8]) {
    let mut at = 0;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = request.parse(&after[at..]) else { return };
        let head = &after[at..at + length];
        assert!(!has_bare_line_feed(head), "a head with a bare line feed: {:?}", head.escape_ascii().to_string());
        let body = body_of(&request);
        at += length;
        let end = match body {
            Body::Last => return,
            Body::Length(length) => after.len().min(at.saturating_add(length)),
            Body::Chunked => match chunked(&after[at..]) {
                Some(length) => at + length,
                None => return,
            },
        };
        if let Body::Length(_) = body {
            assert!(before[at..end] == after[at..end], "a body is changed");
        }
        at = end;
    }
}

fn has_bare_line_feed(head: &[u8]) -> bool {
    head.iter().enumerate().any(|(at, byte)| *byte == b'\n' && (at == 0 || head[at - 1] != b'\r'))
}

fn body_of(request: &httparse::Request<'_, '_>) -> Body {
    let (mut length, mut is_chunked) = (None, false);
    for header in request.headers.iter() {
        match header.name.to_ascii_lowercase().as_str() {
            "upgrade" => return Body::Last,
            "transfer-encoding" if header.value.eq_ignore_ascii_case(b"chunked") && !is_chunked => is_chunked = true,
            "transfer-encoding" => return Body::Last,
            "content-length" => {
                let said =
                    str::from_utf8(header.value).ok().filter(|said| said.bytes().all(|byte| byte.is_ascii_digit()));
                match said.and_then(|said| said.parse::<usize>().ok()) {
                    Some(said) if length.is_none_or(|length| length == said) => length = Some(said),
                    Some(_) | None => return Body::Last,
                }
            }
            _ => {}
        }
    }
    match (is_chunked, request.version) {
        (true, Some(1)) => Body::Chunked,
        (true, _) => Body::Last,
        (false, _) => Body::Length(length.unwrap_or(0)),
    }
}

/// The length of a chunked body with its trailers. `None` if it is refused or does not end here.
fn chunked(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = body[at..].windows(2).position(|end| end == b"\r\n")?;
        let said = &body[at..at + line];
        let digits = said.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let is_fit = said[digits..].first().is_none_or(|byte| b"; \t".contains(byte));
        if !is_fit || said.contains(&b'\n') || said.contains(&0) {
            return None;
        }
        let size = usize::from_str_radix(str::from_utf8(&said[..digits]).ok()?, 16).ok()?;
        at += line + 2;
        if size == 0 {
            break;
        }
        at = at.checked_add(size)?;
        if body.get(at..at.checked_add(2)?)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
    let mut trailers = [httparse::EMPTY_HEADER; 100];
    match httparse::parse_headers(&body[at..], &mut trailers) {
        Ok(httparse::Status::Complete((length, _))) => Some(at + length),
        Ok(httparse::Status::Partial) | Err(_) => None,
    }
}

/// The PROXY protocol, version 2.
pub(crate) fn proxy_header(input: &[u8]) {
    const BOUND: Bound = Bound { base: 8 * 1024, per_byte: 1 };
    const HEAD_BYTES: usize = 16;
    let read = |bytes| decoders::proxy_header(&proxies(ProxyWay::ProxyProtocol), bytes, PROXY);
    let Ok((address, rest)) = bounded(input, BOUND, || read(input)) else { return };
    assert!(input.starts_with(b"\r\n\r\n\0\r\nQUIT\n"), "it is no such header");
    let length = usize::from(u16::from_be_bytes([input[14], input[15]]));
    assert_eq!(&input[HEAD_BYTES + length..], rest);
    // The address follows the head. It is there only if both addresses and ports are.
    let said = &input[HEAD_BYTES..HEAD_BYTES + length];
    match address {
        PROXY => {}
        IpAddr::V4(address) => assert!(
            (said.starts_with(&address.octets()) && length >= 12)
                || (said.starts_with(&address.to_ipv6_mapped().octets()) && length >= 36)
        ),
        IpAddr::V6(address) => assert!(said.starts_with(&address.octets()) && length >= 36),
    }
    // A header without its last byte is refused.
    let header = &input[..HEAD_BYTES + length];
    assert!(read(&header[..header.len() - 1]).is_err());
}

/// `Forwarded` and `X-Forwarded-For`: the lines that the client sent, then the address that the proxy adds.
pub(crate) fn forwarded(input: &[u8]) {
    const BOUND: Bound = Bound { base: 8 * 1024, per_byte: 512 };
    let Some((how, sent)) = input.split_first() else { return };
    let (way, added): (_, &[u8]) = match how & 1 {
        0 => (ProxyWay::ForwardedFor, b"203.0.113.9"),
        _ => (ProxyWay::Forwarded, b"proto=https;for=203.0.113.9"),
    };
    let mut lines: Vec<Vec<u8>> = sent.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    // Proxies add to the last line, or add a line.
    match (how & 2, lines.last_mut()) {
        (0, Some(last)) => last.extend([b", ", added].concat()),
        _ => lines.push(added.to_vec()),
    }
    let values: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    let proxies = proxies(way);
    let found = bounded(input, BOUND, || decoders::client_of_request(&proxies, PROXY, &values));
    // The client's own lines change nothing.
    assert!(found.is_none_or(|found| found == CLIENT), "{found:?} is believed");
    // Without the proxy's line only the proxy is known. A client that connects directly is itself.
    assert_eq!(decoders::client_of_request(&proxies, PROXY, &[]), Some(PROXY));
    assert!(decoders::client_of_request(&proxies, CLIENT, &values).is_none_or(|found| found == CLIENT));
}

/// JSON Web Tokens: as text, and as claims that the shop has signed.
pub(crate) fn token(input: &[u8]) {
    const BOUND: Bound = Bound { base: 16 * 1024, per_byte: 64 };
    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const SECRET: &[u8] = b"a secret of thirty-two bytes, or more";
    let keys = TokenKeys::new(vec![TokenKey::hs256(None, SECRET).expect("long enough")], None);
    let signature = |text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("a key");
        mac.update(text.as_bytes());
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    };
    if let Ok(text) = str::from_utf8(input)
        && bounded(input, BOUND, || decoders::token(&keys, text, NOW)).is_ok()
    {
        let (signed, shown) = text.rsplit_once('.').expect("a token has parts");
        assert_eq!(signature(signed), shown, "it is not signed");
    }
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(input));
    let token = format!("{text}.{}", signature(&text));
    let Ok((_, roles, venues, expires_at)) = bounded(input, BOUND, || decoders::token(&keys, &token, NOW)) else {
        return;
    };
    assert!(expires_at.after(5_000) > NOW, "it has expired");
    assert!(!roles.has(Role::Admin), "a token makes an administrator");
    // The claims must say all of it themselves.
    let Ok(claims) = serde_json::from_slice::<serde_json::Value>(input) else { return };
    assert_eq!(claims.get("venue").is_some_and(|venue| !venue.is_null()), !venues.is_empty());
}
