//! Every path of both ports.

use std::net::{Ipv4Addr, SocketAddr};

use boxoffice_wire::path::{Opening, Path};

use super::{
    callers::Caller,
    expected::{UNAUTHENTICATED, lacks_role},
    transports::Http,
};

/// The path of a request, its method, and the status that everyone gets who may.
fn request_of(path: Path) -> (&'static str, &'static str, u16) {
    match path {
        // An op without a body, and a request that asks for no upgrade.
        Path::Op => ("GET", "/v1/venue.search?city=Vienna", 200),
        Path::WebSocket => ("GET", "/v1/ws", 426),
        Path::Layout => ("GET", "/v1/sessions/royal-show/layout", 200),
        Path::Map => ("GET", "/v1/sessions/royal-show/map", 200),
        Path::Webhook => ("POST", "/v1/payments/webhook", 401),
        Path::Document => ("GET", "/v1/openapi.json", 200),
        Path::Metrics => ("GET", "/metrics", 200),
        Path::Ready => ("GET", "/readyz", 200),
        Path::Health => ("GET", "/healthz", 200),
        Path::Page => ("GET", "/", 200),
        Path::PageFacts => ("GET", "/page.json", 200),
        Path::PageFile => ("GET", "/page/index.html", 200),
    }
}

fn status(caller: &Caller, opening: Opening, allowed: u16) -> u16 {
    match opening {
        Opening::Everyone | Opening::NoneOrValid | Opening::Gateway => allowed,
        Opening::As(op) => match lacks_role(caller, op.permission()) {
            None => allowed,
            Some(UNAUTHENTICATED) => 401,
            Some(_) => 403,
        },
        // No venue is named.
        Opening::HiddenAs(op) => {
            if lacks_role(caller, op.permission()).is_some() || caller.venue.is_some() {
                404
            } else {
                allowed
            }
        }
        Opening::ByOp => allowed,
    }
}

/// Asks for every path with a caller's credentials. Returns the wrong answers.
pub(super) async fn wrong(from: Ipv4Addr, to: SocketAddr, is_operators: bool, caller: &Caller) -> Vec<String> {
    let mut http = Http::new(from, to, caller);
    let mut wrong = Vec::new();
    for path in Path::ALL {
        let (method, text, allowed) = request_of(path);
        let opening = if is_operators { path.at_operators_port() } else { path.at_clients_port() };
        let opening = if path == Path::Op { Opening::As(boxoffice_wire::Op::VenueSearch) } else { opening };
        let expected = status(caller, opening, allowed);
        let head = if method == "POST" { "content-type: application/json\r\ncontent-length: 2\r\n" } else { "" };
        let body = if method == "POST" { "{}" } else { "" };
        let answer = http.ask(method, text, head, body).await;
        if answer.status != expected {
            wrong.push(format!("{} at {text}: {}, not {expected}: {:.200}", caller.name, answer.status, answer.body));
        }
        // By hand: the counters name shards, clients and load.
        if path == Path::Metrics && !is_operators && answer.status == 200 && !caller.has("report") {
            wrong.push(format!("{} reads the counters at the clients' port", caller.name));
        }
    }
    wrong
}
